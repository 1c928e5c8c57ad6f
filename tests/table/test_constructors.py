"""Tables of any integers."""

import numpy as np
import pytest
import torch

from helpers import grouped_stream
from lightrnn.errors import LightRNNError
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable


def classes_found(table: WordTable, classes: int) -> bool:
    rows = [set((np.flatnonzero(table.codes[:, 0] == row) % classes).tolist()) for row in range(table.shape[0])]
    return all(len(row) == 1 for row in rows)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, np.ndarray.tolist])
def test_a_text_of_any_kind_of_integers(make: object) -> None:
    """Nine classes of nine words: each row of the 9 × 9 table must be one class."""
    ids = grouped_stream(classes=9, members=9, words=20_000)
    table = WordTable.from_bigrams(make(ids), alone=0)  # type: ignore[operator]
    assert table.shape == (9, 9)
    assert classes_found(table, 9)
    assert (table.counts == np.bincount(ids)).all()
    assert [vectors.shape[0] for vectors in table.vectors] == [9, 9]


def test_words_that_a_text_does_not_have_are_in_the_table_too() -> None:
    ids = grouped_stream(classes=9, members=9, words=2000)
    table = WordTable.from_bigrams(ids, 100, alone=30)
    assert len(table) == 100
    assert table.alone == 30
    assert set(table.words[:30].tolist()) == set(np.argsort(-np.bincount(ids), kind="stable")[:30].tolist())


def test_vectors_of_any_kind() -> None:
    rng = np.random.default_rng(2)
    centres = 5 * rng.standard_normal((6, 4))
    matrix = torch.nn.Parameter(torch.from_numpy(np.tile(centres, (6, 1)) + 0.1 * rng.standard_normal((36, 4))))
    table = WordTable.from_embeddings(matrix)
    assert classes_found(table, 6)
    assert table.counts is None
    sums = sum(vectors[codes] for vectors, codes in zip(table.vectors, table.codes.T, strict=True))
    assert np.abs(sums - matrix.detach().numpy()).mean() < 0.1  # the noise


def test_words_by_frequency() -> None:
    counts = np.random.default_rng(0).permutation(50)
    table = WordTable.from_counts(counts, alone=8, rows=6)
    order = np.argsort(-counts)
    assert table.words.tolist() == order.tolist()
    assert table.shape == table_shape(50, 2, 6, 8)


def test_random_tables_with_frequent_words_alone() -> None:
    counts = np.random.default_rng(0).permutation(50)
    table = WordTable.random(50, alone=8, counts=counts, seed=4)
    assert table.words[:8].tolist() == np.argsort(-counts)[:8].tolist()
    assert (WordTable.random(50, seed=4).codes == WordTable.random(50, seed=4, counts=counts).codes).all()


def test_words_must_be_as_many_as_ids() -> None:
    for words in (["a", "b"], ["a", "b", "c", "d"]):
        with pytest.raises(LightRNNError, match=f"words must be as many as there are ids, 3, got {len(words)}"):
            WordTable.from_bigrams([0, 1, 2, 1], words=words)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"components": 1}, "components must be a whole number from 2 to 8, got 1"),
        ({"components": 9}, "components must be a whole number from 2 to 8, got 9"),
        ({"rows": 2.5}, "rows must be a number of rows, 0 for the most even table, or 'auto', got 2.5"),
        ({"rows": "many"}, "rows must be a number of rows or 'auto', got 'many'"),
        ({"alone": 2.0}, "alone must be a number of words from 0 to 30 or 'auto', got 2.0"),
    ],
)
def test_shapes_that_no_table_has(given: dict[str, object], message: str) -> None:
    counts = np.arange(30, 0, -1)
    for make in (WordTable.from_counts, lambda counts, **given: WordTable.random(30, counts=counts, **given)):
        with pytest.raises(LightRNNError, match=message):
            make(counts, **given)  # type: ignore[operator]


def test_numbers_of_any_kind_of_integers() -> None:
    counts = np.arange(30, 0, -1)
    table = WordTable.from_counts(counts, alone=(counts > 20).sum(), rows=np.int64(5))
    assert (table.alone, table.shape) == (10, (15, 4))
