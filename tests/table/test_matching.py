"""Solvers against SciPy and brute force, and what every matching must be."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from helpers import FLOAT32, random_costs
from lightrnn import runtime
from lightrnn.errors import LightRNNError
from lightrnn.registry import SOLVERS
from lightrnn.table import allocation, streaming
from lightrnn.table.matching import block, exact, half, table_cost
from lightrnn.table.streaming import streamed_transport
from lightrnn.table.transport import transport
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
    monkeypatch.setattr(runtime, "free_memory", lambda: 1e4)
    costs = random_costs(100, 2, "plain", 0)
    with pytest.raises(
        LightRNNError, match=rf"the {name} solver for 100 words needs .* GB and .* use the block solver"
    ):
        SOLVERS[name](costs, WordTable.random(100, seed=0))


def test_block_is_the_same_each_time() -> None:
    costs = random_costs(120, 2, "huge", 3)
    table = WordTable.random(120, seed=1)
    assert (block(costs, table).table.codes == block(costs, table).table.codes).all()


@pytest.mark.parametrize(("V", "K", "rows"), [(1200, 2, 0), (1150, 2, 9), (1100, 3, 0)])
def test_a_matching_of_costs_that_do_not_fit(V: int, K: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some words at a time: the first component of costs like those of models, and everything that comes after it."""
    rng = np.random.default_rng(V)
    table = WordTable.random(V, K, rows, seed=1)
    words, counts = rng.standard_normal((V, 6)), rng.zipf(1.5, (V, 1)).clip(0, 10**5)
    costs = [
        (counts * (words @ rng.standard_normal((6, n)) + rng.random((V, n)))).astype(np.float32) for n in table.shape
    ]
    costs = [matrix - matrix.min(axis=1, keepdims=True) for matrix in costs]
    dense = block(costs, table)
    monkeypatch.setattr(allocation, "DENSE", 0)
    monkeypatch.setattr(streaming, "CHUNK", 3000)
    streamed = block(costs, table)
    assert streamed.bound is not None
    assert dense.bound is not None
    assert streamed.cost <= 1.02 * dense.cost < 0.5 * table_cost(costs, table)  # each try ends a little elsewhere
    assert 0.98 * dense.bound <= streamed.bound <= dense.cost  # a bound holds for every table
    assert (block(costs, table).table.codes == streamed.table.codes).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.integers(1, 60), st.sampled_from(["plain", "ties", "huge"]), st.integers(0, 999))
def test_streamed_transport_against_the_dense_one(V: int, n: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    capacities = np.bincount(rng.integers(n, size=V), minlength=n)
    costs = (random_costs(max(V, 2), 2, kind, seed)[0][:V, :1] * rng.random((V, n))).astype(np.float32)
    costs -= costs.min(axis=1, keepdims=True)
    words = rng.permutation(V)
    dense, streamed = transport(costs[words], capacities), streamed_transport(costs, words, capacities)
    assert (np.bincount(streamed.bins, minlength=n) == capacities).all()
    slack = 1e-3 * float(costs.mean(dtype=float)) * V + 1e-6  # where auctions stop, and few candidates a word
    assert streamed.cost == pytest.approx(costs[words, streamed.bins].sum(dtype=float), rel=1e-4, abs=1e-6)
    assert streamed.bound <= dense.cost + 1e-5 * float(np.abs(costs).max()) * V
    assert streamed.cost <= dense.cost + slack


def test_only_half_has_no_bound() -> None:
    table = WordTable.random(30, seed=1)
    costs = [np.random.default_rng(s).random((30, n), np.float32) for s, n in enumerate(table.shape)]
    for name, solve in SOLVERS.items():
        found = solve(costs, table)
        assert (found.bound is None) == (found.gap is None) == (name == "half")
