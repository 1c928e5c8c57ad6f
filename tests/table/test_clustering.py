"""Clusterings: tables always, and better than chance where there is something to find."""

import numpy as np
import pytest

from helpers import grouped_stream
from lightrnn.table.bigrams import bigram_vectors
from lightrnn.table.clustering import cluster
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable


def test_bigram_tables_find_the_classes_of_a_text() -> None:
    """Nine classes of nine words: each row of the 9 × 9 table must be one class."""
    ids = grouped_stream(classes=9, members=9, words=20_000)
    counts = np.bincount(ids, minlength=81)
    vectors = bigram_vectors(ids, counts, contexts=81, dimensions=20)
    shape = table_shape(81)
    table = WordTable(cluster(vectors, np.sqrt(counts).astype(np.float32), shape).codes, shape)
    rows = [set((np.flatnonzero(table.codes[:, 0] == row) % 9).tolist()) for row in range(9)]
    assert sorted(rows, key=min) == [{i} for i in range(9)]


@pytest.mark.parametrize(
    ("V", "K", "rows"), [(81, 2, 0), (75, 2, 0), (64, 3, 0), (50, 3, 0), (5, 2, 0), (75, 2, 20), (75, 2, 75)]
)
def test_any_clustering_is_a_table_and_the_same_again(V: int, K: int, rows: int) -> None:
    rng = np.random.default_rng(V)
    vectors, weights = rng.standard_normal((V, 7)).astype(np.float32), rng.random(V).astype(np.float32) + 0.01
    shape = table_shape(V, K, rows)
    one, other = (cluster(vectors, weights, shape, seed=5).codes for _ in range(2))
    assert (one == other).all()
    WordTable(one, shape)  # checks that it is a bijection


def test_clustering_is_tighter_than_chance() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((100, 4)).astype(np.float32)
    weights = np.ones(100, np.float32)

    def within_rows(table: WordTable) -> float:
        rows = [vectors[table.codes[:, 0] == row] for row in range(10)]
        return sum(float(((row - row.mean(axis=0)) ** 2).sum()) for row in rows)

    chance = np.mean([within_rows(WordTable.random(100, seed=seed)) for seed in range(20)])
    # vectors of four dimensions: far from what chance varies by
    assert within_rows(WordTable(cluster(vectors, weights, (10, 10)).codes, (10, 10))) < 0.6 * chance
