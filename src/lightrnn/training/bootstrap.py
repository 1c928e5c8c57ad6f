"""The bootstrap of the paper's section 3.2 in a model folder: train, refine the table, train again.

The only place that knows training, refinement and the folder. The folder always holds the best model so far and, in
training.safetensors, the last one with all that is needed to go on; a round's table, weights and optimiser are in that
one file, so they can never disagree. A kill in a refinement goes back to the end of the round before it.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ..border import check, list_of, maybe, number, parse_json, record, text, whole
from ..config import Recipe, TrainingConfig, option_name
from ..errors import LightRNNError
from ..files import atomic_file
from ..inference.passes import evaluate
from ..models.base import RecurrentModel
from ..models.checkpoint import (
    DIMENSIONS,
    METRICS,
    TRAINING,
    finish_commit,
    load_training,
    rebuild,
    save_model,
    save_training,
)
from ..models.kind import build, kind_of
from ..models.lightrnn import LightRNN
from ..outputs import locked, replace_output
from ..registry import REFINEMENTS
from ..runtime import Progress, choose_device, silent
from ..text.corpus import Corpus
from .refinement import NextTable, carried_over, refine
from .starts import Start, choose_start, use_start_vectors
from .tensorboard import Board
from .trainer import POSITION, Batch, Check, Trainer

SAVE_SECONDS = 60.0
SPENT = ("start_seconds", "refinement_seconds", "seconds")  # fields of a Run: where its time went
KEPT = ("round", "best_perplexity", "words", "steps", *SPENT)  # what is saved of a Run beside its trainer
SAVED = record(  # all that is saved, but tensors
    {
        "recipe": record({}),
        "position": POSITION,
        "round": whole(most=1000),
        "best_perplexity": maybe(number(least=0)),
        "words": whole(),
        **dict.fromkeys(SPENT, number(least=0, most=1e12)),
        "table_shape": maybe(DIMENSIONS),
        "data": text(),
        "metrics_bytes": whole(),
    },
    {"steps": whole()},
)
VALIDATION = record(  # lines of metrics.jsonl
    {
        **dict.fromkeys(("round", "step", "words"), whole()),
        **dict.fromkeys(("epoch", "learning_rate", "train_perplexity", "valid_perplexity", "seconds"), number(least=0)),
        "valid_parts": list_of(number(), least=1, most=8),
    }
)
REFINEMENT = record(
    {"refinement": text(), "round": whole(), "epoch": number(least=0), "refinement_seconds": number(least=0)}
)


@dataclass(frozen=True)
class Refined:
    """A refinement was done: perplexity before it and right after it, before any training on the new table."""

    found: NextTable
    perplexity_before: float
    perplexity_after: float
    share_of_training: float


Event = Batch | Check | Refined
Report = Callable[["Run", Event], None]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the best validation perplexity, why it stopped, and whether it can be resumed."""

    best_perplexity: float | None
    reason: str
    interrupted: bool


@dataclass
class Run:
    """A bootstrap in progress: the round, its trainer, and what the rounds before left behind."""

    recipe: Recipe
    corpus: Corpus
    folder: Path
    trainer: Trainer
    round: int = 0  # refinements done
    best_perplexity: float | None = None
    start_seconds: float = 0.0  # of making the first table
    refinement_seconds: float = 0.0
    seconds: float = 0.0  # of training and validating in the rounds before
    words: int = 0
    steps: int = 0  # mini-batches of the rounds before

    @property
    def step(self) -> int:
        """Mini-batches done over all rounds."""
        return self.steps + self.trainer.position.step

    @property
    def spent(self) -> float:
        """Seconds that went by before this round."""
        return self.start_seconds + self.refinement_seconds + self.seconds

    def moved(self, folder: Path) -> None:
        """The run's folder has got another name, and so has the corpus if it is in there."""
        if self.corpus.path.is_relative_to(self.folder):
            self.corpus = replace(self.corpus, path=folder / self.corpus.path.relative_to(self.folder))
        self.folder = folder


