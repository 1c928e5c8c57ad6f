"""Tables by balanced clustering: words that are used alike share a row, and within rows, a column.

Shapes: V words, d dimensions of their vectors, n values of a component.

The vectors of the table are to stand for those of the words: word w is approximated by the sum of its row's and its
column's vector. So the rows are a k-means clustering of the word vectors in which every row has a fixed number of
places, and the columns one of what the rows leave, in which every column has one place in every row. Lloyd's
alternation, with the transportation problem as the assignment step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..runtime import Progress, refuse_beyond_memory, silent
from .allocation import Allocation, Words

ITERATIONS = 12
GAIN = 3e-3  # of the distances; an alternation that gains less is the last
TOLERANCE = 1e-3  # of the transport


@dataclass(frozen=True)
class _Distances:
    """Weighted squared distances of words to centroids, less what does not depend on the centroid: w·(|c|² - 2 x·c)."""

    vectors: NDArray[np.float32]
    weights: NDArray[np.float32]
    centroids: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.vectors), len(self.centroids)

    def __getitem__(self, words: Words, /) -> NDArray[np.float32]:
        distances = self.vectors[words] @ (-2 * self.centroids.T)
        distances += (self.centroids**2).sum(axis=1)
        distances *= self.weights[words, None]
        return distances


def cluster(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    shape: tuple[int, ...],
    *,
    iterations: int = ITERATIONS,
    seed: int = 0,
    progress: Progress = silent,
) -> NDArray[np.int64]:
    """The codes (V, K) of a balanced clustering of word vectors[V, d], each counting with its weight[V] > 0.

    At most `iterations` (at least 1) alternations of assignment and means a component, fewer once they gain little.
    """
    random = np.random.default_rng(seed)
    allocation = Allocation(len(vectors), shape)
    if len(vectors) == 0:
        return allocation.codes
    residuals = vectors.astype(np.float32, copy=True)
    probability = weights / weights.sum()
    for component, n in enumerate(shape):
        start = random.choice(len(vectors), n, replace=False, p=probability)
        centroids = residuals[start]
        before = np.inf
        for iteration in range(iterations):
            progress(f"clustering component {component + 1} of {len(shape)}, pass", iteration + 1, iterations)
            allocation.assign(component, _Distances(residuals, weights, centroids), TOLERANCE)
            chosen = allocation.codes[:, component]
            centroids = _means(residuals, weights, chosen, n)
            distance = float(weights @ ((residuals - centroids[chosen]) ** 2).sum(axis=1))
            if distance > (1 - GAIN) * before:
                break
            before = distance
        residuals -= centroids[chosen]
        allocation.fix(component)
    return allocation.codes


def refuse_clustering_beyond_memory(words: int, shape: tuple[int, ...]) -> None:
    """Fail before a clustering whose distances would not fit."""
    refuse_beyond_memory(
        f"the clustering of {words:,} words into a table of {' × '.join(map(str, shape))}",
        4 * words * max(shape),
        "use a smaller vocabulary, or --rows nearer to its root",
    )


def table_vectors(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    codes: NDArray[np.int64],
    shape: tuple[int, ...],
    *,
    sweeps: int = 0,
) -> list[NDArray[np.float32]]:
    """Of each component, (n_s, d): the vectors whose sum over a word's components stands for that of the word.

    The first component's are means, those of the others means of what is left. Sweeps fit one after the other to what
    all others leave, and so go on to the least squares.
    """
    residuals = vectors.astype(np.float32, copy=True)
    found = []
    for chosen, n in zip(codes.T, shape, strict=True):
        found.append(_means(residuals, weights, chosen, n))
        residuals -= found[-1][chosen]
    for _ in range(sweeps):
        for s, (chosen, n) in enumerate(zip(codes.T, shape, strict=True)):
            change = _means(residuals, weights, chosen, n)
            found[s] += change
            residuals -= change[chosen]
    return found


def _means(
    vectors: NDArray[np.float32], weights: NDArray[np.float32], bins: NDArray[np.int64], n: int
) -> NDArray[np.float32]:
    """The weighted mean of the vectors in each bin; zero where nothing weighs."""
    order = np.argsort(bins, kind="stable")
    starts = np.searchsorted(bins[order], np.arange(n))
    weighted = vectors[order] * weights[order, None]
    sums = np.add.reduceat(weighted, np.minimum(starts, len(bins) - 1), axis=0, dtype=np.float64)
    totals = np.bincount(bins, weights=weights, minlength=n)
    return np.where(totals[:, None] > 0, sums / np.maximum(totals, 1e-30)[:, None], 0.0).astype(np.float32)


def root_counts(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """What a word weighs in a clustering: the root of its count, and a little where it has none."""
    return np.sqrt(np.maximum(counts, 0.1)).astype(np.float32)
