"""lightrnn compare: runs that are done once, survive being killed anywhere, and tables that hold their means."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lightrnn.compare.runs
from conftest import Call, made_up_text
from lightrnn.cli import screen
from lightrnn.compare.grid import Budget, Grid
from lightrnn.compare.runs import Comparison
from lightrnn.compare.tables import Layout, ModelRow, csv_text, markdown, overview, seconds_to_reach, tables
from lightrnn.config import ModelConfig, Recipe, shipped_names
from lightrnn.errors import LightRNNError
from lightrnn.inference.lm import LM, NGramLM
from lightrnn.inference.loading import load
from lightrnn.inference.mixture import Mix
from lightrnn.models.kind import Size, kind_of
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.runtime import Progress, silent
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.training import bootstrap

CPU = torch.device("cpu")
WALL_CLOCK = ("words_per_second", "training_seconds", "start_table_seconds", "refinement_seconds", "refinement_share")
SHARED = {"hidden_size": 12, "batch_size": 4, "window": 10, "learning_rate": 0.02, "dropout": 0.2, "validate_every": 20}
VALUES: dict[str, Any] = {
    "epochs": 1,
    "mix": True,
    "target": "HSM",
    "shared": SHARED,
    "model": [
        {"name": "LightRNN 12", "refine": "cluster", "round_share": 0.3},
        {"name": "HSM", "model": "hsm"},
        {"name": "KN-3", "kind": "ngram", "order": 3},
    ],
}


def grid_for(prepared: Corpus, **changes: Any) -> Grid:
    values = VALUES | {"corpus": [{"name": "tiny", "data": str(prepared.path)}]} | changes
    return Grid.from_dict(values, "tiny")


def grid_file(folder: Path, corpus: Corpus, head: str = "epochs = 1\nmix = true\n") -> Path:
    shared = "\n".join(f"{name} = {value}" for name, value in SHARED.items())
    text = f"""{head}
[shared]
{shared}
[[corpus]]
name = "tiny"
data = "{corpus.path}"
[[model]]
name = "LightRNN 12"
refine = "cluster"
round_share = 0.3
[[model]]
name = "HSM"
model = "hsm"
[[model]]
name = "KN-3"
kind = "ngram"
order = 3
"""
    path = folder / "grid.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run_all(comparison: Comparison, report: Callable[..., None] = lambda run, event: None) -> None:
    for run in comparison.missing():
        if run.recipe:
            comparison.train(run, report)
        comparison.finish(run)


def timeless(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What must not depend on when and how often a run was stopped."""
    kept = [{k: v for k, v in run.items() if k not in (*WALL_CLOCK, "machine", "date")} for run in runs]
    return [
        run | {"curve": [{k: v for k, v in point.items() if k != "seconds"} for point in run["curve"]]} for run in kept
    ]


def parameters_of(config: ModelConfig, words: int) -> dict[str, int]:
    return kind_of(config).parameters(config, Size(words))


