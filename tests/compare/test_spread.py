"""Tables of a comparison give the standard deviation over seeds beside the mean, where there are several."""

import csv
import io
from math import inf
from pathlib import Path
from typing import Any

import pytest

from helpers import Call
from lightrnn.compare.tables import Layout, ModelRow, csv_text, markdown, overview, spread
from lightrnn.text.corpus import Corpus

LAYOUT = Layout(("fr",), (ModelRow("A", "lightrnn", 10, 10), ModelRow("B", "hsm", 10, 10)), "B")


def facts(model: str, seed: int, test: float, mixed: float | None = None) -> dict[str, Any]:
    return {
        **{"corpus": "fr", "model": model, "seed": seed, "valid": test + 1, "test": test, "parameters": 1000},
        **{"recipe": {"model": {}}, "budget": {"epochs": 1.0}, "train_tokens": 10, "vocabulary_size": 5},
        **{"bytes": {"weights": 1, "table": 1, "vocabulary": 1}, "words_per_second": 10.0 * seed},
        **{"training_seconds": 5.0, "start_table_seconds": 0.0, "refinement_seconds": 0.0, "refinement_share": 0.0},
        **{"curve": [], "date": "2026-11-16", "machine": dict.fromkeys(("cpu", "device", "threads", "torch"), "x")},
        "mix": None if mixed is None else {"with": "KN", "weight": 0.5, "test": mixed},
    }


RUNS = [facts("A", 1, 80.0, 70.0), facts("A", 2, 84.0, 74.0), facts("A", 3, 85.0, 72.0), facts("B", 1, 91.0)]


def test_overview_and_tables() -> None:
    _, rows = overview(LAYOUT, RUNS)
    assert rows == [["A", "83.0 ± 2.6/1K"], ["B", "91.0/1K"], ["KN + A", "72.0 ± 2.0"]]
    text = markdown(LAYOUT, RUNS, "x", 4)
    assert "± the standard deviation over them (n - 1)" in text
    assert "| A | 84.0 ± 2.6 | 83.0 ± 2.6 | 72.0 ± 2.0 | 0.50 | 1K |" in text
    assert "| B | 92.0 | 91.0 |" in text
    assert "| 20 | 5 | 3 |" in text  # words/s, seconds and seeds of A: no spread where it is no perplexity


def test_csv_has_a_column() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(LAYOUT, RUNS))))
    found = {(line["paper's table"], line["model"], line["measure"]): line for line in lines}
    line = found["4, 5", "A", "test"]
    assert (line["mean"], line["seeds"]) == ("83.0", "3")
    assert float(line["standard deviation"]) == pytest.approx(7**0.5)
    assert found["4, 5", "B", "test"]["standard deviation"] == ""
    assert found["4, 5", "B", "test, mixed with KN"]["mean"] == ""
    assert float(found["4, 5", "A", "words/s"]["standard deviation"]) == pytest.approx(10)


def test_what_was_never_reached_has_no_spread() -> None:
    assert spread(RUNS, lambda run: inf if run["seed"] == 1 else 3.0) is None
    assert spread(RUNS[:1], lambda run: run["test"]) is None


def test_the_command_shows_it(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    grid = f"""
    seeds = [1, 2]
    epochs = 0.1
    shared = {{ hidden_size = 4, batch_size = 4, window = 10 }}
    corpus = [{{ name = "tiny", data = "{tiny.path}" }}]
    model = [{{ name = "A", model = "hsm" }}]
    """
    (tmp_path / "grid.toml").write_text(grid, encoding="utf-8")
    result = call("compare", "grid.toml", "-o", "results", "--no-plots", "--threads", "1")
    assert result.code == 0, result.err
    assert "test perplexity/parameters, ± standard deviation over seeds" in result.out
    assert " ± " in result.out.splitlines()[-1]
