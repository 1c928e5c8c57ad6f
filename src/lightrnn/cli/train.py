"""lightrnn train"""

from __future__ import annotations

import shlex
import signal
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, option_name, recipe_names
from ..errors import LightRNNError
from ..outputs import check_output, locked, replace_output, settle
from ..processes import joined, restarts
from ..runtime import choose_device, keep_memory, use_threads
from ..text.presets import choose_splits
from . import screen
from .options import DeviceOption, ForceOption, ThreadsOption, with_settings
from .texts import tell_of

if TYPE_CHECKING:
    import torch

    from ..table.word_table import WordTable
    from ..text.corpus import Corpus
    from ..text.vocabulary import Vocabulary
    from ..training.fitting import Init
    from ..training.run import Run
    from ..training.starts import Start
    from ..training.teaching import Teacher

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
    teacher: Annotated[
        Path | None,
        typer.Option(
            "--teacher",
            metavar="MODEL",
            help="Learn from a larger LightRNN, or a mix of some, besides the text; see --teacher-share.",
        ),
    ] = None,
    add_words: Annotated[
        bool,
        typer.Option(
            "--add-words",
            help="With --init and text: the words of its training part that the model lacks become its words.",
        ),
    ] = False,
    min_count: Annotated[
        int | None, typer.Option("--min-count", min=1, help="With --add-words: those that come so often at least.")
    ] = None,
    max_words: Annotated[
        int | None,
        typer.Option(
            "--max-words",
            min=3,
            help="With --add-words: so many in all, those of the model and the most frequent of the others.",
        ),
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
    is given. Every field of the recipe can be given as an option; `lightrnn info --recipe small` shows what they are in
    the default one, which ends after five minutes, with --epochs it does not. With --init or --table the word table
    stays as it is unless --refine is given.

      lightrnn train data -o model
      lightrnn train data -o model --recipe paper-aclw --minutes 60
      lightrnn train data -o opponent --model hsm
      lightrnn train novel.txt -o model --epochs 5 --hidden-size 100
      lightrnn train letters.txt --init model --add-words -o mine --epochs 2

    A larger model, trained on the same data, teaches a smaller one what it expects before every word:

      lightrnn train data -o large --recipe medium
      lightrnn train data -o small --recipe tiny --teacher large

    Several processes, on one host or more, train one model together, faster, to the same result; each host has DATA:

      torchrun --nproc-per-node 2 -m lightrnn train data -o model
    """
    use_threads(threads)
    keep_memory()
    if "epochs" in overrides:
        overrides.setdefault("minutes", 0.0)  # who asks for epochs is not to be stopped by a recipe's minutes
    chosen_device = choose_device(device)
    begin = Begin(data, out, recipe, overrides, valid, table, init, teacher, add_words, min_count, max_words)
    with joined(chosen_device) as processes:
        if processes.size > 1:
            from ..training.following import load_alike

            begin = replace(begin, corpus=load_alike(data))
        if processes.leads:
            _lead(begin, chosen_device, resume, force)
        else:
            _follow(begin, chosen_device)


@dataclass(frozen=True)
class Begin:
    """What a run is to begin with, as it was asked for; corpus: the data, where it has been opened."""

    data: Path
    out: Path
    recipe: str | None
    chosen: dict[str, Any]
    valid: Path | None
    table: Path | None
    init: Path | None
    teacher: Path | None = None
    add_words: bool = False
    min_count: int | None = None
    max_words: int | None = None
    corpus: Corpus | None = None


def _follow(begin: Begin, device: torch.device) -> None:
    """Train along; the first process tells when to stop, and what there is to tell."""
    from ..training.bootstrap import go_on
    from ..training.following import follow

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    assert begin.corpus is not None
    go_on(follow(begin.corpus, device))


def _lead(begin: Begin, device: torch.device, resume: bool, force: bool) -> None:
    """Train, and tell how it goes."""
    from ..inference.loading import all_members
    from ..models.folder import TRAINING
    from ..training import bootstrap
    from ..training.figures import training_figures
    from ..training.run import reopen

    data, out = begin.data, begin.out
    with locked(out), ExitStack() as staging:
        if resume:
            for name in ("recipe", "valid", "table", "init", "teacher", "add_words"):
                if getattr(begin, name) not in (None, False):
                    option = option_name(name)
                    raise LightRNNError(f"{option} cannot be used with --resume: the run in {out} has its own")
        if resume or (restarts() and _holds_this_run(begin)):
            run = reopen(begin.corpus or _corpus_of(data, out), out, begin.chosen, device=device)
            resume = True
            _tell_reopened(run)
        else:
            paths = (data, begin.valid, begin.init, begin.table, begin.recipe)
            inputs = [path for path in paths if path is not None]
            inputs += all_members([begin.teacher]) if begin.teacher is not None else []
            check_output(out, "model", inputs=inputs, force=True)
            if not force and (out / TRAINING).exists():
                raise LightRNNError(
                    f"{out} exists and holds a run; go on with it by --resume, choose another -o, or replace it with "
                    "--force"
                )
            stage = staging.enter_context(replace_output(out, "model", inputs=inputs, force=force))
            given = _given(begin, stage)
        with screen.stop_requests() as stop, screen.training_screen() as (report, progress):
            if not resume:
                run = bootstrap.begin(*given, device=device, progress=progress)
                staging.close()  # the new run is whole: from here on it is in its place
                run.moved(out)
            outcome = bootstrap.go_on(run, report, progress, lambda: stop() != 0)
            number = stop()
        if find_spec("matplotlib"):
            training_figures(out)
    if outcome.interrupted:
        command = shlex.join(["lightrnn", "train", str(data), "-o", str(out), "--resume"])
        screen.note(f"saved; go on with: {command}")
        raise typer.Exit(128 + number)
    budget = next((name for name in ("epochs", "minutes") if outcome.reason.startswith(f"the {name}")), "")
    hint = f" (for more: --resume --{budget} N)" * bool(budget)
    screen.note(f"{outcome.reason}{hint}; best validation perplexity {outcome.best_perplexity:.2f}; model in {out}")


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


def _given(begin: Begin, stage: Path) -> tuple[Corpus, Recipe, Path, Start | None, Init | None, Teacher | None]:
    """What a new run begins with, in a folder that is not in its place yet; announced."""
    from ..models.checkpoint import load_model
    from ..training.fitting import with_words_of
    from ..training.teaching import Teacher

    more = _more_words(begin)
    base = load_model(begin.init) if begin.init is not None else None
    teacher = Teacher.load(begin.teacher) if begin.teacher is not None else None
    words = base[1] if base else teacher.members[0].vocabulary if teacher else None
    corpus = _corpus(begin, stage, words, more)
    known = len(base[1]) if base else 0
    if base is not None and more:
        with screen.counter("words") as progress:
            base = with_words_of(corpus, base, progress)
    recipe, start = _fitted(begin, corpus, base, teacher)
    if base is not None and more:
        screen.note(f"{len(base[1]) - known:,} words added to {known:,}")
    origin = "given" if start or base else recipe.bootstrap.start
    screen.note(_announcement(corpus, recipe, origin) + (f"; taught by {begin.teacher}" if teacher else ""))
    return corpus, recipe, stage, start, base, teacher


def _fitted(begin: Begin, corpus: Corpus, base: Init | None, teacher: Teacher | None) -> tuple[Recipe, Start | None]:
    """The recipe that was asked for, and the table, if one is given."""
    from ..training.fitting import fitted
    from ..training.starts import Start

    chosen = begin.chosen if base is None else {"model": base[0].config.model} | begin.chosen
    recipe = Recipe.load(begin.recipe or DEFAULT_RECIPE).override(chosen)
    start = Start(_read_table(begin.table, corpus.vocabulary)) if begin.table is not None else None
    table = start.table if start else None
    return fitted(recipe, corpus, table=table, init=base, teacher=teacher, chosen=chosen), start


def _holds_this_run(begin: Begin) -> bool:
    """Whether the run in the model folder is the one that was asked for, as it is when torchrun starts it anew."""
    from ..models.checkpoint import load_model
    from ..training.run import load_run
    from ..training.teaching import Teacher

    try:
        _, facts, saved = load_run(begin.out)
        corpus = begin.corpus or _corpus_of(begin.data, begin.out)
        base = load_model(begin.init) if begin.init is not None else None
        teacher = Teacher.load(begin.teacher) if begin.teacher is not None else None
        is_same = facts.get("teacher") == (teacher.facts if teacher else None)
        return is_same and saved == _fitted(begin, corpus, base, teacher)[0]
    except LightRNNError:
        return False


def _tell_reopened(run: Run) -> None:
    """What is not as it was when the run was saved."""
    if restarts():
        screen.note(f"started anew by torchrun ({restarts()}): goes on from the last save, mini-batch {run.step:,}")
    processes, local = run.trainer.processes.size, run.recipe.training.local_steps
    if run.saved_by != processes:
        averaged = f", and --local-steps {local} averages over {processes}" * (local > 1)
        screen.note(
            f"saved by {run.saved_by} process{'es' * (run.saved_by > 1)}, goes on with {processes}: the same "
            f"mathematics, but floating-point sums are taken in another order, so that last digits differ{averaged}"
        )


def _more_words(begin: Begin) -> dict[str, Any]:
    """What `prepare` is told of words to add, {} if there are none."""
    from ..text.corpus import is_data_folder

    if not begin.add_words:
        for name in ("min_count", "max_words"):
            if getattr(begin, name) is not None:
                raise LightRNNError(
                    f"{option_name(name)} goes with --add-words here; to choose the words of a text, prepare it"
                )
        return {}
    if begin.init is None:
        raise LightRNNError("--add-words goes with --init: it adds to the words of that model; give one")
    if is_data_folder(begin.data):
        raise LightRNNError(
            f"--add-words goes with text, in which new words can be read; {begin.data} is prepared already"
        )
    return {"add_words": True, "min_count": begin.min_count, "max_words": begin.max_words}


def _announcement(corpus: Corpus, recipe: Recipe, origin: str) -> str:
    from ..models.kind import kind_of

    model, training, table = recipe.model, recipe.training, recipe.bootstrap
    rounds = f"{table.refinements} × {table.refine}" if table.refinements else "not refined"
    epochs = f"{training.epochs:g} epoch{'s' * (training.epochs != 1)}"
    vectors = f", tied vectors of {model.input_size}" if model.tied else ""
    alone = f", {model.alone:,} words alone" if model.alone else ""
    return (
        f"{corpus.path.name}: {len(corpus.split('train')):,} tokens, vocabulary {len(corpus.vocabulary):,}; "
        f"{model.layers} × {model.hidden_size} {model.cell}{vectors}, {training.optimizer}, {epochs}"
        + (f" or {training.minutes:g} minutes" if training.minutes else "")
        + (f"; table {origin}{alone}, {rounds}" if kind_of(model).has_table else f"; {model.model}")
    )


def _read_table(path: Path, vocabulary: Vocabulary) -> WordTable:
    from ..table.word_table import WordTable

    settle(path)
    return WordTable.read(path, vocabulary)


def _corpus(begin: Begin, stage: Path, vocabulary: Vocabulary | None, more_words: dict[str, Any]) -> Corpus:
    """The data folder itself, or one made from text inside the model folder, where that is being made."""
    from ..text.corpus import Corpus, is_data_folder
    from ..text.corpus import prepare as prepare_corpus

    data, valid = begin.data, begin.valid
    if is_data_folder(data):
        if valid is not None:
            raise LightRNNError(f"--valid goes with text; {data} is prepared and has its own validation split")
        return begin.corpus or Corpus.load(data)
    with screen.counter("words") as progress:
        corpus = prepare_corpus(
            data, stage / "data", valid=valid or (), vocabulary=vocabulary, **more_words, progress=progress
        )
    if vocabulary is None:
        tell_of(corpus)
    return corpus
