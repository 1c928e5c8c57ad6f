"""lightrnn compare"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import shipped_names
from ..errors import LightRNNError, is_out_of_memory
from ..outputs import InUse, refuse_foreign
from ..runtime import choose_device, keep_memory, use_threads
from . import screen
from .options import DeviceOption, ThreadsOption

if TYPE_CHECKING:
    from ..compare.grid import Budget, Grid, GridRun
    from ..compare.runs import Comparison


def compare(
    grid: Annotated[str, typer.Argument(metavar="GRID", help=f"{', '.join(shipped_names('grid'))}, or a file.toml.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="RESULTS", help="The folder of runs and tables.")],
    work: Annotated[
        Path | None, typer.Option("--work", help="Folder of data and models; RESULTS/work unless given.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="CORPUS", help="Run these corpora only.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", metavar="NAME", help="Run these models only.")] = None,
    epochs: Annotated[float | None, typer.Option("--epochs", help="Budget, in place of the grid's.")] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Budget, in place of the grid's.")] = None,
    tables_only: Annotated[bool, typer.Option("--tables-only", help="Run nothing; tables of what is there.")] = False,
    plot: Annotated[
        bool | None, typer.Option("--plots/--no-plots", help="Draw plots; if matplotlib is there, unless given.")
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
) -> None:
    """Make the paper's tables: models against each other on the same data, under the same budget.

    GRID names corpora, models, seeds and a budget of epochs or minutes that is the same for every network. A run is
    one corpus, model and seed; runs come one after the other (for several at once, run the command several times: each
    passes over the runs that another is making). A finished run is one small file in RESULTS/runs and is never
    repeated; Ctrl-C saves and stops, and the same command goes on, to the same figures if the budget is epochs.
    RESULTS/tables.md, tables.csv and the plots are written after every run, from all that are finished. A run that
    fails is told at the end; the others are done.

    Corpora are found under the folder that the environment variable LIGHTRNN_CORPORA names, or are folders made by
    `lightrnn prepare`. A grid of your own:

      epochs = 5
      mix = true               # with the n-gram model; weights found on the validation text
      target = "HSM"           # time how long the others take to reach its perplexity
      adapt = true             # what a network is worth too when it learns as it reads the test text,
      cache = 2000             # and with a cache of so many words
      [shared]                 # fields of all networks
      recipe = "small"
      [[corpus]]
      name = "mine"
      data = "data"            # beside the grid; or folder = "ptb", preset = "ptb"
      [[model]]
      name = "LightRNN"
      [[model]]
      name = "HSM"
      model = "hsm"            # any field of a recipe
      [[model]]
      name = "smaller"
      hidden_size = 100
      teacher = "LightRNN"     # a model above, from which this one learns besides the text
      [[model]]
      name = "KN-5"
      kind = "ngram"
      order = 5

      lightrnn compare grid.toml -o results
      lightrnn compare main -o results --only ptb --minutes 5
      lightrnn compare main -o results --minutes 5 --tables-only
    """
    from ..compare.grid import Grid
    from ..compare.report import layout_of, write_report
    from ..compare.runs import Comparison
    from ..compare.tables import overview
    from ..plot import check_matplotlib

    if plot:
        check_matplotlib()
    use_threads(threads)
    keep_memory()
    settings = Grid.load(grid, _budget(epochs, minutes))
    corpora = os.environ.get("LIGHTRNN_CORPORA")
    comparison = Comparison(
        settings, out, work or out / "work", corpora=Path(corpora) if corpora else None, device=choose_device(device)
    )
    refuse_foreign(out)
    asked = _chosen(settings, settings.runs(), only, model)
    chosen = [run for run in asked if run in comparison.missing()]
    out.mkdir(parents=True, exist_ok=True)
    with_plots = find_spec("matplotlib") is not None if plot is None else plot
    command = _command(grid, out, epochs, minutes, threads)
    failures = []
    if not tables_only:
        comparison.check_corpora(chosen)
        with _telling_how_to_go_on():
            for run in chosen:
                try:
                    with comparison.claimed(run):
                        _run(comparison, run, asked)
                except InUse as error:
                    screen.note(f"{run.name}: passed over, {error.holder} is making it")
                    continue
                except (LightRNNError, MemoryError, RuntimeError) as error:
                    if not isinstance(error, LightRNNError) and not is_out_of_memory(error):
                        raise
                    reason = str(error) if isinstance(error, LightRNNError) else "out of memory"
                    failures.append(f"{run.name}: {reason}")
                    screen.note(f"  failed: {reason}")
                write_report(comparison, with_plots, command)
    write_report(comparison, with_plots, command)
    header, rows = overview(layout_of(settings), comparison.finished())
    spread = ", ± standard deviation over seeds" if any("±" in figure for row in rows for figure in row) else ""
    screen.out.print(screen.table(f"test perplexity/parameters{spread}", *header, rows=rows))
    screen.note(f"{len(comparison.finished())} of {len(settings.runs())} runs finished; tables in {out / 'tables.md'}")
    if failures:
        count = f"{len(failures)} run{'s' * (len(failures) > 1)}"
        raise LightRNNError(
            f"{count} failed: {'; '.join(failures)}; mend the grid, remove the folder of such a run in "
            f"{comparison.work}, and run the same command"
        )


def _command(grid: str, out: Path, epochs: float | None, minutes: float | None, threads: int) -> str:
    """What makes all the runs: the command without what only chose among them."""
    options = (("--epochs", epochs), ("--minutes", minutes), ("--threads", threads))
    given = [part for name, value in options if value for part in (name, f"{value:g}")]
    return shlex.join(["lightrnn", "compare", grid, "-o", str(out), *given])


def _budget(epochs: float | None, minutes: float | None) -> Budget | None:
    from ..compare.grid import checked_budget

    if epochs is not None and minutes is not None:
        raise LightRNNError("--epochs and --minutes cannot be used together: a budget is one of them")
    if epochs is not None:
        return checked_budget("epochs", epochs, "the command line")
    return checked_budget("minutes", minutes, "the command line") if minutes is not None else None


def _chosen(grid: Grid, runs: list[GridRun], only: list[str] | None, models: list[str] | None) -> list[GridRun]:
    for option, asked, known in (
        ("--only", only, [entry.name for entry in grid.corpora]),
        ("--model", models, [entry.name for entry in grid.models]),
    ):
        for name in asked or []:
            if name not in known:
                raise LightRNNError(f"{option} must be one of {', '.join(known)}, got {name!r}")
    return [
        c for c in runs if c.corpus.name in (only or [c.corpus.name]) and c.model.name in (models or [c.model.name])
    ]


@contextmanager
def _telling_how_to_go_on() -> Iterator[None]:
    """Where there is nothing to save first, Ctrl-C and SIGTERM stop at once: whole runs and stages are kept."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stopped:
        screen.note("stopped; go on with the same command")
        raise typer.Exit(130 if isinstance(stopped, KeyboardInterrupt) else int(stopped.code or 0)) from None