def train(
    corpus: Corpus,
    recipe: Recipe,
    folder: str | Path,
    *,
    start: Start | None = None,
    init: RecurrentModel | None = None,
    force: bool = False,
    device: torch.device | None = None,
    report: Report = lambda run, event: None,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train a new model in `folder`, from `start` or the recipe's own; or go on from `init` and its table.

    A model of a kind that has no use for a table starts without one. If there is a model in `folder` already, `force`
    replaces it, when the new one has begun.
    """
    with locked(folder):
        with replace_output(folder, "model", inputs=[corpus.path], force=force) as stage:
            run = begin(corpus, recipe, stage, start=start, init=init, device=device, progress=progress)
        run.moved(Path(folder))
        return go_on(run, report, progress, should_stop)


def begin(
    corpus: Corpus,
    recipe: Recipe,
    folder: Path,
    *,
    start: Start | None = None,
    init: RecurrentModel | None = None,
    device: torch.device | None = None,
    progress: Progress = silent,
) -> Run:
    """A run before its first step, as `train` describes it, saved whole in an empty folder."""
    check_rounds(recipe)
    seed, start_seconds = recipe.training.seed, 0.0
    torch.manual_seed(seed)
    if init is not None:
        model = init
    else:
        if start is None:
            begin = time.perf_counter()
            watched = _watching(corpus, progress)
            text = corpus.split("train")
            start = choose_start(recipe.bootstrap, text, corpus.vocabulary, recipe.model, seed, watched)
            start_seconds = time.perf_counter() - begin
        model = build(recipe.model, corpus.vocabulary, start.table if start else None, seed)
        model.reset(recipe.training.weight_init, recipe.bootstrap.forget_bias)
        if start and start.vectors and kind_of(recipe.model).has_table:
            use_start_vectors(cast(LightRNN, model), start, corpus.vocabulary.counts, recipe.training.weight_init)
    trainer = _trainer(model.to(device or choose_device()), recipe, corpus, 0, start_seconds)
    run = Run(recipe, corpus, folder, trainer, start_seconds=start_seconds)
    save_model(folder, model, corpus.vocabulary, _summary(run))
    (folder / METRICS).touch()
    _save(run)
    return run


def resume(
    corpus: Corpus,
    folder: str | Path,
    budget: dict[str, Any],
    *,
    device: torch.device | None = None,
    report: Report = lambda run, event: None,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Go on with the run in `folder`, to the same bytes as if it had never stopped; `budget` may change its length."""
    with locked(folder):
        return go_on(reopen(corpus, Path(folder), budget, device=device), report, progress, should_stop)


def reopen(corpus: Corpus, folder: Path, budget: dict[str, Any], *, device: torch.device | None = None) -> Run:
    """The run in `folder` where it was last saved, as `resume` describes it."""
    tensors, facts, recipe = load_run(folder)
    if not corpus.has_digest(facts["data"], "train", "valid"):
        raise LightRNNError(f"{corpus.path} is not the data that {folder} was training on; resume with that")
    metrics = (folder / METRICS).read_bytes()[: facts["metrics_bytes"]] if (folder / METRICS).exists() else b""
    _parse_metrics(metrics, folder)
    settled = {name: value for section in recipe.to_dict().values() for name, value in section.items()}
    changed = {name: value for name, value in budget.items() if value != settled[name]}
    if frozen := set(changed) - {"epochs", "minutes", "patience"}:
        first = option_name(min(frozen))
        raise LightRNNError(f"{first} cannot change on --resume; only epochs, minutes and patience can")
    recipe = recipe.override(changed)
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    try:
        model = rebuild(recipe.model, corpus.vocabulary, weights, facts["table_shape"], recipe.training.seed)
        model.to(device or choose_device())
        trainer = _trainer(model, recipe, corpus, facts["round"], sum(facts[name] for name in SPENT))
        trainer.restore(tensors, facts["position"])
    except LightRNNError as error:
        raise LightRNNError(
            f"the run in {folder} ({error}) does not fit the model that its settings describe now; "
            "train again into another folder"
        ) from None
    facts.setdefault("steps", _steps_of_words(facts["words"], recipe))  # version 0.1.0 did not count them
    run = Run(recipe, corpus, folder, trainer, **{name: facts[name] for name in KEPT})
    finish_commit(folder)
    with atomic_file(folder / METRICS) as file:
        file.write(metrics)
    _save(run)
    return run


def load_run(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], Recipe]:
    """The tensors, the facts and the recipe of the run in `folder`, from training.safetensors."""
    path, remedy = folder / TRAINING, f"go on from the model itself with --init {folder}"
    tensors, facts = load_training(folder)
    check(facts, SAVED, str(path), remedy)
    recipe = Recipe.from_dict(facts["recipe"], str(path))
    check_rounds(recipe)
    position, best = facts["position"], facts["best_perplexity"]
    begun = position["step"] > 0
    possible = (
        facts["round"] <= recipe.bootstrap.refinements
        and max(position["epoch"], position["batch"]) <= position["step"]
        and max(position["epoch_tokens"], position["tokens"]) <= position["words"]
        and begun == (position["words"] > 0) == (position["seconds"] > 0)
        and (best is not None or (facts["round"] == 0 and begun == (position["tokens"] > 0)))
        and (best is not None or position["best_perplexity"] is None)
    )
    if not possible:
        raise LightRNNError(f"{path}: its numbers contradict each other; {remedy}")
    return tensors, facts, recipe


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl: validations, and between them refinements."""
    return _parse_metrics((folder / METRICS).read_bytes(), folder)


def _parse_metrics(data: bytes, folder: Path) -> list[dict[str, Any]]:
    lines = []
    for place, line in enumerate(data.splitlines(), 1):
        origin, remedy = f"{folder / METRICS} line {place}", "remove the file: it is only a record"
        facts = parse_json(line, origin, remedy)
        is_refinement = isinstance(facts, dict) and "refinement" in facts
        lines.append(check(facts, REFINEMENT if is_refinement else VALIDATION, origin, remedy))
    return lines


def go_on(
    run: Run,
    report: Report = lambda run, event: None,
    progress: Progress = silent,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Steps 2 and 3 of the paper's bootstrap, until the rounds are done."""
    board = Board(run.folder / "tensorboard", run.step) if find_spec("tensorboard") else None
    while True:
        saved = time.monotonic()
        for event in run.trainer.run():
            report(run, event)
            if isinstance(event, Check):
                _keep_if_best(run, event)
                _log(run, board, _check_facts(run, event))
            stopping = should_stop()
            if stopping or isinstance(event, Check) or time.monotonic() - saved > SAVE_SECONDS:
                _save(run)
                saved = time.monotonic()
            if stopping:
                return Outcome(run.best_perplexity, "interrupted", interrupted=True)
            run.corpus.check()
        if run.round >= run.recipe.bootstrap.refinements or _time_is_up(run):
            return Outcome(run.best_perplexity, run.trainer.stop_reason, interrupted=False)
        refined = _refine(run, progress)
        report(run, refined)
        _log(run, board, _refined_facts(run, refined))
        _save(run)


