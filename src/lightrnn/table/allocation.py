"""Filling a table component by component: each one a transportation problem within the groups made by those before.

Shapes: V words and places, K components, n_s values of component s.

Words that share their first components form a group, and so do the places; a group of words has as many places.
Assigning component s moves words to its values within their groups, with room for as many as there are such places.
So the first component is one large transportation problem, and the last is an assignment problem in every group.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..runtime import free_memory, in_parallel
from .costs import CostMatrix, Words
from .streaming import streamed_transport
from .transport import transport

DENSE = 3e9  # bytes of costs that are held at once; where there would be more, they are computed again and again


class Allocation:
    """A table in the making: `assign` a component (again and again, if wished), then `fix` it and take the next."""

    def __init__(self, size: int, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.codes = np.zeros((size, len(shape)), np.int64)
        self._places = np.stack(np.unravel_index(np.arange(size), shape), axis=1)
        self._word_group = np.zeros(size, np.int64)
        self._place_group = np.zeros(size, np.int64)
        self._groups = [(np.arange(size), np.arange(size))]

    def assign(self, component: int, costs: CostMatrix, tolerance: float = 1e-4) -> float:
        """Give every word a value of `component` at least cost within its group; returns the dual value."""
        limit = min(DENSE, free_memory() / 2)

        def solve(group: int) -> float:
            words, places = self._groups[group]
            capacities = np.bincount(self._places[places, component], minlength=self.shape[component])
            if 4 * len(words) * len(capacities) > limit:
                solution = streamed_transport(costs, words, capacities, tolerance)
            else:
                solution = transport(costs[words], capacities, tolerance)
            self.codes[words, component] = solution.bins
            return solution.bound

        return sum(in_parallel(solve, len(self._groups)))

    def fix(self, component: int) -> None:
        """Split the groups by what was assigned."""
        n = self.shape[component]
        _, self._word_group = np.unique(self._word_group * n + self.codes[:, component], return_inverse=True)
        _, self._place_group = np.unique(self._place_group * n + self._places[:, component], return_inverse=True)
        self._groups = list(zip(_members(self._word_group), _members(self._place_group), strict=True))


def allocate(
    costs: Sequence[CostMatrix], shape: tuple[int, ...], order: Sequence[int]
) -> tuple[NDArray[np.int64], float]:
    """The codes (V, K) that come of assigning the components in some order, and the dual value of the first, a bound
    for it alone."""
    allocation = Allocation(costs[0].shape[0], shape)
    bounds = []
    for component in order:
        bounds.append(allocation.assign(component, costs[component]))
        allocation.fix(component)
    return allocation.codes, bounds[0]


def _members(groups: NDArray[np.int64]) -> list[Words]:
    """The members of groups 0, 1, …"""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