def _run(comparison: Comparison, run: GridRun, asked: list[GridRun]) -> None:
    """Do one of the runs that were asked for, unless another process has finished it meanwhile."""
    missing = [other for other in comparison.missing() if other in asked]
    if run not in missing:
        return
    budget = f", seed {run.seed}, {run.corpus.budget}" if run.recipe else ""
    number = f"run {len(asked) - len(missing) + 1} of {len(asked)}"
    screen.note(f"{number}: {run.corpus.name}, {run.model.name}{budget}")
    with screen.counter("words") as progress:
        comparison.open(run.corpus, progress)
    if run.recipe is not None:
        with screen.stop_requests() as stop, screen.training_screen() as (report, progress):
            outcome = comparison.train(run, report, progress, lambda: stop() != 0)
            signal = stop()
        if outcome.interrupted:
            screen.note(f"saved; stopped at {run.name}; go on with the same command")
            raise typer.Exit(128 + signal)
    with screen.counter("words") as progress:
        facts = comparison.finish(run, progress)
    mixed = f", mixed {facts['mix']['test']:.2f}" if facts["mix"] else ""
    beside = "".join(f", {name.replace('_', ' ')} {ppl:.2f}" for name, ppl in facts.get("while_reading", {}).items())
    screen.note(f"  valid {facts['valid']:.2f}, test {facts['test']:.2f}{mixed}{beside}")
