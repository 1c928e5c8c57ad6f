"""Two processes at once: one of them writes, the other is told who does; readers see a whole model all the while."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

from helpers import CPU, TIMEOUT, Call, hidden, made_up_text, refused, started, train_small, wait_for
from lightrnn.errors import LightRNNError
from lightrnn.models import folder as folders
from lightrnn.models.checkpoint import load_model, save_model
from lightrnn.models.folder import load_table, load_vocabulary, read_config
from lightrnn.outputs import InUse, locked, replace_output
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap

ENDLESS = ("--hidden-size", "8", "--epochs", "99999", "--batch-size", "4", "--window", "5", "--validate-every", "5")


@contextmanager
def endless_training(tiny: Corpus, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that trains into FOLDER/model, and has begun."""
    with started("train", tiny.path, "-o", "model", *ENDLESS, folder=folder) as process:
        metrics = folder / "model" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size, process)
        yield process


# --- one writer


def test_while_one_process_trains_no_other_writes_its_folder(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    train_small(tiny, tmp_path / "other", epochs=0.1)
    with endless_training(tiny, tmp_path) as process:
        told = f"model is being written by process {process.pid}; wait until it has finished, or stop it"
        for arguments in (
            ("train", tiny.path, "-o", "model", "--force"),
            ("train", tiny.path, "-o", "model", "--resume"),
            ("reallocate", "other", tiny.path, "-o", "model", "--force"),
            ("mix", "other", "other", "--tune", tiny.path, "-o", "model", "--force"),
            ("train", tiny.path, "-o", "other/../model", "--resume"),
        ):
            assert told in refused(call(*arguments))
        with pytest.raises(InUse):
            bootstrap.resume(tiny, tmp_path / "model", {}, device=CPU)
        assert call("evaluate", "model", tiny.path).code == 0
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130, message
    assert not hidden(tmp_path)
    assert call("train", tiny.path, "-o", "model", "--resume", "--epochs", "0.1").code == 0


def test_a_killed_process_holds_no_lock(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    with endless_training(tiny, tmp_path) as process:
        process.kill()
        process.wait()
    assert ".model.lock" in hidden(tmp_path)
    assert call("train", tiny.path, "-o", "model", "--resume", "--epochs", "0.1").code == 0
    assert not hidden(tmp_path)


def test_the_same_folder_prepared_twice_at_once(call: Call, tmp_path: Path) -> None:
    """The text of the first comes through a pipe, later."""
    (tmp_path / "text").write_text(made_up_text(200, 20, seed=1), encoding="utf-8")
    with started("prepare", "-", "-o", "data", folder=tmp_path) as process:
        wait_for(lambda: any(name.endswith(".tmp") for name in hidden(tmp_path)), process)
        message = refused(call("prepare", "text", "-o", "data"))
        assert f"data is being written by process {process.pid};" in message
        _, message = process.communicate(made_up_text(300, 20, seed=2), timeout=TIMEOUT)
        assert process.returncode == 0, message
    assert Corpus.load(tmp_path / "data").files("train") == ["-"]
    assert not hidden(tmp_path)


def test_locks_exclude_each_other_and_leave_nothing(tmp_path: Path) -> None:
    """Each removes the lock's file when it is done, while others are opening it."""
    inside, most, entered = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, entered
        for _ in range(100):
            with locked(tmp_path / "x", wait=True), locked(str(tmp_path / "x")):
                inside += 1
                most = max(most, inside)
                entered += 1
                time.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, entered) == (1, 600)
    assert not any(tmp_path.iterdir())


# --- readers


def test_a_reader_waits_for_a_swap_that_is_going_on(tiny: Corpus, tmp_path: Path) -> None:
    train_small(tiny, tmp_path / "model", epochs=0.1)
    begun = threading.Event()

    def swap() -> None:
        retired = tmp_path / f".model.{os.getpid()}.old"
        with locked(tmp_path / "model"):
            (tmp_path / "model").rename(retired)
            begun.set()
            time.sleep(0.2)
            retired.rename(tmp_path / "model")

    thread = threading.Thread(target=swap)
    thread.start()
    begun.wait()
    read_config(tmp_path / "model")
    thread.join()
    assert not hidden(tmp_path)


def test_a_reader_sees_a_whole_model_while_another_process_saves(tiny: Corpus, tmp_path: Path) -> None:
    with endless_training(tiny, tmp_path) as process:
        seen, end = set(), time.monotonic() + 2
        while time.monotonic() < end:
            load_model(tmp_path / "model")
            load_table(tmp_path / "model", load_vocabulary(tmp_path / "model"))
            seen.add(read_config(tmp_path / "model")["files"]["weights.safetensors"])
        assert process.poll() is None
    assert len(seen) > 1  # it was saved while it was read


def test_a_reader_outlasts_any_number_of_saves(tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each save comes between the reading of config.json and that of the weights."""
    folder = tmp_path / "model"
    train_small(tiny, folder, epochs=0.1)
    model, vocabulary = load_model(folder)
    saves = iter(range(8))
    read = folders.read_config

    def read_and_save(place: Path) -> dict[str, object]:
        config = read(place)
        if next(saves, None) is not None:
            with monkeypatch.context() as patch, torch.no_grad():
                patch.setattr(folders, "read_config", read)
                next(model.parameters()).add_(1)
                save_model(folder, model, vocabulary, {})
        return config

    monkeypatch.setattr(folders, "read_config", read_and_save)
    got = folders._read_committed(folder, "weights.safetensors")
    assert got == (folder / "weights.safetensors").read_bytes()
    assert next(saves, None) is None
    (folder / "weights.safetensors").write_bytes(b"")
    with pytest.raises(LightRNNError, match="is damaged"):
        load_model(folder)
    (folder / "weights.safetensors").unlink()
    with pytest.raises(LightRNNError, match=r"has no weights\.safetensors"):
        load_model(folder)


# --- compare

WAITING = """
import contextlib, time
from pathlib import Path
from lightrnn.cli import main, screen

@contextlib.contextmanager
def waiting():
    def report(run, event):
        Path("training").touch()
        while not Path("go").exists():
            time.sleep(0.01)
    yield report, lambda *progress: None

screen.training_screen = waiting
main()
"""


def test_two_processes_share_the_runs(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    models = "".join(f'[[model]]\nname = "{name}"\nhidden_size = {size}\n' for name, size in (("A", 8), ("B", 9)))
    (tmp_path / "grid.toml").write_text(
        'epochs = 0.1\n[shared]\nrecipe = "small"\nrefine = "none"\nstart = "random"\nbatch_size = 4\nwindow = 10\n'
        f'[[corpus]]\nname = "tiny"\ndata = "{tiny.path}"\n{models}'
        '[[model]]\nname = "KN-2"\nkind = "ngram"\norder = 2\n',
        encoding="utf-8",
    )
    arguments = ("compare", "grid.toml", "-o", "results", "--no-plots")
    with started(*arguments, script=WAITING, folder=tmp_path) as process:
        wait_for((tmp_path / "training").exists, process)
        result = call(*arguments)
        assert result.code == 0, result
        assert f"tiny--A--1: passed over, process {process.pid} is making it" in result.err
        assert "2 of 3 runs finished" in result.err
        (tmp_path / "go").touch()
        _, message = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, message
    assert [line for line in message.splitlines() if line.startswith("run ")] == [
        "run 1 of 3: tiny, A, seed 1, 0.1 epochs"
    ]
    assert "3 of 3 runs finished" in message
    assert not hidden(tmp_path)


def test_two_processes_that_need_the_same_corpus_prepare_it_once(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / "corpora" / "small").mkdir(parents=True, exist_ok=True)
        text = made_up_text(20_000, 300, seed=len(split))
        (tmp_path / "corpora" / "small" / f"{split}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "grid.toml").write_text(
        'epochs = 1\n[[corpus]]\nname = "s"\nfolder = "small"\n'
        '[[model]]\nname = "KN"\nkind = "ngram"\n[[model]]\nname = "KN-2"\nkind = "ngram"\norder = 2\n',
        encoding="utf-8",
    )
    arguments = ("compare", "grid.toml", "-o", "results", "--no-plots")
    where = {"folder": tmp_path, "environment": {"LIGHTRNN_CORPORA": "corpora"}}
    with ExitStack() as stack:
        processes = [stack.enter_context(started(*arguments, **where)) for _ in range(2)]
        for process in processes:
            _, message = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, message
    assert len(list((tmp_path / "results" / "runs").iterdir())) == 2
    assert not hidden(tmp_path)


def test_in_one_process_two_threads_do_not_write_one_folder(tmp_path: Path) -> None:
    told = []

    def write() -> None:
        try:
            with replace_output(tmp_path / "x", "model"):
                pass
        except InUse as error:
            told.append(error.holder)

    with replace_output(tmp_path / "x", "model"):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert told == [f"process {os.getpid()}"]
