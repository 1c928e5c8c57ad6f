"""Vectors of words from their neighbours, by hand."""

import itertools

import numpy as np

from helpers import FLOAT32
from lightrnn.table.bigrams import neighbour_counts, positive_pmi, shrink, shrink_to_endings


def test_neighbour_counts_and_pmi_by_hand() -> None:
    ids = np.array([0, 1, 2, 0, 1, 3, 0, 2], np.int32)
    counts = np.bincount(ids)
    table = neighbour_counts(ids, counts, contexts=2).toarray()
    expected = np.zeros((4, 4))
    for left, right in itertools.pairwise(ids):
        if left < 2:
            expected[right, left] += 1
        if right < 2:
            expected[left, 2 + right] += 1
    assert (table == expected).all()
    pmi = positive_pmi(neighbour_counts(ids, counts, contexts=2)).toarray()
    total = expected.sum()
    by_hand = np.log(np.maximum(expected * total / np.outer(expected.sum(1), expected.sum(0)), 1e-12))
    np.testing.assert_allclose(pmi, np.maximum(by_hand, 0), atol=1e-6)  # float32


def test_rare_words_are_drawn_to_words_that_end_alike() -> None:
    words = ["</s>", "<unk>", "singing", "ringing", "king", "a", "ng", "dance", "glance", "trance", "ice"]
    counts = np.array([500, 9, 70, 0, 3, 12, 1, 25, 2, 0, 1])
    means = np.random.default_rng(1).standard_normal((len(words), 5)).astype(np.float32)

    def typical(ending: str, letters: int) -> np.ndarray:
        """Of all words with this ending, drawn to the next shorter one; word by word."""
        members = [i for i, word in enumerate(words) if letters == 0 or word[-letters:] == ending]
        total = sum((min(counts[i], 20) * means[i].astype(float) for i in members), np.zeros(5))
        number = sum(min(counts[i], 20) for i in members)
        if letters == 0:
            return total / number
        return (total + 20 * typical(ending[-(letters - 1) :] if letters > 1 else "", letters - 1)) / (number + 20)

    drawn = shrink_to_endings(means.copy(), counts, words)  # which works in place
    for index, word in enumerate(words):
        share = counts[index] / (counts[index] + 20)
        expected = share * means[index] + (1 - share) * typical(word[-4:], 4)
        np.testing.assert_allclose(drawn[index], expected, atol=FLOAT32)


def test_rare_words_are_drawn_to_their_group() -> None:
    counts, groups = np.array([50, 0, 3, 7, 0, 0]), np.array([0, 0, 0, 2, 2, 3])
    means = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)
    overall = np.average(means, axis=0, weights=counts)
    drawn = shrink(means.copy(), counts, groups)
    for index, group in enumerate(groups):
        members = np.flatnonzero(groups == group)
        typical = (counts[members] @ means[members] + 3 * overall) / (counts[members].sum() + 3)
        expected = (counts[index] * means[index] + 3 * typical) / (counts[index] + 3)
        np.testing.assert_allclose(drawn[index], expected, atol=FLOAT32)
