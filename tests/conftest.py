"""Shared fixtures: real corpora through LIGHTRNN_CORPORA, a tiny made-up one for everything else."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from lightrnn.cli import main
from lightrnn.text.corpus import Corpus, prepare

torch.set_num_threads(1)


def corpus_folder(name: str) -> Path:
    """The folder of a real corpus, or a skip that says why."""
    root = os.environ.get("LIGHTRNN_CORPORA")
    if not root:
        pytest.skip("LIGHTRNN_CORPORA is not set: no real corpora here")
    folder = Path(root) / name
    if not folder.is_dir():
        pytest.skip(f"LIGHTRNN_CORPORA has no {name}")
    return folder


def made_up_text(words: int, vocabulary: int, seed: int) -> str:
    """Lines of 1 to 12 words drawn from a skewed distribution in which each word depends on the one before."""
    rng = np.random.default_rng(seed)
    lines, line, word = [], [], 0
    for _ in range(words):
        word = int((word + rng.zipf(2.2)) % vocabulary)
        line.append(f"w{word}")
        if rng.random() < 0.15:
            lines.append(" ".join(line))
            line = []
    return "\n".join([*lines, " ".join(line)]) + "\n"


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


class Result(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Call:
    """The program in this process, with some bytes on stdin."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["lightrnn", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = (data.decode() for data in capsysbinary.readouterr())
        return Result(int(stopped.value.code or 0), out, err)

    return run
