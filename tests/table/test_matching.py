"""Solvers against SciPy and brute force, and what every matching must be."""

import os
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from helpers import FLOAT32, random_costs
from lightrnn.errors import LightRNNError
from lightrnn.registry import SOLVERS
from lightrnn.table.matching import block, exact, half, table_cost
from lightrnn.table.word_table import WordTable


def dense(costs: list[np.ndarray], table: WordTable) -> np.ndarray:
    """(V, V) costs of every word in every existing cell, above the words' own least ones, cell by cell."""
    cells = [np.unravel_index(cell, table.shape) for cell in range(len(table))]
    least = sum(c.astype(float).min(axis=1) for c in costs)
    return np.stack([sum(c[:, i].astype(float) for c, i in zip(costs, cell, strict=True)) - least for cell in cells], 1)


cases = st.tuples(
    st.integers(2, 130),
    st.integers(2, 4),
    st.sampled_from([0, 0, 1, 5, 40, 130]),
    st.sampled_from(["plain", "ties", "never", "huge"]),
    st.integers(0, 999),
)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_every_solver_keeps_its_promise(case: tuple[int, int, int, str, int]) -> None:
    V, K, rows, kind, seed = case
    costs = random_costs(V, K, kind, seed, rows)
    table = WordTable.random(V, K, rows, seed=seed)
    matrix = dense(costs, table)
    rows, columns = linear_sum_assignment(matrix)
    optimum = matrix[rows, columns].sum()
    close = 1e-5 * max(np.abs(matrix).sum() / V, 1e-9)  # float32, of the mean cost of a word
    before = table_cost(costs, table)
    assert before == pytest.approx(matrix[np.arange(V), table.places].sum(), abs=close)
    for name, solver in SOLVERS.items():
        found = solver(costs, table)
        # WordTable itself refuses what is no bijection onto the existing places; the cost is what it says it is
        assert found.cost == pytest.approx(matrix[np.arange(V), found.table.places].sum(), abs=close), name
        assert optimum - close <= found.cost, name
        assert (found.bound is None) == (name == "half")
        assert found.bound is None or found.bound <= optimum + close, name
    assert exact(costs, table).cost == pytest.approx(optimum, abs=close)
    assert block(costs, table).cost <= before + close
    # half: at least half of the maximum weight, where a pair's weight is what it saves on the word's worst costs
    worst = sum(c.astype(float).max(axis=1) - c.astype(float).min(axis=1) for c in costs)
    weights = worst[:, None] - matrix
    best = weights[linear_sum_assignment(-weights)].sum()
    assert weights[np.arange(V), half(costs, table).table.places].sum() >= best / 2 - close


@pytest.mark.parametrize("seed", range(5))
def test_exact_equals_brute_force_for_three_components(seed: int) -> None:
    costs = random_costs(7, 3, "plain", seed)
    table = WordTable.random(7, 3, seed=seed)
    matrix = dense(costs, table)
    brute = min(matrix[np.arange(7), list(p)].sum() for p in permutations(range(7)))
    assert exact(costs, table).cost == pytest.approx(brute, rel=FLOAT32)


@pytest.mark.parametrize("seed", range(8))
def test_half_takes_the_heaviest_pair_first(seed: int) -> None:
    """Against the plain greedy over the sorted list of all pairs (without ties the two must agree)."""
    V = 40 + seed
    costs = random_costs(V, 2 + seed % 2, "plain", seed)
    table = WordTable.random(V, 2 + seed % 2, seed=seed)
    worst = sum(c.astype(float).max(axis=1) - c.astype(float).min(axis=1) for c in costs)
    weights = worst[:, None] - dense(costs, table)
    greedy = np.full(V, -1)
    for pair in np.argsort(-weights, axis=None):
        word, place = divmod(int(pair), V)
        if greedy[word] < 0 and place not in greedy:
            greedy[word] = place
    assert (half(costs, table).table.places == greedy).all()


@pytest.mark.parametrize("name", ["exact", "half"])
def test_sizes_beyond_memory_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    costs = random_costs(100, 2, "plain", 0)
    with pytest.raises(
        LightRNNError, match=rf"the {name} solver for 100 words needs .* GB and .* use the block solver"
    ):
        SOLVERS[name](costs, WordTable.random(100, seed=0))


def test_block_is_the_same_each_time() -> None:
    costs = random_costs(120, 2, "huge", 3)
    table = WordTable.random(120, seed=1)
    assert (block(costs, table).table.codes == block(costs, table).table.codes).all()


def test_only_half_has_no_bound() -> None:
    table = WordTable.random(30, seed=1)
    costs = [np.random.default_rng(s).random((30, n), np.float32) for s, n in enumerate(table.shape)]
    for name, solve in SOLVERS.items():
        found = solve(costs, table)
        assert (found.bound is None) == (found.gap is None) == (name == "half")
