"""lightrnn train"""

import contextlib
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import run
from ..checkpoint import CONFIG, load_model, read_config
from ..config import ModelConfig, Recipe, TrainingConfig, option_name, recipe_names
from ..corpus import Corpus
from ..corpus import prepare as prepare_corpus
from ..errors import LightRNNError
from ..files import expand
from ..model import LightRNN
from ..presets import find_splits
from ..table import WordTable
from ..vocabulary import Vocabulary
from . import screen
from .options import DeviceOption, ForceOption, ThreadsOption, check_output, use_threads, with_settings


@with_settings(ModelConfig, TrainingConfig)
def train(
    data: Annotated[Path, typer.Argument(metavar="DATA|TEXT", help="A folder made by `lightrnn prepare`, or text.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model folder to make.")],
    recipe: Annotated[
        str, typer.Option("--recipe", help=f"Settings to start from: {', '.join(recipe_names())}, or a file.toml.")
    ] = "small",
    valid: Annotated[Path | None, typer.Option("--valid", help="Validation text, when training from text.")] = None,
    table: Annotated[Path | None, typer.Option("--table", help="A word table to start from.")] = None,
    init: Annotated[
        Path | None, typer.Option("--init", help="Go on from the weights, table and words of this model.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the stopped run in the model folder.")] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    force: ForceOption = False,
    **overrides: Any,
) -> None:
    """Train a LightRNN.

    The model folder always holds the best model so far, and what is needed to go on: Ctrl-C saves and stops, and the
    same command with --resume continues to the same result as if it had never stopped. Straight from a text file
    works too: it is prepared into MODEL/data first, with the last 5% held out for validation unless --valid is given.
    Every field of the recipe can be given as an option.

      lightrnn train data -o model
      lightrnn train data -o model --recipe paper-aclw --minutes 60
      lightrnn train novel.txt -o model --epochs 5 --hidden-size 100
    """
    use_threads(threads)
    chosen_device = run.choose_device(device)
    existed = out.exists()
    was_empty = existed and out.is_dir() and not any(out.iterdir())
    try:
        if resume:
            start = _resumed(data, out, overrides)
        else:
            check_output(out, force, CONFIG)
            start = _new(data, out, Recipe.load(recipe).override(overrides), overrides, valid, table, init)
        with screen.stop_requests() as stop, screen.training_screen() as report:
            outcome = start(device=chosen_device, report=report, should_stop=lambda: stop() != 0)
            signal = stop()
    except BaseException:
        if (was_empty or not existed) and not (out / CONFIG).exists():
            shutil.rmtree(out, ignore_errors=True)
            if was_empty:
                out.mkdir()
        raise
    if outcome.interrupted:
        screen.note(f"saved; go on with the same command and --resume ({out})")
        raise typer.Exit(128 + signal)
    screen.note(f"{outcome.reason}; best validation perplexity {outcome.best_perplexity:.2f}; model in {out}")


def _resumed(data: Path, out: Path, overrides: dict[str, Any]) -> "partial[run.Outcome]":
    read_config(out)
    prepared = not (data / "data.json").exists() and (out / "data" / "data.json").exists()
    return partial(run.resume, Corpus.load(out / "data" if prepared else data), out, overrides)


def _new(
    data: Path,
    out: Path,
    recipe: Recipe,
    overrides: dict[str, Any],
    valid: Path | None,
    table: Path | None,
    init: Path | None,
) -> "partial[run.Outcome]":
    base, vocabulary = load_model(init) if init else (None, None)
    if base is not None:
        if table is not None:
            raise LightRNNError("--table and --init cannot be used together: a model comes with its table")
        recipe = _keep_shape(base, recipe, overrides)
    with contextlib.ExitStack() as stack:
        staging = out.with_name(f".{out.name}.{os.getpid()}.tmp")
        stack.callback(shutil.rmtree, staging, ignore_errors=True)
        corpus = _corpus(data, valid, staging, vocabulary)
        start_table = WordTable.read(table, corpus.vocabulary) if table else None
        if corpus.path != data:
            out.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(out / "data", ignore_errors=True)
            corpus.path.rename(out / "data")
            corpus = Corpus.load(out / "data")
    if start_table is not None:
        recipe = recipe.override({"components": start_table.components})
    model, training = recipe.model, recipe.training
    screen.note(
        f"{corpus.path.name}: {len(corpus.split('train')):,} words, vocabulary {len(corpus.vocabulary):,}; "
        f"{model.layers} × {model.hidden_size} {model.cell}, {training.optimizer}, {training.epochs} epochs"
        + (f" or {training.minutes:g} minutes" if training.minutes else "")
    )
    return partial(run.train, corpus, recipe, out, table=start_table, init=base)


def _keep_shape(base: LightRNN, recipe: Recipe, overrides: dict[str, Any]) -> Recipe:
    """With --init the network's shape is the old model's; only its dropout may change."""
    kept = base.config.to_dict() | {"dropout": recipe.model.dropout}
    for name, value in overrides.items():
        if name in kept and kept[name] != value:
            raise LightRNNError(f"{option_name(name)} cannot change with --init: the model has {kept[name]}")
    base.set_dropout(recipe.model.dropout)
    return Recipe(base.config, recipe.training)


def _corpus(data: Path, valid: Path | None, out: Path, vocabulary: Vocabulary | None) -> Corpus:
    """The data folder itself, or one made from text inside the model folder."""
    if (data / "data.json").exists():
        if valid is not None:
            raise LightRNNError(f"--valid goes with text; {data} is prepared and has its own validation split")
        corpus = Corpus.load(data)
        if vocabulary is not None and vocabulary.digest != corpus.vocabulary.digest:
            raise LightRNNError(
                f"{data} has another vocabulary than the --init model; train from the text itself, "
                "or prepare it with --vocab MODEL/vocab.tsv"
            )
        return corpus
    splits = find_splits(data) if data.is_dir() and valid is None else None
    train, held_out, test = splits or (expand([data]), expand([valid]) if valid else [], [])
    with screen.counter("words") as progress:
        return prepare_corpus(train, out / "data", valid=held_out, test=test, vocabulary=vocabulary, progress=progress)
