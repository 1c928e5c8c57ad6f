"""Use of a model: scores, states, next words, text. Against the NumPy oracle and against each other."""

import itertools
from math import exp, log, log10

import numpy as np
import pytest
import torch

from lightrnn.errors import LightRNNError
from lightrnn.inference.generate import beam_search, sample
from lightrnn.inference.lm import LM
from lightrnn.inference.mixture import Mix, tune
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.passes import sentence_log_probs
from lightrnn.models.base import to_arrays
from lightrnn.models.predictor import Steps
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from oracle import oracle_of
from test_model import CELLS, make

SHAPES = [  # V, K, rows
    *((25, 2, 0), (26, 2, 0), (24, 2, 0), (3, 2, 0), (27, 3, 0), (28, 3, 0), (26, 3, 0), (16, 4, 0), (50, 5, 0)),
    *((26, 2, 9), (26, 2, 26), (26, 2, 1), (29, 3, 10)),
]


def vocabulary_of(size: int, prefix: str = "w", rules: TextRules | None = None) -> Vocabulary:
    """Words w0 … and the special ones, with counts that fall."""
    rules = rules or TextRules()
    words = [*rules.specials, *(f"{prefix}{i}" for i in range(size - len(rules.specials)))]
    return Vocabulary(words, np.arange(size, 0, -1) ** 2, rules)


def lm_of(V: int = 23, K: int = 2, **settings: object) -> NetworkLM:
    return NetworkLM(make(V=V, K=K, **settings), vocabulary_of(V))  # type: ignore[arg-type]


def after(model: torch.nn.Module, words: list[int]) -> tuple[int, tuple[torch.Tensor, ...]]:
    with torch.inference_mode():
        return words[-1], to_arrays(model.log_probs(torch.tensor([words]))[1])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_steps_are_those_of_the_model(cell: str, layers: int) -> None:
    model = make(cell, layers=layers)
    codes = np.array([0, 3, 7, 1])
    weights = [[w.detach().numpy() for w in layer] for layer in model.recurrence.all_weights]
    steps = Steps(model.cell, weights, model.input_vectors.weight.detach().numpy())
    state = tuple(torch.randn(layers, 4, 7) for _ in model.initial_state(1))
    with torch.inference_mode():
        expected, state_expected = model.read(torch.from_numpy(codes)[:, None], state)
    got, state_got = steps(codes, to_arrays(state))
    np.testing.assert_allclose(got, expected[:, 0], atol=1e-6, rtol=1e-5)
    for one, other in zip(state_got, state_expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=1e-5)
    alone = tuple(tensor[:, :1].numpy() for tensor in state)  # one state for all codes
    shared, _ = steps(codes, alone)
    repeated, _ = steps(codes, tuple(np.repeat(array, 4, axis=1) for array in alone))
    np.testing.assert_allclose(shared, repeated, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("V", "K", "rows"), SHAPES)
def test_distribution_is_the_oracles_and_sums_to_one(cell: str, V: int, K: int, rows: int) -> None:
    model = make(cell, V, K, rows=rows)
    words = [1 % V, 0, 2 % V]
    log_probs = model.predictor().all_words(*after(model, words))
    assert abs(np.exp(log_probs).sum() - 1) < 1e-5
    oracle = oracle_of(model)
    _, state = oracle.score(np.array(words))
    expected = [sum(oracle.word_log_probs(words[-1], w, state)[0]) for w in range(V)]
    np.testing.assert_allclose(log_probs, expected, atol=1e-5, rtol=1e-5)


def flat(model: torch.nn.Module) -> None:
    """Every word as likely as every other: the search must open everything."""
    for parameter in [*model.output_vectors, *model.output_bias]:
        torch.nn.init.zeros_(parameter)


def peaked(model: torch.nn.Module) -> None:
    """Nearly all probability on a few words; the rest tiny."""
    for parameter in [*model.output_vectors, *model.output_bias]:
        parameter.data.mul_(8)


