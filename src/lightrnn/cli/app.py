"""The `lightrnn` program: its commands, and the one place where errors become one sentence and exit code 2."""

import os
import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import LightRNNError
from . import demo, evaluate, info, prepare, train
from .screen import err

app = typer.Typer(
    name="lightrnn",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Word-level language models with huge vocabularies in a few megabytes (LightRNN, Li et al. 2016).

    Every word sits in a cell of a table; row and column vectors are shared, so 2√V vectors stand in for V.

    Start with [bold]lightrnn demo[/bold], or with your own text:

      lightrnn prepare train.txt --valid valid.txt --test test.txt -o data
      lightrnn train data -o model
      lightrnn evaluate model data
    """,
)
app.command("prepare")(prepare.prepare)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("info")(info.info)
app.command("demo")(demo.demo)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"lightrnn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    try:
        app()
    except LightRNNError as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader went away: quietly stop
        raise SystemExit(1) from None
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        _fail(f"cannot write or read{name}: {error.strerror or error}; what was finished before is intact")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):  # PyTorch's own error has no class on CPUs
            raise
        _fail("out of memory; lower --batch-size or --hidden-size, or use a smaller vocabulary with --max-words")


def _fail(sentence: str) -> None:
    err.print(f"error: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(2)
