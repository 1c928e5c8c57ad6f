"""The bootstrap of the paper's section 3.2 in a model folder: train, refine the table, train again.

The only place that knows training, refinement and the folder. The folder always holds the best model so far and, in
training.safetensors, the last one with all that is needed to go on (run.py). A kill in a refinement goes back to the
end of the round before it.
"""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, cast

import torch

from ..config import Recipe, TrainingConfig
from ..inference.loading import all_members
from ..inference.passes import evaluate
from ..models.folder import METRICS
from ..models.kind import build, kind_of
from ..models.lightrnn import LightRNN
from ..models.opponents import WordModel
from ..outputs import locked, replace_output
from ..registry import REFINEMENTS
from ..runtime import Progress, choose_device, silent
from ..text.corpus import Corpus
from ..text.rare import expected_counts
from .clock import Clock
from .fitting import Init, fitted, round_budget
from .following import follow
from .refinement import carried_over, refine
from .run import Refined, Run, append_metrics, new_trainer, publish, reopen, save, save_best
from .starts import Start, choose_start, start_at, text_vectors, use_start_vectors
from .teaching import Teacher
from .tensorboard import Board
from .trainer import Batch, Validated

SAVE_SECONDS = 60.0

Event = Batch | Validated | Refined
Report = Callable[[Run, Event], None]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the best validation perplexity, why it stopped, and whether it can be resumed."""

    best_perplexity: float | None
    reason: str
    interrupted: bool


def train(
    corpus: Corpus,
    recipe: Recipe,
    folder: str | Path,
    *,
    start: Start | None = None,
    init: Init | None = None,
    teacher: Teacher | None = None,
    force: bool = False,
    device: torch.device | None = None,
    report: Report = lambda run, event: None,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train a new model in `folder`, from `start` or the recipe's own; or go on from `init`, what load_model gave.

    The recipe must fit what is given: of a model its shape, of a table its components. `init` itself stays as it is.
    `teacher`: a model that this one learns from besides the text, by Teacher.load.
    If there is a model in `folder` already, `force` replaces it, when the new one has begun.
    """
    recipe = fitted(recipe, corpus, table=start.table if start else None, init=init, teacher=teacher)
    inputs = [corpus.path, *(all_members([teacher.path]) if teacher else [])]
    with locked(folder):
        with replace_output(folder, "model", inputs=inputs, force=force, option="folder") as stage:
            run = begin(corpus, recipe, stage, start, init, teacher, device=device, progress=progress)
        run.moved(Path(folder))
        return go_on(run, report, progress, should_stop)


