"""lightrnn reallocate: one refinement on its own, and what is told of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import CPU, FAST, MATCHING_ROUNDS, Call, metrics, printed
from lightrnn.cli import screen
from lightrnn.models.checkpoint import load_model
from lightrnn.table.coherence import row_coherence, table_coherence
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.bootstrap import Event, Refined, Run


def test_one_refinement_on_its_own(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, FAST.override({"epochs": 1}), tmp_path / "m", device=CPU)
    for how in ("matching", "cluster"):
        shown = printed(call("reallocate", "m", tiny.path, "--refine", how, "-o", how))
        assert "words moved" in shown
        assert ("lower bound" in shown) == (how == "matching")
        old, new = load_model(tmp_path / "m")[0], load_model(tmp_path / how)[0]
        assert (old.codes != new.codes).any()
        assert torch.equal(old.output_vectors[0], new.output_vectors[0])
    for sample, is_all in ((4096, False), (10**9, True)):
        call("reallocate", "m", tiny.path, "--refine", "cluster", "--sample", sample, "-o", f"sampled{sample}")
        found, of_all = (load_model(tmp_path / name)[0].codes for name in (f"sampled{sample}", "cluster"))
        assert torch.equal(found, of_all) == is_all
    facts = json.loads(printed(call("table", "cluster", "--data", tiny.path, "--count", "3", "--json")))
    table = load_model(tmp_path / "cluster")[0].table
    assert facts["coherence"] == table_coherence(table, tiny.split("valid"))
    coherence = np.nan_to_num(row_coherence(table, tiny.split("valid"), least=8), nan=-1)
    assert [line["row"] for line in facts["shown"]] == np.argsort(-coherence, kind="stable")[:3].tolist()


@pytest.mark.parametrize(("solver", "has_bound"), [("half", False), ("block", True)])
def test_a_matching_tells_its_bound_if_it_has_one_and_why_perplexity_explodes(
    tiny: Corpus, tmp_path: Path, call: Call, solver: str, has_bound: bool
) -> None:
    lines: list[str] = []

    def report(run: Run, event: Event) -> None:
        if isinstance(event, Refined):
            lines.append(screen._refined_line(run, event))

    model = tmp_path / "model"
    bootstrap.train(tiny, MATCHING_ROUNDS.override({"rounds": 1, "solver": solver}), model, device=CPU, report=report)
    assert ("(gap " in lines[0]) == has_bound
    assert ("lower bound none with this solver" in lines[0]) == (not has_bound)
    assert "right after (not trained on the new table yet)" in lines[0]
    refined = next(line for line in metrics(model) if "refinement" in line)
    assert (refined["bound"] is not None) == has_bound
    assert refined["cost_before"] > refined["cost_after"]

    shown = printed(call("reallocate", model, tiny.path, "-o", "moved", "--solver", solver, "--threads", "1"))
    bound = next(line for line in shown.splitlines() if line.startswith("lower bound"))
    assert ("none" in bound) == (not has_bound)
    assert "right after, not trained on the new table yet" in shown
