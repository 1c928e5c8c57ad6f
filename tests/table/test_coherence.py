"""How much alike the words of a row are used."""

import numpy as np
import pytest

from helpers import FLOAT32, grouped_stream
from lightrnn.table.bigrams import bigram_vectors, neighbour_counts, positive_pmi
from lightrnn.table.clustering import cluster
from lightrnn.table.coherence import row_coherence, table_coherence
from lightrnn.table.word_table import WordTable


def test_rows_of_a_clustered_table_are_coherent_in_unseen_text() -> None:
    train, unseen = grouped_stream(9, 9, 20_000), grouped_stream(9, 9, 3_000)
    counts = np.bincount(train, minlength=81)
    vectors = bigram_vectors(train, counts, contexts=81)
    learned = WordTable(cluster(vectors, np.sqrt(counts).astype(np.float32), (9, 9)).codes, (9, 9))
    chance = table_coherence(WordTable.random(81, seed=1), unseen)
    assert table_coherence(learned, unseen) > 3 * chance  # its rows are the classes of the text
    # by hand for one row: the mean cosine of all its pairs
    seen = np.bincount(unseen, minlength=81)
    vectors = positive_pmi(neighbour_counts(unseen, seen, 81)).toarray()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    members = np.flatnonzero(learned.codes[:, 0] == 4)
    pairs = [vectors[a] @ vectors[b] for a in members for b in members if a != b]
    assert row_coherence(learned, unseen, contexts=81)[4] == pytest.approx(np.mean(pairs), rel=FLOAT32)


def test_words_that_stand_alone_have_no_part_in_it() -> None:
    unseen = grouped_stream(9, 9, 3_000)
    apart = np.array([5, 80, 33, 0])
    table = WordTable.random(81, seed=1, alone=apart)
    coherence = row_coherence(table, unseen)
    assert np.isnan(coherence[:4]).all()
    assert len(coherence) == table.shape[0]
    shared = table.codes[:, 0] >= 4
    seen = np.bincount(unseen, minlength=81)
    vectors = positive_pmi(neighbour_counts(unseen, seen, 81)).toarray()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    by_row = []
    for row in range(4, table.shape[0]):
        members = np.flatnonzero(table.codes[:, 0] == row)
        by_row.append(np.mean([vectors[a] @ vectors[b] for a in members for b in members if a != b]))
    np.testing.assert_allclose(coherence[4:], by_row, rtol=FLOAT32)
    tokens = np.bincount(table.codes[shared, 0] - 4, weights=seen[shared])
    assert table_coherence(table, unseen) == pytest.approx(np.average(by_row, weights=tokens), rel=FLOAT32)
