"""The `lightrnn` program: its commands, and the one place where errors become one sentence and exit code 2."""

import inspect
import os
import signal
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from .. import __version__
from ..errors import LightRNNError, is_out_of_memory, missing_package
from ..processes import ToldElsewhere
from . import (
    compare,
    demo,
    evaluate,
    generate,
    info,
    mix,
    next,
    ngram,
    pack,
    prepare,
    reallocate,
    rescore,
    score,
    table,
    train,
    vectors,
)
from .screen import accept_all_characters, err, one_line

app = typer.Typer(
    name="lightrnn",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Word-level language models with huge vocabularies in a few megabytes (LightRNN, Li et al. 2016).

    Every word has a place in a table; row and column vectors are shared, so 2√V vectors stand in for V.

    Start with [bold]lightrnn demo[/bold], or with your own text:

      lightrnn prepare train.txt --valid valid.txt --test test.txt -o data
      lightrnn train data -o model
      lightrnn evaluate model data
    """,
)
COMMANDS = (
    demo.demo,
    prepare.prepare,
    train.train,
    reallocate.reallocate,
    evaluate.evaluate,
    score.score,
    rescore.rescore,
    next.next_,
    generate.generate,
    ngram.ngram,
    mix.mix,
    pack.pack,
    compare.compare,
    info.info,
    table.table,
    vectors.vectors,
)


def _reflowed(text: str) -> str:
    """A docstring for any width of screen: the lines of a paragraph joined, indented examples kept."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(escape(p) if p.startswith(" ") else p.replace("\n", " ") for p in paragraphs)


for command in COMMANDS:
    app.command(command.__name__, help=_reflowed(command.__doc__ or ""))(command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"lightrnn {__version__}")
        raise typer.Exit


UsageError: Any = typer.BadParameter.__base__  # Click's, wherever this version of Typer keeps it


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    accept_all_characters()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that temporaries are removed
    try:
        raise SystemExit(app(standalone_mode=False))
    except UsageError as error:
        named = [word for word in sys.argv[1:2] if word in {command.__name__ for command in COMMANDS}]
        _fail(f"{error.format_message().rstrip('.')}; see {' '.join(['lightrnn', *named])} --help")
    except ToldElsewhere:
        raise SystemExit(2) from None
    except LightRNNError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        _fail(str(missing_package(error)))
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader went away: quietly stop
        raise SystemExit(1) from None
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        _fail(f"cannot write or read{name}: {error.strerror or error}; what was finished before is intact")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _fail("out of memory; lower --batch-size or --hidden-size, or use a smaller vocabulary with --max-words")


def _fail(sentence: str) -> None:
    err.print(one_line(f"error: {sentence}"), style="red")
    raise SystemExit(2)
