"""The transportation problem: V words into n bins of fixed capacity at least cost.

Shapes: V words, n bins; costs[V, n], capacities[n] with Σ capacities = V.

An auction with ε-scaling (Bertsekas and Castañón 1989) in which a bin is one object with many copies and one price, so
that a bid looks at n prices, not at V. A word takes the bin with the least cost plus price and raises its bid until it
would rather have the second best; a full bin drops its lowest bidder. On the costs of word tables a word bids two to
four times in a phase, and a phase is a fifth of ε: five phases for a tolerance of 3e-3, seven for 1e-4.

The result is within V·ε of the optimum, and its prices prove how near: for any prices p,
Σ_w min_i (c_wi + p_i) - Σ_i capacity_i · p_i is a lower bound of every assignment's cost (the dual value).
"""

from dataclasses import dataclass
from math import log

import numpy as np
from numba import njit
from numpy.typing import NDArray

FIRST = 2.0  # ε of the first phase is about this much of the spread of the costs
SHRINK = 5.0  # of ε from phase to phase


@dataclass(frozen=True)
class Transport:
    """bins[V]: where each word goes; cost: the sum of their costs; bound: no assignment costs less."""

    bins: NDArray[np.int64]
    prices: NDArray[np.float64]
    cost: float
    bound: float


def transport(costs: NDArray[np.float32], capacities: NDArray[np.int64], tolerance: float = 1e-4) -> Transport:
    """Assign words to bins, to within `tolerance` of what is at stake for a word: its mean cost above its least."""
    size, bins = costs.shape
    if bins == 1 or size == 0:
        return _finish(costs, capacities, np.zeros(size, np.int64), np.zeros(bins))
    prices = np.zeros(bins)
    assigned = np.empty(size, np.int64)
    least = costs.min(axis=1)
    spread = float(costs.mean(dtype=np.float64) - least.mean(dtype=np.float64))
    last = max(tolerance * spread, 1e-30)
    for phase in range(round(log(FIRST * spread / last, SHRINK)) if spread > last else 0, -1, -1):
        _auction(costs, least, capacities, prices, last * SHRINK**phase, assigned)
        prices -= prices.min()
    return _finish(costs, capacities, assigned, prices)


def _finish(
    costs: NDArray[np.float32], capacities: NDArray[np.int64], bins: NDArray[np.int64], prices: NDArray[np.float64]
) -> Transport:
    cost = float(costs[np.arange(len(costs)), bins].sum(dtype=np.float64))
    least = _least(costs, prices) if len(costs) else 0.0
    return Transport(bins, prices, cost, least - float(capacities @ prices))


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
def _auction(costs, least, capacities, prices, epsilon, assigned):  # type: ignore[no-untyped-def]
    """One phase. Each bin keeps its bids in a heap, lowest first; its price is the lowest bid once it is full.

    The search for a word's two best bins is all the time there is. Its values are at least zero, where floats are
    ordered as their bits are, and minima of integers are found many at a time where those of floats are not. Prices are
    in double precision, so that every bid raises one, however small ε is beside the costs of the most frequent words.
    """
    size, bins = costs.shape
    values = np.empty(bins, np.float32)
    bits = values.view(np.int32)
    rounded = prices.astype(np.float32)
    closed = np.flatnonzero(capacities == 0)
    never = np.int32(2**31 - 1)
    room = capacities.max()
    bids = np.empty((bins, room))
    bidders = np.empty((bins, room), np.int64)
    held = np.zeros(bins, np.int64)
    queue = np.arange(size)
    head, waiting = 0, size
    while waiting > 0:
        word = queue[head]
        head = head + 1 if head + 1 < size else 0
        waiting -= 1
        for i in range(bins):
            values[i] = costs[word, i] - least[word] + rounded[i]
        for place in closed:
            bits[place] = never
        chosen = _least_of(bits)
        best = values[chosen]
        bits[chosen] = never
        second = _least_of(bits)
        bid = prices[chosen] + epsilon + (np.float64(values[second] - best) if bits[second] < never else 0.0)
        assigned[word] = chosen
        places = capacities[chosen]
        dropped = take(bids[chosen, :places], bidders[chosen, :places], held[chosen], bid, word)
        if dropped < 0:
            held[chosen] += 1
        else:
            tail = head + waiting
            queue[tail if tail < size else tail - size] = dropped
            waiting += 1
        if held[chosen] == places:
            prices[chosen] = bids[chosen, 0]
            rounded[chosen] = np.float32(bids[chosen, 0])


@njit(cache=True, nogil=True)
def take(heap, owner, held, bid, word):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def _least_of(bits):  # type: ignore[no-untyped-def]
    """Where the least of some integers is first found."""
    least = bits[0]
    for i in range(len(bits)):
        least = min(least, bits[i])
    place = 0
    while bits[place] != least:
        place += 1
    return place
