"""The matching of the bootstrap's step 3: words to places at least cost, with a certificate.

Shapes: V words and places, K components, n_s values of component s; costs[s][words] → (len(words), n_s).

The cost of a word in a place is the sum of its costs in the place's components (row and column). A general solver does
not see that structure, but with it: each component alone is a transportation problem, and the dual values of these add
up to a lower bound for every table; with all components but one fixed, the last is an assignment problem in each group
of words that share the others; and any block of words can be re-solved over the places it occupies, which never raises
the cost. All costs here are above the sum of every word's own least cost in each component.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..runtime import in_parallel, refuse_beyond_memory
from .allocation import allocate
from .costs import CostMatrix, Words
from .transport import transport
from .word_table import WordTable

SWEEPS = 4
BLOCK = 1000  # words that are re-solved together …
LANES = 8  # … out of so many columns (or rows)
CHUNK = 1 << 14

Costs = Sequence[CostMatrix]
Solver = Callable[[Costs, WordTable], "Matching"]  # a better table than the given one, or as good


@dataclass(frozen=True)
class Matching:
    """A table, what it costs, and what no table can cost less than.

    `exact` has bound = cost, `half` proves nothing and has None.
    """

    table: WordTable
    cost: float
    bound: float | None
    seconds: float

    @property
    def gap(self) -> float | None:
        """How far above the best the cost can be at most, as a share of it; None without a bound."""
        if self.bound is None:
            return None
        return (self.cost - self.bound) / self.cost if self.cost else 0.0


def table_cost(costs: Costs, table: WordTable) -> float:
    """What a table costs."""
    return _table_costs(costs, [table])[0][0]


def _table_costs(costs: Costs, tables: Sequence[WordTable]) -> tuple[list[float], float]:
    """What some tables cost above the sum of every word's least cost in each component, and that sum."""
    totals, least = np.zeros(len(tables)), 0.0
    for s, matrix in enumerate(costs):
        for words in _chunks(matrix.shape[0]):
            block = matrix[words]
            smallest = block.min(axis=1).astype(np.float64)
            least += float(smallest.sum())
            for index, table in enumerate(tables):
                totals[index] += (block[np.arange(len(words)), table.codes[words, s]] - smallest).sum()
    return totals.tolist(), least


def _chunks(size: int) -> list[Words]:
    return [np.arange(i, min(i + CHUNK, size)) for i in range(0, size, CHUNK)]


def _pairwise(costs: Costs, words: Words, places: NDArray[np.int64]) -> NDArray[np.float32]:
    """(words, places): what each of some words costs in each of some places, given by their codes."""
    total = costs[0][words][:, places[:, 0]]
    for s in range(1, len(costs)):
        total += costs[s][words][:, places[:, s]]
    return total


def _existing_places(table: WordTable) -> NDArray[np.int64]:
    return np.stack(np.unravel_index(np.arange(len(table)), table.shape), axis=1)


def exact(costs: Costs, table: WordTable) -> Matching:
    """A minimum-weight perfect matching, the optimum of the paper's min-cost max-flow: O(V²) memory, O(V³) time."""
    start = time.perf_counter()
    size = len(table)
    refuse_beyond_memory(f"the exact solver for {size:,} words", 16 * size * size, "use the block solver")
    places = _existing_places(table)
    _, chosen = linear_sum_assignment(_pairwise(costs, np.arange(size), places))
    found = WordTable(places[chosen], table.shape)
    cost = table_cost(costs, found)
    return Matching(found, cost, cost, time.perf_counter() - start)


def half(costs: Costs, table: WordTable) -> Matching:
    """The paper's ½-approximation: always match the heaviest pair of a free word and a free place (Preis 1999).

    The weight of a pair is the word's worst cost in each component less its cost in the place, which is never negative:
    Σ_s max_i c_wi - c_w,place. In these weights the matching has at least half of the maximum's. Nothing of the kind
    holds for the costs themselves.
    """
    start = time.perf_counter()
    size = len(table)
    needed = 8 * size * sum(table.shape)
    refuse_beyond_memory(f"the half solver for {size:,} words", needed, "use the block solver")
    weights = np.concatenate([_gains(matrix[np.arange(size)]) for matrix in costs], axis=1)
    places = _existing_places(table)
    offsets = np.concatenate([[0], np.cumsum(table.shape)[:-1]])
    chosen = _heaviest_first(weights, places + offsets, np.array(table.shape), prod(table.shape[1:]))
    found = WordTable(places[chosen], table.shape)
    cost = table_cost(costs, found)
    return Matching(found, cost, None, time.perf_counter() - start)