def resume(
    corpus: Corpus,
    folder: str | Path,
    changes: dict[str, Any] | None = None,
    *,
    device: torch.device | None = None,
    report: Report = lambda run, event: None,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Go on with the run in `folder`, to the same bytes as if it had never stopped; `changes` may be of its budget."""
    with locked(folder):
        return go_on(reopen(corpus, Path(folder), changes or {}, device=device), report, progress, should_stop)


def begin(
    corpus: Corpus,
    recipe: Recipe,
    folder: Path,
    start: Start | None = None,
    init: Init | None = None,
    teacher: Teacher | None = None,
    *,
    device: torch.device | None = None,
    progress: Progress = silent,
) -> Run:
    """A run before its first step, as `train` describes it, saved whole in an empty folder."""
    seed, clock = recipe.training.seed, Clock()
    torch.manual_seed(seed)
    if init is not None:
        model, vocabulary = copy.deepcopy(init[0]), init[1]
        model.set_dropout(recipe.model.dropout)
        corpus = corpus.with_counts(expected_counts(vocabulary, recipe.training.unk_rate))
    else:
        corpus = corpus.with_counts(expected_counts(corpus.vocabulary, recipe.training.unk_rate))
        watched, text, has_table = corpus.watching(progress), corpus.split("train"), kind_of(recipe.model).has_table
        with clock.on("start"):
            if start is None:
                start = choose_start(recipe.bootstrap, text, corpus.vocabulary, recipe.model, seed, watched)
            elif start.vectors is None and has_table and recipe.bootstrap.uses_start_vectors:
                start = start_at(start.table, text, corpus.vocabulary, seed, watched)
        model = build(recipe.model, corpus.vocabulary, start.table if start else None, seed)
        model.reset(recipe.training.weight_init, recipe.bootstrap.forget_bias)
        if start and start.vectors and has_table:
            use_start_vectors(cast(LightRNN, model), start, corpus.vocabulary.counts, recipe.training.weight_init)
        if recipe.bootstrap.bigram_vectors and "bigram_vectors" in kind_of(recipe.model).settings:
            with clock.on("start"):
                _use_bigram_vectors(cast(WordModel, model), corpus, recipe.training, progress)
    budget, on_device = round_budget(recipe, 0, clock.total), model.to(device or choose_device())
    trainer = new_trainer(on_device, recipe, budget, corpus, clock, teacher)
    run = Run(recipe, corpus, folder, trainer, clock, teacher=teacher)
    if init is not None:
        found = evaluate(on_device.eval(), trainer.valid, corpus.vocabulary, progress=progress).perplexity
        run.best_perplexity = found if isfinite(found) else None
    save_best(run)
    (folder / METRICS).touch()
    save(run)
    publish(run)
    return run


def _use_bigram_vectors(model: WordModel, corpus: Corpus, config: TrainingConfig, progress: Progress) -> None:
    watched = corpus.watching(progress)
    vectors = text_vectors(corpus.split("train"), corpus.vocabulary, config.seed, watched)
    model.use_word_vectors(vectors, corpus.vocabulary.counts, config.weight_init)


def go_on(
    run: Run,
    report: Report = lambda run, event: None,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Steps 2 and 3 of the paper's bootstrap, until the rounds are done.

    All processes that train together are here, and do what the leader tells; only it has a folder to write to.
    """
    board = Board(run.folder / "tensorboard", run.step) if run.folder and find_spec("tensorboard") else None
    while True:
        saved = time.monotonic()
        for event in run.trainer.run():
            report(run, event)
            if isinstance(event, Validated):
                _keep_if_best(run, event.validation.perplexity)
                _note_down(run, event, board)
            if not run.trainer.together:
                continue
            due = isinstance(event, Validated) or time.monotonic() - saved > SAVE_SECONDS
            stopping, due = run.trainer.processes.told((should_stop(), due))
            if stopping or due:
                save(run)
                saved = time.monotonic()
            if stopping:
                return Outcome(run.best_perplexity, "interrupted", interrupted=True)
            run.corpus.check()
        minutes = run.recipe.training.minutes
        if run.round >= run.recipe.bootstrap.refinements or (minutes and run.clock.total >= 60 * minutes):
            return Outcome(run.best_perplexity, run.trainer.stop_reason, interrupted=False)
        if run.folder is None:
            run = follow(run.corpus, run.trainer.device, run)
            continue
        refined = _refine(run, progress)
        report(run, refined)
        _note_down(run, refined, board)
        save(run)
        publish(run)


def _note_down(run: Run, event: Validated | Refined, board: Board | None) -> None:
    """In the records that are kept of a run, by the process that writes them."""
    if run.folder is not None:
        facts = append_metrics(run, event)
        if board is not None and isinstance(event, Validated):
            board.add_validation(facts)


def _keep_if_best(run: Run, perplexity: float) -> None:
    """The folder's model is the best of all rounds: its weights and the table they were trained on."""
    if run.best_perplexity is None or perplexity < run.best_perplexity:
        run.best_perplexity = perplexity
        save_best(run)


def _refine(run: Run, progress: Progress) -> Refined:
    """Step 3: the next round's table, and a trainer that starts on it."""
    config, vocabulary, valid = run.recipe.bootstrap, run.corpus.vocabulary, run.trainer.valid
    seed = run.recipe.training.seed + 1000 * (run.round + 1)
    torch.manual_seed(seed)
    trained = cast(LightRNN, run.trainer.result.eval())
    with run.clock.on("training"):
        before = evaluate(trained, valid, vocabulary).perplexity
    with run.clock.on("refinement"):
        watched = run.corpus.watching(progress)
        found = refine(trained, run.trainer.train, vocabulary, config, seed=seed, progress=watched)
    with run.clock.on("training"):
        model = carried_over(trained, found.table, vocabulary.counts).eval()
        after = evaluate(model, valid, vocabulary).perplexity
    if REFINEMENTS[config.refine].restarts:
        scale = run.recipe.training.weight_init
        model.reset(scale, config.forget_bias)
        if config.uses_start_vectors:
            with run.clock.on("refinement"):
                start = start_at(found.table, run.corpus.split("train"), vocabulary, seed, watched)
                use_start_vectors(model, start, vocabulary.counts, scale)
    run.next_round(model)
    return Refined(found, before, after, found.seconds / run.clock.training)
