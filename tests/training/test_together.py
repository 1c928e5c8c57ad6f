"""Several processes that train one model: the mathematics of one, whoever dies; and what they refuse."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

import together_runs
from helpers import CPU, Result, made_up_text, metrics, outcome_of, refused, run_here, started, train_small, wait_for
from lightrnn import processes
from lightrnn.errors import LightRNNError
from lightrnn.models.checkpoint import load_lightrnn
from lightrnn.processes import Processes, Share, here, joined
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rules import TextRules
from lightrnn.training.exchange import whole_state
from lightrnn.training.following import load_alike
from together_runs import CASES, run_case

SAME = ("cluster", "matching", "gru", "sigmoid", "hsm", "blackout", "adaptive", "meeting", "taught")
STREAM = (*SAME, "again", "rounded", "averaged", "local")
SENTENCE = ("cluster", "matching", "taught")
CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data folders `stream` and `sentence`, 900 words over some 30, and a teacher for either."""
    folder = tmp_path_factory.mktemp("together")
    for split, words in (("train", 900), ("valid", 150)):
        (folder / f"{split}.txt").write_text(made_up_text(words, 30, seed=len(split)), encoding="utf-8")
    for convention in ("stream", "sentence"):
        texts = {"train": folder / "train.txt", "valid": folder / "valid.txt"}
        prepare(out=folder / convention, rules=TextRules(convention=convention), **texts)
    train_small(Corpus.load(folder / "stream"), folder / "teacher", alone=12, hidden_size=20)
    return folder


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(rank: int, size: int, port: int, host: str = "127.0.0.1") -> dict[str, str]:
    """What torchrun would set, for processes that are started by hand."""
    ranks = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    return ranks | {"MASTER_ADDR": host, "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}


def run_side_by_side(*commands: Sequence[object], script: str = "") -> list[Result]:
    """The program, or a script, once for each list of arguments, as processes that were started together."""
    port, results = free_port(), []
    with ExitStack() as stack:
        members = [
            stack.enter_context(started(*arguments, script=script, environment=environment(rank, len(commands), port)))
            for rank, arguments in enumerate(commands)
        ]
        for process in members:
            out, err = process.communicate(timeout=300)
            results.append(Result(process.returncode, out, err))
    return results


def cases_of(data: Path) -> list[str]:
    return [f"{data / 'stream'}:{case}" for case in STREAM] + [f"{data / 'sentence'}:{case}" for case in SENTENCE]


class Models(dict[int, Path]):
    """The folder of all cases' models by the number of processes that trained them, which is done when it is asked
    for."""

    def __init__(self, data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._data, self._factory = data, tmp_path_factory

    def __missing__(self, size: int) -> Path:
        folder = self[size] = self._factory.mktemp(f"by-{size}")
        if size == 1:
            for name in cases_of(self._data):
                corpus, _, case = name.rpartition(":")
                if case != "again":
                    run_case(Path(corpus), case, folder / f"{Path(corpus).name}-{case}", leads=True)
            return folder
        script = f"import runpy; runpy.run_path({together_runs.__file__!r}, run_name='__main__')"
        for result in run_side_by_side(*[(folder, *cases_of(self._data))] * size, script=script):
            assert result.code == 0, result.err
            assert result.out == ""
        return folder


@pytest.fixture(scope="module")
def models(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(data, tmp_path_factory)


TWO_OR_THREE = pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])


@TWO_OR_THREE
@pytest.mark.parametrize("name", [*(f"stream-{case}" for case in SAME), *(f"sentence-{case}" for case in SENTENCE)])
def test_any_number_of_processes_computes_the_same(models: Models, name: str, size: int) -> None:
    one, several = (json.loads((models[n] / f"{name}.json").read_text()) for n in (1, size))
    assert len(one) >= 10
    # float32 sums in another order: 6e-8 each, and what some hundred steps of Adam make of it
    assert several == pytest.approx(one, rel=1e-6 if len(one) < 100 else 3e-6)
    assert several != one, "the sums are taken in another order; equal ones say that nothing was shared"
    if "table.tsv" in {path.name for path in (models[1] / name).iterdir()}:
        tables = [load_lightrnn(models[n] / name)[0].table for n in (1, size)]
        assert (tables[0].codes == tables[1].codes).all()
    best = [[line["valid_perplexity"] for line in metrics(models[n] / name) if "step" in line] for n in (1, size)]
    assert best[1] == pytest.approx(best[0], rel=1e-5)


@TWO_OR_THREE
def test_equal_numbers_of_processes_give_the_same_bytes(models: Models, size: int) -> None:
    assert outcome_of(models[size] / "stream-matching") == outcome_of(models[size] / "stream-again")


@TWO_OR_THREE
def test_rounded_gradients_are_nearly_the_same(models: Models, size: int) -> None:
    """Eight bits of a gradient are right to 0.4%; losses of whole ones agree to 1e-6."""
    one, several = (json.loads((models[n] / "stream-rounded.json").read_text()) for n in (1, size))
    assert len(one) >= 10
    assert several == pytest.approx(one, rel=0.01)
    assert several != pytest.approx(one, rel=1e-5)


@TWO_OR_THREE
def test_local_steps_learn(models: Models, size: int) -> None:
    """Weights averaged after every fourth mini-batch of one or two tracks a process: worse, but it learns."""
    one, several = ([line["valid_perplexity"] for line in metrics(models[n] / "stream-local")] for n in (1, size))
    assert several[-1] < 0.8 * several[0]
    assert several[-1] < 1.3 * one[-1]  # 15.6 with one process, 16.8 with two, 18.7 with three
    assert several != pytest.approx(one, rel=1e-4)


def test_shares_cover_a_batch_once() -> None:
    for size in (1, 2, 3, 7):
        for tracks in (1, 2, 5, 40):
            found = np.zeros(tracks)
            for rank in range(size):
                process = Processes()
                process.rank, process.size = rank, size
                share = process.share(tracks)
                assert share.size >= 1
                assert share.of == tracks
                found[share.tracks] += share.weight
            assert (found == 1).all()


# --- whoever dies


@contextmanager
def torchrun(*arguments: object, size: int = 2, restarts: int = 0) -> Iterator["subprocess.Popen[str]"]:
    """`torchrun … -m lightrnn` on this host; killed with its workers at the end if it has not ended by then."""
    launch = ("--standalone", "--nproc-per-node", size, "--max-restarts", restarts, "-m", "lightrnn", *arguments)
    script = "import sys; sys.argv[0] = 'torchrun'; from torch.distributed.run import main; main()"
    with started(*launch, script=script, environment={"GLOO_SOCKET_IFNAME": "lo"}) as process:
        try:
            yield process
        finally:
            for worker in workers(process) if process.poll() is None else ():
                os.kill(worker, signal.SIGKILL)


def workers(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that a torchrun has started and that are alive, in the order of their ranks."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(number) for number in found if b"lightrnn" in Path(f"/proc/{number}/cmdline").read_bytes()]


def options_of(case: str) -> list[object]:
    fields = {f"--{name.replace('_', '-')}": value for name, value in CASES[case].items()}
    return ["--recipe", "plain", "--threads", 1, "--device", "cpu", *(x for pair in fields.items() for x in pair)]


def survives(kills: int, models: Models, data: Path, folder: Path, case: str = "cluster") -> None:
    """A run of which a random process is killed so often at random moments, against one that nobody disturbed."""
    moments, state = random.Random(1611), folder / "killed" / "training.safetensors"
    teacher = ("--teacher", data / "teacher") if case == "taught" else ()
    arguments = ("train", data / "stream", "-o", folder / "killed", *options_of(case), *teacher)
    with torchrun(*arguments, restarts=kills) as process:
        for _ in range(kills):
            seen = state.stat().st_mtime_ns if state.exists() else 0
            wait_for(lambda seen=seen: state.exists() and state.stat().st_mtime_ns != seen, process)
            time.sleep(moments.uniform(0, 0.1))
            alive = workers(process)
            os.kill(moments.choice(alive), signal.SIGKILL)
            wait_for(lambda alive=alive: not set(alive) & set(workers(process)), process)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert 1 <= err.count("started anew by torchrun") <= kills  # a kill may come before the word
    assert outcome_of(folder / "killed") == outcome_of(models[2] / f"stream-{case}")


@pytest.mark.skipif(not CHILDREN.exists(), reason="this system does not tell who is whose child in /proc")
def test_a_sigkill_under_torchrun_changes_nothing(models: Models, data: Path, tmp_path: Path) -> None:
    survives(1, models, data, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not CHILDREN.exists(), reason="this system does not tell who is whose child in /proc")
@pytest.mark.parametrize(("case", "kills"), [("cluster", 10), ("local", 3), ("taught", 3)])
def test_sigkills_under_torchrun_change_nothing(
    models: Models, data: Path, tmp_path: Path, case: str, kills: int
) -> None:
    survives(kills, models, data, tmp_path, case)


# --- what is refused


THREADS_LEFT = """
import os, pathlib, torch
from lightrnn.processes import joined

def names():
    return [pathlib.Path(f"/proc/self/task/{task}/comm").read_text() for task in os.listdir("/proc/self/task")]

with joined(torch.device("cpu")) as kept:
    kept.add([torch.ones(3)])
    print(sum("gloo" in name for name in names()) > 0)
print(sum("gloo" in name for name in names()))
"""


@pytest.mark.skipif(not CHILDREN.exists(), reason="threads are counted in /proc")
def test_no_thread_of_the_network_outlives_the_processes_time_together() -> None:
    """One that is still there when Python ends may abort the process, whose work was done."""
    for result in run_side_by_side((), (), script=THREADS_LEFT):
        assert (result.code, result.out, result.err) == (0, "True\n0\n", "")


def test_unequal_data_are_refused_once(data: Path, tmp_path: Path) -> None:
    prepare(out=tmp_path / "other", train=data / "train.txt", valid=data / "train.txt")
    folders = (data / "stream", tmp_path / "other")
    first, second = run_side_by_side(*(("train", folder, "-o", tmp_path / "m") for folder in folders))
    assert "process 1" in (sentence := refused(first))
    assert "copy one data folder to all hosts" in sentence
    assert (second.code, second.out, second.err) == (2, "", "")
    assert not (tmp_path / "m").exists()


def test_text_that_is_not_prepared_is_refused(data: Path) -> None:
    with pytest.raises(LightRNNError, match="no data folder, which several processes need"):
        load_alike(data / "train.txt")


def not_joined(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The sentence of a process that cannot join the others, and says so at once."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    begin = time.monotonic()
    with pytest.raises(LightRNNError) as error, joined(CPU):
        pass
    assert time.monotonic() - begin < 30
    assert here().size == 1
    return str(error.value)


def test_a_port_in_use_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        sentence = not_joined(environment(0, 2, port), monkeypatch)
    assert f"port {port} is in use on this host; choose another MASTER_PORT" in sentence


@pytest.mark.parametrize("rank", [0, 1])
def test_a_host_name_that_does_not_resolve_is_told_at_once(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = environment(rank, 2, free_port(), "no-such-host.invalid") | {"LOCAL_RANK": "0"}
    sentence = not_joined(settings, monkeypatch)
    assert "'no-such-host.invalid' is no address that this host can resolve" in sentence


def test_others_that_never_come_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "JOIN", timedelta(seconds=1))
    sentence = not_joined(environment(0, 2, free_port()), monkeypatch)
    assert "not all of the 2 processes came" in sentence


def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = not_joined({"WORLD_SIZE": "2", "RANK": "first"}, monkeypatch)
    assert "RANK must be a whole number" in sentence


# --- going on with another number


def test_resuming_with_another_number_of_processes_says_what_differs(
    models: Models, data: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(models[2] / "stream-gru", tmp_path / "m")
    before = len(metrics(model))
    result = run_here("train", data / "stream", "-o", model, "--resume", "--epochs", "0.5")
    assert result.code == 0, result.err
    assert "saved by 2 processes, goes on with 1: the same mathematics, but floating-point sums" in result.err
    assert len(metrics(model)) > before


def test_states_of_machines_that_differ_meet_in_single_precision() -> None:
    """One host multiplies in bfloat16, the other does not: what they add up has to be of one type."""
    sent: list[torch.Tensor] = []

    class Two(Processes):
        size = 2

        def add(self, tensors: Sequence[torch.Tensor]) -> None:
            sent.extend(tensors)

    for dtype in (torch.bfloat16, torch.float32):
        state = (torch.ones(1, 2, 3, dtype=dtype),)
        (found,) = whole_state(state, Share(slice(1, 3), 4), Two())
        assert found[0, :, 0].tolist() == [0, 1, 1, 0]
    assert {tensor.dtype for tensor in sent} == {torch.float32}
