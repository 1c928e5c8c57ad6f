"""A training run in a model folder: start it, save it as it goes, stop it, take it up again.

The only place that knows both the Trainer and the folder. The folder always holds the best model so far and, in
training.safetensors, the last one with all that is needed to go on.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from .board import Board
from .checkpoint import METRICS, TRAINING, load_training, save_model, save_training
from .config import Recipe, option_name
from .corpus import Corpus
from .errors import LightRNNError
from .files import atomic_file
from .model import LightRNN
from .table import WordTable
from .training import Batch, Check, Trainer

SAVE_SECONDS = 60.0

Report = Callable[[Trainer, Batch | Check], None]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the best validation perplexity, why it stopped, and whether it can be resumed."""

    best_perplexity: float | None
    reason: str
    interrupted: bool


def choose_device(name: str = "auto") -> torch.device:
    """The device to compute on: CUDA if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError):
        raise LightRNNError(f"--device {name} cannot be used here; use auto, cpu, or cuda where there is one") from None
    return device


def train(
    corpus: Corpus,
    recipe: Recipe,
    folder: Path,
    *,
    table: WordTable | None = None,
    init: LightRNN | None = None,
    device: torch.device | None = None,
    report: Report = lambda trainer, event: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train a new model in `folder`, with `table` or a random one; or go on from the weights and table of `init`."""
    seed = recipe.training.seed
    torch.manual_seed(seed)
    if init is not None:
        model = init
    else:
        table = table or WordTable.random(len(corpus.vocabulary), recipe.model.components, seed=seed)
        model = LightRNN(recipe.model, table)
        model.reset(recipe.training.weight_init)
    trainer = _trainer(model, recipe, corpus, device)
    save_model(folder, model, corpus.vocabulary, _summary(trainer))
    for name in (TRAINING, METRICS):
        (folder / name).unlink(missing_ok=True)
    (folder / METRICS).touch()
    return _run(trainer, recipe, corpus, folder, report, should_stop)


def resume(
    corpus: Corpus,
    folder: Path,
    budget: dict[str, Any],
    *,
    device: torch.device | None = None,
    report: Report = lambda trainer, event: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Go on with the run in `folder`, to the same bytes as if it had never stopped; `budget` may change its length."""
    tensors, facts = load_training(folder)
    if facts["data"] != _data_digest(corpus):
        raise LightRNNError(f"{corpus.path} is not the data that {folder} was training on; resume with that")
    recipe = Recipe.from_dict(facts["recipe"], str(folder / TRAINING))
    changed = {
        name: value
        for name, value in budget.items()
        if value != (recipe.model.to_dict() | recipe.training.to_dict())[name]
    }
    if frozen := set(changed) - {"epochs", "minutes", "patience"}:
        first = option_name(min(frozen))
        raise LightRNNError(f"{first} cannot change on --resume; only epochs, minutes and patience can")
    recipe = recipe.override(changed)
    table = WordTable(tensors["model.codes"].numpy().astype("int64"), tuple(facts["table_shape"]))
    trainer = _trainer(LightRNN(recipe.model, table), recipe, corpus, device)
    trainer.restore(tensors, facts["position"])
    metrics = (folder / METRICS).read_bytes()[: facts["metrics_bytes"]] if (folder / METRICS).exists() else b""
    with atomic_file(folder / METRICS) as file:
        file.write(metrics)
    return _run(trainer, recipe, corpus, folder, report, should_stop)


def _trainer(model: LightRNN, recipe: Recipe, corpus: Corpus, device: torch.device | None) -> Trainer:
    model = model.to(device or choose_device())
    return Trainer(model, recipe.training, corpus.split("train"), corpus.split("valid"), corpus.vocabulary)


def _data_digest(corpus: Corpus) -> str:
    splits = corpus.info["splits"]
    return " ".join((corpus.vocabulary.digest, splits["train"]["sha256"], splits["valid"]["sha256"]))


def _summary(trainer: Trainer) -> dict[str, Any]:
    """How the model was trained, as config.json tells it."""
    position = trainer.position
    return {
        **trainer.config.to_dict(),
        "valid_perplexity": position.best_perplexity,
        "steps": position.step,
        "words": position.words,
    }


def _run(
    trainer: Trainer,
    recipe: Recipe,
    corpus: Corpus,
    folder: Path,
    report: Report,
    should_stop: Callable[[], bool],
) -> Outcome:
    board = Board(folder / "tensorboard", trainer.position.step) if find_spec("tensorboard") else None

    def save() -> None:
        facts = {
            "recipe": {"model": recipe.model.to_dict(), "training": recipe.training.to_dict()},
            "position": asdict(trainer.position),
            "table_shape": list(trainer.model.shape),
            "data": _data_digest(corpus),
            "metrics_bytes": (folder / METRICS).stat().st_size,
        }
        save_training(folder, trainer.tensors(), facts)

    save()
    saved = time.monotonic()
    for event in trainer.run():
        report(trainer, event)
        if isinstance(event, Check):
            if event.improved:
                save_model(folder, trainer.model, corpus.vocabulary, _summary(trainer))
            _log(folder, board, trainer, event)
        stopping = should_stop()
        if stopping or isinstance(event, Check) or time.monotonic() - saved > SAVE_SECONDS:
            save()
            saved = time.monotonic()
        if stopping:
            return Outcome(trainer.position.best_perplexity, "interrupted", interrupted=True)
    return Outcome(trainer.position.best_perplexity, trainer.stop_reason, interrupted=False)


def _log(folder: Path, board: Board | None, trainer: Trainer, check: Check) -> None:
    """One line of metrics.jsonl, and the same to TensorBoard when it is installed."""
    position, validation = trainer.position, check.validation
    line: dict[str, Any] = {
        "step": position.step,
        "epoch": position.epoch + position.epoch_tokens / len(trainer.train),
        "words": position.words,
        "learning_rate": check.learning_rate,
        "train_perplexity": check.train_perplexity,
        "valid_perplexity": validation.perplexity,
        "valid_parts": [part / validation.tokens for part in validation.parts],
        "improved": check.improved,
        "seconds": round(position.seconds, 3),
        "words_per_second": round(position.words / position.seconds, 1),
    }
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    if board is not None:
        for name in ("learning_rate", "train_perplexity", "valid_perplexity", "words_per_second"):
            board.add_scalar(name, line[name], position.step)