def _refine(run: Run, progress: Progress) -> Refined:
    """Step 3: the next round's table, and a trainer that starts on it."""
    config, vocabulary, old = run.recipe.bootstrap, run.corpus.vocabulary, run.trainer
    seed, begin = run.recipe.training.seed + 1000 * (run.round + 1), time.perf_counter()
    torch.manual_seed(seed)
    before = evaluate(old.model.eval(), old.valid, vocabulary).perplexity
    trained = cast(LightRNN, old.model)
    watched = _watching(run.corpus, progress)
    found = refine(trained, old.train, vocabulary, config, seed=seed, progress=watched)
    model = carried_over(trained, found.table, vocabulary.counts).eval()
    after = evaluate(model, old.valid, vocabulary).perplexity
    if REFINEMENTS[config.refine].restarts:
        model.reset(run.recipe.training.weight_init, config.forget_bias)
    validating = time.perf_counter() - begin - found.seconds
    run.round += 1
    run.seconds += old.position.seconds + validating
    run.words += old.position.words
    run.steps += old.position.step
    run.refinement_seconds += found.seconds
    run.trainer = _trainer(model, run.recipe, run.corpus, run.round, run.spent)
    return Refined(found, before, after, found.seconds / run.seconds)


def _watching(corpus: Corpus, progress: Progress) -> Progress:
    """Look after the text while something that reports how far it got reads it."""

    def checked(what: str, done: int = 0, total: int = 0, /) -> None:
        progress(what, done, total)
        corpus.check()

    return checked


def _time_is_up(run: Run) -> bool:
    minutes = run.recipe.training.minutes
    return minutes > 0 and run.spent + run.trainer.position.seconds >= 60 * minutes


