"""What runs of several rounds tell: steps of all of them, bounds where there are any, why perplexity explodes."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Call
from golden_runs import GOLDEN
from lightrnn.cli import screen
from lightrnn.config import Recipe
from lightrnn.models.checkpoint import load_training
from lightrnn.registry import SOLVERS
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.bootstrap import Batch, Event, Refined, Run
from lightrnn.training.run import load_run

CPU = torch.device("cpu")
ROUNDS = Recipe().override(
    {
        **{"hidden_size": 8, "batch_size": 4, "window": 10, "epochs": 1, "validate_every": 20, "learning_rate": 0.02},
        **{"start": "random", "refine": "matching", "rounds": 2, "round_share": 0.3},
    }
)


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))["training"]
    return found


def test_steps_are_counted_over_all_rounds_and_across_a_stop(tiny: Corpus, tmp_path: Path) -> None:
    batches = 0

    def count(run: Run, event: Event) -> None:
        nonlocal batches
        batches += isinstance(event, Batch)
        assert run.step == batches

    model = tmp_path / "model"
    stopped = bootstrap.train(tiny, ROUNDS, model, device=CPU, report=count, should_stop=lambda: batches == 75)
    assert stopped.interrupted
    bootstrap.resume(tiny, model, {}, device=CPU, report=count)
    steps = [line["step"] for line in metrics(model) if "step" in line]
    assert {line["round"] for line in metrics(model)} == {0, 1, 2}
    assert steps == sorted(set(steps))
    assert steps[-1] == batches
    by_perplexity = {line["valid_perplexity"]: line["step"] for line in metrics(model) if "step" in line}
    assert summary(model)["steps"] == by_perplexity[summary(model)["valid_perplexity"]]


def test_a_run_of_version_0_1_goes_on_where_it_was(tmp_path: Path) -> None:
    """It had neither a clock nor a count of steps over all rounds."""
    folder, seen = Path(shutil.copytree(GOLDEN / "before", tmp_path / "before")), []
    _, written = load_training(folder / "model")
    _, facts, _ = load_run(folder / "model")
    assert facts["clock"]["start"] == written["start_seconds"] > 0
    assert facts["clock"]["training"] == written["seconds"] + written["position"]["seconds"]
    assert facts["steps"] == pytest.approx(written["words"] / (5 * 12), abs=1)
    corpus = Corpus.load(folder / "data")
    bootstrap.resume(
        corpus, folder / "model", {"epochs": 3.0}, device=CPU, report=lambda run, event: seen.append(run.step)
    )
    assert seen[0] == facts["steps"] + facts["position"]["step"] + 1


def test_only_half_has_no_bound() -> None:
    table = WordTable.random(30, seed=1)
    costs = [np.random.default_rng(s).random((30, n), np.float32) for s, n in enumerate(table.shape)]
    for name, solve in SOLVERS.items():
        found = solve(costs, table)
        assert (found.bound is None) == (found.gap is None) == (name == "half")


@pytest.mark.parametrize(("solver", "has_bound"), [("half", False), ("block", True)])
def test_a_matching_tells_its_bound_if_it_has_one_and_why_perplexity_explodes(
    tiny: Corpus, tmp_path: Path, call: Call, solver: str, has_bound: bool
) -> None:
    lines: list[str] = []

    def report(run: Run, event: Event) -> None:
        if isinstance(event, Refined):
            lines.append(screen._refined_line(run, event))

    model = tmp_path / "model"
    bootstrap.train(tiny, ROUNDS.override({"rounds": 1, "solver": solver}), model, device=CPU, report=report)
    assert ("(gap " in lines[0]) == has_bound
    assert ("lower bound none with this solver" in lines[0]) == (not has_bound)
    assert "right after (not trained on the new table yet)" in lines[0]
    refined = next(line for line in metrics(model) if "refinement" in line)
    assert (refined["bound"] is not None) == has_bound
    assert refined["cost_before"] > refined["cost_after"]

    result = call("reallocate", model, tiny.path, "-o", "moved", "--solver", solver, "--threads", "1")
    assert result.code == 0, result.err
    shown = next(line for line in result.out.splitlines() if line.startswith("lower bound"))
    assert ("none" in shown) == (not has_bound)
    assert "right after, not trained on the new table yet" in result.out
    shutil.rmtree(tmp_path / "moved")
