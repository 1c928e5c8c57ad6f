"""lightrnn train"""

import shlex
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, option_name, recipe_names
from ..errors import LightRNNError
from ..models.base import RecurrentModel
from ..models.checkpoint import load_model, read_config
from ..models.kind import kind_of
from ..outputs import locked, replace_output, settle
from ..registry import REFINEMENTS
from ..runtime import choose_device, use_threads
from ..table.word_table import WordTable
from ..text.corpus import Corpus, is_data_folder
from ..text.corpus import prepare as prepare_corpus
from ..text.presets import choose_splits
from ..text.vocabulary import Vocabulary
from ..training import bootstrap
from ..training.figures import training_figures
from ..training.starts import Start
from . import screen
from .options import DeviceOption, ForceOption, ThreadsOption, with_settings
from .texts import tell_untaught

DEFAULT_RECIPE = "small"


@with_settings(ModelConfig, TrainingConfig, BootstrapConfig)
def train(
    data: Annotated[Path, typer.Argument(metavar="DATA|TEXT", help="A folder made by `lightrnn prepare`, or text.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model folder to make.")],
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            help=f"Settings to start from: {', '.join(recipe_names())}, or a file.toml; {DEFAULT_RECIPE} unless given.",
        ),
    ] = None,
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
    """Train a LightRNN, or with --model one of its opponents.

    The model folder always holds the best model so far, and what is needed to go on: Ctrl-C saves and stops, and
    `lightrnn train DATA -o MODEL --resume` continues to the same result as if it had never stopped. Straight from a
    text file works too: it is prepared into MODEL/data first, with the last 5% held out for validation unless --valid
    is given. Every field of the recipe can be given as an option. With --init or --table the word table stays as it is
    unless --refine is given.

      lightrnn train data -o model
      lightrnn train data -o model --recipe paper-aclw --minutes 60
      lightrnn train data -o opponent --model hsm
      lightrnn train novel.txt -o model --epochs 5 --hidden-size 100
    """
    use_threads(threads)
    chosen_device = choose_device(device)
    if resume:
        for name, value in (("recipe", recipe), ("valid", valid), ("table", table), ("init", init)):
            if value is not None:
                raise LightRNNError(f"--{name} cannot be used with --resume: the run in {out} has its own")
    with locked(out), ExitStack() as staging:
        if resume:
            start = _resumed(data, out, overrides)
        else:
            inputs = [path for path in (data, valid, init, table, recipe) if path is not None]
            stage = staging.enter_context(replace_output(out, "model", inputs=inputs, force=force))
            if init is not None:
                overrides = {"model": read_config(init)["kind"]} | overrides
            settings = Recipe.load(recipe or DEFAULT_RECIPE).override(overrides)
            start = _new(data, stage, settings, overrides, valid, table, init)
        with screen.stop_requests() as stop, screen.training_screen() as (report, progress):
            run = start(device=chosen_device) if resume else start(device=chosen_device, progress=progress)
            staging.close()  # the new run is whole: from here on it is in its place
            run.moved(out)
            outcome = bootstrap.go_on(run, report, progress, lambda: stop() != 0)
            signal = stop()
        if find_spec("matplotlib"):
            training_figures(out)
    if outcome.interrupted:
        command = shlex.join(["lightrnn", "train", str(data), "-o", str(out), "--resume"])
        screen.note(f"saved; go on with: {command}")
        raise typer.Exit(128 + signal)
    screen.note(f"{outcome.reason}; best validation perplexity {outcome.best_perplexity:.2f}; model in {out}")


def _resumed(data: Path, out: Path, overrides: dict[str, Any]) -> "partial[bootstrap.Run]":
    read_config(out)
    if is_data_folder(data):
        return partial(bootstrap.reopen, Corpus.load(data), out, overrides)
    corpus = Corpus.load(out / "data") if is_data_folder(out / "data") else None
    if corpus is None or [Path(f).name for f in choose_splits(data)[0]] != corpus.files("train"):
        raise LightRNNError(f"{data} is not the data that {out} was training on; resume with that")
    return partial(bootstrap.reopen, corpus, out, overrides)


