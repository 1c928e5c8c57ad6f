"""Rounds within a budget."""

import pytest

from lightrnn.config import Recipe
from lightrnn.training.fitting import round_budget


def test_rounds_share_the_budget() -> None:
    recipe = Recipe().override({"epochs": 10.0, "minutes": 5.0, "rounds": 3, "round_share": 0.2, "refine": "cluster"})
    budgets = [round_budget(recipe, r) for r in range(4)]
    assert [b.epochs for b in budgets] == pytest.approx([2, 2, 2, 4])
    assert [round_budget(recipe, r, 60.0 * r).minutes for r in range(4)] == pytest.approx([1, 1, 1, 2])
    assert [round_budget(recipe, r, 150.0).minutes for r in range(4)] == pytest.approx([0.5, 0.625, 2.5 / 3, 2.5])
    assert round_budget(recipe, 0, 1e6).minutes > 0  # 0 would be without end
    assert round_budget(recipe.override({"minutes": 0.0}), 1, 90).minutes == 0
    assert round_budget(recipe.override({"refine": "none"}), 0).epochs == 10
