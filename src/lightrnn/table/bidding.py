"""An auction in which every word bids on its few nearest bins only: the transport of `transport.py` without its matrix.

Shapes: V words, d dimensions, k candidates of each word, n values of a component, G groups; bin (g, i) is value i in
group g.

A word's candidates are all that it ever sees, so time and memory are those of V · k numbers. Each word's present value
is among them, so the present assignment is one that they allow, and an auction can end with all words placed.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..runtime import Progress, in_parallel, silent

CANDIDATES = 32
SIBLINGS = 32  # values that lie side by side are looked at together …
BRANCHES = 8  # … if their mean is one of so many that are nearest to the word
WORDS = 1 << 15  # that are looked at together
SHRINK = 5.0  # of ε from phase to phase
PATIENCE = 60  # bids a word in a phase, on average; an auction that takes more is given up


def nearest_values(
    vectors: NDArray[np.float32],
    centroids: NDArray[np.float32],
    present: NDArray[np.int64],
    *,
    progress: Progress = silent,
    what: str = "nearest",
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(V, k) and (V, k): for every word its present value and the nearest others, and |c|² - 2 x·c of them.

    Values that lie side by side came from one another by halving, so the search looks at their means first.
    """
    n = len(centroids)
    k = min(CANDIDATES, n)
    firsts = np.arange(0, n, SIBLINGS)
    means = np.stack([centroids[first : first + SIBLINGS].mean(axis=0) for first in firsts])
    squares = (centroids**2).sum(axis=1)
    candidates = np.empty((len(vectors), k), np.int32)
    distances = np.empty((len(vectors), k), np.float32)

    def search(block: int) -> float:
        words = slice(block * WORDS, (block + 1) * WORDS)
        x = vectors[words]
        found, apart = candidates[words], distances[words]
        apart[:] = np.inf
        found[:] = present[words, None]
        branches = np.arange(len(firsts))[:, None] if len(firsts) <= BRANCHES else _branches(x, means)
        for branch, first in enumerate(firsts):
            here = np.flatnonzero((branches == branch).any(axis=0)) if branches.shape[1] > 1 else np.arange(len(x))
            near = slice(first, first + SIBLINGS)
            _keep_nearest(x[here] @ (-2 * centroids[near].T) + squares[near], here, first, found, apart)
        _keep_present(x, centroids, squares, present[words], found, apart)
        progress(what, min((block + 1) * WORDS, len(vectors)), len(vectors))
        return 0.0

    in_parallel(search, -(-len(vectors) // WORDS))
    return candidates, distances


def _branches(x: NDArray[np.float32], means: NDArray[np.float32]) -> NDArray[np.int64]:
    """(BRANCHES, words): the means that are nearest to each word."""
    apart = x @ (-2 * means.T) + (means**2).sum(axis=1)
    return np.ascontiguousarray(np.argpartition(apart, BRANCHES - 1, axis=1)[:, :BRANCHES].T)


@njit(cache=True, nogil=True)
def _keep_nearest(distances, words, first, found, apart):  # type: ignore[no-untyped-def]
    """Values first, first + 1, … into the lists of words, which are in order of distance."""
    k = found.shape[1]
    for r in range(len(words)):
        w = words[r]
        for j in range(distances.shape[1]):
            if distances[r, j] < apart[w, k - 1]:
                p = k - 1
                while p > 0 and apart[w, p - 1] > distances[r, j]:
                    apart[w, p], found[w, p] = apart[w, p - 1], found[w, p - 1]
                    p -= 1
                apart[w, p], found[w, p] = distances[r, j], first + j


@njit(cache=True, nogil=True)
def _keep_present(x, centroids, squares, present, found, apart):  # type: ignore[no-untyped-def]
    """The present value into the last place of a list that does not have it."""
    k = found.shape[1]
    for w in range(len(x)):
        there = False
        for j in range(k):
            there = there or (found[w, j] == present[w] and apart[w, j] < np.inf)
        if not there:
            distance = squares[present[w]]
            for j in range(x.shape[1]):
                distance -= np.float32(2) * x[w, j] * centroids[present[w], j]
            found[w, k - 1], apart[w, k - 1] = present[w], distance


def auction(
    costs: NDArray[np.float32],
    candidates: NDArray[np.int32],
    group: NDArray[np.int32],
    firsts: NDArray[np.int64],
    prices: NDArray[np.float64],
    *,
    epsilon: float,
    phases: int,
) -> NDArray[np.int64] | None:
    """(V,): one of its candidates for every word, at about the least cost, every bin full; None if it takes too long.

    costs (V, k); group (V,) of each word; firsts (G, n + 1): bin (g, i) has room for firsts[g, i + 1] - firsts[g, i]
    words, all of them for V; prices (G, n): where the bids begin, changed to where they end. ε ends at `epsilon`.
    """
    chosen = np.empty(len(costs), np.int64)
    for phase in range(phases - 1, -1, -1):
        if not _phase(costs, candidates, group, firsts, prices, epsilon * SHRINK**phase, chosen):
            return None
        prices -= prices.min()
    return chosen


@njit(cache=True, nogil=True)
def _phase(costs, candidates, group, firsts, prices, epsilon, chosen):  # type: ignore[no-untyped-def]
    """As `transport._auction`: each bin keeps its bids in a heap, lowest first; those of a group lie side by side."""
    size, k = costs.shape
    heaps = np.empty(size)
    owners = np.empty(size, np.int32)
    held = np.zeros(prices.shape, np.int32)
    queue = np.arange(size).astype(np.int32)
    head, waiting, patience = 0, size, PATIENCE * size
    while waiting > 0:
        word = queue[head]
        head = head + 1 if head + 1 < size else 0
        waiting -= 1
        patience -= 1
        if patience < 0:
            return False
        g = group[word]
        best, second, i = np.inf, np.inf, -1
        for j in range(k):
            other = candidates[word, j]
            value = costs[word, j] + prices[g, other]
            if value < second and firsts[g, other] < firsts[g, other + 1]:
                if value < best:
                    best, second, i = value, best, other
                else:
                    second = value
        bid = prices[g, i] + epsilon + (second - best if second < np.inf else 0.0)
        chosen[word] = i
        first = firsts[g, i]
        places = firsts[g, i + 1] - first
        dropped = _take(heaps[first : first + places], owners[first : first + places], held[g, i], bid, word)
        if dropped < 0:
            held[g, i] += 1
        else:
            tail = head + waiting
            queue[tail if tail < size else tail - size] = dropped
            waiting += 1
        if held[g, i] == places:
            prices[g, i] = heaps[first]
    return True


@njit(cache=True, nogil=True)
def _take(heap, owner, held, bid, word):  # type: ignore[no-untyped-def]
    """A bid into a heap, lowest first, that holds so many; returns who had to go where it was full, else -1."""
    places = len(heap)
    if held < places:
        dropped, h = -1, held
        while h > 0 and heap[(h - 1) >> 1] > bid:
            heap[h], owner[h] = heap[(h - 1) >> 1], owner[(h - 1) >> 1]
            h = (h - 1) >> 1
    else:
        dropped, h = owner[0], 0
        while True:
            child = 2 * h + 1
            if child + 1 < places and heap[child + 1] < heap[child]:
                child += 1
            if child >= places or heap[child] >= bid:
                break
            heap[h], owner[h] = heap[child], owner[child]
            h = child
    heap[h], owner[h] = bid, word
    return dropped