@pytest.mark.parametrize("change", [None, flat, peaked])
@pytest.mark.parametrize(("V", "K", "rows"), [*SHAPES, (2000, 2, 0), (2000, 3, 0), (1990, 4, 0), (1990, 2, 300)])
def test_likeliest_words_are_the_top_of_the_distribution(V: int, K: int, rows: int, change: object) -> None:
    model = make(V=V, K=K, rows=rows, seed=V)
    if change is not None:
        change(model)  # type: ignore[operator]
    predictor = model.predictor()
    place = after(model, [0, 1, 2])
    log_probs = predictor.all_words(*place)
    allowed = np.random.default_rng(V).random(V) < 0.2
    allowed[1] = True
    for count in (1, 2, 7, 10, 100, 1000):
        for mask in (None, allowed):
            found = predictor.likeliest(*place, count, mask)
            values = log_probs if mask is None else np.where(mask, log_probs, -np.inf)
            expected = np.sort(values[values > -np.inf])[::-1][:count]
            np.testing.assert_allclose(found.log_probs, expected, atol=2e-5)
            np.testing.assert_allclose(log_probs[found.words], found.log_probs, atol=2e-5)
            assert len(set(found.words.tolist())) == len(found.words)
            assert mask is None or mask[found.words].all()


def test_the_search_opens_few_rows_of_a_peaked_model() -> None:
    model = make(V=2000)
    peaked(model)
    assert model.predictor().likeliest(*after(model, [0, 1, 2]), 10).opened < 45 / 2


@pytest.mark.parametrize(("V", "K", "layers"), [(25, 2, 1), (23, 2, 2), (28, 3, 1), (16, 4, 1)])
def test_a_sentence_has_one_score(V: int, K: int, layers: int) -> None:
    """From `score`, word by word from states, in a batch, and from the oracle."""
    lm = lm_of(V, K, layers=layers)
    sentences = ["w1 w2 never w0", "", "w3", "w1 w1 w1 w2 w3 w4 w0 w5", "never never"]
    oracle = oracle_of(lm.model)
    batch = lm.scores(sentences, batch_size=3)
    for sentence, in_batch in zip(sentences, batch, strict=True):
        ids = [lm.vocabulary.bos_id, *lm.vocabulary.encode(sentence.split()), lm.vocabulary.eos_id]
        expected = float(oracle.score(np.array(ids))[0].sum()) / log(10)
        state, stepped = lm.begin_state(), 0.0
        for word in [*sentence.split(), lm.vocabulary.rules.eos]:
            value, state = lm.score_word(state, word)
            stepped += value
        for got in (lm.score(sentence), stepped, in_batch):
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert lm.perplexity(sentence) == pytest.approx(10 ** (-expected / (len(ids) - 1)), rel=1e-4)
    full = list(lm.full_scores("w1 never"))
    assert [(order, unknown) for _, order, unknown in full] == [(1, False), (1, True), (1, False)]
    assert lm.score("w1 never", eos=False) == pytest.approx(sum(v for v, _, _ in full[:2]), rel=1e-6)
    assert "w1" in lm
    assert "never" not in lm


def test_states_are_values() -> None:
    lm = lm_of()
    state = lm.state("w1 w2")
    first, _ = lm.score_word(state, "w3")
    lm.score_word(state, "w4")
    lm.next_words(state)
    again, longer = lm.score_word(state, "w3")
    assert first == again
    assert lm.next_words(longer, 5) == lm.next_words("w1 w2 w3", 5)


def test_without_a_sentence_start_the_first_word_has_its_share_of_the_text() -> None:
    lm = lm_of()
    counts = lm.vocabulary.counts + 1
    expected = log10(counts[lm.vocabulary.ids["w5"]] / counts.sum())
    assert lm.score("w5", bos=False, eos=False) == pytest.approx(expected)
    assert lm.score_word(lm.empty_state(), "w5")[0] == pytest.approx(expected)
    assert lm.distribution(lm.empty_state()).sum() == pytest.approx(1)
    words = [lm.vocabulary.ids["w5"], lm.vocabulary.ids["w6"]]
    after_it = oracle_of(lm.model).score(words)[0].sum() / log(10)
    assert lm.score("w5 w6", bos=False, eos=False) == pytest.approx(expected + after_it, rel=1e-5)


def test_next_words_begin_as_asked() -> None:
    lm = lm_of(60)
    ordered = sorted(((p, w) for w, p in zip(lm.vocabulary.words, lm.distribution("w1"), strict=True)), reverse=True)
    expected = [w for _, w in ordered if w.startswith("w2")]
    assert [w for w, _ in lm.next_words("w1", 4, prefix="w2")] == expected[:4]
    assert [w for w, _ in lm.next_words("w1", 99, prefix="w2")] == expected
    assert lm.next_words("w1", prefix="zzz") == []
    assert lm.next_words("w1", 0) == lm.next_words("w1", 0, prefix="w2") == []


