"""Tables by balanced clustering: words that are used alike share a row, and within rows, a column.

Shapes: V words, d dimensions of their vectors, n values of a component.

The vectors of the table are to stand for those of the words: word w is approximated by the sum of its row's and its
column's vector. So the rows are a k-means clustering of the word vectors in which every row has a fixed number of
places, and the columns one of what the rows leave, in which every column has one place in every row.

There are two ways. `transport` is Lloyd's alternation with the transportation problem as the assignment step: distances
of all words to all rows, V × √V of them. `bisection` halves the words again and again and polishes what comes of it: a
few numbers a word, for any number of words.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..runtime import Progress, free_memory, refuse_beyond_memory, silent
from .allocation import Allocation
from .bisection import Groups, bisect
from .costs import Distances
from .means import distance, means, subtract
from .polishing import polish

WAYS = ("transport", "bisection")
DENSE = 5e8  # bytes of the distances up to which `auto` takes the transport
ITERATIONS = 12
GAIN = 3e-3  # of the distances; an alternation that gains less is the last
TOLERANCE = 1e-3  # of the transport

Component = tuple[NDArray[np.int64], NDArray[np.float32]]  # the words' values (V,), and the values' vectors (n, d)


@dataclass(frozen=True)
class Clustering:
    """codes (V, K); of each component its vectors (n_s, d), whose sum over a word's components stands for that of the
    word; and the squared distances that are left by the components up to it, summed by the words' weights."""

    codes: NDArray[np.int64]
    vectors: tuple[NDArray[np.float32], ...]
    distances: tuple[float, ...]


def cluster(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    shape: tuple[int, ...],
    *,
    way: str = "auto",
    seed: int = 0,
    in_place: bool = False,
    progress: Progress = silent,
) -> Clustering:
    """A balanced clustering of word vectors[V, d], each counting with its weight[V] > 0.

    way: one of WAYS, or auto, see `clustering_way`. in_place: what the table leaves of the vectors takes their place,
    so that there is no second matrix of them.
    """
    residuals = vectors.astype(np.float32, copy=not in_place)
    codes = np.zeros((len(vectors), len(shape)), np.int64)
    if len(vectors) == 0:
        return Clustering(codes, tuple(residuals[:0] for _ in shape), tuple(0.0 for _ in shape))
    steps = _by_transport if clustering_way(way, len(vectors), shape) == "transport" else _by_bisection
    found, distances = [], []
    for s, (values, centroids) in enumerate(steps(residuals, weights, shape, seed, progress)):
        codes[:, s] = values
        subtract(residuals, centroids, values)  # the next step is about what is left
        found.append(centroids)
        distances.append(distance(residuals, weights, np.zeros_like(centroids), values))
    return Clustering(codes, tuple(found), tuple(distances))


def clustering_way(way: str, words: int, shape: tuple[int, ...]) -> str:
    """What `auto` means for so many words: the transport where its distances are few enough to be quick and fit."""
    needed = _transport_bytes(words, shape)
    return ("transport" if needed <= min(DENSE, free_memory()) else "bisection") if way == "auto" else way


def refuse_clustering_beyond_memory(words: int, shape: tuple[int, ...], way: str = "auto") -> None:
    """Fail before a clustering by transport whose distances would not fit."""
    if clustering_way(way, words, shape) == "transport":
        refuse_beyond_memory(
            f"the clustering by transport of {words:,} words into a table of {' × '.join(map(str, shape))}",
            _transport_bytes(words, shape),
            "use --clustering bisection",
        )


def _transport_bytes(words: int, shape: tuple[int, ...]) -> int:
    return 4 * words * max(shape)


def _by_transport(
    residuals: NDArray[np.float32],
    weights: NDArray[np.float32],
    shape: tuple[int, ...],
    seed: int,
    progress: Progress,
) -> Iterator[Component]:
    """Alternations of assignment and means for each component, fewer once they gain little."""
    random = np.random.default_rng(seed)
    allocation = Allocation(len(residuals), shape)
    probability = weights / weights.sum()
    for component, n in enumerate(shape):
        start = random.choice(len(residuals), n, replace=False, p=probability)
        centroids = residuals[start]
        before = np.inf
        for iteration in range(ITERATIONS):
            progress(f"clustering component {component + 1} of {len(shape)}, pass", iteration + 1, ITERATIONS)
            allocation.assign(component, Distances(residuals, weights, centroids), TOLERANCE)
            chosen = allocation.codes[:, component]
            centroids = means(residuals, weights, chosen, n)
            after = distance(residuals, weights, centroids, chosen)
            if after > (1 - GAIN) * before:
                break
            before = after
        yield chosen, centroids
        allocation.fix(component)


def _by_bisection(
    residuals: NDArray[np.float32],
    weights: NDArray[np.float32],
    shape: tuple[int, ...],
    seed: int,
    progress: Progress,
) -> Iterator[Component]:
    """Halving, then polishing, for each component within the groups that those before have made."""
    codes = np.zeros((len(residuals), len(shape)), np.int64)
    for component, n in enumerate(shape):

        def told(what: str, done: int = 0, total: int = 0, /, component: int = component) -> None:
            progress(f"component {component + 1} of {len(shape)}: {what}", done, total)

        groups = Groups.of(codes, shape, component)
        values = bisect(residuals, weights, groups, n, seed=seed, progress=told)
        values = codes[:, component] = polish(residuals, weights, groups, values, n, seed=seed, progress=told)
        yield values, means(residuals, weights, values, n)


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
        found.append(means(residuals, weights, chosen, n))
        residuals -= found[-1][chosen]
    for _ in range(sweeps):
        for s, (chosen, n) in enumerate(zip(codes.T, shape, strict=True)):
            change = means(residuals, weights, chosen, n)
            found[s] += change
            residuals -= change[chosen]
    return found


def root_counts(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """What a word weighs in a clustering: the root of its count, and a little where it has none."""
    return np.sqrt(np.maximum(counts, 0.1)).astype(np.float32)
