"""Dynamic evaluation: the step as it is written, nothing ahead, and back to what it was."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import FLOAT32, lm_of, random_lightrnn, stream, vocabulary_of
from lightrnn import load
from lightrnn.config import ModelConfig
from lightrnn.errors import LightRNNError
from lightrnn.inference import network
from lightrnn.inference.adapting import EASE, SEGMENT, Adapter
from lightrnn.inference.cache import CacheLM
from lightrnn.inference.mixture import Mix
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.ngrams import NGramLM
from lightrnn.models.kind import build
from lightrnn.ngram.kneser_ney import estimate

V = 23


@pytest.fixture(autouse=True)
def _draw_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FAMILIAR", 100)


def text_of(words: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(V, size=words).astype(np.int32)


def gradients_of(model: torch.nn.Module, words: np.ndarray, state: object) -> tuple[dict[str, torch.Tensor], object]:
    """Of the nats of words[1:], by whole words and backward(), where the adapter goes by codes."""
    model.zero_grad()
    log_probs, after = model.log_probs(torch.from_numpy(words[None].astype(np.int64)), state)
    (-log_probs.sum()).backward()
    found = {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    return found, tuple(tensor.detach() for tensor in after)


@pytest.mark.parametrize("settings", [{}, {"alone": 4, "tied": True, "head": 2}], ids=str)
def test_the_step_is_what_is_written(settings: dict[str, object]) -> None:
    model = random_lightrnn(V=V, **settings)  # type: ignore[arg-type]
    familiar, text = text_of(3 * SEGMENT, 1), text_of(SEGMENT + 3, 2)
    by_hand = copy.deepcopy(model)
    state, squares = model.initial_state(1), {name: 0.0 for name, _ in model.named_parameters()}
    for begin in range(0, len(familiar), SEGMENT):
        words = np.concatenate([[0], familiar])[begin : begin + SEGMENT + 1]
        found, state = gradients_of(by_hand, words, state)
        squares = {name: squares[name] + found[name] ** 2 / 3 for name in squares}
    roots = {name: square.sqrt() for name, square in squares.items()}
    mean = float(torch.cat([root.flatten() for root in roots.values()]).mean())
    gradients, _ = gradients_of(by_hand, np.concatenate([[0], text[:SEGMENT]]), model.initial_state(1))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    adapter = Adapter(model, 0, familiar)
    adapter.read(text[:SEGMENT], 1e-2, 0.1)
    for name, weight in model.named_parameters():
        moved = before[name] - 1e-2 * gradients[name] / (roots[name] + EASE * mean)
        expected = moved + 0.1 * (before[name] - moved)
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-4, atol=1e-6)  # quotients of float32 sums


@pytest.mark.parametrize(("alone", "cuts"), [(0, (1, 7, 40, 333)), (5, (SEGMENT, 9 * SEGMENT))])
def test_nothing_ahead_is_seen(alone: int, cuts: tuple[int, ...]) -> None:
    """The text's future replaced by another: the past's scores and features are the same numbers."""
    adapter = Adapter(random_lightrnn(V=V, alone=alone), 0, text_of(60, 3))
    one, other = text_of(400, 1), text_of(400, 2)
    whole = adapter.read(one, 1e-2, 1e-3)
    for cut in cuts:
        adapter.reset()
        changed = adapter.read(np.concatenate([one[:cut], other[cut:]]), 1e-2, 1e-3)
        np.testing.assert_array_equal(changed.log_probs[:cut], whole.log_probs[:cut])
        np.testing.assert_array_equal(changed.features[:cut], whole.features[:cut])
        assert (changed.log_probs[cut:] != whole.log_probs[cut:]).any()


def test_features_are_kept_where_they_are_asked_for() -> None:
    adapter, text = Adapter(random_lightrnn(V=V), 0, text_of(60, 3)), text_of(100, 1)
    both = adapter.read(text, 1e-2, 1e-3)
    adapter.reset()
    scores = adapter.read(text, 1e-2, 1e-3, features=False)
    np.testing.assert_array_equal(scores.log_probs, both.log_probs)
    assert len(both.features) == len(scores.features) == len(text)
    assert scores.features.size == 0


def test_steps_of_no_length_are_a_plain_pass() -> None:
    lm = lm_of(alone=5)
    text = text_of(300, 1)
    reading = lm.read_adapting(text, rate=0.0)
    np.testing.assert_allclose(reading.log_probs, lm.token_log_probs(text), atol=FLOAT32)
    np.testing.assert_allclose(reading.features, lm.token_features(text), atol=FLOAT32)


def test_what_is_read_is_learned_and_can_be_forgotten() -> None:
    lm = lm_of(alone=5)
    text = np.tile(text_of(40, 1), 6)
    weights = {name: tensor.clone() for name, tensor in lm.model.state_dict().items()}
    before = lm.evaluate(text), lm.next_words("w1", 5), lm.vectors
    state = lm.state("w1 w2")
    adapted = lm.adapt(text, rate=5e-3)
    assert adapted.perplexity < before[0].perplexity
    assert lm.evaluate(text).perplexity < adapted.perplexity  # now that it has read all of it
    assert lm.next_words("w1", 5) != before[1]
    assert lm.distribution(state).sum() == pytest.approx(1)
    assert sum(10**log10 for log10 in (lm.score_word(state, w)[0] for w in lm.vocabulary.words)) == pytest.approx(
        1, 1e-4
    )
    lm.reset()
    for name, tensor in lm.model.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    assert (lm.evaluate(text).nats, lm.next_words("w1", 5)) == (before[0].nats, before[1])
    np.testing.assert_array_equal(lm.vectors, before[2])
    assert lm.adapt("w1 w2 never\nw3", rate=1e-3).tokens == 6


@pytest.mark.parametrize("kind", ["full", "hsm", "blackout", "adaptive"])
def test_opponents_adapt_too(kind: str) -> None:
    torch.manual_seed(1)
    vocabulary = vocabulary_of(V)
    model = build(ModelConfig(model=kind, hidden_size=6), vocabulary, None, 1).eval()
    lm = NetworkLM(model, vocabulary)
    text = np.tile(text_of(40, 1), 4)
    static = lm.evaluate(text).perplexity
    lm.adapt(text, rate=2e-3)
    assert lm.evaluate(text).perplexity < static
    lm.reset()
    assert lm.evaluate(text).perplexity == static


def mix_of(lm: NetworkLM) -> Mix:
    """With a cache of it, named before it, and with an n-gram model that has words of its own."""
    vocabulary = vocabulary_of(V + 4)
    sentences = [("w1", "w2", "w22"), ("w2", "w1", "w4")] * 9
    ngram = estimate(stream(sentences, vocabulary), vocabulary, 2)
    return Mix([NGramLM(ngram), CacheLM(lm, 30, 4.0), lm], [1, 2, 3])


def test_a_mix_learns_by_its_networks() -> None:
    """What it gives is the weighted sum of what its members give, of which each was asked by itself."""
    lm, text = lm_of(V=V, alone=4), np.tile(text_of(50, 1), 4)
    mix = mix_of(lm)
    words, shares = zip(*(mix.translated(m, text) for m in range(3)), strict=True)
    of_ngram = mix.members[0].token_log_probs(words[0])[:, 0]
    reading = lm.read_adapting(words[2], 3e-3, 1e-3)
    of_cache = CacheLM(lm, 30, 4.0).recalled(reading, words[1], [4.0])[:, 0]
    lm.reset()
    static = mix.token_log_probs(text)
    members = [of_ngram + shares[0], of_cache + shares[1], reading.log_probs.sum(axis=1) + shares[2]]
    expected = np.log(sum(weight / 6 * np.exp(logs) for weight, logs in zip((1, 2, 3), members, strict=True)))
    assert mix.adapt(text, rate=3e-3, decay=1e-3).nats == pytest.approx(-expected.sum(), rel=1e-6)
    assert not np.array_equal(mix.token_log_probs(text), static)
    mix.reset()
    np.testing.assert_array_equal(mix.token_log_probs(text), static)


def test_a_mix_sees_nothing_ahead() -> None:
    mix, one, other = mix_of(lm_of(V=V, alone=4)), text_of(200, 1), text_of(200, 2)
    whole = mix.read_adapting(one, 1e-2).log_probs
    for cut in (1, SEGMENT, 133):
        mix.reset()
        changed = mix.read_adapting(np.concatenate([one[:cut], other[cut:]]), 1e-2).log_probs
        np.testing.assert_array_equal(changed[:cut], whole[:cut])
        assert (changed[cut:] != whole[cut:]).any()


def test_a_mix_in_which_a_network_would_read_twice_does_not_learn() -> None:
    lm, text = lm_of(V=V, alone=4), text_of(60, 1)
    before = lm.token_log_probs(text)
    recent, inner = CacheLM(lm, 30), Mix([lm], [1])
    for members, told in (
        ([lm, lm], "got one twice"),
        ([inner, lm], "got one twice"),
        ([inner, recent], "caches beside their networks"),
        ([lm, Mix([recent], [1])], "caches beside their networks"),
    ):
        with pytest.raises(LightRNNError, match=told):
            Mix(members, [1, 1]).adapt(text)
        np.testing.assert_array_equal(lm.token_log_probs(text), before)


def test_a_mix_that_fails_has_learned_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, text = lm_of(V=V, seed=1), lm_of(V=V, seed=2), text_of(60, 1)
    mix = Mix([one, other], [1, 1])
    mix.adapt(text)
    before = mix.token_log_probs(text)

    def fails(*asked: object, **options: object) -> None:
        raise LightRNNError("by design")

    monkeypatch.setattr(other._adapter, "read", fails)
    with pytest.raises(LightRNNError, match="by design"):
        mix.adapt(text)
    np.testing.assert_array_equal(mix.token_log_probs(text), before)


def test_what_cannot_learn_says_so() -> None:
    ngram = mix_of(lm_of(V=V)).members[0]
    for model in (ngram, Mix([ngram, ngram], [1, 1])):
        with pytest.raises(LightRNNError, match="cannot learn from what it reads; use one of lightrnn train"):
            model.adapt("w1 w2")
        model.reset()  # of what was never learned
        with pytest.raises(LightRNNError, match="only a LightRNN takes in words"):
            model.add_words(["new"])
        with pytest.raises(LightRNNError, match="only a network can be saved"):
            model.save("anywhere")


@pytest.mark.parametrize("words", [400, 5])  # in the middle of a text, and by its last step
def test_a_text_that_cannot_be_learned_from_leaves_what_was_learned_before(words: int) -> None:
    lm, text = lm_of(), text_of(60, 1)
    lm.adapt(text)
    before = lm.token_log_probs(text)
    with pytest.raises(LightRNNError, match=r"became infinite .*; lower the rate \(--adapt-rate\)"):
        lm.read_adapting(text_of(words, 1), rate=3.4e38, decay=0)
    np.testing.assert_array_equal(lm.token_log_probs(text), before)


@pytest.mark.parametrize(
    "settings", [{"rate": -1}, {"rate": float("nan")}, {"rate": 1e6}, {"decay": 5}, {"decay": -0.1}]
)
def test_rates_that_make_no_sense(settings: dict[str, float]) -> None:
    lm, text = lm_of(), text_of(60, 1)
    before = lm.token_log_probs(text)
    with pytest.raises(LightRNNError, match=r"^(rate|decay) must be a number from 0 to 1, got "):
        lm.adapt(text, **settings)
    np.testing.assert_array_equal(lm.token_log_probs(text), before)


def test_what_a_packed_model_learns_a_line_a_day_is_kept(tmp_path: Path) -> None:
    """Steps of learning are smaller than those of int8, and a model that lies on these would be rounded back."""
    lm_of(alone=4, tied=True).save(tmp_path / "first.lightrnn")
    in_memory, text = load(tmp_path / "first.lightrnn"), text_of(40, 1)
    in_memory.save(tmp_path / "m.lightrnn")
    begun = in_memory.evaluate(text).nats
    for _ in range(5):
        in_memory.adapt(text, rate=1e-4, decay=0)
        saved = load(tmp_path / "m.lightrnn")
        saved.adapt(text, rate=1e-4, decay=0)
        saved.save(tmp_path / "m.lightrnn", force=True)
    learned = begun - in_memory.evaluate(text).nats
    assert learned > 0
    assert begun - load(tmp_path / "m.lightrnn").evaluate(text).nats == pytest.approx(learned, rel=0.1)
    with pytest.raises(LightRNNError, match="precision must be float32 or float16 or int8, got 'int4'"):
        saved.save(tmp_path / "no.lightrnn", precision="int4")


def test_a_packed_model_forgets_to_the_last_bit(tmp_path: Path) -> None:
    lm_of(alone=4, tied=True).save(tmp_path / "m.lightrnn")
    lm = load(tmp_path / "m.lightrnn")
    text = text_of(60, 1)
    before = lm.token_log_probs(text)
    lm.adapt(text)
    assert not np.array_equal(lm.token_log_probs(text), before)
    lm.reset()
    np.testing.assert_array_equal(lm.token_log_probs(text), before)
    lm.save(tmp_path / "again.lightrnn")  # in int8, as it was
    assert (tmp_path / "again.lightrnn").read_bytes() == (tmp_path / "m.lightrnn").read_bytes()


def test_a_text_has_the_lines_that_a_file_would_have() -> None:
    lm = lm_of()
    text = "w1 w2\u2028w3\x0cw4\x85 w5\rw6"
    assert lm.adapt(text).tokens == lm.adapt(text + "\n").tokens == 6
    assert lm.adapt("w1\n\nw2\n").tokens == 5


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_model_learns_whatever_mode_a_program_is_in(mode: type[torch.no_grad], tmp_path: Path) -> None:
    lm_of(V=V).save(tmp_path / "model")
    text, expected = text_of(SEGMENT + 3, 3), load(tmp_path / "model")
    expected.adapt(text)
    inside, before = load(tmp_path / "model"), load(tmp_path / "model")
    with mode():
        inside.adapt(text)
        before.evaluate(text)
    before.adapt(text)
    for lm in (inside, before):
        np.testing.assert_array_equal(lm.token_log_probs(text), expected.token_log_probs(text))


@pytest.mark.parametrize("kind", ["lightrnn", "full"])
def test_a_deep_copy_learns_by_itself(kind: str) -> None:
    full = build(ModelConfig(model="full", hidden_size=6), vocabulary_of(V), None, 1)
    lm = lm_of(V=V) if kind == "lightrnn" else NetworkLM(full.eval(), vocabulary_of(V))
    text = text_of(SEGMENT + 3, 3)
    was, other = lm.token_log_probs(text), copy.deepcopy(lm)
    other.adapt(text)
    np.testing.assert_array_equal(lm.token_log_probs(text), was)
    assert not np.array_equal(other.token_log_probs(text), was)
    lm.adapt(text)
    np.testing.assert_array_equal(other.token_log_probs(text), lm.token_log_probs(text))
