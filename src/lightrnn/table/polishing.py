"""A clustering made tighter, by alternating assignment and means without a matrix of all words and values.

Shapes: V words, d dimensions of their vectors, n values of a component, G groups of words.

Where a value holds many words of a group, as a row does, every word bids on a few values (`bidding.py`). Where it
holds one, as a column does in a row, the words of a group exchange their values, some hundred values at a time: an
assignment problem each time, which never makes it worse. The means for that are learned on a sample of the groups.
"""

import numpy as np
from numpy.typing import NDArray

from ..runtime import Progress, in_parallel, silent
from .bidding import auction, cheapest_values
from .bisection import Groups
from .costs import Distances
from .means import distance, means
from .streaming import sampled_prices
from .transport import transport

PASSES = 5  # of bids by all words, fewer once they gain little
GAIN = 1e-2  # of the distances; a pass that gains less is the last
TOLERANCE, PHASES = 1e-2, 4  # of the auction
PRICED, PRICE_TOLERANCE = 8, 1e-2  # words a value in the sample that gives the first prices
LEARNING = 3  # passes over a sample of the groups …
SAMPLE = 100_000  # … with so many words, or a little more …
EXCHANGES = 3  # … and then over all of them
EXCHANGED = 1024  # values that are given anew together
EXCHANGE_TOLERANCE = 5e-3


def polish(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    groups: Groups,
    values: NDArray[np.int64],
    n: int,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> NDArray[np.int64]:
    """(V,): values as often as before in every group, at no greater distance of the words from their values' means."""
    before = distance(vectors, weights, means(vectors, weights, values, n), values)
    step = _bid if groups.room > 1 else _exchange
    found = step(vectors, weights, groups, values, n, np.random.default_rng(seed), progress)
    after = distance(vectors, weights, means(vectors, weights, found, n), found)
    return found if after < before else values


def _bid(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    groups: Groups,
    values: NDArray[np.int64],
    n: int,
    random: np.random.Generator,
    progress: Progress,
) -> NDArray[np.int64]:
    """All words bid on the values that are cheapest for them, means follow, again and again."""
    firsts = np.stack([groups.upto(value) for value in range(n + 1)], axis=1)
    group = np.empty(len(values), np.int32)
    group[groups.order] = np.repeat(np.arange(len(firsts)), np.diff(groups.starts))
    centroids = means(vectors, weights, values, n)
    before = distance(vectors, weights, centroids, values)
    for turn in range(PASSES):
        what = f"polishing, pass {turn + 1} of {PASSES}, words"
        distances = Distances(vectors, weights, centroids)
        if turn == 0:
            capacities = np.diff(firsts, axis=1).sum(axis=0)
            sampled = sampled_prices(distances, groups.order, capacities, PRICED * n, PRICE_TOLERANCE)
            prices = np.tile(sampled, (len(firsts), 1))
        candidates, costs = cheapest_values(distances, prices, group, values, progress=progress, what=what)
        least = max(TOLERANCE * float(costs.mean()), 1e-30)
        found = auction(costs, candidates, group, firsts, prices, epsilon=least, phases=PHASES, or_coarser=True)
        if found is None:
            break
        centroids = means(vectors, weights, found, n)
        after = distance(vectors, weights, centroids, found)
        if after < before:
            values = found
        if after > (1 - GAIN) * before:
            break
        before = after
    return values


def _exchange(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    groups: Groups,
    values: NDArray[np.int64],
    n: int,
    random: np.random.Generator,
    progress: Progress,
) -> NDArray[np.int64]:
    """The words of each group exchange their values, of which each has one: a sample of the groups first, then all."""
    starts, sizes = groups.starts, np.diff(groups.starts)
    number = np.repeat(np.arange(len(sizes)), sizes)
    order = groups.order[np.lexsort((values[groups.order], number))]  # word with value i of group g: starts[g] + i
    value = np.arange(len(order)) - np.repeat(starts[:-1], sizes)  # of the words in this order
    some = np.sort(random.permutation(len(sizes))[: -(-SAMPLE // n)])
    among = np.concatenate([np.arange(starts[g], starts[g + 1]) for g in some.tolist()])
    centroids = means(vectors, weights, values, n)
    turns = [(some, among)] * LEARNING + [(np.arange(len(sizes)), np.arange(len(order)))] * EXCHANGES
    for turn, (chosen, there) in enumerate(turns):
        # values that lie side by side along some axis; along another one the next time
        along = np.argsort(centroids @ random.standard_normal(vectors.shape[1], np.float32), kind="stable")
        blocks = np.array_split(along if turn else np.arange(n), -(-n // EXCHANGED))
        what = f"polishing, pass {turn + 1} of {len(turns)}, groups"
        _exchange_within(vectors, weights, order, starts, chosen, centroids, blocks, progress, what)
        centroids = means(vectors, weights, value[there], n, words=order[there])
    found = np.empty_like(values)
    found[order] = value
    return found


def _exchange_within(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    chosen: NDArray[np.int64],
    centroids: NDArray[np.float32],
    blocks: list[NDArray[np.int64]],
    progress: Progress,
    what: str,
) -> None:
    """In each of some groups, and of some values in turn, the words that have them get the ones that fit best."""
    squares = (centroids**2).sum(axis=1)

    def solve(index: int) -> float:
        begin, end = starts[chosen[index]], starts[chosen[index] + 1]
        for block in blocks:
            there = block[block < end - begin]
            words = order[begin + there]
            costs = vectors[words] @ (-2 * centroids[there].T)
            costs += squares[there]
            costs *= weights[words, None]
            found = transport(costs, np.ones(len(there), np.int64), EXCHANGE_TOLERANCE)
            if found.cost < float(costs.trace(dtype=np.float64)):
                order[begin + there[found.bins]] = words
        progress(what, index + 1, len(chosen))
        return 0.0

    in_parallel(solve, len(chosen))
