"""The table that learns: rounds of training and refinement that survive being stopped, within their budget."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import CPU, MATCHING_ROUNDS, ROUNDS, metrics, outcome_of
from lightrnn.errors import LightRNNError
from lightrnn.inference.passes import evaluate
from lightrnn.models.checkpoint import load_model, load_training
from lightrnn.models.folder import load_table
from lightrnn.runtime import Progress
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.bootstrap import Batch, Event, Refined, Run
from lightrnn.training.starts import Start, choose_start


def test_forget_gates_of_a_lightrnn_start_open_and_again_after_a_clustering(tiny: Corpus, tmp_path: Path) -> None:
    def first(events: int = 1, **fields: Any) -> float:
        left = iter(range(1, events))
        stop = lambda: next(left, None) is None  # noqa: E731
        recipe = ROUNDS.override({"learning_rate": 1e-6, **fields})
        bootstrap.train(tiny, recipe, tmp_path / "m", force=True, device=CPU, should_stop=stop)
        bias = load_training(tmp_path / "m")[0]["model.recurrence.bias_ih_l0"]
        return float(bias.view(4, -1)[1].mean())

    moved = 1e-3  # by a learning rate of 1e-6, at most
    assert first() == pytest.approx(1, abs=moved)
    assert first(forget_bias=-2.0) == pytest.approx(-2, abs=moved)
    assert first(refine="cluster", events=10**6) == pytest.approx(1, abs=moved)
    assert first(model="hsm") == pytest.approx(0, abs=moved)


def test_vectors_of_the_start_are_used_unless_refused(tiny: Corpus, tmp_path: Path) -> None:
    def first(start: Start | None = None, **fields: Any) -> Tensor:
        recipe = ROUNDS.override({"refine": "none", "epochs": 0.001, "learning_rate": 1e-6, **fields})
        bootstrap.train(tiny, recipe, tmp_path / "m", start=start, force=True, device=CPU)
        return load_training(tmp_path / "m")[0]["model.output_bias.0"].abs().max()

    moved = 1e-3  # by a learning rate of 1e-6, at most
    given = Start(WordTable.random(len(tiny.vocabulary), seed=5))
    clustered = {"refine": "cluster", "epochs": 1.0}
    for settings in ({}, {"start": given}, clustered):
        assert first(**settings) > 0.3  # biases are log shares
        assert first(**settings, start_vectors=False) < moved
    for settings in ({"start": "random"}, {"start": "random", **clustered}):
        recipe = ROUNDS.override({"refine": "none", "epochs": 0.001, "learning_rate": 1e-6, **settings})
        bootstrap.train(tiny, recipe, tmp_path / "m", force=True, device=CPU)
        assert load_training(tmp_path / "m")[0]["model.output_bias.0"].abs().max() < moved


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"refine": "matching", "start": "random"},
        {"refine": "matching", "solver": "half", "components": 3, "validate_every": 20},
    ],
)
def test_rounds_stopped_anywhere_end_the_same(tiny: Corpus, tmp_path: Path, fields: dict) -> None:
    recipe = ROUNDS.override(fields)
    events = []
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU, report=lambda run, event: events.append(event))
    refined = [event for event in events if isinstance(event, Refined)]
    assert len(refined) == 2
    calls = 0

    def stop_now() -> bool:
        nonlocal calls
        calls += 1
        return calls % 41 == 0

    outcome = bootstrap.train(tiny, recipe, tmp_path / "parts", device=CPU, should_stop=stop_now)
    while outcome.interrupted:
        torch.manual_seed(calls)
        outcome = bootstrap.resume(tiny, tmp_path / "parts", {}, device=CPU, should_stop=stop_now)
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "parts")


@pytest.mark.parametrize("where", ["refine", "carried_over", "append_metrics", "save"])
def test_a_kill_in_a_refinement_or_right_after_it_changes_nothing(
    tiny: Corpus, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.train(tiny, ROUNDS, tmp_path / "whole", device=CPU)
    real_refine, real = bootstrap._refine, getattr(bootstrap, where)
    armed = False

    def refining(run: bootstrap.Run, progress: Progress) -> Refined:
        nonlocal armed
        armed = True
        return real_refine(run, progress)

    def killed(*arguments: object, **options: object) -> object:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "_refine", refining)
        patch.setattr(bootstrap, where, killed)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.train(tiny, ROUNDS, tmp_path / "killed", device=CPU)
    model, vocabulary = load_model(tmp_path / "killed")
    assert (load_table(tmp_path / "killed", vocabulary).codes == model.table.codes).all()
    bootstrap.resume(tiny, tmp_path / "killed", {}, device=CPU)
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "killed")


def test_the_folder_holds_the_best_round_with_its_own_table(tiny: Corpus, tmp_path: Path) -> None:
    outcome = bootstrap.train(tiny, ROUNDS.override({"refine": "matching", "epochs": 1.5}), tmp_path / "m", device=CPU)
    model, vocabulary = load_model(tmp_path / "m")
    assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(
        outcome.best_perplexity,
        rel=1e-6,  # the same weights on the same text, in other batches
    )
    lines = [json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()]
    assert outcome.best_perplexity == min(line["valid_perplexity"] for line in lines if "valid_perplexity" in line)
    refined = [line for line in lines if "refinement" in line]
    assert [line["round"] for line in refined] == [1, 2]
    for line in refined:
        assert line["cost_before"] > line["cost_after"] >= line["bound"]
        assert line["perplexity_before"] > 1
        assert line["perplexity_after"] > 1


def slow_starts(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    def slow(*given: Any) -> Start:
        time.sleep(seconds)
        return choose_start(*given)

    monkeypatch.setattr(bootstrap, "choose_start", slow)


def test_minutes_count_tables_and_a_resumed_run_has_no_more(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_starts(monkeypatch, seconds=0.3)
    minutes: list[float] = []
    recipe = ROUNDS.override({"minutes": 0.05, "epochs": 1e5, "rounds": 1, "round_share": 0.5})

    def note(run: bootstrap.Run, event: Event) -> None:
        minutes.append(run.trainer.config.minutes)

    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, report=note, should_stop=lambda: len(minutes) > 5)
    assert minutes[0] <= (0.05 - 0.3 / 60) / 2  # half of what the start table left
    bootstrap.resume(tiny, tmp_path / "m", {}, device=CPU, report=note)
    first, last = dict.fromkeys(minutes)  # of the two rounds, each the same before and after the resume
    assert first == minutes[0]
    assert 0 < first + last < 0.05 - 0.3 / 60  # what the start table took is not theirs


def test_no_refinement_when_the_time_is_up(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_starts(monkeypatch, seconds=0.7)
    events: list[Event] = []
    recipe = ROUNDS.override({"minutes": 0.01, "epochs": 1e5})
    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, report=lambda run, event: events.append(event))
    assert events
    assert not [event for event in events if isinstance(event, Refined)]


def test_rounds_that_leave_nothing_are_refused(tiny: Corpus, tmp_path: Path) -> None:
    with pytest.raises(LightRNNError, match=r"--rounds 5 of --round-share 0\.2"):
        bootstrap.train(tiny, ROUNDS.override({"rounds": 5, "round_share": 0.2}), tmp_path / "m", device=CPU)
    assert not (tmp_path / "m").exists()


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
    stopped = bootstrap.train(tiny, MATCHING_ROUNDS, model, device=CPU, report=count, should_stop=lambda: batches == 75)
    assert stopped.interrupted
    bootstrap.resume(tiny, model, {}, device=CPU, report=count)
    steps = [line["step"] for line in metrics(model) if "step" in line]
    assert {line["round"] for line in metrics(model)} == {0, 1, 2}
    assert steps == sorted(set(steps))
    assert steps[-1] == batches
    by_perplexity = {line["valid_perplexity"]: line["step"] for line in metrics(model) if "step" in line}
    assert summary(model)["steps"] == by_perplexity[summary(model)["valid_perplexity"]]
