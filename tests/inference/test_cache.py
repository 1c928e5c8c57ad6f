"""The continuous cache: against the sum as Grave et al. write it, word by word against whole texts, nothing ahead."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import FLOAT32, lm_of, vocabulary_of
from lightrnn.config import ModelConfig
from lightrnn.errors import LightRNNError
from lightrnn.inference import cache
from lightrnn.inference.cache import BLOCK, CacheLM, recall
from lightrnn.inference.features import token_features
from lightrnn.inference.mixture import Mix, tune
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.tuning import FLATNESSES, tuned_cache
from lightrnn.models.kind import build
from lightrnn.text.rules import Convention

CACHED = [{}, {"alone": 5}, {"tied": True, "alone": 4, "head": 2}, {"K": 3, "V": 30}, {"layers": 2, "cell": "gru"}]


def text_of(words: int, V: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(V, size=words).astype(np.int32)


def literal(features: np.ndarray, ids: np.ndarray, first: list[int], flatness: float) -> list[float]:
    """Grave et al., equation (3), one place at a time; 0 where nothing was read."""
    found = []
    for t in range(len(ids)):
        same = total = 0.0
        for i in range(first[t], t):
            weight = exp(flatness * sum(float(a) * float(b) for a, b in zip(features[t], features[i], strict=True)))
            total += weight
            same += weight * (ids[i] == ids[t])
        found.append(same / total if total else 0.0)
    return found


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 50), st.floats(0.01, 3))
def test_the_sum_of_the_paper(seed: int, tokens: int, size: int, flatness: float) -> None:
    rng = np.random.default_rng(seed)
    features, ids = rng.normal(size=(tokens, 3)).astype(np.float32), rng.integers(6, size=tokens).astype(np.int32)
    first = np.maximum(0, np.arange(tokens) - size)
    expected = literal(features, ids, first.tolist(), flatness)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "BLOCK", 7)  # so that small texts have several
        found = recall(features, ids, first, [flatness, 2 * flatness])
    np.testing.assert_allclose(np.exp(found[:, 0]), expected, rtol=1e-4, atol=1e-30)  # an exponential of a float32


@pytest.mark.parametrize("shape", CACHED, ids=str)
@pytest.mark.parametrize("convention", ["stream", "sentence"])
def test_a_text_as_a_whole_and_word_by_word(shape: dict[str, object], convention: str) -> None:
    lm = lm_of(**{"V": 23, **shape})  # type: ignore[arg-type]
    recent = CacheLM(lm, 40, 3)
    ids = text_of(90, len(lm.vocabulary))
    at_once = recent.token_log_probs(ids, convention)[:, 0]  # type: ignore[arg-type]
    state = recent.stream_state() if convention == "stream" else recent.begin_state()
    for place, word in enumerate(ids.tolist()):
        distribution = np.exp(recent.next_log_probs(state))
        assert distribution.sum() == pytest.approx(1, abs=1e-6)  # some hundred numbers in float32
        log_prob, state = recent.read_word(state, word)
        assert exp(log_prob) == pytest.approx(distribution[word], abs=1e-7)
        assert exp(at_once[place]) == pytest.approx(distribution[word], rel=1e-4, abs=1e-7)
        if convention == "sentence" and word == lm.vocabulary.eos_id:
            state = recent.begin_state()


@pytest.mark.parametrize("shape", [*CACHED, {"kind": "hsm"}], ids=str)
@pytest.mark.parametrize("convention", ["stream", "sentence"])
def test_one_pass_gives_scores_and_features(shape: dict[str, object], convention: Convention) -> None:
    if shape.get("kind"):
        vocabulary = vocabulary_of(23)
        lm = NetworkLM(build(ModelConfig(model="hsm", hidden_size=6), vocabulary, None, 1).eval(), vocabulary)
    else:
        lm = lm_of(**{"V": 23, **shape})  # type: ignore[arg-type]
    ids = text_of(90, len(lm.vocabulary))
    reading = lm.read(ids, convention)
    np.testing.assert_allclose(reading.log_probs, lm.token_log_probs(ids, convention), atol=FLOAT32)
    np.testing.assert_allclose(reading.features, lm.token_features(ids, convention), atol=FLOAT32)


@pytest.mark.parametrize("shape", [{"alone": 5}, {"tied": True, "layers": 2}], ids=str)
def test_features_are_what_the_words_are_scored_by(shape: dict[str, object]) -> None:
    """From whole texts by PyTorch, for any batch size, and by NumPy, and from states."""
    lm = lm_of(**shape)  # type: ignore[arg-type]
    ids = text_of(600, 23)
    features = lm.token_features(ids)
    np.testing.assert_allclose(features, lm.token_features(ids, batch_size=1), atol=FLOAT32)
    in_numpy = lm.model.predictor().reader
    np.testing.assert_allclose(features, token_features(in_numpy, ids, lm.vocabulary, "stream"), atol=FLOAT32)
    by_sentences = token_features(in_numpy, ids, lm.vocabulary, "sentence")
    np.testing.assert_allclose(lm.token_features(ids, "sentence"), by_sentences, atol=FLOAT32)
    state = lm.stream_state()
    for place, word in enumerate(ids[:30].tolist()):
        np.testing.assert_allclose(lm.state_features(state), features[place], atol=FLOAT32)
        _, state = lm.read_word(state, word)


def test_states_are_values_and_bounded() -> None:
    recent = CacheLM(lm_of(), 2 * BLOCK, 3)
    state = recent.begin_state()
    for word in text_of(3 * BLOCK + 90, 23).tolist():
        _, state = recent.read_word(state, word)
    assert 2 * BLOCK <= sum(map(len, state.memory.words)) <= 3 * BLOCK
    before = recent.next_log_probs(state)
    forks = [recent.read_word(state, word)[1] for word in (3, 4)]
    assert forks[0].memory.features[0] is forks[1].memory.features[0]  # what is old is shared
    np.testing.assert_array_equal(recent.next_log_probs(state), before)
    assert recent.read_word(forks[0], 3)[0] > recent.read_word(forks[1], 3)[0]


@pytest.mark.parametrize("size", [7, 300])
def test_nothing_ahead_is_seen(size: int) -> None:
    """The text's future replaced by another: the past's scores are the same numbers."""
    lm = lm_of()
    mix = Mix([lm, CacheLM(lm, size)], [0.8, 0.2])
    one, other = text_of(700, 23, seed=1), text_of(700, 23, seed=2)
    for cut in (1, 256, 600):
        ids = np.concatenate([one[:cut], other[cut:]])
        past = [mix.token_log_probs(text, batch_size=1)[:cut] for text in (one, ids)]
        np.testing.assert_array_equal(*past)


def test_nothing_ahead_is_seen_where_words_stand_alone() -> None:
    """Words of one code and of two: what else is in a batch changes the last bit of a product, and no more."""
    lm = lm_of(alone=5)
    one, other = text_of(700, 23, seed=1), text_of(700, 23, seed=2)
    mix = Mix([lm, CacheLM(lm, 50)], [0.8, 0.2])
    past = [mix.token_log_probs(text)[:400] for text in (one, np.concatenate([one[:400], other[400:]]))]
    np.testing.assert_allclose(*past, rtol=FLOAT32)


def test_tuning_finds_the_flatness_and_a_repeating_text_is_worth_a_cache() -> None:
    lm = lm_of(V=200, units=12)
    phrase = text_of(60, 200)
    ids = np.tile(phrase, 12)
    others = lm.token_log_probs(ids).sum(axis=1)[:, None].astype(np.float64)
    reading = lm.read(ids)
    recent, log_probs, weights = tuned_cache(CacheLM(lm, 100), reading, ids, others)
    np.testing.assert_array_equal(log_probs, recent.recalled(reading, ids, [recent.flatness])[:, 0])
    assert weights == tune(np.column_stack([others, log_probs]))

    def likelihood(flatness: float) -> float:
        columns = np.column_stack([others, CacheLM(lm, 100, flatness).recalled(reading, ids, [flatness])])
        return float(np.log(np.exp(columns) @ tune(columns)).mean())

    assert all(likelihood(recent.flatness) >= likelihood(flatness) for flatness in FLATNESSES[::3])
    assert likelihood(recent.flatness) > others.mean() + log(5)  # after the first time, most of it is foreseen


def test_a_cache_that_makes_no_sense_is_refused() -> None:
    for size, flatness in ((0, 1.0), (10**9, 1.0), (5, 0.0), (5, float("nan"))):
        with pytest.raises(LightRNNError, match="of a cache must be a"):
            CacheLM(lm_of(), size, flatness)


def test_an_empty_cache_says_what_its_network_says() -> None:
    lm = lm_of()
    recent = CacheLM(lm, 10)
    for state in (recent.empty_state(), recent.begin_state()):
        np.testing.assert_array_equal(recent.next_log_probs(state), lm.next_log_probs(state.inner))
        assert recent.read_word(state, 4)[0] == lm.read_word(state.inner, 4)[0]


def test_a_cache_speaks_up_as_it_fills_and_a_full_one_alone() -> None:
    """The share that is its own is log(1 + n / 10) of log(1 + SIZE / 10)."""
    lm, ids = lm_of(V=40), np.full(60, 7, np.int32)
    recent, reading = CacheLM(lm, 50), lm.read(ids)
    found = np.exp(recent.recalled(reading, ids, [4.0])[:, 0])
    own = np.exp(reading.log_probs.sum(axis=1))
    for n in range(60):
        share = min(log(1 + n / 10) / log(6), 1)
        assert found[n] == pytest.approx(share + (1 - share) * own[n], rel=1e-6)  # all that is in it is this word
    assert found[50] == 1


def test_states_of_other_caches_are_refused() -> None:
    lm = lm_of(V=30)
    state = CacheLM(lm, 20).state(" ".join(lm.vocabulary.words[:9]))
    assert CacheLM(lm, 20).is_state(state)
    for size in (5, 200):
        with pytest.raises(LightRNNError, match="a state of this model"):
            CacheLM(lm, size).distribution(state)
    with pytest.raises(LightRNNError, match="a state of this model"):
        CacheLM(lm_of(V=8), 20).distribution(state)
