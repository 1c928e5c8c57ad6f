"""lightrnn compare: runs that are done once, survive being killed anywhere, and tables that hold their means."""

import json
import os
import re
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lightrnn.compare.measuring
import lightrnn.compare.run_files
from helpers import CPU, FLOAT32, ROOT, Call, edit_json, made_up_text, refused, run_apart
from lightrnn.cli import screen
from lightrnn.compare.grid import Grid, GridRun
from lightrnn.compare.report import write_report
from lightrnn.compare.run_files import read_run
from lightrnn.compare.runs import Comparison
from lightrnn.config import Recipe
from lightrnn.errors import LightRNNError
from lightrnn.inference import network
from lightrnn.inference.lm import LM
from lightrnn.inference.loading import load
from lightrnn.inference.mixture import Mix
from lightrnn.inference.ngrams import NGramLM
from lightrnn.models.kind import Size, kind_of
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.outputs import InUse
from lightrnn.runtime import Progress, silent
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.training import bootstrap
from lightrnn.training.starts import words_alone
from lightrnn.training.teaching import Teacher

WALL_CLOCK = ("words_per_second", "training_seconds", "start_table_seconds", "refinement_seconds", "refinement_share")
GRID = (Path(__file__).parent / "grid.toml").read_text(encoding="utf-8")


def grid_for(corpus: Corpus, **changes: Any) -> Grid:
    values = tomllib.loads(GRID) | {"corpus": [{"name": "tiny", "data": str(corpus.path)}]}
    return Grid.from_dict(values | changes, "tiny")


def grid_file(folder: Path, corpus: Corpus, *, mix: bool = True) -> Path:
    text = GRID.replace("mix = true", f"mix = {mix}".lower())
    path = folder / "grid.toml"
    path.write_text(f'{text}\n[[corpus]]\nname = "tiny"\ndata = "{corpus.path}"\n', encoding="utf-8")
    return path


@contextmanager
def run_in_thread_holding(comparison: Comparison, run: GridRun) -> Iterator[None]:
    """As if another process were making the run: a lock is a thread's."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with comparison.claimed(run):
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        release.set()
        thread.join()


def run_all(comparison: Comparison, report: Callable[..., None] = lambda run, event: None) -> None:
    for run in comparison.missing():
        if run.recipe:
            comparison.train(run, report)
        comparison.finish(run)


def timeless(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What must not depend on when and how often a run was stopped."""

    def without(facts: dict[str, Any], *names: str) -> dict[str, Any]:
        return {name: value for name, value in facts.items() if name not in names}

    return [
        without(run, *WALL_CLOCK, "machine", "date") | {"curve": [without(point, "seconds") for point in run["curve"]]}
        for run in runs
    ]


