"""The transport solver against SciPy's assignment."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from helpers import random_costs
from lightrnn.table.transport import transport


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
    slack = 2e-4 * spread + 1e-5 * float(np.abs(costs).max()) * V  # where the auction stops, and float32
    assert found.bound <= optimum + slack
    assert optimum - slack <= found.cost <= optimum + slack
    assert found.cost == pytest.approx(costs[np.arange(V), found.bins].sum(), rel=1e-4, abs=1e-6)  # sums in float32
