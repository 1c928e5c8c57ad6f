"""What people see: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import codecs
import io
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import exp
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console
from rich.table import Table

from ..runtime import Progress

if TYPE_CHECKING:
    from ..training.bootstrap import Event, Report
    from ..training.refinement import NextTable
    from ..training.run import Refined, Run
    from ..training.trainer import Validated

# Words and names of files are shown as they are, whatever brackets and colons they hold.
out = Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
err = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
PLAIN = {
    **{"√": "sqrt ", "×": "x", "…": "...", "±": "+/-", "→": "->", "·": "*", "½": "1/2", "²": "^2", "∞": "inf"},
    **dict.fromkeys("─━╸╺", "-"),
    **dict.fromkeys("╭╮╰╯", "+"),
    "│": "|",
}


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """For an encoding that lacks a character: plain ones that mean the same, or its number."""
    assert isinstance(error, UnicodeEncodeError)
    character = error.object[error.start]
    one = UnicodeEncodeError(error.encoding, error.object, error.start, error.start + 1, error.reason)
    return (PLAIN[character], error.start + 1) if character in PLAIN else codecs.backslashreplace_errors(one)


codecs.register_error("lightrnn-plain", _plain)


def accept_all_characters() -> None:
    """From now on no character ends the program, whatever the terminal's encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="lightrnn-plain")


def one_line(message: str) -> str:
    """Line ends and other characters that cannot be shown, as names of files may hold, by their numbers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def note(message: str) -> None:
    """A line for the person at the screen."""
    err.print(one_line(message))


def write(text: str) -> None:
    """Text for another program: UTF-8 whatever the locale, on its way at once; names of files as the bytes they are."""
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.buffer.flush()


def print_json(value: dict[str, Any]) -> None:
    """One object, escaped where the terminal cannot show all characters."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    out.print_json(json.dumps(value), ensure_ascii=not unicode)


def _patient_note(seconds: float = 10.0) -> Progress:
    """Lines on work that nobody expected to wait for: the first after so many seconds, then one in each such time."""
    last, told = time.monotonic(), _Told()

    def tell(what: str, done: int = 0, total: int = 0, /) -> None:
        nonlocal last
        line = told(what, done, total)
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            note(f"… {line}")

    return tell


class _Told:
    """What is being done and how far it is, in words; after some seconds of it, how fast, and how long it will take."""

    def __init__(self, patience: float = 2.0) -> None:
        self.patience = patience
        self.what, self.begin, self.first = "", 0.0, 0

    def __call__(self, what: str, done: int, total: int) -> str:
        if not total:
            return what
        now = time.monotonic()
        if what != self.what or done < self.first:
            self.what, self.begin, self.first = what, now, done
        seconds, more = now - self.begin, done - self.first
        line = f"{what} {done:,} of {total:,}"
        if seconds < self.patience or more <= 0:
            return line
        rate = more / seconds
        return f"{line}, {f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'}/s, {_clock((total - done) / rate)} left"


def table(title: str | None, *columns: str, rows: list[list[str]]) -> Table:
    """A table whose first column is text and whose others are figures."""
    shown = Table(title=title, title_justify="left", title_style="bold", show_header=any(columns))
    shown.box, shown.pad_edge, shown.padding = None, False, (0, 2, 0, 0)
    for index, column in enumerate(columns):
        if index == 0:
            shown.add_column(column, no_wrap=True)  # long names give way, figures do not
        else:
            width = max(len(entry) for entry in (column, *(row[index] for row in rows)))
            shown.add_column(column, justify="right", no_wrap=True, min_width=width)
    for row in rows:
        shown.add_row(*row)
    return shown


