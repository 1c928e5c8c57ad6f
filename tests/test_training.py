"""Training: it learns, it resumes to the same bytes, it stops when it should, it never leaves a broken model."""

import contextlib
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from lightrnn.config import BootstrapConfig, Recipe
from lightrnn.inference.passes import evaluate
from lightrnn.models import checkpoint
from lightrnn.models.checkpoint import load_model
from lightrnn.models.folder import load_table
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rules import TextRules
from lightrnn.text.windows import sentence_windows, stream_windows
from lightrnn.training import bootstrap
from lightrnn.training.trainer import Trainer, Validated

FAST = Recipe(bootstrap=BootstrapConfig(start="random", refine="none")).override(
    {"hidden_size": 12, "batch_size": 4, "window": 10, "epochs": 3, "dropout": 0.2, "learning_rate": 0.02}
)
CPU = torch.device("cpu")


def contents(folder: Path) -> dict[str, object]:
    """What must be equal bit for bit: weights, table, vocabulary, config, and metrics without their timings."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timeless = [{k: v for k, v in line.items() if "seconds" not in k and k != "words_per_second"} for line in lines]
    names = ("weights.safetensors", "table.tsv", "vocab.tsv", "config.json")
    return {name: (folder / name).read_bytes() for name in names} | {"metrics": timeless}


def test_it_learns_and_keeps_the_best(tiny: Corpus, tmp_path: Path) -> None:
    events = []
    outcome = bootstrap.train(tiny, FAST, tmp_path / "m", device=CPU, report=lambda run, event: events.append(event))
    perplexities = [event.validation.perplexity for event in events if isinstance(event, Validated)]
    assert len(perplexities) == 3
    assert outcome.best_perplexity == min(perplexities)
    assert outcome.reason == "the epochs are done"
    model, vocabulary = load_model(tmp_path / "m")
    assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(
        outcome.best_perplexity, rel=1e-6
    )
    counts = vocabulary.counts + 1
    unigram = np.exp(-np.log(counts / counts.sum())[tiny.split("valid")].mean())
    assert outcome.best_perplexity < 0.8 * unigram


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn-tanh", "rnn-sigmoid"])
def test_every_cell_and_table_trains(tiny: Corpus, tmp_path: Path, cell: str, components: int) -> None:
    recipe = FAST.override({"cell": cell, "components": components, "layers": 2, "dropout": 0.0})
    outcome = bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU)
    assert outcome.best_perplexity < len(tiny.vocabulary) * 0.8
    model, vocabulary = load_model(tmp_path / "m")
    assert (load_table(tmp_path / "m", vocabulary).codes == model.table.codes).all()


def test_seeds_decide_everything(tiny: Corpus, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        bootstrap.train(tiny, FAST.override({"seed": seed, "epochs": 1}), tmp_path / name, device=CPU)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["weights.safetensors"] != contents(tmp_path / "c")["weights.safetensors"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"optimizer": "sgd", "learning_rate": 1.0, "schedule": "halve", "validate_every": 9},
        {"cell": "gru", "layers": 2, "components": 3, "schedule": "constant"},
    ],
)
def test_stopping_anywhere_and_resuming_changes_nothing(tiny: Corpus, tmp_path: Path, fields: dict) -> None:
    recipe = FAST.override(fields)
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU)
    batches = 0

    def stop_now() -> bool:
        nonlocal batches
        batches += 1
        return batches % 10 == 0  # just before, at and after validations, at an epoch's last batch

    outcome = bootstrap.train(tiny, recipe, tmp_path / "parts", device=CPU, should_stop=stop_now)
    resumed = 0
    while outcome.interrupted:
        resumed += 1
        torch.manual_seed(resumed)  # whatever another process would have as its random state
        outcome = bootstrap.resume(tiny, tmp_path / "parts", {}, device=CPU, should_stop=stop_now)
    assert resumed >= 25
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    a, b = ((tmp_path / name / "training.safetensors") for name in ("whole", "parts"))
    one, other = checkpoint.load_training(a.parent)[0], checkpoint.load_training(b.parent)[0]
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_five_sigkills_change_nothing(tiny: Corpus, tmp_path: Path) -> None:
    options = ["--hidden-size", "12", "--batch-size", "4", "--window", "5", "--epochs", "12", "--dropout", "0.2"]
    options += ["--validate-every", "60", "--threads", "1", "--device", "cpu"]
    options += ["--refine", "cluster", "--round-share", "0.3"]

    def command(name: str) -> list[str]:
        return [sys.executable, "-m", "lightrnn", "train", str(tiny.path), "-o", str(tmp_path / name), *options]

    subprocess.run(command("whole"), capture_output=True, check=True)
    moments = random.Random(20161205)
    kills = 0
    while True:
        going = (tmp_path / "killed" / "training.safetensors").exists()
        process = subprocess.Popen(command("killed") + ["--resume"] * going, stderr=subprocess.PIPE)
        if kills == 5:
            _, message = process.communicate()
            assert process.returncode == 0, message.decode()
            break
        before = (tmp_path / "killed" / "training.safetensors").stat().st_mtime_ns if going else 0
        while process.poll() is None:  # until it has saved once, so that each life makes some way
            path = tmp_path / "killed" / "training.safetensors"
            if path.exists() and path.stat().st_mtime_ns != before:
                break
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.5))
        assert process.poll() is None, "the run ended before it could be killed: make it longer"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        load_model(tmp_path / "killed")  # a usable model after every kill
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_exit(tiny: Corpus, tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "lightrnn", "train", str(tiny.path), "-o", str(tmp_path / "m"), "--epochs", "9999"]
    command += ["--hidden-size", "8", "--threads", "1", "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not (tmp_path / "m" / "metrics.jsonl").exists() or not (tmp_path / "m" / "metrics.jsonl").read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "--resume" in message.decode()
    load_model(tmp_path / "m")
    outcome = bootstrap.resume(Corpus.load(tiny.path), tmp_path / "m", {"epochs": 1}, device=CPU)
    assert not outcome.interrupted


def test_every_step_of_a_save_may_be_the_last(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the power before each rename of a save that replaces weights and table: old or new, never a mixture."""
    old, new = tmp_path / "old", tmp_path / "new"
    bootstrap.train(tiny, FAST.override({"epochs": 1}), old, device=CPU)
    bootstrap.train(tiny, FAST.override({"epochs": 1, "seed": 9}), new, device=CPU)
    model, vocabulary = load_model(new)
    expected = [{name: t.clone() for name, t in load_model(f)[0].state_dict().items()} for f in (old, new)]
    rename = Path.replace
    seen = set()
    for allowed in range(8):
        folder = tmp_path / f"cut{allowed}"
        shutil.copytree(old, folder)
        left = allowed

        def replace(self: Path, target: Path) -> Path:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return rename(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            with contextlib.suppress(KeyboardInterrupt):
                checkpoint.save_model(folder, model, vocabulary, {})
        got = load_model(folder)[0].state_dict()
        which = [all(torch.equal(got[name], e[name]) for name in e) for e in expected]
        assert sum(which) == 1
        assert (load_table(folder, vocabulary).codes == got["codes"].numpy()).all()
        seen.add(which.index(True))
    assert seen == {0, 1}


def test_budgets_and_patience(tiny: Corpus) -> None:
    def reason(**fields) -> tuple[str, Trainer]:
        recipe = FAST.override(fields)
        torch.manual_seed(1)
        model = LightRNN(recipe.model, WordTable.random(len(tiny.vocabulary), seed=1))
        model.reset()
        trainer = Trainer(model, recipe.training, tiny.split("train"), tiny.split("valid"), tiny.vocabulary)
        events = list(trainer.run())
        assert isinstance(events[-1], Validated)  # never ends without knowing how good it is
        return trainer.stop_reason, trainer

    why, trainer = reason(minutes=0.01, epochs=1000)
    assert why == "the minutes are used up"
    assert trainer.seconds < 5
    why, trainer = reason(learning_rate=30.0, optimizer="sgd", schedule="constant", patience=2, epochs=50)
    assert why == "no improvement in 2 validations"
    why, trainer = reason(learning_rate=20.0, optimizer="sgd", schedule="halve", epochs=12)
    assert trainer.learning_rate < 20.0
    assert trainer.learning_rate == 20.0 * 0.5 ** round(-np.log2(trainer.learning_rate / 20.0))
    why, trainer = reason(schedule="cosine", epochs=2)
    assert trainer.learning_rate == 0


def test_going_on_from_a_model_on_new_text(tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, FAST, tmp_path / "base", device=CPU)
    text = tmp_path / "new.txt"
    text.write_text("w1 w2 unheard-of\n" * 300, encoding="utf-8")
    command = ["train", str(text), "--init", str(tmp_path / "base"), "-o", str(tmp_path / "next"), "--epochs", "9"]
    command += ["--learning-rate", "0.02"]
    subprocess.run([sys.executable, "-m", "lightrnn", *command], capture_output=True, check=True)
    base, vocabulary = load_model(tmp_path / "base")
    further, same = load_model(tmp_path / "next")
    assert same.words == vocabulary.words
    assert (further.codes == base.codes).all()
    ids = vocabulary.encode_files([str(text)])
    assert evaluate(further, ids, vocabulary).perplexity < 0.2 * evaluate(base, ids, vocabulary).perplexity


def test_stream_windows_cover_the_stream_once() -> None:
    ids = np.arange(1, 104, dtype=np.int32)
    tracks: list[list[int]] = [[] for _ in range(5)]
    for index, window in enumerate(stream_windows(ids, 0, 5, 7)):
        assert window.starts == (index == 0)
        for track, words in zip(tracks, window.words.tolist(), strict=True):
            assert words[0] == (track[-1] if track else words[1] - 1)
            track.extend(words[1:])
    assert list(itertools.chain(*tracks)) == list(range(1, 101))


def test_sentence_windows_cover_every_sentence_once() -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(5000) < 0.1, 0, rng.integers(2, 50, 5000)).astype(np.int32)
    ids[-1] = 0
    sentences = []
    current: list[list[int]] = []
    for window in sentence_windows(ids, 1, 0, 8, 6, np.random.default_rng(3)):
        if window.starts:
            sentences += current
            assert (window.words[:, 0] == 1).all()
            current = [[] for _ in window.words]
        for track, words, mask in zip(current, window.words[:, 1:], window.mask, strict=True):
            track.extend(words[mask].tolist())
    sentences += current
    expected = [s.tolist() for s in np.split(ids, np.flatnonzero(ids == 0) + 1) if len(s)]
    assert sorted(sentences) == sorted(expected)


