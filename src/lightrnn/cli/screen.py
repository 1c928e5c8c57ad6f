"""What people see: results on stdout, progress and notes on stderr."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..run import Report
from ..training import Batch, Check, Trainer

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)


def note(message: str) -> None:
    """A line for the person at the screen."""
    err.print(message, highlight=False)


def table(title: str | None, *columns: str, rows: list[list[str]]) -> Table:
    """A table whose first column is text and whose others are figures."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
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
        recent: list[float] = []  # smoothed nats per word, words per second

        def report(trainer: Trainer, event: Batch | Check) -> None:
            nonlocal last_line
            position = trainer.position
            rate = position.words / max(position.seconds, 1e-9)
            if isinstance(event, Check):
                last_line = time.monotonic()
                err.print(_check_line(trainer, event), highlight=False)
                return
            loss = event.nats / event.tokens
            recent[:] = [0.98 * recent[0] + 0.02 * loss if recent else loss]
            used = trainer.progress
            left = position.seconds * (1 - used) / used if used > 0 else 0.0
            facts = f"loss {recent[0]:.3f}  {rate:,.0f} words/s  {_clock(left)} left"
            progress.update(bar, completed=used, description=_epoch(trainer), facts=facts)
            if not err.is_terminal and time.monotonic() - last_line > 30:
                last_line = time.monotonic()
                err.print(f"{_epoch(trainer)}  {used:.0%}  {facts}", highlight=False)

        yield report


def _epoch(trainer: Trainer) -> str:
    return f"epoch {min(trainer.position.epoch + 1, trainer.config.epochs)}/{trainer.config.epochs}"


def _check_line(trainer: Trainer, check: Check) -> str:
    position = trainer.position
    epoch = position.epoch + position.epoch_tokens / len(trainer.train)
    return (
        f"epoch {epoch:<5.4g} train {check.train_perplexity:8.2f}  valid {check.validation.perplexity:8.2f}"
        f"{' *' if check.improved else '  '} rate {check.learning_rate:<9.3g} "
        f"{position.words / position.seconds:,.0f} words/s  {_clock(position.seconds)}"
    )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@contextmanager
def stop_requests() -> Iterator[Callable[[], int]]:
    """Ctrl-C and SIGTERM ask for a stop at the next safe point: the yielded function returns the signal, or 0."""
    received = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received = number
        note("stopping: saving first …")

    previous: dict[int, Any] = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
