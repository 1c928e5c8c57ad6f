"""The transportation problem where costs of all words and bins do not fit: some words at a time, and a few bins a word.

Shapes: V words, n bins; k candidates of each word.

The costs are computed some words at a time, as often as they are needed. From each time every word keeps those few bins
that are cheapest for it at the prices of the moment, and bids on these (`bidding.py`); at the prices that come of it
the cheapest bins are found again. The bound looks at all bins of all words, so it holds whatever was kept.
"""

from math import log

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .bidding import CANDIDATES, SHRINK, auction
from .costs import CostMatrix, Words
from .transport import FIRST, Transport, transport

CHUNK = 1 << 26  # costs that are computed together
ROUNDS = 3  # of candidates and bids


def streamed_transport(
    costs: CostMatrix, words: Words, capacities: NDArray[np.int64], tolerance: float = 1e-4
) -> Transport:
    """As `transport(costs[words], capacities, tolerance)`, within memory of V · k and CHUNK numbers.

    Prices come from a sample of the words first, each bin having its share of them.
    """
    size, n = len(words), len(capacities)
    step = max(CHUNK // n, 1)
    prices = sampled_prices(costs, words, capacities, max(step, 8 * n), tolerance)
    firsts = np.concatenate([[0], np.cumsum(capacities)])[None]
    candidates, offers = (
        np.empty((size, min(CANDIDATES, n)), np.int32),
        np.empty((size, min(CANDIDATES, n)), np.float32),
    )
    chosen, group, room = np.full(size, -1), np.zeros(size, np.int32), capacities.copy()
    for turn in range(ROUNDS + 1):
        least = spread = cost = 0.0
        for begin in range(0, size, step):
            here = slice(begin, begin + step)
            block = costs[words[here]]
            spread += float((block.mean(axis=1, dtype=np.float64) - block.min(axis=1)).sum())
            low, paid = _look(block, prices, capacities, room, chosen[here], candidates[here], offers[here])
            least, cost = least + low, cost + paid
        if turn == ROUNDS:
            break
        bids, last = prices[None].copy(), max(tolerance * spread / size, 1e-30)
        phases = round(log(FIRST / tolerance, SHRINK)) + 1
        found = auction(offers, candidates, group, firsts, bids, epsilon=last, phases=phases)
        if found is None:
            break
        chosen, prices = found, bids[0]
    return Transport(chosen, prices, cost, least - float(capacities @ prices))


def sampled_prices(
    costs: CostMatrix, words: Words, capacities: NDArray[np.int64], number: int, tolerance: float
) -> NDArray[np.float64]:
    """(n,): prices at which a sample of so many of the words, in equal steps, would fill its share of every bin."""
    sample = words[np.linspace(0, len(words) - 1, min(number, len(words))).astype(np.int64)]
    shares = np.diff(np.round(np.concatenate([[0], np.cumsum(capacities)]) * (len(sample) / len(words)))).astype(
        np.int64
    )
    return transport(costs[sample], shares, tolerance).prices


@njit(cache=True, nogil=True)
def _look(costs, prices, capacities, room, chosen, candidates, offers):  # type: ignore[no-untyped-def]
    """Of some words, the cheapest bins at these prices, the present one among them, none that can hold no word; who has
    none takes the cheapest that has room. Returns Σ min_i (c_wi + p_i), and what the present bins cost."""
    size, n = costs.shape
    k = candidates.shape[1]
    values = np.empty(k)
    least = cost = 0.0
    for w in range(size):
        held = 0
        cheapest, free = np.inf, np.inf
        settled = chosen[w] >= 0
        for i in range(n):
            if capacities[i] == 0:
                continue
            value = np.float64(costs[w, i]) + prices[i]
            cheapest = min(cheapest, value)
            if not settled and room[i] > 0 and value < free:
                free, chosen[w] = value, i
            if held < k or value < values[k - 1]:
                p = min(held, k - 1)
                held = min(held + 1, k)
                while p > 0 and values[p - 1] > value:
                    values[p], candidates[w, p], offers[w, p] = values[p - 1], candidates[w, p - 1], offers[w, p - 1]
                    p -= 1
                values[p], candidates[w, p], offers[w, p] = value, i, costs[w, i]
        present = chosen[w]
        if not settled:
            room[present] -= 1
        for p in range(held, k):  # where there are fewer bins
            candidates[w, p], offers[w, p] = present, np.inf
        there = False
        for p in range(k):
            there = there or candidates[w, p] == present
        if not there:
            candidates[w, k - 1], offers[w, k - 1] = present, costs[w, present]
        least += cheapest
        cost += costs[w, present]
    return least, cost