def _trainer(model: RecurrentModel, recipe: Recipe, corpus: Corpus, round_number: int, spent: float) -> Trainer:
    config = round_budget(recipe, round_number, spent)
    return Trainer(model, config, corpus.split("train"), corpus.split("valid"), corpus.vocabulary)


def round_budget(recipe: Recipe, round_number: int, spent: float = 0.0) -> TrainingConfig:
    """A round's share of the budget: round_share before each refinement, the rest after the last.

    Minutes are those of the clock, so that tables use them up too: of what `spent` seconds have left, a round has its
    share and leaves the later ones theirs.
    """
    config, training = recipe.bootstrap, recipe.training
    left = 1 - round_number * config.round_share
    share = config.round_share if round_number < config.refinements else left
    minutes = max(share / left * (training.minutes - spent / 60), 0.001) if training.minutes else 0.0
    return replace(training, epochs=max(share * training.epochs, 0.001), minutes=minutes)


def check_rounds(recipe: Recipe) -> None:
    """Refuse refinements that would use up the budget."""
    config = recipe.bootstrap
    if config.refinements and config.refinements * config.round_share >= 1:
        raise LightRNNError(
            f"--rounds {config.rounds} of --round-share {config.round_share:g} leave nothing of the budget "
            "for the last round; lower one of them"
        )


def _steps_of_words(words: int, recipe: Recipe) -> int:
    """About how many mini-batches some words make."""
    return round(words / (recipe.training.batch_size * recipe.training.window))


def _summary(run: Run) -> dict[str, Any]:
    """How the model was trained, as config.json tells it."""
    return {
        **run.recipe.to_dict(),
        "valid_perplexity": run.best_perplexity,
        "round": run.round,
        "words": run.words + run.trainer.position.words,
        "steps": run.step,
    }


def _keep_if_best(run: Run, check: Check) -> None:
    """The folder's model is the best of all rounds: its weights and the table they were trained on."""
    if run.best_perplexity is None or check.validation.perplexity < run.best_perplexity:
        run.best_perplexity = check.validation.perplexity
        save_model(run.folder, run.trainer.model, run.corpus.vocabulary, _summary(run))


def _save(run: Run) -> None:
    model = run.trainer.model
    facts = {
        "recipe": run.recipe.to_dict(),
        "position": asdict(run.trainer.position),
        **{name: getattr(run, name) for name in KEPT},
        "table_shape": list(model.table.shape) if model.table else None,
        "data": run.corpus.digest("train", "valid"),
        "metrics_bytes": (run.folder / METRICS).stat().st_size,
    }
    save_training(run.folder, run.trainer.tensors(), facts)


def _check_facts(run: Run, check: Check) -> dict[str, Any]:
    position, validation = run.trainer.position, check.validation
    seconds, words = run.seconds + position.seconds, run.words + position.words
    return {
        "round": run.round,
        "step": run.step,
        "epoch": words / len(run.trainer.train),
        "words": words,
        "learning_rate": check.learning_rate,
        "train_perplexity": check.train_perplexity,
        "valid_perplexity": validation.perplexity,
        "valid_parts": [part / validation.tokens for part in validation.parts],
        "improved": check.improved,
        "seconds": round(seconds, 3),
        "words_per_second": round(words / seconds, 1),
    }


def _refined_facts(run: Run, refined: Refined) -> dict[str, Any]:
    found = refined.found
    return {
        "refinement": run.recipe.bootstrap.refine,
        "round": run.round,
        "epoch": run.words / len(run.trainer.train),
        "perplexity_before": refined.perplexity_before,
        "perplexity_after": refined.perplexity_after,
        "cost_before": found.cost_before,
        "cost_after": found.cost_after,
        "bound": found.bound,
        "moved": found.moved,
        "moved_tokens": found.moved_tokens,
        "refinement_seconds": round(found.seconds, 3),
        "share_of_training_seconds": round(refined.share_of_training, 5),
    }


def _log(run: Run, board: Board | None, facts: dict[str, Any]) -> None:
    """One line of metrics.jsonl, and the same to TensorBoard when it is installed."""
    with (run.folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
    for name in ("learning_rate", "train_perplexity", "valid_perplexity", "words_per_second"):
        if board is not None and name in facts:
            board.add_scalar(name, facts[name], run.step)
