"""A bootstrap run and its traces in the model folder: what is saved of it, and read back to go on.

training.safetensors holds the last model with all that is needed to go on, in one file, so that table, weights and
optimiser can never disagree; metrics.jsonl has a line for each validation and each refinement.
"""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..border import check, digest, file_name, list_of, maybe, number, parse_json, record, text, whole
from ..config import Recipe, TrainingConfig
from ..errors import LightRNNError
from ..files import atomic_file
from ..models.base import RecurrentModel
from ..models.checkpoint import finish_commit, load_training, rebuild, save_model, save_training
from ..models.folder import DIMENSIONS, METRICS, TRAINING, load_vocabulary
from ..processes import here
from ..registry import REFINEMENTS
from ..runtime import choose_device
from ..text.corpus import Corpus
from .clock import Clock
from .fitting import check_rounds, round_budget, with_words_alone
from .refinement import NextTable
from .snapshot import restore, tensors_of
from .teaching import Teacher, teacher_of_all
from .trainer import POSITION, Trainer, Validated

SAVED_FIELDS = ("round", "best_perplexity", "words", "steps")  # of a Run, beside its trainer and its clock
SAVED = record(  # all that is saved, but tensors
    {
        "recipe": record({}),
        "position": POSITION,
        "clock": record({declared.name: number(least=0, most=1e12) for declared in fields(Clock)}),
        "round": whole(most=1000),
        "best_perplexity": maybe(number(least=0)),
        **dict.fromkeys(("words", "steps"), whole()),
        "table_shape": maybe(DIMENSIONS),
        "data": text(),
        "metrics_bytes": whole(),
    },
    {"processes": whole(1), "teacher": maybe(record({"path": file_name(), "digest": digest()}))},
)
SECONDS = number(least=0, most=1e12)
BEFORE_CLOCKS = record(
    {
        **dict.fromkeys(("start_seconds", "seconds", "refinement_seconds"), SECONDS),
        "position": record({"seconds": SECONDS, "checks_since_best": whole()}),
        "recipe": record({"training": record(dict.fromkeys(("batch_size", "window"), whole(1)))}),
        "words": whole(),
    }
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


@dataclass
class Run:
    """A bootstrap in progress: the round, its trainer, and what the rounds before left behind.

    folder: None in a process that follows another, which writes. saved_by: how many processes did what it goes on from.
    """

    recipe: Recipe
    corpus: Corpus
    folder: Path | None
    trainer: Trainer
    clock: Clock = field(default_factory=Clock)
    round: int = 0  # refinements done
    best_perplexity: float | None = None
    words: int = 0  # trained on in the rounds before
    steps: int = 0  # mini-batches of the rounds before
    saved_by: int = 1
    teacher: Teacher | None = None

    @property
    def step(self) -> int:
        """Mini-batches done over all rounds."""
        return self.steps + self.trainer.position.step

    @property
    def words_read(self) -> int:
        """Tokens trained on over all rounds."""
        return self.words + self.trainer.position.words

    def next_round(self, model: RecurrentModel) -> None:
        """A new trainer, for a model on the next table."""
        self.round += 1
        self.words = self.words_read
        self.steps = self.step
        config = round_budget(self.recipe, self.round, self.clock.total)
        self.trainer = new_trainer(model, self.recipe, config, self.corpus, self.clock, self.teacher, self.words)

    def moved(self, folder: Path) -> None:
        """The run's folder has got another name, and so has the corpus if it is in there."""
        if self.folder is not None and self.corpus.path.is_relative_to(self.folder):
            self.corpus = replace(self.corpus, path=folder / self.corpus.path.relative_to(self.folder))
        self.folder = folder


def new_trainer(
    model: RecurrentModel,
    recipe: Recipe,
    budget: TrainingConfig,
    corpus: Corpus,
    clock: Clock,
    teacher: Teacher | None,
    words: int = 0,
) -> Trainer:
    """For a round with this budget, before which so many words were read: by weights that it goes on from, unless the
    refinement restarts them."""
    refinement, train = REFINEMENTS[recipe.bootstrap.refine], corpus.split("train")
    before = 0.0 if refinement is None or refinement.restarts else words / len(train)
    return Trainer(model, budget, train, corpus.split("valid"), corpus.vocabulary, clock, teacher, before)


def save(run: Run) -> None:
    """All that is needed to go on; asked of all processes that train together, and written by one."""
    tensors = tensors_of(run.trainer)
    if run.folder is not None:
        save_training(run.folder, tensors, _facts(run))


def _facts(run: Run) -> dict[str, Any]:
    """All that is saved, but tensors; of a run that has a folder."""
    assert run.folder is not None
    model = run.trainer.model
    return {
        "recipe": run.recipe.to_dict(),
        "position": asdict(run.trainer.position),
        "clock": asdict(run.clock),
        **{name: getattr(run, name) for name in SAVED_FIELDS},
        "table_shape": list(model.table.shape) if model.table else None,
        "data": run.corpus.digest("train", "valid"),
        "metrics_bytes": (run.folder / METRICS).stat().st_size,
        "processes": run.trainer.processes.size,
        "teacher": run.teacher.facts if run.teacher else None,
    }


def save_best(run: Run) -> None:
    """The model as it is now, with how it was trained."""
    if run.folder is None:
        return
    summary = {
        **run.recipe.to_dict(),
        "valid_perplexity": run.best_perplexity,
        "round": run.round,
        "words": run.words_read,
        "steps": run.step,
        **({"teacher": run.teacher.digest} if run.teacher else {}),
    }
    save_model(run.folder, run.trainer.result, run.corpus.vocabulary, summary)


def reopen(corpus: Corpus, folder: Path, changes: dict[str, Any], *, device: torch.device | None = None) -> Run:
    """The run in `folder` where it was last saved; `changes` to its recipe may be of its budget only.

    The counts of the vocabulary are those of the folder's model, which may have been trained on another text before.
    """
    tensors, facts, recipe = load_run(folder)
    if not corpus.has_digest(facts["data"], "train", "valid"):
        raise LightRNNError(f"{corpus.path} is not the data that {folder} was training on; resume with that")
    corpus = corpus.with_counts(load_vocabulary(folder).counts)
    recipe = recipe.with_budget(with_words_alone(changes, corpus.vocabulary, recipe.training.unk_rate))
    metrics = (folder / METRICS).read_bytes()[: facts["metrics_bytes"]] if (folder / METRICS).exists() else b""
    _parse_metrics(metrics, folder)
    teacher = Teacher.remembered(facts["teacher"]) if facts.get("teacher") else None
    try:
        run = _rebuilt(corpus, recipe, tensors, facts, device, teacher)
    except LightRNNError as error:
        raise LightRNNError(
            f"the run in {folder} ({error}) does not fit the model that its settings describe now; "
            "train again into another folder"
        ) from None
    run.folder = folder
    finish_commit(folder)
    with atomic_file(folder / METRICS) as file:
        file.write(metrics)
    save_training(folder, tensors, _facts(run))
    publish(run, tensors)
    return run


def _rebuilt(
    corpus: Corpus,
    recipe: Recipe,
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    device: torch.device | None,
    teacher: Teacher | None,
) -> Run:
    """A run as it was when it had these tensors and facts, without a folder."""
    clock, position = Clock(**facts["clock"]), facts["position"]
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    model = rebuild(recipe.model, corpus.vocabulary, weights, facts["table_shape"], recipe.training.seed)
    spent = clock.total - (clock.training - position["began"])
    budget, on_device = round_budget(recipe, facts["round"], spent), model.to(device or choose_device())
    trainer = new_trainer(on_device, recipe, budget, corpus, clock, teacher, facts["words"])
    restore(trainer, tensors, position)
    kept = {name: facts[name] for name in SAVED_FIELDS}
    return Run(recipe, corpus, None, trainer, clock, **kept, saved_by=facts.get("processes", 1), teacher=teacher)


def publish(run: Run, tensors: dict[str, Tensor] | None = None) -> None:
    """The leader's run becomes that of the processes that follow it; tensors: its own, before a first mini-batch."""
    processes = run.trainer.processes
    if processes.size > 1:
        facts = _facts(run)
        processes.call("run", facts=facts)
        teacher_of_all(facts["teacher"], run.teacher)
        counts = torch.from_numpy(run.corpus.vocabulary.counts)
        processes.sent({"counts": counts, **(tensors or tensors_of(run.trainer))})


def received(corpus: Corpus, facts: dict[str, Any], device: torch.device | None, teacher: Teacher | None) -> Run:
    """In a process that follows: the run that the leader publishes, called with these facts; teacher: that of the round
    before."""
    teacher = teacher_of_all(facts["teacher"], teacher)
    tensors = here().sent({})
    corpus = corpus.with_counts(tensors.pop("counts").numpy())
    return _rebuilt(corpus, Recipe.from_dict(facts["recipe"], "the first process"), tensors, facts, device, teacher)


def load_run(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], Recipe]:
    """The tensors, the facts and the recipe of the run in `folder`, from training.safetensors."""
    path, remedy = folder / TRAINING, f"go on from the model itself with --init {folder}"
    tensors, facts = load_training(folder)
    facts = _of_today(facts, str(path), remedy)
    check(facts, SAVED, str(path), remedy)
    recipe = Recipe.from_dict(facts["recipe"], str(path))
    check_rounds(recipe)
    position, best, clock = facts["position"], facts["best_perplexity"], facts["clock"]
    begun = position["step"] > 0
    possible = (
        facts["round"] <= recipe.bootstrap.refinements
        and max(position["epoch"], position["batch"]) <= position["step"]
        and max(position["epoch_tokens"], position["tokens"]) <= position["words"]
        and begun == (position["words"] > 0) == (clock["training"] > position["began"])
        and (best is not None or (facts["round"] == 0 and begun == (position["tokens"] > 0)))
        and (best is not None or position["best_perplexity"] is None)
    )
    if not possible:
        raise LightRNNError(f"{path}: its numbers contradict each other; {remedy}")
    return tensors, facts, recipe