@pytest.fixture(scope="module")
def whole(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The grid, run without a stop."""
    folder = tmp_path_factory.mktemp("whole")
    comparison = Comparison(grid_for(tiny), folder / "results", folder / "work", device=CPU)
    run_all(comparison)
    return comparison


def test_a_run_holds_what_the_models_themselves_say(
    whole: Comparison, tiny: Corpus, tmp_path: Path, call: Call
) -> None:
    light, hsm, ngram = whole.finished()
    assert [run["model"] for run in (light, hsm, ngram)] == ["LightRNN 12", "HSM", "KN-3"]
    kneser_ney = NGramLM(estimate(tiny.split("train"), tiny.vocabulary, 3))
    # the same figures by another path
    assert ngram["test"] == pytest.approx(kneser_ney.evaluate(tiny.split("test")).perplexity, rel=1e-6)
    assert (ngram["budget"], ngram["seed"], ngram["recipe"]) == (None, 0, {"order": 3})
    for run, folder in ((light, "tiny--LightRNN-12--1"), (hsm, "tiny--HSM--1")):
        lm = load(whole.work / folder)
        assert run["test"] == pytest.approx(lm.evaluate(tiny.split("test")).perplexity, rel=FLOAT32)
        assert run["valid"] == pytest.approx(lm.evaluate(tiny.split("valid")).perplexity, rel=FLOAT32)
        assert run["valid"] == min(point["perplexity"] for point in run["curve"])
        weight = run["mix"]["weight"]
        mixed = Mix([lm, kneser_ney], [weight, 1 - weight])
        assert run["mix"]["test"] == pytest.approx(mixed.evaluate(tiny.split("test")).perplexity, rel=FLOAT32)
        assert run["bytes"]["weights"] == 4 * run["parameters"]
        assert run["bytes"]["vocabulary"] == (whole.work / folder / "vocab.tsv").stat().st_size
        assert [point["seconds"] for point in run["curve"]] == sorted(point["seconds"] for point in run["curve"])
        # windows that are not full are left out
        assert run["curve"][-1]["words"] == pytest.approx(len(tiny.split("train")), rel=0.02)
        assert Recipe.from_dict(run["recipe"], "it").training.epochs == 1
    config = Recipe.from_dict(hsm["recipe"], "it").model
    assert hsm["parameters"] == sum(kind_of(config).parameters(config, Size(len(tiny.vocabulary))).values())
    assert light["bytes"]["table"] == 4 * 2 * len(tiny.vocabulary)
    for run, *command in (
        (light, "pack", whole.work / "tiny--LightRNN-12--1"),
        (ngram, "ngram", tiny.path, "--order", 3),
    ):
        file = tmp_path / f"{command[0]}.lightrnn"
        made = call(*command, "-o", file)
        assert made.code == 0, made.err
        assert run["bytes"]["packed"] == file.stat().st_size
    rows = sum(len(tensor) for tensor in load(whole.work / "tiny--HSM--1").model.parameters() if tensor.ndim > 1)
    singles = sum(tensor.numel() for tensor in load(whole.work / "tiny--HSM--1").model.parameters() if tensor.ndim == 1)
    weights = hsm["parameters"] - singles + 4 * (rows + singles)  # a byte each, a scale a vector; biases whole
    assert weights < hsm["bytes"]["packed"] < weights + hsm["bytes"]["table"] + hsm["bytes"]["vocabulary"] + 1000
    assert light["refinement_seconds"] > 0 == hsm["refinement_seconds"]
    total = light["training_seconds"] + light["start_table_seconds"] + light["refinement_seconds"]
    assert light["refinement_share"] == pytest.approx(light["refinement_seconds"] / total)
    # the curve's clock counts both tables, and stops before the run's, which saves the model
    assert light["start_table_seconds"] + light["refinement_seconds"] < light["curve"][-1]["seconds"] < total + 0.001
    assert light["machine"]["threads"] == 1


def test_networks_that_learn_as_they_read_and_from_others(
    tiny: Corpus, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "FAMILIAR", 200)  # words that are drawn before learning
    alone = {"alone": 9, "tied": True}
    models = [{"name": "large", **alone}, {"name": "HSM", "model": "hsm"}]
    models.append({"name": "small", **alone, "hidden_size": 8, "teacher": "large", "teacher_share": 0.6})
    models.append({"name": "plain", "hidden_size": 8, "adapt": False})
    grid = grid_for(tiny, model=models, mix=False, adapt=True, cache=30)
    comparison = Comparison(grid, tmp_path / "results", tmp_path / "work", device=CPU)
    large, hsm, small, _ = comparison.missing()
    with pytest.raises(LightRNNError, match=r"its teacher, large, has no trained model in .*/work; run it first$"):
        comparison.train(small)
    run_all(comparison)
    taught = json.loads((comparison.work / small.name / "config.json").read_text())["training"]
    assert taught["teacher"] == Teacher.load(comparison.work / large.name).digest
    *finished, plain = comparison.finished()
    assert [facts.get("teacher") for facts in finished] == [None, None, "large"]
    assert list(plain["while_reading"]) == ["with_cache"]
    for run, facts in zip((large, hsm, small), finished, strict=True):
        # the same figures by the command
        asked = ("evaluate", comparison.work / run.name, tiny.path, "--cache", 30, "--json")
        static, adapted = (json.loads(call(*asked, *options).out) for options in ((), ("--adapt",)))
        assert facts["test"] == pytest.approx(static["perplexity"], rel=FLOAT32)
        assert facts["while_reading"] == pytest.approx(
            {
                "with_cache": static["with_cache"]["perplexity"],
                "adapted": adapted["adapted"]["perplexity"],
                "adapted_with_cache": adapted["adapted_with_cache"]["perplexity"],
            },
            rel=FLOAT32,
        )
    write_report(comparison, with_plots=False, command="it")
    header = (comparison.results / "tables.md").read_text(encoding="utf-8")
    assert "| test, cache | test, adapted | test, adapted, cache |" in header
    models[2]["teacher"] = "HSM"
    with pytest.raises(LightRNNError, match="tiny, small, run with large for its teacher; rename the model"):
        Comparison(grid_for(tiny, model=models, mix=False, adapt=True, cache=30), comparison.results, comparison.work)
    models[2]["teacher"] = "large"
    ngram = {"name": "KN", "kind": "ngram"}
    for other, told in (
        ({"adapt": True, "cache": 40}, "cache = 30, which is 40 now"),
        ({"adapt": False, "cache": 30}, "adapt = true, which is another now"),
        (
            {"adapt": True, "cache": 30, "mix": True, "model": [*models, ngram]},
            "mix = false, which is another now",
        ),
    ):
        with pytest.raises(LightRNNError, match=f"run with {told}; rename the model"):
            Comparison(grid_for(tiny, **{"model": models, "mix": False, **other}), comparison.results, comparison.work)


def test_a_network_that_loses_its_course_as_it_learns_has_no_such_figure(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "FAMILIAR", 200)
    monkeypatch.setattr(network, "RATE", 1e30)
    only = [{"name": "it", "alone": 9, "tied": True}]
    grid = grid_for(tiny, model=only, mix=False, adapt=True, cache=30, target="it")
    comparison = Comparison(grid, tmp_path / "results", tmp_path / "work", device=CPU)
    run_all(comparison)
    (facts,) = comparison.finished()
    assert list(facts["while_reading"]) == ["with_cache"]


def test_a_student_goes_on_with_its_teacher_or_waits_for_it(tiny: Corpus, tmp_path: Path) -> None:
    alone = {"alone": 9, "tied": True}
    student = {"name": "small", **alone, "hidden_size": 8, "teacher": "large"}
    models = [{"name": "large", **alone}, {"name": "other", **alone}, student]

    def comparison() -> Comparison:
        grid = grid_for(tiny, model=models, mix=False, target="large")
        return Comparison(grid, tmp_path / "results", tmp_path / "work", device=CPU)

    large, other, small = comparison().missing()
    with run_in_thread_holding(comparison(), large), pytest.raises(InUse):
        comparison().train(small)
    for run in (large, other):
        comparison().train(run)
        comparison().finish(run)
    assert comparison().train(small, should_stop=lambda: True).interrupted
    student["teacher"] = "other"
    with pytest.raises(LightRNNError, match="was begun with tiny--large--1 for its teacher"):
        comparison().train(comparison().missing()[0])
    student["teacher"] = "large"
    assert not comparison().train(comparison().missing()[0]).interrupted


def test_a_run_without_its_record_is_not_finished(tiny: Corpus, tmp_path: Path) -> None:
    comparison = Comparison(grid_for(tiny), tmp_path / "results", tmp_path / "work", device=CPU)
    run = comparison.missing()[0]
    comparison.train(run)
    (comparison.work / run.name / "metrics.jsonl").write_text("")
    with pytest.raises(LightRNNError, match="holds no validation any more; remove the folder to run it again"):
        comparison.finish(run)


def test_the_weight_of_a_mix_is_found_on_the_validation_text_alone(
    whole: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With made-up probabilities, so that valid and test want different weights, against a scan of all weights."""
    rng = np.random.default_rng(1)
    drawn = {(kind, split): -rng.gamma(2, size=500) for kind in ("network", "ngram") for split in ("valid", "test")}
    drawn["network", "test"] -= 1.0

    def log_probs(lm: LM, corpus: Corpus, split: str, progress: object) -> np.ndarray:
        return drawn["ngram" if lm.has_orders else "network", split]

    monkeypatch.setattr(lightrnn.compare.measuring, "_log_probs", log_probs)
    comparison = Comparison(whole.grid, tmp_path, whole.work, device=CPU)
    mix = comparison.finish(comparison.missing()[0])["mix"]

    def perplexity(weight: float, split: str) -> float:
        one, other = np.exp(drawn["network", split]), np.exp(drawn["ngram", split])
        return float(np.exp(-np.log(weight * one + (1 - weight) * other).mean()))

    best = min(np.linspace(0, 1, 1001), key=lambda weight: perplexity(weight, "valid"))
    assert 0.2 < best < 0.8  # a scan that can miss on either side
    assert mix["weight"] == pytest.approx(best, abs=2e-3)  # two steps of the scan
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
    monkeypatch.setattr(lightrnn.compare.measuring, "estimate", fail)
    result = call("compare", grid_file(tmp_path, tiny), "-o", whole.results, "--work", whole.work, "--no-plots")
    assert result.code == 0, result.err
    assert "3 of 3 runs" in result.err
    assert [file.stat().st_mtime_ns for file in files] == before


def test_words_alone_are_counted_when_a_run_begins(tiny: Corpus, tmp_path: Path) -> None:
    """A run that was stopped goes on, though its folder has their number where the grid has a rule."""
    networks = [{"name": "A", "alone": "auto", "tied": True}]
    comparison = Comparison(grid_for(tiny, model=networks, mix=False, target="A"), tmp_path, tmp_path / "w", device=CPU)
    (run,) = comparison.missing()
    assert comparison.train(run, should_stop=lambda: True).interrupted
    assert not comparison.train(run).interrupted
    assert comparison.finish(run)["alone"] == len(words_alone(tiny.vocabulary.counts, "auto")) > 0
    (facts,) = Comparison(comparison.grid, tmp_path, tmp_path / "w", device=CPU).finished()
    assert facts["recipe"]["model"]["alone"] == "auto"


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
                patched.setattr(lightrnn.compare.run_files, "write_json", broken)
                with pytest.raises(Stop):
                    comparison.finish(run)
            kills += 1
    assert kills >= 4  # in either run, several in each
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
    killed = run_apart(*arguments, script=KILLED, folder=tmp_path)
    assert killed.code == -signal.SIGKILL, killed.err
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

    monkeypatch.setattr(lightrnn.compare.measuring, "estimate", interrupted)
    on_interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start tests with it ignored
    result = call("compare", grid_file(tmp_path, tiny), "-o", "results", "--model", "KN-3")
    signal.signal(signal.SIGINT, on_interrupt)
    assert result.code == code
    assert result.err.splitlines() == ["run 1 of 1: tiny, KN-3", "stopped; go on with the same command"]


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
    grid = grid_file(tmp_path, tiny, mix=False)
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
    result = call("compare", grid_file(tmp_path, tiny, mix=False), "-o", tmp_path / "r", "--no-plots")
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
    assert "there is no grid 'mein'; known are ablation, alone, char" in refused(call("compare", "mein", "-o", "r"))
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
    for module in ("lightrnn.plot", "lightrnn.cli.compare"):
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
    assert "- networks trained in " in text
    empty = call("compare", grid, "-o", tmp_path / "nothing", "--tables-only")
    assert empty.code == 0
    assert "0 of 3 runs finished" in (tmp_path / "nothing" / "tables.md").read_text(encoding="utf-8")


# --- damage


@pytest.fixture
def compared(call: Call, before: Path, tmp_path: Path) -> Path:
    (tmp_path / "grid.toml").write_text(
        '[[corpus]]\nname = "old"\ndata = "before/data"\nepochs = 1\n[[model]]\nname = "KN"\nkind = "ngram"\n',
        encoding="utf-8",
    )
    assert call("compare", "grid.toml", "-o", "results", "--no-plots").code == 0
    return tmp_path / "results" / "runs" / "old--KN--0.json"


def test_runs_tell_a_flipped_bit(call: Call, compared: Path) -> None:
    tables = ("compare", "grid.toml", "-o", "results", "--tables-only", "--no-plots")
    assert call(*tables).code == 0
    facts = json.loads(compared.read_text())
    edit_json(compared, lambda run: run.update(test=run["test"] + 1))
    assert "its digest is another" in refused(call(*tables))
    compared.write_text(json.dumps({name: value for name, value in facts.items() if name != "sha256"}))
    assert call(*tables).code == 0  # as files of before the digests


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("recipe"),
        lambda c: c.update(recipe=[]),
        lambda c: c.update(recipe={"model": {"hidden_size": -1}}),
        lambda c: c.update(budget={}),
        lambda c: c.update(budget={"hours": 1}),
        lambda c: c.update(test=None),
        lambda c: c.update(test="12"),
        lambda c: c.update(curve=[{}]),
        lambda c: c.update(mix={}),
        lambda c: c.update(machine=None),
        lambda c: c.update(bytes={}),
        lambda c: c.update(alone=-1),
        lambda c: c.update(while_reading={"adapted": -1}),
        lambda c: c.update(date=5),
        lambda c: c.update(model="another"),
        lambda c: c.update(seed=1),
    ],
)
def test_runs_that_make_no_sense(call: Call, compared: Path, change: Callable[[dict[str, Any]], object]) -> None:
    edit_json(compared, lambda run: (run.pop("sha256"), change(run)))
    assert compared.name in refused(call("compare", "grid.toml", "-o", "results", "--tables-only", "--no-plots"))


