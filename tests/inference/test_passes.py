"""Every token once, in the named convention, whatever the batching."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from helpers import FLOAT32, lm_of
from lightrnn.config import ModelConfig
from lightrnn.inference import passes
from lightrnn.inference.passes import evaluate, sentence_log_probs, stream_log_probs
from lightrnn.models import lightrnn as lightrnn_module
from lightrnn.models.base import TorchReader
from lightrnn.models.kind import build
from lightrnn.models.lightrnn import LightRNN, State
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from oracle import oracle_of


def model_for(
    corpus: Corpus, cell: str = "lstm", components: int = 2, scale: float = 0.5, forget: float = 0.0
) -> LightRNN:
    torch.manual_seed(2)
    config = ModelConfig(cell=cell, hidden_size=6, components=components)
    model = LightRNN(config, WordTable.random(len(corpus.vocabulary), components, seed=2))
    model.reset(scale)
    with torch.no_grad():
        if forget:
            # A memory that lasts and does not saturate: warming up is not enough.
            model.recurrence.weight_ih_l0 *= 0.2
            model.recurrence.weight_hh_l0 *= 0.2
            model.recurrence.bias_ih_l0[6:12] = forget
            for vectors in model.output_vectors:
                vectors.mul_(4)
    return model.eval()


def test_stream_is_one_carried_pass_over_every_token(tiny: Corpus) -> None:
    model = model_for(tiny)
    ids = tiny.split("test")
    oracle = oracle_of(model)
    parts, _ = oracle.score([tiny.vocabulary.bos_id, *ids.tolist()], oracle.start())
    result = evaluate(model, ids, tiny.vocabulary, "stream")
    assert result.tokens == len(ids) == len(parts)
    assert result.nats == pytest.approx(-parts.sum(), rel=FLOAT32)
    np.testing.assert_allclose(result.parts, -parts.sum(axis=0), rtol=FLOAT32)
    unknown = ids == tiny.vocabulary.unk_id
    assert result.unknown_tokens == unknown.sum()
    known = -parts[~unknown].sum() / (~unknown).sum()
    assert result.perplexity_known == pytest.approx(np.exp(known), rel=FLOAT32)


@pytest.mark.parametrize("model", ["lightrnn", "full"])
def test_models_in_bfloat16(tiny: Corpus, model: str) -> None:
    """Their states go through NumPy, which has no such numbers, and come back as they were."""
    torch.manual_seed(2)
    table = WordTable.random(len(tiny.vocabulary)) if model == "lightrnn" else None
    network = build(ModelConfig(model=model, hidden_size=6), tiny.vocabulary, table, seed=1)
    whole = evaluate(network, tiny.split("test"), tiny.vocabulary, "stream")
    rounded = evaluate(network.bfloat16(), tiny.split("test"), tiny.vocabulary, "stream")
    assert rounded.nats == pytest.approx(whole.nats, rel=0.01)
    assert rounded.nats != whole.nats


def test_scores_are_held_a_few_at_a_time(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = model_for(tiny), tiny.split("test")
    at_once = evaluate(model, ids, tiny.vocabulary, "stream")
    widest = 0

    def scores(found: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        nonlocal widest
        widest = max(widest, found.numel())
        return cross_entropy(found, *_, **__)

    cross_entropy = torch.nn.functional.cross_entropy
    monkeypatch.setattr(torch.nn.functional, "cross_entropy", scores)
    monkeypatch.setattr(lightrnn_module, "SCORES", 4000)
    in_blocks = evaluate(model, ids, tiny.vocabulary, "stream")
    assert widest <= 4000
    assert in_blocks.nats == pytest.approx(at_once.nats, rel=FLOAT32)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("forget", [0.0, 7.0])
def test_stream_does_not_depend_on_tracks_and_windows(tiny: Corpus, cell: str, components: int, forget: float) -> None:
    model = model_for(tiny, cell, components, scale=0.5, forget=forget if cell == "lstm" else 0.0)
    ids = tiny.split("train")[:3001]
    single = stream_log_probs(TorchReader(model), ids, tiny.vocabulary.bos_id, batch_size=1, window=10**6)
    assert len(single) == 3001
    for batch_size, window in ((1, 7), (2, 64), (5, 1000), (11, 13), (64, 64), (4000, 1)):
        tracked = stream_log_probs(TorchReader(model), ids, tiny.vocabulary.bos_id, batch_size, window)
        assert tracked.shape == single.shape
        # errors of tokens are of either sign
        assert tracked.sum(dtype=np.float64) == pytest.approx(single.sum(dtype=np.float64), rel=1e-6)
        # token by token, up to what a state difference below the tolerance can do
        np.testing.assert_allclose(tracked, single, atol=1e-4)


def test_a_lasting_memory_makes_tracks_wrong_for_long(tiny: Corpus) -> None:
    """Without correction the tracks would be wrong: the test above must be able to fail."""
    model = model_for(tiny, scale=0.5, forget=7.0)
    ids = tiny.split("train")[:3001]
    true = stream_log_probs(TorchReader(model), ids, tiny.vocabulary.bos_id, batch_size=1)
    middle = 1500
    words = torch.from_numpy(ids[middle - 1 : middle + 200].astype(np.int64))[None]
    with torch.inference_mode():
        uncorrected = model.log_probs(words, model.initial_state(1))[0][0].numpy()
    assert np.abs(uncorrected - true[middle : middle + 200])[100:].max() > 0.015  # far more than the 1e-4 above


def test_units_that_count_do_not_make_tracks_run_to_their_end(tiny: Corpus) -> None:
    """Three units add up as long as the text goes on; what shows of them stands still."""
    model = model_for(tiny, scale=0.5)
    with torch.no_grad():
        for gate, bias in ((0, 9.0), (1, 20.0), (2, 3.0)):  # input, forget, candidate
            model.recurrence.bias_ih_l0[6 * gate : 6 * gate + 3] = bias
    ids = tiny.split("train")[:3001]
    single = stream_log_probs(TorchReader(model), ids, tiny.vocabulary.bos_id, batch_size=1)
    counted = model.log_probs(torch.from_numpy(ids.astype(np.int64))[None])[1][1]
    assert counted.max() > 1000  # it has counted the words
    read = 0
    log_probs = model.log_probs

    def counting(words: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State]:
        nonlocal read
        read += words[:, 1:].numel()
        return log_probs(words, state)

    model.log_probs = counting  # type: ignore[method-assign]
    tracked = stream_log_probs(TorchReader(model), ids, tiny.vocabulary.bos_id, batch_size=8)
    assert read < 3001 + 7 * 200  # each of the others goes on into the next for some windows at most
    np.testing.assert_allclose(tracked, single, atol=1e-4)  # what a state difference below the tolerance can do


@pytest.mark.parametrize("forget", [6.0, 9.0, 12.0])
def test_slow_units_do_not_make_batches_differ(tiny: Corpus, forget: float) -> None:
    """Half of the units forget next to nothing: what they hold differs little from track to track, always the same way.

    States that count as equal at a difference of 1e-3 made these figures wrong by up to 1e-4.
    """
    model = model_for(tiny, scale=0.5)
    with torch.no_grad():
        model.recurrence.bias_ih_l0[6:9] = forget
    ids = np.tile(tiny.split("train"), 4)[:13_364]
    single = evaluate(model, ids, tiny.vocabulary, "stream", batch_size=1)
    for batch_size in (2, 7, 64):
        tracked = evaluate(model, ids, tiny.vocabulary, "stream", batch_size=batch_size)
        assert tracked.nats == pytest.approx(single.nats, rel=1e-7)  # a thousandth of what that was
        assert tracked.perplexity == pytest.approx(single.perplexity, rel=1e-6)  # the same in the exponent


@pytest.mark.parametrize("length", [1, 2, 255, 256, 257, 513])
def test_short_texts_are_scored_whole(tiny: Corpus, length: int) -> None:
    result = evaluate(model_for(tiny), tiny.split("train")[:length], tiny.vocabulary)
    assert result.tokens == length


@pytest.mark.parametrize(("batch_size", "window"), [(1, 1000), (3, 2), (64, 64), (1000, 5)])
def test_sentences_start_afresh(tiny: Corpus, batch_size: int, window: int) -> None:
    model = model_for(tiny)
    vocabulary = tiny.vocabulary
    ids = tiny.split("test")[:-3]  # ends inside a sentence, which counts too
    ends = [0, *(np.flatnonzero(ids == vocabulary.eos_id) + 1).tolist()]
    ends += [len(ids)] if ends[-1] != len(ids) else []
    oracle = oracle_of(model)
    expected = [oracle.score([vocabulary.bos_id, *ids[begin:end].tolist()])[0] for begin, end in pairwise(ends)]
    got = sentence_log_probs(TorchReader(model), ids, vocabulary.bos_id, vocabulary.eos_id, batch_size, window)
    np.testing.assert_allclose(got, np.concatenate(expected), atol=FLOAT32)
    result = evaluate(model, ids, vocabulary, "sentence", batch_size=batch_size, window=window)
    assert result.tokens == len(ids)
    assert result.perplexity == pytest.approx(np.exp(-np.concatenate(expected).sum() / len(ids)), rel=FLOAT32)


def test_sentences_of_any_length_in_any_batch() -> None:
    lm = lm_of()
    rng = np.random.default_rng(1)
    lengths = [1, 3, 200, 7, 64, 65, 1, 130]
    pieces = [np.append(rng.integers(1, 23, size=n), lm.vocabulary.eos_id).astype(np.int32) for n in lengths]
    ids = np.concatenate(pieces)
    args = (lm.vocabulary.bos_id, lm.vocabulary.eos_id)
    together = sentence_log_probs(TorchReader(lm.model), ids, *args, batch_size=5)
    alone = [sentence_log_probs(TorchReader(lm.model), piece, *args, window=1000) for piece in pieces]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=FLOAT32)


def test_a_long_sentence_does_not_make_its_neighbours_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = lm_of()
    lengths = [3, 1, 4, 500, 2, 30]
    pieces = [np.append(np.arange(1, n + 1) % 20 + 1, lm.vocabulary.eos_id).astype(np.int32) for n in lengths]
    args = (TorchReader(lm.model), np.concatenate(pieces), lm.vocabulary.bos_id, lm.vocabulary.eos_id)
    together, widths, side_by_side = sentence_log_probs(*args), [], passes.padded

    def noted(*given: Any) -> Any:
        codes, mask = side_by_side(*given)
        widths.append(mask.shape)
        return codes, mask

    monkeypatch.setattr(passes, "padded", noted)
    monkeypatch.setattr(passes, "PADDED", 128)
    np.testing.assert_allclose(sentence_log_probs(*args), together, atol=FLOAT32)
    assert sum(tracks for tracks, _ in widths) == len(lengths)
    assert all(tracks == 1 or tracks * width <= 128 for tracks, width in widths)
    assert max(tracks for tracks, _ in widths) > 1


def test_a_model_in_training_is_scored_without_dropout(tiny: Corpus) -> None:
    model = LightRNN(ModelConfig(hidden_size=6, dropout=0.5), WordTable.random(len(tiny.vocabulary), seed=2))
    ids = tiny.split("test")
    expected = evaluate(model.eval(), ids, tiny.vocabulary).nats
    assert evaluate(model.train(), ids, tiny.vocabulary).nats == expected
    assert model.training