def _of_today(facts: Any, origin: str, remedy: str) -> Any:
    """Facts of version 0.1.0, which had no clock and did not count steps, in today's terms."""
    if not isinstance(facts, dict) or "clock" in facts:
        return facts
    check(facts, BEFORE_CLOCKS, origin, remedy)
    position = facts["position"] | {"began": facts["seconds"]}
    position["validations_since_best"] = position.pop("checks_since_best")
    clock = {
        "start": facts["start_seconds"],
        "training": facts["seconds"] + position.pop("seconds"),
        "refinement": facts["refinement_seconds"],
    }
    training = facts["recipe"]["training"]
    steps = round(facts["words"] / (training["batch_size"] * training["window"]))
    return {"steps": steps} | facts | {"position": position, "clock": clock}


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


def append_metrics(run: Run, event: Validated | Refined) -> dict[str, Any]:
    """One more line of metrics.jsonl, which is returned."""
    assert run.folder is not None
    facts = _validation_facts(run, event) if isinstance(event, Validated) else _refined_facts(run, event)
    with (run.folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
    return facts


def _validation_facts(run: Run, event: Validated) -> dict[str, Any]:
    validation, seconds = event.validation, run.clock.training
    return {
        "round": run.round,
        "step": run.step,
        "epoch": run.words_read / len(run.trainer.train),
        "words": run.words_read,
        "learning_rate": event.learning_rate,
        "train_perplexity": event.train_perplexity,
        "valid_perplexity": validation.perplexity,
        "valid_parts": [part / validation.tokens for part in validation.parts],
        "improved": event.improved,
        "seconds": round(seconds, 3),
        "words_per_second": round(run.words_read / seconds, 1),
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
