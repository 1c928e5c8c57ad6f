"""Training: it learns, it resumes to the same bytes, it stops when it should, it never leaves a broken model."""

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import CPU, FAST, TIMEOUT, Call, outcome_of, printed, run_apart, started, wait_for
from lightrnn.inference.passes import evaluate
from lightrnn.models.checkpoint import load_model
from lightrnn.models.folder import load_table, read_config
from lightrnn.models.lightrnn import LightRNN
from lightrnn.registry import KINDS
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rules import TextRules
from lightrnn.training import bootstrap
from lightrnn.training.trainer import Batch, Trainer, Validated


def test_it_learns_and_keeps_the_best(tiny: Corpus, tmp_path: Path) -> None:
    events = []
    outcome = bootstrap.train(tiny, FAST, tmp_path / "m", device=CPU, report=lambda run, event: events.append(event))
    perplexities = [event.validation.perplexity for event in events if isinstance(event, Validated)]
    assert len(perplexities) == 3
    assert outcome.best_perplexity == min(perplexities)
    assert outcome.reason == "the epochs are done"
    model, vocabulary = load_model(tmp_path / "m")
    assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(
        outcome.best_perplexity,
        rel=1e-6,  # the same weights on the same text, in other batches
    )
    counts = vocabulary.counts + 1
    unigram = np.exp(-np.log(counts / counts.sum())[tiny.split("valid")].mean())
    assert outcome.best_perplexity < 0.8 * unigram  # each word depends on the one before: there is much to learn


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn-tanh", "rnn-sigmoid"])
def test_every_cell_and_table_trains(tiny: Corpus, tmp_path: Path, cell: str, components: int) -> None:
    recipe = FAST.override({"cell": cell, "components": components, "layers": 2, "dropout": 0.0})
    outcome = bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU)
    assert outcome.best_perplexity < 0.8 * len(tiny.vocabulary)  # better than to guess
    model, vocabulary = load_model(tmp_path / "m")
    assert (load_table(tmp_path / "m", vocabulary).codes == model.table.codes).all()


def test_seeds_decide_everything(tiny: Corpus, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        bootstrap.train(tiny, FAST.override({"seed": seed, "epochs": 1}), tmp_path / name, device=CPU)
    assert outcome_of(tmp_path / "a") == outcome_of(tmp_path / "b")
    assert outcome_of(tmp_path / "a")["weights.safetensors"] != outcome_of(tmp_path / "c")["weights.safetensors"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"optimizer": "sgd", "learning_rate": 1.0, "schedule": "halve", "validate_every": 9},
        {"cell": "gru", "layers": 2, "components": 3, "schedule": "constant"},
        {"schedule": "average", "validate_every": 9},
        {"layers": 2, "dropout_from": 1.3, "word_bias": True, "rows": "auto", "alone": 9},
        {"precision": "bfloat16", "schedule": "average", "alone": 9, "tied": True},
    ],
)
def test_stopping_anywhere_and_resuming_changes_nothing(tiny: Corpus, tmp_path: Path, fields: dict) -> None:
    recipe = FAST.override(fields)
    bootstrap.train(tiny, recipe, tmp_path / "whole", device=CPU)
    batches = 0

    def stop_now() -> bool:
        nonlocal batches
        batches += 1
        return batches % 10 == 0  # just before, at and after validations, at an epoch's last batch

    outcome = bootstrap.train(tiny, recipe, tmp_path / "parts", device=CPU, should_stop=stop_now)
    resumed = 0
    while outcome.interrupted:
        resumed += 1
        torch.manual_seed(resumed)  # whatever another process would have as its random state
        outcome = bootstrap.resume(tiny, tmp_path / "parts", {}, device=CPU, should_stop=stop_now)
    assert resumed >= 25  # 300 batches, a stop at every tenth
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "parts")


def test_bfloat16_is_for_products_alone(tiny: Corpus, tmp_path: Path) -> None:
    """Training comes to about the same; what it leaves is in single precision, and so is what is told of it."""
    best = {}
    for precision in ("float32", "bfloat16"):
        recipe = FAST.override({"precision": precision, "alone": 9, "tied": True, "head": 4})
        best[precision] = bootstrap.train(tiny, recipe, tmp_path / precision, device=CPU).best_perplexity
        model, vocabulary = load_model(tmp_path / precision)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
        assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(best[precision], rel=1e-6)
    assert best["bfloat16"] != best["float32"]
    assert best["bfloat16"] == pytest.approx(best["float32"], rel=0.01)


