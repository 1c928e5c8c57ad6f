"""What people see: results on stdout, progress and notes on stderr."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import exp
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..training.bootstrap import Event, Refined, Report, Run
from ..training.trainer import Batch, Check

out = Console(soft_wrap=True, markup=False, emoji=False)  # names of files and models are no markup
err = Console(stderr=True, soft_wrap=True, markup=False, emoji=False)


def note(message: str) -> None:
    """A line for the person at the screen."""
    err.print(message, highlight=False)


def write(text: str) -> None:
    """Text for another program: UTF-8 whatever the locale, on its way at once."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def patient_note(seconds: float = 10.0) -> Callable[[str], None]:
    """Notes on work that nobody expected to wait for: the first after so many seconds, then one in each such time."""
    last = time.monotonic()

    def tell(message: str) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            note(f"… {message}")

    return tell


def table(title: str | None, *columns: str, rows: list[list[str]]) -> Table:
    """A table whose first column is text and whose others are figures."""
    made = Table(title=title, title_justify="left", title_style="bold", show_header=any(columns))
    made.box, made.pad_edge, made.padding = None, False, (0, 2, 0, 0)
    for index, column in enumerate(columns):
        if index == 0:
            made.add_column(column, no_wrap=True)  # long names give way, figures do not
        else:
            width = max(len(cell) for cell in (column, *(row[index] for row in rows)))
            made.add_column(column, justify="right", no_wrap=True, min_width=width)
    for row in rows:
        made.add_row(*row)
    return made


@contextmanager
def counter(unit: str) -> Iterator[Callable[[str, int], None]]:
    """A live count for work of unknown length: call it with (what is being done, how much so far)."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description} {task.fields[amount]}"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task("", total=None, amount="")
        yield lambda what, amount: progress.update(task, description=what, amount=f"{amount:,} {unit}")


@contextmanager
def training_screen() -> Iterator[Report]:
    """A progress bar with perplexity, words/s and time left; a line for each validation."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[facts]}"),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        bar = progress.add_task("training", total=1.0, facts="")
        last_line = time.monotonic()
        smooth = 0.0  # nats a word

        def report(run: Run, event: Event) -> None:
            nonlocal last_line, smooth
            trainer = run.trainer
            position = trainer.position
            if not isinstance(event, Batch):
                last_line = time.monotonic()
                line = _check_line(run, event) if isinstance(event, Check) else _refined_line(run, event)
                err.print(line, highlight=False)
                return
            loss = event.nats / event.tokens
            smooth = 0.98 * smooth + 0.02 * loss if smooth else loss
            used = trainer.progress
            left = position.seconds * (1 - used) / used if used > 0 else 0.0
            speed = position.words / max(position.seconds, 1e-9)
            facts = f"perplexity {exp(min(smooth, 700.0)):.1f}  {speed:,.0f} words/s  {_clock(left)} left"
            of_all = "" if trainer.config.minutes else f"/{trainer.config.epochs:g}"
            where = f"{_round(run)}epoch {trainer.epochs_done:.2f}{of_all}"
            progress.update(bar, completed=used, description=where, facts=facts)
            if not err.is_terminal and time.monotonic() - last_line > 30:
                last_line = time.monotonic()
                err.print(f"{where}  {facts}", highlight=False)

        yield report


def _round(run: Run) -> str:
    refinements = run.recipe.bootstrap.refinements
    return f"round {run.round + 1}/{refinements + 1}  " if refinements else ""


def _check_line(run: Run, check: Check) -> str:
    position = run.trainer.position
    seconds, words = run.seconds + position.seconds, run.words + position.words
    best = " *" if run.best_perplexity is None or check.validation.perplexity < run.best_perplexity else "  "
    return (
        f"{_round(run)}epoch {run.trainer.epochs_done:<5.3g} train {check.train_perplexity:8.2f}  "
        f"valid {check.validation.perplexity:8.2f}{best} rate {check.learning_rate:<9.3g} "
        f"{words / seconds:,.0f} words/s  {_clock(seconds)}"
    )


def _refined_line(run: Run, refined: Refined) -> str:
    refinement = refined.refinement
    costs = ""
    if refinement.cost_before is not None and refinement.cost_after is not None and refinement.bound is not None:
        gap = 1 - refinement.bound / refinement.cost_after if refinement.cost_after else 0.0
        costs = (
            f"; cost {refinement.cost_before:.4f} to {refinement.cost_after:.4f} nats a token, "
            f"lower bound {refinement.bound:.4f} (gap {gap:.1%})"
        )
    return (
        f"table refined by {run.recipe.bootstrap.refine}: {refinement.moved:,} words moved, with "
        f"{refinement.moved_tokens:.1%} of the tokens{costs}; perplexity {refined.perplexity_before:.1f} before, "
        f"{refined.perplexity_after:.1f} right after; {refinement.seconds:.1f} s, "
        f"{refined.share_of_training:.2%} of the training time"
    )


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