def test_published_runs_are_still_read() -> None:
    runs = [read_run(path) for path in (ROOT / "docs" / "results").glob("*/runs/*.json")]
    assert len(runs) > 50  # all that docs/results has, and it has dozens


def test_runs_of_before_are_not_repeated(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    grid = (
        'epochs = 0.1\nmodel = [{ name = "KN-2", kind = "ngram", order = 2 }]\n'
        f'corpus = [{{ name = "tiny", data = "{tiny.path}" }}]\n'
    )
    (tmp_path / "grid.toml").write_text(grid, encoding="utf-8")
    first = call("compare", "grid.toml", "-o", "results", "--no-plots")
    assert "run 1 of 1: tiny, KN-2" in first.err
    assert [path.name for path in (tmp_path / "results" / "runs").iterdir()] == ["tiny--KN-2--0.json"]
    (tmp_path / "results" / "runs").rename(tmp_path / "results" / "cells")
    again = call("compare", "grid.toml", "-o", "results", "--no-plots")
    assert again.out == first.out
    assert again.err == "1 of 1 runs finished; tables in results/tables.md\n"

    grown = grid.replace("[{ name", '[{ name = "KN-3", kind = "ngram", order = 3 }, { name', 1)
    (tmp_path / "grid.toml").write_text(grown, encoding="utf-8")
    assert "2 of 2 runs finished" in call("compare", "grid.toml", "-o", "results", "--no-plots").err
    assert "2 of 2 runs finished" in call("compare", "grid.toml", "-o", "results", "--no-plots", "--tables-only").err
    assert not (tmp_path / "results" / "runs").exists()
