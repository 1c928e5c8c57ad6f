"""An auction in which every word bids on a few bins only: the transport of `transport.py` without its matrix.

Shapes: V words, d dimensions, k candidates of each word, n values of a component, G groups; bin (g, i) is value i in
group g.

A word's candidates are all that it ever sees, so time and memory are those of V · k numbers. Each word's present value
is among them, so the present assignment is one that they allow, and an auction can end with all words placed.
"""

from dataclasses import replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..runtime import Progress, in_parallel, silent
from .costs import Distances
from .transport import take

CANDIDATES = 32
SIBLINGS = 32  # values that lie side by side are looked at together …
BRANCHES = 8  # … if their mean is one of so many that are cheapest for the word
WORDS = 1 << 15  # that are looked at together
SHRINK = 5.0  # of ε from phase to phase
PATIENCE = 60  # bids a word in a phase, on average; an auction that takes more is given up


def cheapest_values(
    distances: Distances,
    prices: NDArray[np.float64],
    group: NDArray[np.int32],
    present: NDArray[np.int64],
    *,
    progress: Progress = silent,
    what: str = "words",
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(V, k) and (V, k): for every word its present value and the others that are cheapest for it, and what these cost
    without the prices (G, n), above the least of them.

    Values that lie side by side came from one another by halving, so the search looks at their means first.
    """
    size, n = distances.shape
    firsts = np.arange(0, n, SIBLINGS)
    means = np.stack([distances.centroids[first : first + SIBLINGS].mean(axis=0) for first in firsts])
    of_means = replace(distances, centroids=means)
    mean_prices = np.add.reduceat(prices, firsts, axis=1) / np.diff(np.append(firsts, n))
    candidates = np.empty((size, min(CANDIDATES, n)), np.int32)
    costs = np.empty(candidates.shape, np.float32)

    def search(block: int) -> float:
        words = np.arange(block * WORDS, min((block + 1) * WORDS, size))
        found, kept = candidates[words[0] : words[-1] + 1], costs[words[0] : words[-1] + 1]
        values = np.full(kept.shape, np.inf)
        found[:], kept[:] = present[words, None], 0
        near = _branches(of_means[words] + mean_prices[group[words]])
        for branch, first in enumerate(firsts):
            here = np.flatnonzero((near == branch).any(axis=0))
            siblings = slice(first, first + SIBLINGS)
            of_siblings = replace(distances, centroids=distances.centroids[siblings])[words[here]]
            _keep_cheapest(of_siblings, prices, group[words], here, first, found, kept, values)
        _keep_present(distances.vectors, distances.weights, distances.centroids, words, present, found, kept, values)
        progress(what, words[-1] + 1, size)
        return 0.0

    in_parallel(search, -(-size // WORDS))
    return candidates, costs


def _branches(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """(BRANCHES, words): where the least of each word's values are."""
    least = min(BRANCHES, values.shape[1])
    return np.ascontiguousarray(np.argpartition(values, least - 1, axis=1)[:, :least].T)


@njit(cache=True, nogil=True)
def _keep_cheapest(costs, prices, group, words, first, found, kept, values):  # type: ignore[no-untyped-def]
    """Values first, first + 1, … into the lists of some words, which are in order of cost and price."""
    k = found.shape[1]
    for r in range(len(words)):
        w = words[r]
        for j in range(costs.shape[1]):
            value = costs[r, j] + prices[group[w], first + j]
            if value < values[w, k - 1]:
                p = k - 1
                while p > 0 and values[w, p - 1] > value:
                    values[w, p], found[w, p], kept[w, p] = values[w, p - 1], found[w, p - 1], kept[w, p - 1]
                    p -= 1
                values[w, p], found[w, p], kept[w, p] = value, first + j, costs[r, j]


@njit(cache=True, nogil=True)
def _keep_present(vectors, weights, centroids, words, present, found, kept, values):  # type: ignore[no-untyped-def]
    """The present value into the last place of a list that does not have it; costs above the least."""
    k = found.shape[1]
    for r in range(len(words)):
        word, own = words[r], present[words[r]]
        at = k - 1
        for p in range(k):
            if found[r, p] == own and values[r, p] < np.inf:
                at = p
        if found[r, at] != own or values[r, at] == np.inf:
            cost = np.float32(0)
            for j in range(vectors.shape[1]):
                cost += centroids[own, j] * (centroids[own, j] - np.float32(2) * vectors[word, j])
            found[r, at], kept[r, at], values[r, at] = own, weights[word] * cost, 0
        least = np.float32(np.inf)
        for p in range(k):
            if values[r, p] < np.inf:
                least = min(least, kept[r, p])
        for p in range(k):  # what is not filled is the present value once more, and costs more
            kept[r, p] = kept[r, p] - least if values[r, p] < np.inf else kept[r, at] + np.float32(1)


def auction(
    costs: NDArray[np.float32],
    candidates: NDArray[np.int32],
    group: NDArray[np.int32],
    firsts: NDArray[np.int64],
    prices: NDArray[np.float64],
    *,
    epsilon: float,
    phases: int,
    or_coarser: bool = False,
) -> NDArray[np.int64] | None:
    """(V,): one of its candidates for every word, at about the least cost, every bin full; None if it takes too long.

    costs (V, k); group (V,) of each word; firsts (G, n + 1): bin (g, i) has room for firsts[g, i + 1] - firsts[g, i]
    words, all of them for V; prices (G, n): where the bids begin, changed to where they end. ε ends at `epsilon`. Where
    many words are alike they outbid each other by ever less: with or_coarser, what takes too long ends at the last ε
    that did not.
    """
    found, ended = None, prices.copy()
    for phase in range(phases - 1, -1, -1):
        chosen = np.empty(len(costs), np.int64)
        if not _phase(costs, candidates, group, firsts, prices, epsilon * SHRINK**phase, chosen):
            prices[:] = ended
            return found if or_coarser else None
        prices -= prices.min()
        found, ended = chosen, prices.copy()
    return found


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
        dropped = take(heaps[first : first + places], owners[first : first + places], held[g, i], bid, word)
        if dropped < 0:
            held[g, i] += 1
        else:
            tail = head + waiting
            queue[tail if tail < size else tail - size] = dropped
            waiting += 1
        if held[g, i] == places:
            prices[g, i] = heaps[first]
    return True
