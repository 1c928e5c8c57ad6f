"""Fixtures for all rooms: a tiny made-up corpus, the program in a folder of the test's own."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.register_assert_rewrite("helpers", "golden_runs")
os.environ.pop("FORCE_COLOR", None)
os.environ |= {"COLUMNS": "200", "_TYPER_FORCE_DISABLE_TERMINAL": "1", "PYTHONDONTWRITEBYTECODE": "1"}
torch.set_num_threads(1)

from browser import PROGRAMS, Browser, started_browser  # noqa: E402
from helpers import BEFORE, Call, made_up_text, run_here  # noqa: E402
from lightrnn.text.corpus import Corpus, prepare  # noqa: E402


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """4,000 words of training text over some 60 words."""
    folder = tmp_path_factory.mktemp("tiny")
    for split, words in (("train", 4000), ("valid", 700), ("test", 700)):
        (folder / f"{split}.txt").write_text(made_up_text(words, 60, seed=len(split)), encoding="utf-8")
    return prepare(
        [str(folder / "train.txt")],
        folder / "data",
        valid=[str(folder / "valid.txt")],
        test=[str(folder / "test.txt")],
    )


@pytest.fixture
def data(tiny: Corpus, tmp_path: Path) -> Path:
    """A copy of the tiny corpus, to damage."""
    return Path(shutil.copytree(tiny.path, tmp_path / "data"))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A copy of the folders that version 0.1.0 wrote."""
    return Path(shutil.copytree(BEFORE, tmp_path / "before"))


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The program in this process, run in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return run_here


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; on Debian: apt-get install chromium chromium-driver")
    with started_browser(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The one browser of all tests, its window as at the start: empty, and nothing complained of yet."""
    chromium.open(None)
    chromium.resize(1280, 900)
    chromium.complaints()
    return chromium