@pytest.fixture(scope="module")
def whole(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The grid, run without a stop."""
    folder = tmp_path_factory.mktemp("whole")
    comparison = Comparison(grid_for(tiny), folder / "results", folder / "work", device=CPU)
    run_all(comparison)
    return comparison


def test_a_run_holds_what_the_models_themselves_say(whole: Comparison, tiny: Corpus) -> None:
    light, hsm, ngram = whole.finished()
    assert [run["model"] for run in (light, hsm, ngram)] == ["LightRNN 12", "HSM", "KN-3"]
    kneser_ney = NGramLM(estimate(tiny.split("train"), tiny.vocabulary, 3))
    assert ngram["test"] == pytest.approx(kneser_ney.evaluate(tiny.split("test")).perplexity, rel=1e-6)
    assert (ngram["budget"], ngram["seed"], ngram["recipe"]) == (None, 0, {"order": 3})
    for run, folder in ((light, "tiny--LightRNN-12--1"), (hsm, "tiny--HSM--1")):
        lm = load(whole.work / folder)
        assert run["test"] == pytest.approx(lm.evaluate(tiny.split("test")).perplexity, rel=1e-5)
        assert run["valid"] == pytest.approx(lm.evaluate(tiny.split("valid")).perplexity, rel=1e-5)
        assert run["valid"] == min(point["perplexity"] for point in run["curve"])
        weight = run["mix"]["weight"]
        mixed = Mix([lm, kneser_ney], [weight, 1 - weight])
        assert run["mix"]["test"] == pytest.approx(mixed.evaluate(tiny.split("test")).perplexity, rel=1e-5)
        assert run["bytes"]["weights"] == 4 * run["parameters"]
        assert run["bytes"]["vocabulary"] == (whole.work / folder / "vocab.tsv").stat().st_size
        assert [point["seconds"] for point in run["curve"]] == sorted(point["seconds"] for point in run["curve"])
        assert run["curve"][-1]["words"] == pytest.approx(len(tiny.split("train")), rel=0.02)
        assert Recipe.from_dict(run["recipe"], "it").training.epochs == 1
    assert hsm["parameters"] == sum(
        parameters_of(Recipe.from_dict(hsm["recipe"], "it").model, len(tiny.vocabulary)).values()
    )
    assert light["bytes"]["table"] == 4 * 2 * len(tiny.vocabulary)
    assert light["refinement_seconds"] > 0 == hsm["refinement_seconds"]
    total = light["training_seconds"] + light["start_table_seconds"] + light["refinement_seconds"]
    assert light["refinement_share"] == pytest.approx(light["refinement_seconds"] / total)
    assert light["curve"][-1]["seconds"] == pytest.approx(total, abs=0.1)
    assert light["machine"]["threads"] == 1


def test_the_weight_of_a_mix_is_found_on_the_validation_text_alone(
    whole: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With made-up probabilities, so that valid and test want different weights, against a scan of all weights."""
    rng = np.random.default_rng(1)
    made_up = {(kind, split): -rng.gamma(2, size=500) for kind in ("network", "ngram") for split in ("valid", "test")}
    made_up["network", "test"] -= 1.0

    def log_probs(lm: LM, corpus: Corpus, split: str, progress: object) -> np.ndarray:
        return made_up["ngram" if lm.has_orders else "network", split]

    monkeypatch.setattr(lightrnn.compare.runs, "_log_probs", log_probs)
    comparison = Comparison(whole.grid, tmp_path, whole.work, device=CPU)
    mix = comparison.finish(comparison.missing()[0])["mix"]

    def perplexity(weight: float, split: str) -> float:
        one, other = np.exp(made_up["network", split]), np.exp(made_up["ngram", split])
        return float(np.exp(-np.log(weight * one + (1 - weight) * other).mean()))

    best = min(np.linspace(0, 1, 1001), key=lambda weight: perplexity(weight, "valid"))
    assert 0.2 < best < 0.8
    assert mix["weight"] == pytest.approx(best, abs=2e-3)
    assert mix["test"] == pytest.approx(perplexity(mix["weight"], "test"))
    assert mix["with"] == "KN-3"


def test_finished_runs_are_not_run_again(
    whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted((whole.results / "runs").iterdir())
    assert [file.name for file in files] == ["tiny--HSM--1.json", "tiny--KN-3--0.json", "tiny--LightRNN-12--1.json"]
    before = [file.stat().st_mtime_ns for file in files]

    def fail(*arguments: object, **named: object) -> None:
        raise AssertionError("nothing is to be trained")

    for name in ("train", "resume"):
        monkeypatch.setattr(bootstrap, name, fail)
    monkeypatch.setattr(lightrnn.compare.runs, "estimate", fail)
    result = call("compare", grid_file(tmp_path, tiny), "-o", whole.results, "--work", whole.work, "--no-plots")
    assert result.code == 0, result.err
    assert "3 of 3 runs" in result.err
    assert [file.stat().st_mtime_ns for file in files] == before


class Stop(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("events", [24, 47])
def test_killed_after_any_number_of_events(whole: Comparison, tiny: Corpus, tmp_path: Path, events: int) -> None:
    """And now and then between the training and the writing of the run."""
    kills = 0

    def report(run: bootstrap.Run, event: bootstrap.Event) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    def broken(path: Path, value: object) -> None:
        raise Stop

    while True:
        comparison = Comparison(grid_for(tiny), tmp_path / "results", tmp_path / "work", device=CPU)
        if not comparison.missing():
            break
        left = events
        try:
            run_all(comparison, report)
        except KeyboardInterrupt:
            kills += 1
        if kills % 2 and (comparison.work / "tiny--LightRNN-12--1" / "training.safetensors").exists():
            run = comparison.missing()[0]
            comparison.train(run)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(lightrnn.compare.runs, "write_json", broken)
                with pytest.raises(Stop):
                    comparison.finish(run)
            kills += 1
    assert kills >= 4
    assert timeless(comparison.finished()) == timeless(whole.finished())


KILLED = """
import contextlib, itertools, os, signal
from lightrnn.cli import main, screen

@contextlib.contextmanager
def deadly():
    events = itertools.count(1)
    yield lambda run, event: next(events) == 60 and os.kill(os.getpid(), signal.SIGKILL), lambda *progress: None

screen.training_screen = deadly
main()
"""


def test_sigkill_of_the_program(whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call) -> None:
    arguments = ["compare", str(grid_file(tmp_path, tiny)), "-o", "results", "--threads", "1", "--no-plots"]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], cwd=tmp_path, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    work = tmp_path / "results" / "work"
    assert (work / "tiny--LightRNN-12--1" / "training.safetensors").exists()
    assert not (tmp_path / "results" / "runs").exists()
    assert call(*arguments).code == 0
    assert timeless(Comparison(grid_for(tiny), tmp_path / "results", work).finished()) == timeless(whole.finished())


def test_control_c_saves_and_tells_how_to_go_on(
    whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("compare", grid_file(tmp_path, tiny), "-o", "results", "--threads", "1")
    seen = 0

    @contextmanager
    def impatient() -> Iterator[tuple[bootstrap.Report, Progress]]:
        def report(run: bootstrap.Run, event: bootstrap.Event) -> None:
            nonlocal seen
            seen += 1
            if seen in (7, 50):
                os.kill(os.getpid(), signal.SIGINT)

        yield report, silent

    monkeypatch.setattr(screen, "training_screen", impatient)
    for events in (7, 50):
        result = call(*arguments)
        assert result.code == 130
        assert seen == events
        assert "run 1 of 3: tiny, LightRNN 12, seed 1, 1 epoch" in result.err
        assert "saved; stopped at tiny--LightRNN-12--1; go on with the same command" in result.err
    result = call(*arguments, "--plots")
    assert result.code == 0
    assert "run 3 of 3: tiny, KN-3\n" in result.err
    runs = Comparison(grid_for(tiny), tmp_path / "results", tmp_path / "results" / "work").finished()
    assert timeless(runs) == timeless(whole.finished())
    assert f"{runs[0]['test']:.1f}/" in result.out
    for name in ("tables.md", "tables.csv", "tiny-time.png", "tiny-size.png"):
        assert (tmp_path / "results" / name).stat().st_size > 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_where_there_is_nothing_to_save(
    tiny: Corpus, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def interrupted(*arguments: object) -> None:
        os.kill(os.getpid(), number)

    monkeypatch.setattr(lightrnn.compare.runs, "estimate", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    mine = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start tests with it ignored
    result = call("compare", grid_file(tmp_path, tiny), "-o", "results", "--model", "KN-3")
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGINT, mine)
    assert result.code == code
    assert result.err.splitlines() == ["run 1 of 3: tiny, KN-3", "stopped; go on with the same command"]


def test_text_in_the_folder_of_corpora_is_prepared_once(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpora" / "small").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        text = made_up_text(600, 30, seed=len(split))
        (tmp_path / "corpora" / "small" / f"{split}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "grid.toml").write_text(
        'epochs = 1\n[[corpus]]\nname = "s"\nfolder = "small"\npreset = "aclw"\n'
        '[[model]]\nname = "KN"\nkind = "ngram"\n[[model]]\nname = "KN-2"\nkind = "ngram"\norder = 2\n',
        encoding="utf-8",
    )
    arguments = ("compare", "grid.toml", "-o", "results", "--no-plots")
    monkeypatch.delenv("LIGHTRNN_CORPORA", raising=False)
    assert "LIGHTRNN_CORPORA" in refused(call(*arguments))
    monkeypatch.setenv("LIGHTRNN_CORPORA", str(tmp_path / "corpora"))
    assert call(*arguments, "--model", "KN-2").code == 0
    assert [path.name for path in (tmp_path / "results" / "runs").iterdir()] == ["s--KN-2--0.json"]
    assert Corpus.load(tmp_path / "results" / "work" / "data" / "s").vocabulary.rules.normalize == "none"
    (tmp_path / "corpora" / "small" / "train.txt").unlink()
    assert call(*arguments).code == 0  # the prepared data is all it needs
    assert json.loads((tmp_path / "results" / "runs" / "s--KN--0.json").read_text())["recipe"] == {"order": 5}
    assert "has no train, valid and test text" in refused(call(*arguments[:-2], "other", "--work", "w"))


def refused(result: Any) -> str:
    """The one sentence of an error."""
    assert result.code == 2, result
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("error: ")
    return str(lines[0])


BAD = [
    ({"epoch": 3}, "has an unknown field 'epoch'; known are .*epochs"),
    ({"minutes": 3}, "both epochs and minutes"),
    ({"epochs": 0}, "epochs must be a number above 0, got 0"),
    ({"epochs": 1e9}, "epochs must be above 0, at least 0.001 and at most 100000, got"),
    ({"epochs": float("nan")}, "epochs must be a number above 0, got nan"),
    ({"seeds": [1, 1]}, r"seeds must be different whole numbers from 0 to .*, got \[1, 1\]"),
    ({"seeds": []}, "seeds must be a list that is not empty"),
    ({"seeds": [True]}, "seeds must be different whole"),
    ({"target": "KN-3"}, "target must be the name of a network, one of LightRNN 12, HSM, got 'KN-3'"),
    ({"model": VALUES["model"][:2], "target": "HSM"}, 'mix = true needs a model of kind = "ngram"'),
    ({"model": []}, "model must be a list"),
    ({"model": [3]}, r"\[\[model\]\] number 1 must be a table"),
    ({"model": [{"name": "A", "model": "transformer"}]}, "model 'A': model .* must be one of lightrnn, full, hsm"),
    ({"model": [{"name": "A", "hidden": 3}]}, "model 'A' has an unknown field 'hidden'; known are name, kind, recipe"),
    ({"model": [{"name": "A", "hidden_size": 0}]}, "model 'A': hidden_size .* must be a whole number at least 1"),
    ({"model": [{"name": "A", "epochs": 3}]}, "model 'A': epochs is the whole grid's"),
    ({"model": [{"name": "A", "model": "hsm", "refine": "cluster"}]}, "model 'A': --refine is for --model lightrnn"),
    ({"model": [{"name": "A", "refine": "cluster", "rounds": 9}]}, "model 'A': --rounds 9 .* leave nothing"),
    ({"model": [{"name": "A", "recipe": "huge"}]}, "model 'A': there is no recipe 'huge'"),
    ({"model": [{"name": "A", "kind": "n-gram"}]}, "model 'A': kind must be network or ngram, got 'n-gram'"),
    ({"model": [{"name": "A", "kind": "ngram", "order": 0}]}, "order must be a whole number above 0, got 0"),
    ({"model": [{"name": "A", "kind": "ngram", "order": 100}]}, "order must be at most 99, got 100"),
    ({"model": [{"name": "A", "kind": "ngram", "hidden_size": 3}]}, "unknown field 'hidden_size'; known are .*order"),
    ({"model": [{"name": "A b"}, {"name": "A-b"}], "mix": False}, "models 'A b' and 'A-b' are too alike"),
    ({"model": [{"name": "//"}]}, "needs a name with letters or figures in it, got '//'"),
    ({"model": [{}]}, r"\[\[model\]\] number 1 needs a name"),
    ({"shared": {"seed": 1}}, r"\[shared\]: seed is the whole grid's"),
    ({"shared": {"size": 1}}, r"\[shared\] has an unknown field 'size'"),
    ({"corpus": [{"name": "x"}]}, "corpus 'x' needs either data .* or folder"),
    ({"corpus": [{"name": "x", "data": "a", "folder": "b"}]}, "needs either data"),
    ({"corpus": [{"name": "x", "data": "a", "preset": "ptb"}]}, "preset goes with folder"),
    (
        {"corpus": [{"name": "x", "folder": "a", "preset": "ptc"}]},
        "corpus 'x': there is no preset 'ptc'; known are ptb",
    ),
    ({"corpus": [{"name": "x", "folder": 3}]}, "corpus 'x': folder must be a string that is not empty, got 3"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[re.sub(r"\W+", "-", rule)[:40] for _, rule in BAD])
def test_bad_grids_are_refused_by_the_field(tiny: Corpus, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LightRNNError, match=sentence) as caught:
        grid_for(tiny, **changes)
    assert "\n" not in str(caught.value)


def test_a_budget_for_all_for_one_and_none(tiny: Corpus) -> None:
    corpora = [{"name": "a", "data": "a"}, {"name": "b", "data": "b", "minutes": 2}]
    grid = grid_for(tiny, corpus=corpora)
    assert [str(entry.budget) for entry in grid.corpora] == ["1 epoch", "2 minutes"]
    recipes = {run.corpus.name: run.recipe.training for run in grid.runs() if run.recipe}
    assert (recipes["a"].epochs, recipes["a"].minutes) == (1, 0)
    assert (recipes["b"].epochs, recipes["b"].minutes) == (1e5, 2)
    forced = Grid.from_dict(VALUES | {"corpus": corpora}, "g", budget=Budget("minutes", 7.0))
    assert [str(entry.budget) for entry in forced.corpora] == ["7 minutes", "7 minutes"]
    without = {name: value for name, value in VALUES.items() if name != "epochs"}
    with pytest.raises(LightRNNError, match="corpus 'a' has no budget; give epochs or minutes"):
        Grid.from_dict(without | {"corpus": corpora}, "g")


def test_n_gram_models_have_one_run_and_seeds_take_turns(tiny: Corpus) -> None:
    runs = grid_for(tiny, seeds=[3, 5]).runs()
    assert [(run.model.name, run.seed) for run in runs] == [
        *(("LightRNN 12", 3), ("HSM", 3), ("KN-3", 0)),
        *(("LightRNN 12", 5), ("HSM", 5)),
    ]
    assert [run.recipe.training.seed for run in runs if run.recipe] == [3, 3, 5, 5]


def test_other_budgets_and_other_models_are_refused(
    whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call
) -> None:
    grid = grid_file(tmp_path, tiny)
    known = ("-o", whole.results, "--work", whole.work)
    for option in ("--epochs", "--minutes"):
        sentence = refused(call("compare", grid, *known, option, "2"))
        assert re.search(rf"a budget of 1 epoch, and the budget now is 2 {option[2:]}; give --epochs 1", sentence)
    assert "cannot be used together" in refused(call("compare", grid, *known, "--epochs", "1", "--minutes", "1"))
    assert "minutes must be above 0" in refused(call("compare", grid, *known, "--minutes", "-1"))
    changed = [{"name": "HSM", "model": "hsm", "hidden_size": 13}, {"name": "KN-3", "kind": "ngram", "order": 3}]
    with pytest.raises(LightRNNError, match="tiny, HSM, run with hidden_size = 12, which is 13 now; rename the model"):
        Comparison(grid_for(tiny, model=changed), whole.results, whole.work)
    changed[1]["order"], changed[0]["hidden_size"] = 4, 12
    with pytest.raises(LightRNNError, match=r"tiny, KN-3, run with settings {'order': 3}"):
        Comparison(grid_for(tiny, model=changed), whole.results, whole.work)


def test_a_run_begun_with_other_settings_is_not_gone_on_with(tiny: Corpus, tmp_path: Path) -> None:
    comparison = Comparison(grid_for(tiny), tmp_path / "results", tmp_path / "work", device=CPU)
    assert comparison.train(comparison.missing()[0], should_stop=lambda: True).interrupted
    longer = Comparison(grid_for(tiny, epochs=2), tmp_path / "results", tmp_path / "work", device=CPU)
    with pytest.raises(LightRNNError, match=r"was begun with epochs = 1\.0, which is 2\.0 now"):
        longer.train(longer.missing()[0])


def test_a_run_that_fails_does_not_stop_the_others(tiny: Corpus, tmp_path: Path, call: Call) -> None:
    grid = grid_file(tmp_path, tiny, "epochs = 1\n")
    bad = next(run for run in Grid.load(str(grid)).runs() if run.model.name == "HSM")
    spoiled = tmp_path / "r" / "work" / bad.name / "training.safetensors"
    spoiled.parent.mkdir(parents=True)
    spoiled.write_bytes(b"")
    result = call("compare", grid, "-o", tmp_path / "r", "--no-plots")
    assert result.code == 2
    message = result.err.splitlines()[-1]
    assert message.startswith("error: 1 run failed: ")
    assert bad.name in message
    assert "remove the folder of such a run" in message
    finished = sorted(path.name for path in (tmp_path / "r" / "runs").iterdir())
    assert len(finished) == len(Grid.load(str(grid)).runs()) - 1


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] not enough memory: you tried …")])
def test_memory_running_out_fails_one_run(
    error: Exception, tiny: Corpus, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(bootstrap, "train", train)
    result = call("compare", grid_file(tmp_path, tiny, "epochs = 1\n"), "-o", tmp_path / "r", "--no-plots")
    assert result.code == 2
    assert "error: 2 runs failed: " in result.err
    assert result.err.count(": out of memory;") == 2
    assert [path.name for path in (tmp_path / "r" / "runs").iterdir()] == ["tiny--KN-3--0.json"]


def test_other_data_by_the_same_name_is_refused(whole: Comparison, tiny: Corpus, tmp_path: Path) -> None:
    texts = [tmp_path / "a.txt"]
    texts[0].write_text(made_up_text(300, 20, seed=1), encoding="utf-8")
    names = [str(texts[0])]
    other = prepare(names, tmp_path / "data", valid=names, test=names)
    comparison = Comparison(grid_for(other), whole.results, whole.work)
    with pytest.raises(LightRNNError, match="is not the data that the finished runs of tiny"):
        comparison.open(comparison.grid.corpora[0])


def test_bad_command_lines(whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call) -> None:
    grid = grid_file(tmp_path, tiny)
    assert "--only must be one of tiny, got 'ptb'" in refused(call("compare", grid, "-o", "r", "--only", "ptb"))
    assert "--model must be one of LightRNN 12, HSM, KN-3" in refused(call("compare", grid, "-o", "r", "--model", "X"))
    assert "there is no grid 'mein'; known are ablation, characters" in refused(call("compare", "mein", "-o", "r"))
    assert "cannot read the grid no.toml" in refused(call("compare", "no.toml", "-o", "r"))
    broken = tmp_path / "broken.toml"
    broken.write_text("seeds = [", encoding="utf-8")
    assert "is not valid TOML" in refused(call("compare", broken, "-o", "r"))
    absent = grid.with_name("absent.toml")
    absent.write_text(grid.read_text().replace(str(tiny.path), "nowhere"))
    assert "nowhere, the data of the corpus 'tiny', is no folder of lightrnn prep" in refused(
        call("compare", absent, "-o", "r")
    )
    runs = tmp_path / "r" / "runs"
    runs.mkdir(parents=True)
    (runs / "x.json").write_text("{}")
    assert "x.json is not a run that this lightrnn can read" in refused(call("compare", grid, "-o", "r"))


def test_plots_ask_for_the_extra_only_when_wanted(
    whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("lightrnn.training.figures", "lightrnn.cli.compare"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    arguments = ("compare", grid_file(tmp_path, tiny), "-o", "results", "--tables-only")
    assert "lightrnn[plots]" in refused(call(*arguments, "--plots"))
    assert call(*arguments).code == 0
    assert not list((tmp_path / "results").glob("*.png"))


def test_tables_of_what_is_there(whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call) -> None:
    results = tmp_path / "results"
    (results / "runs").mkdir(parents=True)
    name = "tiny--HSM--1.json"
    (results / "runs" / name).write_bytes((whole.results / "runs" / name).read_bytes())
    grid = grid_file(tmp_path, tiny)
    result = call("compare", grid, "-o", results, "--tables-only")
    assert result.code == 0
    assert "1 of 3 runs finished" in result.err
    assert not (results / "work").exists()
    text = (results / "tables.md").read_text(encoding="utf-8")
    hsm = whole.finished()[1]
    assert f"`lightrnn compare {grid} -o {results}`: 1 of 3 runs finished" in text
    assert "| LightRNN 12 |  |\n" in text
    assert f"| HSM | {hsm['test']:.1f}/{hsm['parameters'] / 1000:.3g}K |\n" in text
    for fact in (hsm["machine"]["cpu"], hsm["machine"]["torch"], hsm["date"][:10], "epochs for every network: 1"):
        assert fact in text
    empty = call("compare", grid, "-o", tmp_path / "nothing", "--tables-only")
    assert empty.code == 0
    assert "0 of 3 runs finished" in (tmp_path / "nothing" / "tables.md").read_text(encoding="utf-8")


# --- tables from made-up facts


def run(model: str, seed: int, corpus: str = "fr", **changes: Any) -> dict[str, Any]:
    size = {"A 100": 100, "A 200": 200, "B": 50}.get(model)
    facts: dict[str, Any] = {
        "corpus": corpus,
        "model": model,
        "seed": seed,
        "recipe": {"model": {"layers": 1, "embedding_size": 0, "hidden_size": size}} if size else {"order": 5},
        "budget": {"minutes": 5.0} if size else None,
        "train_tokens": 1000,
        "vocabulary_size": 50,
        "valid": 100.0,
        "test": 90.0,
        "mix": None,
        "parameters": 1_000_000,
        "bytes": {"weights": 4_000_000, "table": 400, "vocabulary": 500},
        "words_per_second": 1000.0,
        "training_seconds": 300.0,
        "start_table_seconds": 0.0,
        "refinement_seconds": 3.0,
        "refinement_share": 0.01,
        "curve": [],
        "machine": {"cpu": "abacus", "threads": 1, "device": "cpu", "torch": "2"},
        "date": "2026-11-16T02:00:00+00:00",
    }
    return facts | changes


def curve(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"seconds": s, "words": 0, "epoch": 0, "perplexity": p} for s, p in points]


LAYOUT = Layout(
    ("fr", "en", "de"),
    (
        ModelRow("A 100", "lightrnn", 100, 100),
        ModelRow("A 200", "lightrnn", 200, 200),
        ModelRow("B", "hsm", 50, 50),
        ModelRow("KN", "ngram"),
    ),
    "B",
)
RUNS = [
    run("A 100", 1, test=80.0, mix={"with": "KN", "weight": 0.6, "test": 70.0}, curve=curve((10, 120), (20, 99))),
    run("A 100", 2, test=84.0, mix={"with": "KN", "weight": 0.8, "test": 74.0}, curve=curve((10, 101), (40, 100))),
    run("B", 1, valid=104.0, test=91.0, curve=curve((50, 104))),
    run("B", 2, valid=98.0, test=92.0, curve=curve((70, 98))),
    run("KN", 0, test=120.0, parameters=7_000_000, date="2026-11-18T02:00:00+00:00"),
    run("A 200", 1, "en", test=60.0, curve=curve((5, 500))),
]


def test_means_over_seeds() -> None:
    lines = list(csv.reader(io.StringIO(csv_text(LAYOUT, RUNS))))
    figures = {tuple(line[:4]): (line[4], line[6]) for line in lines[1:]}
    assert figures["4, 5", "fr", "A 100", "test"] == ("82.0", "2")
    assert figures["4, 5", "fr", "A 100", "test, mixed with KN"] == ("72.0", "2")
    assert float(figures["4, 5", "fr", "A 100", "its weight"][0]) == pytest.approx(0.7)
    assert figures["4, 5", "fr", "B", "test"] == ("91.5", "2")
    assert figures["4, 5", "fr", "B", "test, mixed with KN"] == ("", "2")
    assert figures["4, 5", "fr", "KN", "test"] == ("120.0", "1")
    assert figures["4, 5", "fr", "A 200", "test"] == ("", "0")
    assert figures["3", "fr", "A 100", "s to reach 101.0"] == ("inf", "2")  # 20 to 104, and the second never to 98
    assert figures["3", "fr", "B", "s to reach 101.0"] == ("60.0", "2")  # each seed to its own
    assert figures["3", "fr", "A 100", "reallocation share"] == ("0.01", "2")
    assert figures["2", "fr", "A 100", "hidden"] == ("100.0", "2")
    assert figures["2", "en", "A 200", "test"] == ("60.0", "1")
    assert not [key for key in figures if key[0] == "2" and key[2] == "B"]  # one size is no table
    assert not [key for key in figures if key[1] == "de"]
    other = replace(LAYOUT, models=(replace(LAYOUT.models[0], rest="more rows"), *LAYOUT.models[1:]))
    assert "2" not in [table.number for table in tables(other, RUNS)]  # they differ in more than size


def test_the_papers_table() -> None:
    header, rows = overview(LAYOUT, RUNS)
    assert header == ["model", "fr", "en", "de"]
    assert rows == [
        ["A 100", "82.0 ± 2.8/1M", "", ""],
        ["A 200", "", "60.0/1M", ""],
        ["B", "91.5 ± 0.7/1M", "", ""],
        ["KN", "120.0/7M", "", ""],
        ["KN + A 100", "72.0 ± 2.8", "", ""],
    ]


def test_markdown_says_where_the_figures_come_from() -> None:
    text = markdown(LAYOUT, RUNS, "lightrnn compare g.toml -o r", 17)
    for part in (
        "`lightrnn compare g.toml -o r`: 6 of 17 runs",
        "- fr: 1,000 words, vocabulary 50; minutes for every network: 5\n",
        "- abacus, device cpu, CPU threads: 1, PyTorch 2\n",
        "- finished 2026-11-16 to 2026-11-18\n",
        "| A 100 | 82.0 ± 2.8/1M |  |  |\n",
        "| A 100 | not reached | 300 | 0.0 | 3.0 | 1.00% | 2 |\n",
        "| B | 60 | 300 | 0.0 | 3.0 | 1.00% | 2 |\n",
    ):
        assert part in text
    for line in text.splitlines():
        if line.startswith("|---"):
            width = line.count("|")
        elif line.startswith("|") and not line.startswith("| model"):
            assert line.count("|") == width
    without = replace(LAYOUT, target=None)
    assert "to reach" not in markdown(without, RUNS, "x", 17)
    assert [table.number for table in tables(without, RUNS)] == ["4, 5", "2", "3"] * 2


@pytest.mark.parametrize(("perplexity", "seconds"), [(150, 1), (100, 1), (99, 4), (50, 9), (49, np.inf)])
def test_seconds_to_reach_are_of_the_first_check_that_is_there(perplexity: float, seconds: float) -> None:
    points = curve((1, 100), (3, 120), (4, 60), (9, 50), (12, 55))
    assert seconds_to_reach({"curve": points}, perplexity) == seconds


def test_grids_that_ship() -> None:
    grids = {name: Grid.load(name) for name in shipped_names("grid")}
    ours = {"main", "ablation", "opponents", "characters", "sizes", "time"}
    assert set(grids) == ours | {"paper-aclw", "paper-billionw"}
    assert {entry.recipe.model.layers for entry in grids["opponents"].models} == {2}
    kinds = {entry.recipe.model.model if entry.recipe else "ngram" for entry in grids["main"].models}
    assert kinds == {"ngram", "lightrnn", "full", "hsm", "chsm", "adaptive", "blackout"}
    assert [entry.recipe.model.hidden_size for entry in grids["sizes"].models] == [100, 200, 400, 650]
    assert len(grids["paper-aclw"].corpora) == 6


PRINTED = {  # parameters in the paper's Tables 4 and 5, in millions, and the vocabularies in thousands
    "HSM": [(152, 61), (137, 56), (60, 25), (206, 83), (339, 137), (497, 200)],
    "C-HSM": [(152, 48), (137, 44), (60, 20), (206, 64), (339, 104), (497, 152)],
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_opponents_of_the_papers_grid_have_the_papers_sizes(name: str) -> None:
    entry = next(entry for entry in Grid.load("paper-aclw").models if entry.name == name)
    for thousands, millions in PRINTED[name]:
        parameters = sum(parameters_of(entry.recipe.model, 1000 * thousands).values())
        assert abs(parameters / 1e6 - millions) < 0.75
    hsm = next(entry for entry in Grid.load("paper-billionw").models if entry.name == "HSM")
    assert f"{sum(parameters_of(hsm.recipe.model, 793_471).values()) / 1e9:.1f}" == "1.6"