def test_sentences_of_any_length_in_any_batch() -> None:
    lm = lm_of()
    rng = np.random.default_rng(1)
    lengths = [1, 3, 200, 7, 64, 65, 1, 130]
    pieces = [np.append(rng.integers(1, 23, size=n), lm.vocabulary.eos_id).astype(np.int32) for n in lengths]
    ids = np.concatenate(pieces)
    args = (lm.vocabulary.bos_id, lm.vocabulary.eos_id)
    together = sentence_log_probs(lm.model, ids, *args, batch_size=5)
    alone = [sentence_log_probs(lm.model, piece, *args, window=1000) for piece in pieces]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)


def test_drawn_words_follow_the_distribution() -> None:
    lm = lm_of(V=26, K=3, seed=3)
    expected = lm.distribution("w1")
    state, random = lm.state("w1"), np.random.default_rng(5)
    drawn = np.zeros(len(expected))
    for _ in range(3000):
        drawn[lm.draw(state, 1.0, random)] += 1
    assert ((drawn - 3000 * expected) ** 2 / np.maximum(3000 * expected, 1e-9)).sum() < 2 * len(expected)
    drawn = np.zeros(len(expected))
    for _ in range(3000):
        drawn[LM.draw(lm, state, 1.0, random)] += 1  # by the whole distribution, as other models do
    assert ((drawn - 3000 * expected) ** 2 / np.maximum(3000 * expected, 1e-9)).sum() < 2 * len(expected)


def test_temperature_zero_takes_the_likeliest_row_then_column() -> None:
    lm = lm_of(seed=3)
    oracle = oracle_of(lm.model)
    words = [lm.vocabulary.bos_id, lm.vocabulary.ids["w1"], lm.vocabulary.ids["w2"]]
    for word in itertools.islice(lm.generate("w1 w2", temperature=0), 12):
        _, state = oracle.score(np.array(words))
        parts = np.array([oracle.word_log_probs(words[-1], w, state)[0] for w in range(23)])
        best_row = parts[:, 0] == parts[:, 0].max()
        words.append(int(np.where(best_row, parts[:, 1], -np.inf).argmax()))
        assert word == lm.vocabulary.words[words[-1]]


def test_top_k_and_top_p_keep_what_they_say() -> None:
    lm = lm_of(V=60, seed=4)
    state, random = lm.state("w1"), np.random.default_rng(1)
    probabilities = lm.distribution(state)
    order = np.argsort(-probabilities)

    def drawn(**limits: float) -> set[int]:
        return {next(sample(lm, state, random=random, **limits)) for _ in range(300)}  # type: ignore[arg-type]

    assert drawn(top_k=3) == set(order[:3].tolist())
    size = int(np.searchsorted(np.cumsum(probabilities[order]), 0.5)) + 1
    assert drawn(top_p=0.5) <= set(order[:size].tolist())
    assert len(drawn(top_p=0.5, temperature=5.0)) == size
    assert drawn(top_k=1, top_p=0.9) == {int(order[0])}
    assert len(drawn(top_p=0.9999)) > size
    assert list(itertools.islice(lm.generate("w1", seed=7), 9)) == list(itertools.islice(lm.generate("w1", seed=7), 9))


def test_a_wide_beam_finds_the_likeliest_sentence() -> None:
    lm = lm_of(V=5, seed=2)
    eos = lm.vocabulary.eos_id
    best, value = max(
        (
            (words, sum(lm.advance(s, w)[0] for s, w in _path(lm, words)))
            for n in (1, 2, 3)
            for words in itertools.product(range(5), repeat=n)
            if eos not in words[:-1] and (n == 3 or words[-1] == eos)
        ),
        key=lambda pair: pair[1],
    )
    found = beam_search(lm, lm.begin_state(), 200, 3)
    assert tuple(found[0][0]) == best
    assert found[0][1] == pytest.approx(value, rel=1e-5)
    assert [v for _, v in found] == sorted((v for _, v in found), reverse=True)


def _path(lm: NetworkLM, words: tuple[int, ...]) -> list[tuple[object, int]]:
    state, path = lm.begin_state(), []
    for word in words:
        path.append((state, word))
        state = lm.advance(state, word)[1]
    return path


def test_vectors_are_the_states_that_words_leave_and_similar_words_have_near_ones() -> None:
    lm = lm_of(25)
    vectors = lm.vectors
    assert vectors.shape == (25, 7)
    model, word = lm.model, lm.vocabulary.ids["w4"]
    row, column = (int(code) for code in model.codes[word])
    outputs, _ = model.recurrence(model.input_vectors(torch.tensor([[row, 5 + column]])))
    np.testing.assert_allclose(vectors[word], outputs[0, 1].detach(), atol=1e-6)
    centred = vectors - np.average(vectors, axis=0, weights=np.sqrt(lm.vocabulary.counts + 1))
    cosines = centred @ centred[word] / np.linalg.norm(centred, axis=1) / np.linalg.norm(centred[word])
    best = [w for w in np.argsort(-cosines) if w != word][:3]
    assert [w for w, _ in lm.similar("w4", 3)] == [lm.vocabulary.words[w] for w in best]
    with pytest.raises(LightRNNError, match="not in the vocabulary"):
        lm.similar("never")


