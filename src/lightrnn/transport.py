"""The transportation problem: V words into n bins of fixed capacity at least cost.

Shapes: V words, n bins; costs[V, n], capacities[n] with Σ capacities = V.

An auction with ε-scaling (Bertsekas and Castañón 1989) in which a bin is one object with many copies and one price, so
that a bid looks at n prices, not at V. A word takes the bin with the least cost plus price and raises its bid until it
would rather have the second best; a full bin drops its lowest bidder. On the costs of word tables a word bids once to
three times in a phase: some V·n operations a phase, eight phases.

The result is within V·ε of the optimum, and its prices prove how near: for any prices p,
Σ_w min_i (c_wi + p_i) - Σ_i capacity_i · p_i is a lower bound of every assignment's cost (the dual value).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

PHASES = 8
SHRINK = 5.0  # of ε from phase to phase


@dataclass(frozen=True)
class Transport:
    """bins[V]: where each word goes; cost: the sum of their costs; bound: no assignment costs less."""

    bins: NDArray[np.int64]
    prices: NDArray[np.float32]
    cost: float
    bound: float


def transport(costs: NDArray[np.float32], capacities: NDArray[np.int64], tolerance: float = 1e-4) -> Transport:
    """Assign words to bins, to within `tolerance` of the spread of the costs a word (see `spread`)."""
    size, bins = costs.shape
    if bins == 1 or size == 0:
        return _finish(costs, capacities, np.zeros(size, np.int64), np.zeros(bins, np.float32))
    if (capacities <= 1).all():
        return _assignment(costs, capacities)
    prices = np.zeros(bins, np.float32)
    assigned = np.empty(size, np.int64)
    last = max(tolerance * spread(costs), 1e-7 * float(max(costs.max(), -costs.min())), 1e-30)
    for phase in range(PHASES - 1, -1, -1):
        _auction(costs, capacities, prices, np.float32(last * SHRINK**phase), assigned)
        prices -= prices.min()
    return _finish(costs, capacities, assigned, prices)


def spread(costs: NDArray[np.float32]) -> float:
    """How much is at stake for a word on average: its mean cost above its least."""
    return float(costs.mean(dtype=np.float64) - costs.min(axis=1).mean(dtype=np.float64))


def _assignment(costs: NDArray[np.float32], capacities: NDArray[np.int64]) -> Transport:
    """Bins of one place each: the assignment problem, solved exactly."""
    open_bins = np.flatnonzero(capacities)
    _, chosen = linear_sum_assignment(costs[:, open_bins])
    bins = open_bins[chosen]
    cost = float(costs[np.arange(len(costs)), bins].sum(dtype=np.float64))
    return Transport(bins, np.zeros(costs.shape[1], np.float32), cost, cost)


def _finish(
    costs: NDArray[np.float32], capacities: NDArray[np.int64], bins: NDArray[np.int64], prices: NDArray[np.float32]
) -> Transport:
    cost = float(costs[np.arange(len(costs)), bins].sum(dtype=np.float64))
    least = _least(costs, prices) if len(costs) else 0.0
    return Transport(bins, prices, cost, least - float(capacities @ prices.astype(np.float64)))


@njit(cache=True, nogil=True)
def _least(costs, prices):  # type: ignore[no-untyped-def]
    """Σ_w min_i (c_wi + p_i), in double precision."""
    total = 0.0
    for w in range(costs.shape[0]):
        least = np.inf
        for i in range(costs.shape[1]):
            least = min(least, np.float64(costs[w, i]) + prices[i])
        total += least
    return total


@njit(cache=True, nogil=True)
def _auction(costs, capacities, prices, epsilon, assigned):  # type: ignore[no-untyped-def]
    """One phase. Each bin keeps its bids in a heap, lowest first; its price is the lowest bid once it is full."""
    size, bins = costs.shape
    room = capacities.max()
    bids = np.empty((bins, room), np.float32)
    bidders = np.empty((bins, room), np.int64)
    held = np.zeros(bins, np.int64)
    queue = np.arange(size)
    head, waiting = 0, size
    while waiting > 0:
        word = queue[head]
        head = head + 1 if head + 1 < size else 0
        waiting -= 1
        best, second, chosen = np.float32(np.inf), np.float32(np.inf), -1
        for i in range(bins):
            value = costs[word, i] + prices[i]
            if capacities[i] > 0:
                if value < best:
                    best, second, chosen = value, best, i
                elif value < second:
                    second = value
        bid = prices[chosen] + epsilon + (second - best if second < np.inf else np.float32(0))
        assigned[word] = chosen
        heap, owner, places = bids[chosen], bidders[chosen], capacities[chosen]
        if held[chosen] < places:
            k = held[chosen]
            held[chosen] += 1
            while k > 0 and heap[(k - 1) >> 1] > bid:
                heap[k], owner[k] = heap[(k - 1) >> 1], owner[(k - 1) >> 1]
                k = (k - 1) >> 1
        else:
            tail = head + waiting
            queue[tail if tail < size else tail - size] = owner[0]
            waiting += 1
            k = 0
            while True:
                child = 2 * k + 1
                if child + 1 < places and heap[child + 1] < heap[child]:
                    child += 1
                if child >= places or heap[child] >= bid:
                    break
                heap[k], owner[k] = heap[child], owner[child]
                k = child
        heap[k], owner[k] = bid, word
        if held[chosen] == places:
            prices[chosen] = heap[0]