@contextmanager
def counter(unit: str) -> Iterator[Progress]:
    """A count of so many `unit` as it grows, how fast, and how long it will take where that is known: on a terminal a
    live line, else a line now and then."""
    with bars.Progress(
        bars.SpinnerColumn("line"),
        bars.TextColumn("{task.description}", markup=False),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task("", total=None)
        tell = _patient_note()
        doing, since = "", time.monotonic()

        def count(what: str, done: int = 0, total: int = 0, /) -> None:
            nonlocal doing, since
            if what != doing:
                doing, since = what, time.monotonic()
            line = f"{what} {_paced(done, total, time.monotonic() - since, unit)}"
            if err.is_terminal:
                progress.update(task, description=line)
            else:
                tell(line)

        yield count


def _paced(done: int, total: int, seconds: float, unit: str) -> str:
    """How many, how fast, how long still."""
    amount = f"{done:,}{f' of {total:,}' if total else ''} {unit}"
    if seconds < 1 or not done:
        return amount
    left = f", {_clock(seconds * (total - done) / done)} left" if total else ""
    return f"{amount}, {done / seconds:,.0f} {unit}/s{left}"


@contextmanager
def waiting(seconds: float = 5.0) -> Iterator[Progress]:
    """What is being done: on a terminal one live line that vanishes at the end, else a line now and then."""
    with bars.Progress(
        bars.SpinnerColumn("line"),
        bars.TextColumn("{task.description}", markup=False),
        bars.TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task, told = progress.add_task("", total=None), _Told()

        def tell(what: str, done: int = 0, total: int = 0, /) -> None:
            progress.update(task, description=told(what, done, total))

        yield tell if err.is_terminal else _patient_note(seconds)


@contextmanager
def training_screen() -> Iterator[tuple[Report, Progress]]:
    """A progress bar with perplexity, words/s and time left, or what is being done between rounds; a line for each
    validation."""
    from ..text.corpus import is_data_folder
    from ..training.trainer import Batch, Validated

    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[facts]}"),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        bar = progress.add_task("training", total=1.0, facts="")
        last_line = time.monotonic()
        smooth = 0.0  # nats a word
        is_gone = False  # the data folder

        def report(run: Run, event: Event) -> None:
            nonlocal last_line, smooth, is_gone
            trainer = run.trainer
            if not isinstance(event, Batch):
                last_line = time.monotonic()
                line = _validation_line(run, event) if isinstance(event, Validated) else _refined_line(run, event)
                err.print(line)
                if not is_gone and not is_data_folder(run.corpus.path):
                    is_gone = True
                    note(f"note: {run.corpus.path} is gone; the run goes on without it, but could not be resumed")
                return
            if event.tokens:  # a short window may have the ends of words only
                loss = event.nats / event.tokens
                smooth = 0.98 * smooth + 0.02 * loss if smooth else loss
            used = trainer.progress
            left = trainer.seconds * (1 - used) / used if used > 0 else 0.0
            speed = trainer.position.words / max(trainer.seconds, 1e-9)
            facts = f"perplexity {exp(min(smooth, 700.0)):.1f}  {speed:,.0f} words/s  {_clock(left)} left"
            of_all = "" if trainer.config.minutes else f"/{trainer.config.epochs:g}"
            where = f"{_round(run)}epoch {trainer.epochs_done:.2f}{of_all}"
            progress.update(bar, completed=used, description=where, facts=facts)
            if not err.is_terminal and time.monotonic() - last_line > 30:
                last_line = time.monotonic()
                err.print(f"{where}  {facts}")

        told = _Told()

        def tell(what: str, done: int = 0, total: int = 0, /) -> None:
            progress.update(bar, description=told(what, done, total), facts="")

        yield report, tell if err.is_terminal else _patient_note()


def _round(run: Run) -> str:
    refinements = run.recipe.bootstrap.refinements
    return f"round {run.round + 1}/{refinements + 1}  " if refinements else ""


def _validation_line(run: Run, event: Validated) -> str:
    perplexity, seconds = event.validation.perplexity, run.clock.training
    best = " *" if run.best_perplexity is None or perplexity < run.best_perplexity else "  "
    return (
        f"{_round(run)}epoch {run.trainer.epochs_done:<5.3g} train {event.train_perplexity:8.2f}  "
        f"valid {perplexity:8.2f}{best} rate {event.learning_rate:<9.3g} "
        f"{run.words_read / seconds:,.0f} words/s  {_clock(seconds)}"
    )


def _refined_line(run: Run, refined: Refined) -> str:
    found = refined.found
    costs = ""
    if found.cost_before is not None and found.cost_after is not None:
        costs = (
            f"; cost {found.cost_before:.4f} to {found.cost_after:.4f} nats a token, lower bound {shown_bound(found)}"
        )
    return (
        f"table refined by {run.recipe.bootstrap.refine}: {found.moved:,} words moved, with "
        f"{found.moved_tokens:.1%} of the tokens{costs}; perplexity {refined.perplexity_before:.1f} before, "
        f"{refined.perplexity_after:.1f} right after (not trained on the new table yet); {found.seconds:.1f} s, "
        f"{refined.share_of_training:.2%} of the training time"
    )


def shown_bound(found: NextTable) -> str:
    """The lower bound of a matching's cost and how far above it the cost is, or that there is none."""
    if found.bound is None or found.cost_after is None:
        return "none with this solver"
    gap = 1 - found.bound / found.cost_after if found.cost_after else 0.0
    return f"{found.bound:.4f} (gap {gap:.1%})"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@contextmanager
def stop_requests() -> Iterator[Callable[[], int]]:
    """Ctrl-C and SIGTERM ask for a stop at the next safe point: the yielded function returns the signal, or 0.

    A second one does not wait: what is on disk is whole at any moment.
    """
    received = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        if received:
            raise KeyboardInterrupt
        received = number
        note("stopping: saving first … (once more: stop at once)")

    previous: dict[int, Any] = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