def test_a_mix_is_the_weighted_sum_token_by_token() -> None:
    one, other = lm_of(V=25, seed=1), lm_of(V=25, seed=2)
    mix = Mix([one, other], [3, 1])
    ids = np.array([5, 6, 0, 7, 7, 8, 0], np.int32)
    both = [lm.token_log_probs(ids).sum(axis=1) for lm in (one, other)]
    expected = np.log(0.75 * np.exp(both[0]) + 0.25 * np.exp(both[1]))
    np.testing.assert_allclose(mix.token_log_probs(ids)[:, 0], expected, atol=1e-5)
    np.testing.assert_allclose(
        mix.distribution("w1 w2"), 0.75 * one.distribution("w1 w2") + 0.25 * other.distribution("w1 w2"), atol=1e-6
    )
    state = mix.state("w1")
    assert 10 ** mix.score_word(state, "w2")[0] == pytest.approx(
        mix.distribution(state)[mix.vocabulary.ids["w2"]], 1e-4
    )
    assert mix.score("w1 w2") == pytest.approx(sum(v for v, _, _ in mix.full_scores("w1 w2")))
    assert mix.next_words("w1", 3) == mix.next_words(state, 3)
    assert mix.evaluate(ids).tokens == 7
    assert exp(mix.unigram[3]) == pytest.approx(exp(one.unigram[3]))
    with pytest.raises(LightRNNError, match="weights"):
        Mix([one, other], [1.0])
    with pytest.raises(LightRNNError, match="no word vectors"):
        _ = mix.vectors


def test_models_of_different_vocabularies_mix_without_counting_twice() -> None:
    """The second knows w0 … w9 of the first's words and others that the first does not have."""
    first = lm_of(V=25, seed=1)
    rules = TextRules(eos="<e>", unk="<oov>", bos="<S>", convention="sentence", normalize="none")
    words = [*rules.specials, *(f"w{i}" for i in range(10)), *(f"x{i}" for i in range(12))]
    second = NetworkLM(make(V=25, seed=2), Vocabulary(words, np.ones(25, np.int64), rules))
    mix = Mix([first, second], [0.5, 0.5])
    unknown = 25 - 10 - 1  # all of the first's words but w0 … w9 and the end of a sentence
    theirs = second.distribution("w3")
    for word in first.vocabulary.words:
        expected = 0.5 * first.distribution("w3")[first.vocabulary.ids[word]]
        if word in second:
            expected += 0.5 * theirs[second.vocabulary.ids[word]]
        elif word == "</s>":
            expected += 0.5 * theirs[second.vocabulary.eos_id]
        else:
            expected += 0.5 * theirs[second.vocabulary.unk_id] / unknown
        assert mix.distribution("w3")[first.vocabulary.ids[word]] == pytest.approx(expected, rel=1e-4)
    assert mix.distribution("w3").sum() <= 1 + 1e-6
    # Each keeps its own rule: the first carries its state over the end of a sentence, the second does not.
    ids = first.vocabulary.encode(["w1", "w2", "</s>", "w3", "</s>"])
    carried = first.token_log_probs(ids).sum(axis=1)
    fresh = second.token_log_probs(second.vocabulary.encode(["w1", "w2", "<e>", "w3", "<e>"])).sum(axis=1)
    np.testing.assert_allclose(mix.token_log_probs(ids)[:, 0], np.logaddexp(carried, fresh) + log(0.5), atol=1e-5)


def test_tuned_weights_are_the_best_on_the_held_out_text() -> None:
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet([1, 1, 1], size=500)[:, :3] * [1.0, 0.7, 0.2])
    weights = tune(log_probs)
    assert sum(weights) == pytest.approx(1)

    def likelihood(w: np.ndarray) -> float:
        return float(np.log(np.exp(log_probs) @ w).sum())

    best = max(likelihood(w) for w in rng.dirichlet([1, 1, 1], size=3000))
    assert likelihood(np.array(weights)) >= best - 1e-3
    assert tune(np.log(np.array([[0.9, 0.1]] * 5))) == pytest.approx([1, 0], abs=1e-3)