def _gains(costs: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(costs.max(axis=1, keepdims=True) - costs, np.float32)


@njit(cache=True, nogil=True)
def _heaviest_first(weights, places, shape, lane_size):  # type: ignore[no-untyped-def]
    """Greedy matching in order of falling weight, without a list of all V² pairs.

    A heap holds every free word's heaviest free place as last computed, an upper bound of what it is now. The word on
    top is matched if its place is still free; else its heaviest free place is found again, lane by lane (a lane: the
    places with one value of the first component), skipping those that cannot hold it.
    """
    size, lanes = len(places), shape[0]
    chosen = np.full(size, -1, np.int64)
    taken = np.zeros(size, np.bool_)
    free_in_lane = np.zeros(lanes, np.int64)
    for place in range(size):
        free_in_lane[place // lane_size] += 1
    best_place = np.empty(size, np.int64)
    best_weight = np.empty(size, np.float32)
    for word in range(size):
        best_place[word], best_weight[word] = _heaviest_place(
            weights[word], places, shape, taken, free_in_lane, lane_size
        )
    heap = np.argsort(-best_weight)
    held = size
    while held > 0:
        word = heap[0]
        if taken[best_place[word]]:
            best_place[word], best_weight[word] = _heaviest_place(
                weights[word], places, shape, taken, free_in_lane, lane_size
            )
            top = word
        else:
            chosen[word] = best_place[word]
            taken[best_place[word]] = True
            free_in_lane[best_place[word] // lane_size] -= 1
            held -= 1
            top = heap[held]
        k = 0
        while True:
            child = 2 * k + 1
            if child + 1 < held and best_weight[heap[child + 1]] > best_weight[heap[child]]:
                child += 1
            if child >= held or best_weight[heap[child]] <= best_weight[top]:
                break
            heap[k] = heap[child]
            k = child
        if held > 0:
            heap[k] = top
    return chosen


@njit(cache=True, nogil=True)
def _heaviest_place(weights, places, shape, taken, free_in_lane, lane_size):  # type: ignore[no-untyped-def]
    size, components = places.shape
    most = np.float32(0)  # the other components can add no more than this
    first = shape[0]
    for s in range(1, components):
        most += weights[first : first + shape[s]].max()
        first += shape[s]
    found, heaviest = -1, np.float32(-np.inf)
    for lane in np.argsort(-weights[: shape[0]]):
        if weights[lane] + most <= heaviest:
            break
        if free_in_lane[lane] == 0:
            continue
        for place in range(lane * lane_size, min((lane + 1) * lane_size, size)):
            if not taken[place]:
                weight = np.float32(0)
                for s in range(components):
                    weight += weights[places[place, s]]
                if weight > heaviest:
                    found, heaviest = place, weight
    return found, heaviest


def block(costs: Costs, table: WordTable, *, sweeps: int = SWEEPS, seed: int = 0) -> Matching:
    """Transport, then groups, then blocks: near the optimum in a fraction of its time, with a certificate.

    Each component is tried as the first, the others follow within its groups; the best of these tables and the given
    one goes on. A sweep re-solves blocks of words that share a few values of the component that came first (for K = 2
    and columns first, the words of some columns): more is to be won there than among words taken at random. Never above
    the cost of `table`.
    """
    start = time.perf_counter()
    components = range(table.components)
    orders = [[first, *(s for s in components if s != first)] for first in components]
    tries = [(order[0], *allocate(costs, table.shape, order)) for order in orders]
    tables = [(table, 0), *((WordTable(found, table.shape), first) for first, found, _ in tries)]
    table_costs, least = _table_costs(costs, [candidate for candidate, _ in tables])
    bound = sum(dual for _, _, dual in tries) - least
    best, lane = tables[int(np.argmin(table_costs))]
    codes = best.codes.copy()
    random = np.random.default_rng(seed)
    for _ in range(sweeps):
        blocks = _lane_blocks(codes[:, lane], table.shape[lane], random)
        in_parallel(lambda index, blocks=blocks: _resolve(costs, codes, blocks[index]), len(blocks))  # type: ignore[misc]
    found = WordTable(codes, table.shape)
    cost = table_cost(costs, found)
    return Matching(found, cost, min(max(bound, 0.0), cost), time.perf_counter() - start)


def _lane_blocks(values: NDArray[np.int64], n: int, random: np.random.Generator) -> list[Words]:
    """All words in blocks of at most BLOCK, each block out of LANES values taken at random."""
    lanes = random.permutation(n)[values] // LANES
    shuffled = random.permutation(len(values))
    groups = np.split(shuffled[np.argsort(lanes[shuffled], kind="stable")], np.cumsum(np.bincount(lanes))[:-1])
    return [part for group in groups for part in np.array_split(group, -(-len(group) // BLOCK)) if len(part)]


def _resolve(costs: Costs, codes: NDArray[np.int64], words: Words) -> float:
    """Re-solve a block of words over the places it occupies; it stays as it is unless that is cheaper.

    By auction: on such costs within 1% of what an exact solver gains, in a third of its time, and on all cores.
    """
    places = codes[words]
    pairs = _pairwise(costs, words, places)
    found = transport(pairs, np.ones(len(words), np.int64))
    if found.cost < float(pairs.trace(dtype=np.float64)):
        codes[words] = places[found.bins]
    return 0.0
