"""Solvers against SciPy and brute force, and what every matching must be."""

import os
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from lightrnn.errors import LightRNNError
from lightrnn.registry import SOLVERS
from lightrnn.table.matching import block, exact, half, table_cost
from lightrnn.table.transport import transport
from lightrnn.table.word_table import WordTable, table_shape


def random_costs(V: int, K: int, kind: str, seed: int, rows: int = 0) -> list[np.ndarray]:
    """Costs as they come: plain, with ties, with words that never occur (all zero), with huge counts."""
    rng = np.random.default_rng(seed)
    costs = [rng.gamma(1.0, 3.0, (V, n)) for n in table_shape(V, K, rows)]
    counts = np.ones(V)
    if kind == "ties":
        costs = [c.round() for c in costs]
    elif kind == "never":
        counts = (rng.random(V) < 0.5).astype(float)
    elif kind == "huge":
        counts = 10.0 ** rng.uniform(0, 6, V)
    return [(c * counts[:, None]).astype(np.float32) for c in costs]


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
    close = 1e-5 * max(np.abs(matrix).sum() / V, 1e-9)
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
    assert exact(costs, table).cost == pytest.approx(brute, rel=1e-5)


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


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 200), st.integers(1, 12), st.sampled_from(["plain", "ties", "never", "huge"]), st.integers(0, 999)
)
def test_transport_against_an_assignment_with_copies(V: int, n: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    capacities = np.bincount(rng.integers(n, size=V), minlength=n)
    costs = random_costs(max(V, 2), 2, kind, seed)[0][:V, :1] + random_costs(max(V, 2), 2, kind, seed + 1)[1][:V, :1]
    costs = (costs * rng.random((V, n))).astype(np.float32)
    found = transport(costs, capacities)
    assert (np.bincount(found.bins, minlength=n) == capacities).all()
    copies = np.repeat(np.arange(n), capacities)
    expanded = costs[:, copies].astype(float)
    optimum = expanded[linear_sum_assignment(expanded)].sum()
    spread = float((costs - costs.min(axis=1, keepdims=True)).sum())
    slack = 2e-4 * spread + 1e-5 * float(np.abs(costs).max()) * V
    assert found.bound <= optimum + slack
    assert optimum - slack <= found.cost <= optimum + slack
    assert found.cost == pytest.approx(costs[np.arange(V), found.bins].sum(), rel=1e-4, abs=1e-6)


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