@pytest.mark.parametrize(
    "fields",
    [{"model": kind} for kind in KINDS] + [{"model": kind, "tied": True} for kind in ("full", "adaptive")],
    ids=str,
)
def test_every_kind_trains_in_bfloat16(tiny: Corpus, tmp_path: Path, fields: dict) -> None:
    recipe = FAST.override({**fields, "precision": "bfloat16"})
    outcome = bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU)
    assert outcome.best_perplexity < 0.8 * len(tiny.vocabulary)  # better than to guess


@pytest.mark.parametrize("has_it", [True, False])
def test_auto_takes_bfloat16_where_the_machine_has_it(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_it: bool
) -> None:
    monkeypatch.setattr("lightrnn.training.trainer.multiplies_bfloat16", lambda device: has_it)
    for precision in ("auto", "bfloat16" if has_it else "float32"):
        recipe = FAST.override({"precision": precision, "epochs": 0.3})
        bootstrap.train(tiny, recipe, tmp_path / precision, device=CPU)
    weights = [(tmp_path / p / "weights.safetensors").read_bytes() for p in (precision, "auto")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(("refine", "expected"), [("matching", [0, 1, 1, 1]), ("cluster", [0, 1, 0, 1])])
def test_dropout_begins_once_for_weights_that_go_on(
    tiny: Corpus, tmp_path: Path, refine: str, expected: list[int]
) -> None:
    """A clustering restarts them; a matching does not, and they have read the text."""
    fields = {"refine": refine, "rounds": 1, "round_share": 0.5, "epochs": 4, "dropout": 0.3, "dropout_from": 1}
    seen = []

    def note(run: bootstrap.Run, event: object) -> None:
        if isinstance(event, Validated):
            seen.append(int(run.trainer.model.drops))

    stopped = bootstrap.train(
        tiny, FAST.override(fields), tmp_path / "m", device=CPU, report=note, should_stop=lambda: len(seen) == 2
    )
    assert stopped.interrupted
    bootstrap.resume(tiny, tmp_path / "m", device=CPU, report=note)
    assert seen == expected


@pytest.mark.parametrize("layers", [1, 2])
def test_dropout_begins_when_it_should(tiny: Corpus, layers: int) -> None:
    """Up to then a run is that of a model without dropout."""

    def losses(**fields: float) -> list[float]:
        recipe = FAST.override({"epochs": 2, "layers": layers, **fields})
        torch.manual_seed(1)
        model = LightRNN(recipe.model, WordTable.random(len(tiny.vocabulary), seed=1))
        trainer = Trainer(model, recipe.training, tiny.split("train"), tiny.split("valid"), tiny.vocabulary)
        found = [event.nats for event in trainer.run() if isinstance(event, Batch)]
        assert model.config.dropout == recipe.model.dropout
        return found

    late, without, always = losses(dropout_from=1.0), losses(dropout=0.0), losses()
    first = len(late) // 2
    assert late[:first] == without[:first]
    assert late[first] != without[first]
    assert always[0] != without[0]


def test_five_sigkills_change_nothing(tiny: Corpus, tmp_path: Path) -> None:
    options = (
        *("--hidden-size", "12", "--batch-size", "4", "--window", "5", "--epochs", "12", "--dropout", "0.2"),
        *("--validate-every", "60", "--threads", "1", "--device", "cpu", "--refine", "cluster", "--round-share", "0.3"),
        *("--minutes", "0"),  # the recipe's would decide on a crowded machine
    )
    printed(run_apart("train", tiny.path, "-o", tmp_path / "whole", *options))
    moments = random.Random(20161205)
    state = tmp_path / "killed" / "training.safetensors"
    arguments = ("train", tiny.path, "-o", tmp_path / "killed", *options)
    for _ in range(5):
        before = state.stat().st_mtime_ns if state.exists() else 0
        with started(*arguments, *["--resume"] * state.exists()) as process:
            # until it has saved once, so that each life makes some way
            wait_for(lambda before=before: state.exists() and state.stat().st_mtime_ns != before, process)
            time.sleep(moments.uniform(0, 0.5))  # seconds: anywhere between a save and the next but one
            assert process.poll() is None, "the run ended before it could be killed: make it longer"
        load_model(tmp_path / "killed")  # a usable model after every kill
    printed(run_apart(*arguments, "--resume"))
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_exit(tiny: Corpus, tmp_path: Path, number: signal.Signals) -> None:
    options = ("--epochs", "9999", "--hidden-size", "8", "--threads", "1", "--device", "cpu")
    written = tmp_path / "m" / "metrics.jsonl"
    with started("train", tiny.path, "-o", tmp_path / "m", *options) as process:
        wait_for(lambda: written.exists() and written.stat().st_size, process)
        process.send_signal(number)
        _, message = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number
    assert "--resume" in message
    load_model(tmp_path / "m")
    outcome = bootstrap.resume(Corpus.load(tiny.path), tmp_path / "m", {"epochs": 1}, device=CPU)
    assert not outcome.interrupted


def test_budgets_and_patience(tiny: Corpus) -> None:
    def reason(**fields) -> tuple[str, Trainer]:
        recipe = FAST.override(fields)
        torch.manual_seed(1)
        model = LightRNN(recipe.model, WordTable.random(len(tiny.vocabulary), seed=1))
        model.reset()
        trainer = Trainer(model, recipe.training, tiny.split("train"), tiny.split("valid"), tiny.vocabulary)
        events = list(trainer.run())
        assert isinstance(events[-1], Validated)  # never ends without knowing how good it is
        return trainer.stop_reason, trainer

    why, trainer = reason(minutes=0.01, epochs=1000)
    assert why == "the minutes are used up"
    assert trainer.seconds < 5  # of the 0.6 s of its budget, on a busy machine
    why, trainer = reason(learning_rate=30.0, optimizer="sgd", schedule="constant", patience=2, epochs=50)
    assert why == "no improvement in 2 validations"
    gaining = {"schedule": "constant", "patience": 2}  # all the time, by less than half
    why, trainer = reason(**gaining, least_gain=0.5, epochs=50)
    assert why == "no improvement in 2 validations"
    assert trainer.epochs_done == pytest.approx(3)
    assert trainer.position.best_perplexity == reason(**gaining, epochs=3)[1].position.best_perplexity
    why, trainer = reason(learning_rate=20.0, optimizer="sgd", schedule="halve", epochs=12)
    assert trainer.learning_rate < 20.0  # it was halved
    assert trainer.learning_rate == 20.0 * 0.5 ** round(-np.log2(trainer.learning_rate / 20.0))
    why, trainer = reason(schedule="cosine", epochs=2)
    assert trainer.learning_rate == 0


def test_going_on_from_a_model_on_new_text(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, FAST, tmp_path / "base", device=CPU)
    text = tmp_path / "new.txt"
    text.write_text("w1 w2 unheard-of\n" * 300, encoding="utf-8")
    printed(call("train", text, "--init", "base", "-o", "next", "--epochs", "9", "--learning-rate", "0.02"))
    base, vocabulary = load_model(tmp_path / "base")
    further, same = load_model(tmp_path / "next")
    assert same.words == vocabulary.words
    assert (further.codes == base.codes).all()
    ids = vocabulary.encode_files([str(text)])
    # three words over and over
    assert evaluate(further, ids, vocabulary).perplexity < 0.2 * evaluate(base, ids, vocabulary).perplexity


def test_sentence_convention_trains_and_resumes(tmp_path: Path, tiny: Corpus) -> None:
    source = tiny.path.parent
    rules = TextRules(bos="<s>", convention="sentence")
    corpus = prepare([str(source / "train.txt")], tmp_path / "d", valid=[str(source / "valid.txt")], rules=rules)
    bootstrap.train(corpus, FAST, tmp_path / "whole", device=CPU)
    countdown = iter(range(200, 0, -1))
    outcome = bootstrap.train(corpus, FAST, tmp_path / "parts", device=CPU, should_stop=lambda: next(countdown, 0) == 1)
    assert outcome.interrupted
    bootstrap.resume(corpus, tmp_path / "parts", {}, device=CPU)
    assert outcome_of(tmp_path / "whole") == outcome_of(tmp_path / "parts")
    perplexity = read_config(tmp_path / "whole")["training"]["valid_perplexity"]
    assert perplexity < 0.5 * len(tiny.vocabulary)  # far better than to guess
