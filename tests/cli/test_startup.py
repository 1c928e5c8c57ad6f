"""The program answers at once: what is not needed is not imported. And it keeps to the threads that it is allowed."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from helpers import Call, printed, run_apart, started
from lightrnn.text.corpus import Corpus

HEAVY = ("torch", "numba", "scipy")
IMPORTED = """
import sys
from lightrnn.cli import main
try:
    main()
except SystemExit as stopped:
    code = stopped.code
print([name for name in ("torch", "numba", "scipy", "numpy") if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments: object) -> str:
    """The last line on stderr: which heavy modules a cold process has in the end."""
    result = run_apart(*arguments, script=IMPORTED)
    assert result.code == 0, result.err
    return result.err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("train", "--help"), ("compare", "--help"), ("next", "--help"), ("table", "--help")],
)
def test_help_and_version_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert imported(*arguments) == "[]"


def test_completion_imports_nothing_heavy() -> None:
    asked = {"_LIGHTRNN_COMPLETE": "complete_bash", "COMP_WORDS": "lightrnn train --re", "COMP_CWORD": "2"}
    result = run_apart(environment=asked | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert " typer\n" in result.err
    assert not any(f" {name}\n" in result.err for name in HEAVY)


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, lightrnn; print([m for m in ('torch', 'numba', 'scipy', 'numpy') if m in sys.modules])"
    assert printed(run_apart(script=script)) == "[]\n"


def test_next_words_of_a_lightrnn_need_no_pytorch(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    printed(call("train", tiny.path, "-o", "model", "--epochs", "0.2", "--hidden-size", "8"))
    for arguments in (("next", tmp_path / "model", "w1 w2"), ("generate", tmp_path / "model", "-n", "5")):
        assert imported(*arguments) == "['numpy']"


# --- threads


def seconds_by_thread(process: int) -> dict[int, float]:
    """CPU seconds of each thread of a process, as the system tells them."""
    found = {}
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def watched(*arguments: object) -> list[float]:
    """The most CPU seconds that each thread of the program was seen with, most first."""
    limits = ["OMP_NUM_THREADS", *(name for name in os.environ if name.endswith("_NUM_THREADS"))]
    most: dict[int, float] = {}
    with started(*arguments, environment=dict.fromkeys(limits)) as process:
        while process.poll() is None:
            for thread, seconds in seconds_by_thread(process.pid).items():
                most[thread] = max(seconds, most.get(thread, 0.0))
            time.sleep(0.02)
        assert process.returncode == 0, process.communicate()
    return sorted(most.values(), reverse=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough words that the start table, the clustering and the matching have matrices to multiply."""
    folder = tmp_path_factory.mktemp("large")
    words = (np.random.default_rng(1).zipf(1.3, 60_000) % 6000).astype(str)
    (folder / "text").write_text("\n".join(" ".join(line) for line in words.reshape(-1, 12)) + "\n")
    return folder


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc that tells the seconds of threads")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core keeps everything on one core")
@pytest.mark.parametrize("refine", ["none", "cluster", "matching"])
def test_one_thread_keeps_training_on_one_core(large: Path, tmp_path: Path, refine: str) -> None:
    """The start table with its SVD and clustering, the refinements and their solvers, training and validation."""
    options = ("--epochs", "0.3", "--hidden-size", "64", "--threads", "1", "--refine", refine)
    first, *others = watched("train", large / "text", "-o", tmp_path / "model", *options)
    assert first > 1.0  # it did work
    assert sum(others) < 0.07 * first  # the others wait: PyTorch's and BLAS's helpers that are never asked


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc that tells the seconds of threads")
def test_one_thread_keeps_evaluation_on_one_core(call: Call, large: Path, tmp_path: Path) -> None:
    printed(call("train", large / "text", "-o", "model", "--epochs", "0.1", "--hidden-size", "100", "--threads", "1"))
    first, *others = watched("evaluate", tmp_path / "model", large / "text", "--threads", "1")
    assert first > 1.0  # it did work
    assert sum(others) < 0.05 * first  # as above


def test_the_threads_of_a_run_are_recorded(tiny: Corpus, call: Call, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(
        f'epochs = 0.1\n[[corpus]]\nname = "tiny"\ndata = "{tiny.path}"\n[[model]]\nname = "L"\nhidden_size = 8\n'
    )
    printed(call("compare", "grid.toml", "-o", "results", "--threads", "1", "--no-plots"))
    facts = json.loads((tmp_path / "results" / "runs" / "tiny--L--1.json").read_text())
    assert facts["machine"]["threads"] == 1