def _new(
    data: Path,
    stage: Path,
    recipe: Recipe,
    overrides: dict[str, Any],
    valid: Path | None,
    table: Path | None,
    init: Path | None,
) -> "partial[bootstrap.Run]":
    base, vocabulary = load_model(init) if init else (None, None)
    if base is not None:
        if table is not None:
            raise LightRNNError("--table and --init cannot be used together: a model comes with its table")
        recipe = _keep_shape(base, recipe, overrides)
    kind = kind_of(recipe.model)
    if table is not None and not kind.has_table:
        raise LightRNNError(f"--table is for --model lightrnn, got it with --model {recipe.model.model}; leave it out")
    corpus = _corpus(data, valid, stage, vocabulary)
    if table is not None:
        settle(table)
    start_table = WordTable.read(table, corpus.vocabulary) if table else None
    if start_table is not None:
        given = {"components": start_table.components, "rows": start_table.shape[0]}
        for name, value in given.items():
            if overrides.get(name, value) != value:
                raise LightRNNError(f"--{name} cannot differ from --table's, which has {value}")
        recipe = recipe.override(given)
    if (table or init) and recipe.bootstrap.refinements and "refine" not in overrides:
        recipe = recipe.override({"refine": "none"})
    _refuse_idle(overrides, recipe, "--table" if table else "--init" if init else "")
    screen.note(_announcement(corpus, recipe, "given" if table or init else recipe.bootstrap.start))
    random = kind.has_table and recipe.bootstrap.start == "random"
    if not (table or init or random) and kind.start_shape(recipe.model, len(corpus.vocabulary)):
        screen.note("making the first table from which words stand next to each other …")
    start = Start(start_table) if start_table else None
    return partial(bootstrap.begin, corpus, recipe, stage, start=start, init=base)


def _announcement(corpus: Corpus, recipe: Recipe, origin: str) -> str:
    model, training, table = recipe.model, recipe.training, recipe.bootstrap
    rounds = f"{table.refinements} × {table.refine}" if table.refinements else "not refined"
    epochs = f"{training.epochs:g} epoch{'s' * (training.epochs != 1)}"
    return (
        f"{corpus.path.name}: {len(corpus.split('train')):,} words, vocabulary {len(corpus.vocabulary):,}; "
        f"{model.layers} × {model.hidden_size} {model.cell}, {training.optimizer}, {epochs}"
        + (f" or {training.minutes:g} minutes" if training.minutes else "")
        + (f"; table {origin}, {rounds}" if kind_of(model).has_table else f"; {model.model}")
    )


def _refuse_idle(overrides: dict[str, Any], recipe: Recipe, origin: str) -> None:
    """An option that would change nothing is a mistake; origin: the option that table or model came with, if any."""
    refine, cell = f"--refine {recipe.bootstrap.refine}", f"--cell {recipe.model.cell}"
    kept = origin if origin == "--init" and not _restarts(recipe) else ""  # the weights are
    in_the_way = {
        "start": origin,
        "start_vectors": origin or "--start random" * (recipe.bootstrap.start == "random"),
        "forget_bias": kept or cell * (recipe.model.cell != "lstm"),
        "weight_init": kept,
        "rounds": refine * (refine == "--refine none"),
        "round_share": refine * (refine == "--refine none"),
        "solver": refine * (refine != "--refine matching"),
    }
    for name, value in overrides.items():
        if in_the_way.get(name) and value is not False:
            raise LightRNNError(f"{option_name(name)} changes nothing with {in_the_way[name]}; leave it out")


def _restarts(recipe: Recipe) -> bool:
    """Whether the weights start afresh on a table that is refined."""
    refinement = REFINEMENTS[recipe.bootstrap.refine]
    return refinement is not None and refinement.restarts


def _keep_shape(base: RecurrentModel, recipe: Recipe, overrides: dict[str, Any]) -> Recipe:
    """With --init the network's shape is the old model's; only its dropout may change."""
    kept = base.config.to_dict() | {"dropout": recipe.model.dropout}
    for name, value in overrides.items():
        if name in kept and kept[name] != value:
            raise LightRNNError(f"{option_name(name)} cannot change with --init: the model has {kept[name]}")
    base.set_dropout(recipe.model.dropout)
    return Recipe(base.config, recipe.training, recipe.bootstrap)


def _corpus(data: Path, valid: Path | None, stage: Path, vocabulary: Vocabulary | None) -> Corpus:
    """The data folder itself, or one made from text inside the model folder, where that is being made."""
    if is_data_folder(data):
        if valid is not None:
            raise LightRNNError(f"--valid goes with text; {data} is prepared and has its own validation split")
        corpus = Corpus.load(data)
        if vocabulary is not None and vocabulary.digest != corpus.vocabulary.digest:
            raise LightRNNError(
                f"{data} has another vocabulary or other text rules than the --init model; train from the text "
                "itself, or prepare it with --vocab MODEL"
            )
        return corpus
    with screen.counter("words") as progress:
        corpus = prepare_corpus(data, stage / "data", valid=valid or (), vocabulary=vocabulary, progress=progress)
    if vocabulary is None:
        tell_untaught(corpus)
    return corpus
