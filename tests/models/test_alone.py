"""Words that stand alone, tied and narrow vectors: the model and its predictor against the NumPy oracle."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from helpers import CELLS, FLOAT32, random_lightrnn
from lightrnn.inference.passes import sentence_log_probs, stream_log_probs
from lightrnn.models.base import State, TorchReader, to_arrays
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable
from oracle import oracle_of

SHAPES = [  # V, K, rows, alone: full and ragged tables, none, some, all but one, all words alone
    *((23, 2, 0, 0), (25, 2, 0, 9), (23, 2, 0, 6), (23, 2, 4, 6), (23, 2, 0, 22), (23, 2, 0, 23)),
    *((19, 3, 0, 0), (27, 3, 0, 0), (30, 3, 0, 4), (31, 3, 5, 4), (19, 3, 0, 18), (19, 3, 0, 19)),
]


def cut(model: LightRNN, words: NDArray[np.int64], lengths: list[int]) -> tuple[NDArray[np.float32], State]:
    """Codes of words after the first, scored in windows of these many codes, which may end inside a word: (codes,)."""
    K = model.components
    front = model.spelling.context(int(words[0]))
    codes = np.concatenate([front, model.spelling.spell(words[1:])])
    state, scored, begin = None, [], 0
    for length in [*lengths, len(codes)]:
        piece = torch.from_numpy(codes[begin : begin + K + length])[None]
        if piece.shape[1] <= K:
            break
        log_probs, state = model.code_log_probs(piece, state)
        scored.append(log_probs[0, :, 0].detach().numpy())
        begin += length
    return np.concatenate(scored), state


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("V", "K", "rows", "alone"), SHAPES)
@pytest.mark.parametrize(  # vectors have 5
    ("tied", "units", "head", "word_bias"),
    [
        *((False, 7, 0, False), (True, 7, 0, False), (True, 5, 0, False), (True, 7, 3, False), (False, 7, 100, False)),
        *((True, 7, 3, True), (False, 7, 0, True)),
    ],
)
def test_equations_with_windows_cut_inside_words(
    cell: str, V: int, K: int, rows: int, alone: int, tied: bool, units: int, head: int, word_bias: bool
) -> None:
    sizes = {"layers": 2, "rows": rows, "units": units, "alone": alone, "head": head}
    model = random_lightrnn(cell, V, K, bias=V % 2 == 1 or word_bias, tied=tied, word_bias=word_bias, **sizes)
    assert model.head == (min(head, alone) if min(head, alone) < model.shape[0] else 0)
    assert model.alone == alone
    words = np.random.default_rng(V).integers(V, size=25)
    expected, _ = oracle_of(model).score(words)
    whole = model.log_probs(torch.from_numpy(words)[None])[0][0].detach().numpy()
    np.testing.assert_allclose(whole, expected, atol=FLOAT32, rtol=FLOAT32)
    there = model.table.codes[words[1:]] >= 0
    assert (whole[~there] == 0).all()
    for lengths in ([1] * 100, [3, 1, 4, 1, 5, 9, 2, 6], [2] * 30):
        got, _ = cut(model, words, lengths)
        np.testing.assert_allclose(got, expected[there], atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("V", "K", "rows", "alone"), SHAPES)
@pytest.mark.parametrize(
    ("tied", "head", "word_bias"),
    [(False, 0, False), (True, 0, False), (False, 3, False), (True, 100, False), (True, 3, True)],
)
def test_all_words_sum_to_one_and_are_the_oracles(
    cell: str, V: int, K: int, rows: int, alone: int, tied: bool, head: int, word_bias: bool
) -> None:
    model = random_lightrnn(cell, V, K, rows=rows, alone=alone, tied=tied, head=head, word_bias=word_bias)
    predictor, oracle = model.predictor(), oracle_of(model)
    words = np.random.default_rng(1).integers(V, size=6)
    state = to_arrays(model.log_probs(torch.from_numpy(words)[None])[1])
    found = predictor.all_words(int(words[-1]), state)
    assert abs(np.exp(found).sum() - 1) < FLOAT32
    _, before = oracle.score(words)
    expected = [sum(oracle.word_log_probs(words[-1], word, before)[0]) for word in range(V)]
    np.testing.assert_allclose(found, expected, atol=FLOAT32, rtol=FLOAT32)
    for word in range(V):
        assert predictor.word(int(words[-1]), state, word)[0] == pytest.approx(expected[word], abs=2 * FLOAT32)
    fresh = predictor.fresh_state(int(words[0]))
    for ours, theirs in zip(fresh, oracle.fresh(words[0])[0], strict=False):
        np.testing.assert_allclose(ours[0, 0], theirs, atol=FLOAT32)


@pytest.mark.parametrize(
    ("V", "K", "rows", "alone"), [*SHAPES, (1990, 2, 0, 400), (1990, 3, 0, 400), (1990, 2, 9, 1500)]
)
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 8.0])
def test_likeliest_words_are_the_top_of_all(V: int, K: int, rows: int, alone: int, sharpness: float) -> None:
    model = random_lightrnn(V=V, K=K, rows=rows, alone=alone, tied=True, head=5)
    model.projection.weight.data.mul_(sharpness)
    predictor = model.predictor()
    state = to_arrays(model.log_probs(torch.tensor([[0, 1, 2]]))[1])
    every = predictor.all_words(2, state)
    allowed = np.random.default_rng(V).random(V) < 0.2
    allowed[1] = True
    for count in (1, 2, 7, 100):
        for mask in (None, allowed):
            found = predictor.likeliest(2, state, count, mask)
            values = every if mask is None else every[mask]
            np.testing.assert_allclose(found.log_probs, np.sort(values)[::-1][:count], atol=2 * FLOAT32)
            np.testing.assert_allclose(every[found.words], found.log_probs, atol=2 * FLOAT32)
            assert len(set(found.words.tolist())) == len(found.words)


def test_a_word_that_stands_alone_needs_no_opened_row() -> None:
    model = random_lightrnn(V=500, alone=100, tied=True)
    model.output_bias[0].data[:100] += 50.0
    state = to_arrays(model.log_probs(torch.tensor([[0, 1, 2]]))[1])
    found = model.predictor().likeliest(2, state, 10)
    assert found.opened == 0
    assert (model.table.codes[found.words, 1] == -1).all()


def test_draws_follow_the_distribution() -> None:
    model = random_lightrnn(V=12, alone=4, tied=True, head=2)
    predictor = model.predictor()
    state = to_arrays(model.log_probs(torch.tensor([[0, 1, 2]]))[1])
    random = np.random.default_rng(0)
    draws = 20_000
    counts = np.bincount([predictor.draw(2, state, 1.0, random) for _ in range(draws)], minlength=12)
    expected = draws * np.exp(predictor.all_words(2, state))
    assert ((counts - expected) ** 2 / expected).sum() < 31.3  # chi-square, 11 degrees of freedom, 0.1%


@pytest.mark.parametrize("tied", [False, True])
def test_all_words_alone_are_a_full_softmax_of_the_same_vectors(tied: bool) -> None:
    V = 17
    model = random_lightrnn(V=V, alone=V, tied=tied)
    assert model.shape == (V, 0)
    words = torch.from_numpy(np.random.default_rng(0).integers(V, size=(3, 9)))
    rows = torch.from_numpy(model.table.codes[:, 0])
    hidden, _ = model.recurrence(model.input_vectors.weight[rows][words[:, :-1]])
    vectors = model.input_vectors.weight if tied else model.output_vectors[0]
    scores = model.projection(hidden) @ vectors[rows].T + model.output_bias[0][rows]
    expected = scores.log_softmax(dim=-1).gather(2, words[:, 1:, None])
    got, _ = model.log_probs(words)
    assert (got[..., 1] == 0).all()
    torch.testing.assert_close(got[..., :1], expected, atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.parametrize(("V", "K", "rows", "alone"), SHAPES)
@pytest.mark.parametrize(("batch_size", "window"), [(1, 64), (4, 1), (4, 5), (4, 64)])
def test_passes_over_a_text_are_the_oracles(
    V: int, K: int, rows: int, alone: int, batch_size: int, window: int
) -> None:
    model = random_lightrnn(V=V, K=K, rows=rows, alone=alone, tied=True)
    oracle = oracle_of(model)
    ids = np.random.default_rng(5).integers(1, V, size=1100).astype(np.int32)
    ids[::13] = 0
    for reader in (TorchReader(model), model.predictor().reader):
        stream = stream_log_probs(reader, ids, 0, batch_size, window)
        expected, _ = oracle.score(np.concatenate([[0], ids[:300]]), oracle.start())
        np.testing.assert_allclose(stream[:300], expected, atol=5 * FLOAT32)
        sentences = sentence_log_probs(reader, ids, 1, 0, batch_size, window)
        begin = 0
        for end in [*(np.flatnonzero(ids == 0) + 1)[:12]]:
            expected, _ = oracle.score(np.concatenate([[1], ids[begin:end]]))
            np.testing.assert_allclose(sentences[begin:end], expected, atol=5 * FLOAT32)
            begin = end


def test_gradients_reach_tied_vectors_from_both_sides() -> None:
    """A code that is only read and one that is only predicted both move."""
    model = random_lightrnn(V=30, alone=10, tied=True)
    before = model.input_vectors.weight.detach().clone()
    codes = torch.tensor([[-1, 3, 5]])  # two words that stand alone: 3 is read, 5 predicted
    model.losses(codes, None)[0].sum().backward()
    gradient = model.input_vectors.weight.grad
    assert gradient is not None
    assert gradient[3].abs().sum() > 0
    assert gradient[5].abs().sum() > 0
    assert gradient[model.shape[0] :].abs().sum() == 0  # no column had a part in it
    assert torch.equal(before, model.input_vectors.weight)


@pytest.mark.parametrize(("V", "K", "rows", "alone"), SHAPES)
def test_shapes_and_places(V: int, K: int, rows: int, alone: int) -> None:
    apart = np.random.default_rng(0).permutation(V)[:alone]
    table = WordTable.random(V, K, rows, seed=1, alone=apart)
    assert table.shape == table_shape(V, K, rows, alone)
    assert table.alone == alone
    assert (table.codes[apart, 0] == np.arange(alone)).all()
    assert sorted(table.places.tolist()) == list(range(V))
    assert (table.words[table.places] == np.arange(V)).all()
    again = WordTable.from_places(table.places, table.shape, alone)
    assert (again.codes == table.codes).all()
    assert (table.with_shared(table.shared).codes == table.codes).all()
    assert sorted([*table.sharing.tolist(), *apart.tolist()]) == list(range(V))
    if alone < V:
        assert tuple(table.codes[table.words[-1]]) == table.last_place
