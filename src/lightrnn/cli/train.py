"""lightrnn train"""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, recipe_names
from ..errors import LightRNNError
from ..outputs import locked, replace_output, settle
from ..runtime import choose_device, keep_memory, use_threads
from ..text.presets import choose_splits
from . import screen
from .options import DeviceOption, ForceOption, ThreadsOption, with_settings
from .texts import tell_untaught

if TYPE_CHECKING:
    from ..table.word_table import WordTable
    from ..text.corpus import Corpus
    from ..text.vocabulary import Vocabulary
    from ..training.fitting import Init
    from ..training.starts import Start

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
    add_words: Annotated[
        bool, typer.Option("--add-words", help="With --init and text: the words that the model lacks become its words.")
    ] = False,
    min_count: Annotated[
        int | None, typer.Option("--min-count", min=1, help="With --add-words: those that come so often at least.")
    ] = None,
    max_words: Annotated[
        int | None, typer.Option("--max-words", min=3, help="With --add-words: so many in all, the most frequent ones.")
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
      lightrnn train letters.txt --init model --add-words -o mine --epochs 2
    """
    from ..training import bootstrap
    from ..training.figures import training_figures
    from ..training.run import reopen

    use_threads(threads)

    keep_memory()
    chosen_device = choose_device(device)
    with locked(out), ExitStack() as staging:
        if resume:
            own = {"recipe": recipe, "valid": valid, "table": table, "init": init, "add-words": add_words or None}
            for name, value in own.items():
                if value is not None:
                    raise LightRNNError(f"--{name} cannot be used with --resume: the run in {out} has its own")
            run = reopen(_corpus_of(data, out), out, overrides, device=chosen_device)
        else:
            inputs = [path for path in (data, valid, init, table, recipe) if path is not None]
            stage = staging.enter_context(replace_output(out, "model", inputs=inputs, force=force))
            more = _more_words(data, init, add_words, min_count, max_words)
            given = _given(data, stage, recipe, overrides, valid, table, init, more)
        with screen.stop_requests() as stop, screen.training_screen() as (report, progress):
            if not resume:
                run = bootstrap.begin(*given, device=chosen_device, progress=progress)
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


def _corpus_of(data: Path, out: Path) -> Corpus:
    """The data of a run that goes on: the folder, or what was prepared from a text inside the model folder."""
    from ..models.folder import read_config
    from ..text.corpus import Corpus, is_data_folder

    read_config(out)
    if is_data_folder(data):
        return Corpus.load(data)
    corpus = Corpus.load(out / "data") if is_data_folder(out / "data") else None
    if corpus is None or [Path(f).name for f in choose_splits(data)[0]] != corpus.files("train"):
        raise LightRNNError(f"{data} is not the data that {out} was training on; resume with that")
    return corpus


def _given(
    data: Path,
    stage: Path,
    recipe_name: str | None,
    chosen: dict[str, Any],
    valid: Path | None,
    table: Path | None,
    init: Path | None,
    more_words: dict[str, Any],
) -> tuple[Corpus, Recipe, Path, Start | None, Init | None]:
    """What a new run begins with, in a folder that is not in its place yet; announced."""
    from ..models.checkpoint import load_model
    from ..training.fitting import fitted, with_words_of
    from ..training.starts import Start

    base = load_model(init) if init is not None else None
    if base is not None:
        chosen = {"model": base[0].config.model} | chosen
    recipe = Recipe.load(recipe_name or DEFAULT_RECIPE).override(chosen)
    corpus = _corpus(data, valid, stage, base[1] if base else None, more_words)
    if base is not None and more_words:
        known = len(base[1])
        with screen.counter("words") as progress:
            base = with_words_of(corpus, base, progress)
    start = Start(_read_table(table, corpus.vocabulary)) if table is not None else None
    recipe = fitted(recipe, corpus, table=start.table if start else None, init=base, chosen=chosen)
    if base is not None and more_words:
        screen.note(f"{len(base[1]) - known:,} words added to {known:,}")
    screen.note(_announcement(corpus, recipe, "given" if start or base else recipe.bootstrap.start))
    return corpus, recipe, stage, start, base


def _more_words(
    data: Path, init: Path | None, add_words: bool, min_count: int | None, max_words: int | None
) -> dict[str, Any]:
    """What `prepare` is told of words to add, {} if there are none."""
    from ..text.corpus import is_data_folder

    if not add_words:
        for name, value in (("min-count", min_count), ("max-words", max_words)):
            if value is not None:
                raise LightRNNError(f"--{name} goes with --add-words here; to choose the words of a text, prepare it")
        return {}
    if init is None:
        raise LightRNNError("--add-words goes with --init: it adds to the words of that model; give one")
    if is_data_folder(data):
        raise LightRNNError(f"--add-words goes with text, in which new words can be read; {data} is prepared already")
    return {"add_words": True, "min_count": min_count, "max_words": max_words}


def _announcement(corpus: Corpus, recipe: Recipe, origin: str) -> str:
    from ..models.kind import kind_of

    model, training, table = recipe.model, recipe.training, recipe.bootstrap
    rounds = f"{table.refinements} × {table.refine}" if table.refinements else "not refined"
    epochs = f"{training.epochs:g} epoch{'s' * (training.epochs != 1)}"
    vectors = f", tied vectors of {model.input_size}" if model.tied else ""
    alone = f", {model.alone:,} words alone" if model.alone else ""
    return (
        f"{corpus.path.name}: {len(corpus.split('train')):,} words, vocabulary {len(corpus.vocabulary):,}; "
        f"{model.layers} × {model.hidden_size} {model.cell}{vectors}, {training.optimizer}, {epochs}"
        + (f" or {training.minutes:g} minutes" if training.minutes else "")
        + (f"; table {origin}{alone}, {rounds}" if kind_of(model).has_table else f"; {model.model}")
    )


def _read_table(path: Path, vocabulary: Vocabulary) -> WordTable:
    from ..table.word_table import WordTable

    settle(path)
    return WordTable.read(path, vocabulary)


def _corpus(
    data: Path, valid: Path | None, stage: Path, vocabulary: Vocabulary | None, more_words: dict[str, Any]
) -> Corpus:
    """The data folder itself, or one made from text inside the model folder, where that is being made."""
    from ..text.corpus import Corpus, is_data_folder
    from ..text.corpus import prepare as prepare_corpus

    if is_data_folder(data):
        if valid is not None:
            raise LightRNNError(f"--valid goes with text; {data} is prepared and has its own validation split")
        return Corpus.load(data)
    with screen.counter("words") as progress:
        corpus = prepare_corpus(
            data, stage / "data", valid=valid or (), vocabulary=vocabulary, **more_words, progress=progress
        )
    if vocabulary is None:
        tell_untaught(corpus)
    return corpus
