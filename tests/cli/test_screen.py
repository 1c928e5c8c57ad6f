"""What people see: notes that vanish from a terminal and are rare in a pipe, lines on a training."""

import io
import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from helpers import CPU, ROUNDS
from lightrnn.cli import screen
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.bootstrap import Event
from lightrnn.training.trainer import Validated


def left_on_screen(written: str) -> str:
    """What a terminal shows after some text with the codes that Rich uses: line up, erase line, carriage return."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[?\d;]*[A-Za-z]|[\r\n])", written):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part and not part.startswith("\x1b") and part != "\r":
            lines[row] += part
    return "\n".join(lines).strip()


def terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr(screen, "err", Console(file=file, force_terminal=is_terminal, width=90, markup=False))
    clock = itertools.count(0, 4)
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    return file


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_notes_vanish_from_a_terminal_and_are_rare_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, training: bool
) -> None:
    file = terminal(monkeypatch, is_terminal)
    with screen.training_screen() if training else screen.waiting() as found:
        tell = found[1] if isinstance(found, tuple) else found
        for words in range(1000, 13000, 1000):
            tell(f"read {words:,} of 12,000 words [bold]")
            if is_terminal:
                time.sleep(0.02)
    if is_terminal:
        assert "read 12,000 of 12,000 words" in file.getvalue()
        assert left_on_screen(file.getvalue()) == ""
    else:
        lines = file.getvalue().splitlines()
        assert 3 <= len(lines) < 12  # every ten seconds at most, of the 48 that the clock tells
        assert all(line.startswith("… read ") and line.endswith("[bold]") for line in lines)


def test_the_star_marks_the_best_of_all_rounds(tiny: Corpus, tmp_path: Path) -> None:
    lines: list[tuple[float, str]] = []

    def note(run: bootstrap.Run, event: Event) -> None:
        if isinstance(event, Validated):
            lines.append((event.validation.perplexity, screen._validation_line(run, event)))

    bootstrap.train(tiny, ROUNDS, tmp_path / "m", device=CPU, report=note)
    starred = ["* rate" in line for _, line in lines]
    perplexities = [perplexity for perplexity, _ in lines]
    assert starred == [p < min([np.inf, *perplexities[:i]]) for i, p in enumerate(perplexities)]
    assert not all(starred)


def test_progress_tells_how_fast_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 4)
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    told = screen._Told()
    assert told("words", 100, 10_100) == "words 100 of 10,100"
    assert told("words", 900, 10_100) == "words 900 of 10,100, 200/s, 0:46 left"
    assert told("passes", 1, 12) == "passes 1 of 12"
    assert told("passes", 3, 12) == "passes 3 of 12, 0.5/s, 0:18 left"
    assert told("something", 0, 0) == "something"
