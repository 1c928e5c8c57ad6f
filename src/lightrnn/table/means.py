"""Means of words, and how far words are from them, in one pass over the vectors and without a copy of them.

Shapes: V words, d dimensions of their vectors, n bins.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 1 << 16  # words


def means(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    bins: NDArray[np.int64],
    n: int,
    words: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """(n, d): the weighted mean of the vectors (V, d) in each bin; zero where nothing weighs.

    bins (V,) are those of all words, or of some words, which are then given (P,).
    """
    words = np.arange(len(vectors)) if words is None else words
    sums = np.zeros((n, vectors.shape[1]))
    totals = np.bincount(bins, weights=weights[words], minlength=n)
    add_rows(vectors, weights, words, bins, sums)
    return np.where(totals[:, None] > 0, sums / np.maximum(totals, 1e-30)[:, None], 0.0).astype(np.float32)


def distance(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    centroids: NDArray[np.float32],
    bins: NDArray[np.int64],
) -> float:
    """Σ_w weight · |x - c|², where c is the centroid of the word's bin."""
    return float(_distance(vectors, weights, centroids, bins))


def subtract(vectors: NDArray[np.float32], centroids: NDArray[np.float32], bins: NDArray[np.int64]) -> None:
    """x - c in the place of every x."""
    for begin in range(0, len(vectors), BLOCK):
        vectors[begin : begin + BLOCK] -= centroids[bins[begin : begin + BLOCK]]


def move_up(vectors: NDArray[np.float32], words: NDArray[np.int64]) -> NDArray[np.float32]:
    """The vectors of some words (P,), in rising order, moved to the beginning of all; returns that part."""
    for begin in range(0, len(words), BLOCK):
        vectors[begin : begin + BLOCK][: len(words) - begin] = vectors[words[begin : begin + BLOCK]]
    return vectors[: len(words)]


@njit(cache=True, nogil=True)
def add_rows(vectors, weights, words, bins, sums):  # type: ignore[no-untyped-def]
    """Add weight · x of each of some words to the sums (n, d) of its bin, in double precision."""
    for i in range(len(words)):
        word, bin = words[i], bins[i]
        for j in range(vectors.shape[1]):
            sums[bin, j] += vectors[word, j] * weights[word]


@njit(cache=True, nogil=True)
def _distance(vectors, weights, centroids, bins):  # type: ignore[no-untyped-def]
    total = 0.0
    for word in range(len(bins)):
        squares = np.float32(0)
        for j in range(vectors.shape[1]):
            apart = vectors[word, j] - centroids[bins[word], j]
            squares += apart * apart
        total += np.float64(weights[word]) * np.float64(squares)
    return total
