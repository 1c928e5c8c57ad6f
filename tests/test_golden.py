"""Short seeded runs come to the figures they came to before, and folders of before can still be used."""

import json
from pathlib import Path
from typing import Any

import pytest

import golden_runs
from golden_runs import FIGURES, RUNS, machine, run

BEFORE: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
ELSEWHERE = 2e-3  # relative: two epochs on another kind of machine; a mistake in the mathematics moves a figure by more


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Equal; on another kind of machine nearly, and digests and words of near ties not at all."""
    if machine() == BEFORE["machine"]:
        assert found == expected, where
    elif isinstance(expected, dict):
        assert set(found) == set(expected), where
        for name, value in expected.items():
            assert_same(found[name], value, f"{where}, {name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, where)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=ELSEWHERE), where


@pytest.mark.parametrize("name", RUNS)
def test_golden_run(name: str, tmp_path: Path) -> None:
    assert_same(run(name, tmp_path), BEFORE["runs"][name], name)


def test_every_run_has_its_figures() -> None:
    assert set(BEFORE["runs"]) == set(golden_runs.RUNS)