@pytest.mark.parametrize("skip", [0, 1, 7, 31, 10**6])
def test_skipped_windows_are_the_first_ones(skip: int) -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(3000) < 0.1, 0, rng.integers(2, 50, 3000)).astype(np.int32)

    def listed(skipped: int) -> list[list[list[int]]]:
        stream = stream_windows(ids, 0, 5, 7, skipped)
        sentences = sentence_windows(ids, 1, 0, 8, 6, np.random.default_rng(3), skipped)
        return [[window.words.tolist() for window in windows] for windows in (stream, sentences)]

    assert listed(skip) == [windows[skip:] for windows in listed(0)]


def test_sentence_convention_trains_and_resumes(tmp_path: Path, tiny: Corpus) -> None:
    source = tiny.path.parent
    rules = TextRules(bos="<s>", convention="sentence")
    corpus = prepare([str(source / "train.txt")], tmp_path / "d", valid=[str(source / "valid.txt")], rules=rules)
    bootstrap.train(corpus, FAST, tmp_path / "whole", device=CPU)
    countdown = iter(range(200, 0, -1))
    outcome = bootstrap.train(corpus, FAST, tmp_path / "parts", device=CPU, should_stop=lambda: next(countdown, 0) == 1)
    assert outcome.interrupted
    bootstrap.resume(corpus, tmp_path / "parts", {}, device=CPU)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["training"]["valid_perplexity"] < 0.5 * len(
        tiny.vocabulary
    )
