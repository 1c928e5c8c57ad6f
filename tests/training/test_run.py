"""Where a run stands: read back whole or refused, also from folders of before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import CPU, Call, refused
from lightrnn.config import ModelConfig, Recipe, TrainingConfig
from lightrnn.errors import LightRNNError
from lightrnn.models.checkpoint import load_training, save_training
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.run import load_run, read_metrics


@pytest.fixture
def stopped(tiny: Corpus, tmp_path: Path) -> Path:
    recipe = Recipe(ModelConfig(hidden_size=4), TrainingConfig(epochs=1, batch_size=4, window=8, validate_every=3))
    seen = iter(range(10**9))
    bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU, should_stop=lambda: next(seen) == 5)
    return tmp_path / "m"


def test_a_run_of_version_0_1_0_goes_on(before: Path) -> None:
    outcome = bootstrap.resume(Corpus.load(before / "data"), before / "model", {"epochs": 2.1}, device=CPU)
    assert outcome.reason == "the epochs are done"


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.pop("recipe"),
        lambda f: f.pop("position"),
        lambda f: f["position"].pop("words"),
        lambda f: f["position"].update(step="5"),
        lambda f: f["position"].update(epoch=10**9),
        lambda f: f["position"].update(batch=10**9),
        lambda f: f["position"].update(began=1e9),
        lambda f: f["clock"].pop("training"),
        lambda f: f["clock"].update(training=0),
        lambda f: f["position"].update(rate_factor=1e9),
        lambda f: f["position"].update(step=0),
        lambda f: f.update(round=7),
        lambda f: f.update(round=-1),
        lambda f: f.update(best_perplexity=None),
        lambda f: f.update(best_perplexity="12"),
        lambda f: f["clock"].update(refinement=-1),
        lambda f: f.update(table_shape=None),
        lambda f: f.update(table_shape=[8]),
        lambda f: f.update(table_shape="8x8"),
        lambda f: f.update(metrics_bytes=-5),
        lambda f: f.update(metrics_bytes=None),
        lambda f: f.update(data=5),
        lambda f: f.update(teacher="large"),
        lambda f: f.update(teacher={"path": "large", "digest": "5"}),
        lambda f: f["recipe"].update(model=[]),
        lambda f: f["recipe"]["model"].update(hidden_size=5),
        lambda f: f["recipe"]["training"].update(batch_size=3),
    ],
)
def test_facts_of_a_run_that_make_no_sense(
    call: Call, tiny: Corpus, stopped: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    tensors, facts = load_training(stopped)
    change(facts)
    save_training(stopped, tensors, facts)
    state = (stopped / "training.safetensors").read_bytes()
    assert refused(call("train", tiny.path, "-o", stopped, "--resume"))
    assert (stopped / "training.safetensors").read_bytes() == state


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update({"optimizer.0.exp_avg": torch.zeros(2)}),
        lambda t: t.update({"optimizer.0.exp_avg_sq": torch.zeros(2)}),
        lambda t: t.update({"optimizer.0.exp_avg": t["optimizer.0.exp_avg"].double()}),
        lambda t: t.update({"optimizer.0.step": torch.zeros(3)}),
        lambda t: t["optimizer.0.exp_avg_sq"].fill_(-1),
        lambda t: t["optimizer.0.exp_avg"].fill_(torch.nan),
        lambda t: t.pop("optimizer.0.step"),
        lambda t: t.update({"optimizer.0.momentum": torch.zeros(3)}),
        lambda t: t.update({"optimizer.99.step": torch.zeros(())}),
        lambda t: t.update({"optimizer.x.step": torch.zeros(())}),
        lambda t: t.update({"carried.0": torch.zeros(1, 3, 4)}),
        lambda t: t.update({"carried.0": torch.zeros(4)}),
        lambda t: t.pop("carried.1"),
        lambda t: (t.pop("carried.0"), t.pop("carried.1")),
        lambda t: t.pop("random.cpu"),
        lambda t: t.update({"random.cpu": t["random.cpu"][:-1]}),
        lambda t: t["random.cpu"].fill_(255),
        lambda t: t.pop("model.codes"),
        lambda t: t["model.output_bias.0"].fill_(torch.nan),
    ],
)
def test_tensors_of_a_run_that_do_not_fit(
    tiny: Corpus, stopped: Path, change: Callable[[dict[str, Tensor]], object]
) -> None:
    tensors, facts = load_training(stopped)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors)
    save_training(stopped, tensors, facts)
    torch.manual_seed(12345)
    with pytest.raises(LightRNNError, match="does not fit the model that its settings describe now; train again"):
        bootstrap.resume(tiny, stopped, {}, device=CPU)
    assert not torch.equal(torch.get_rng_state(), load_training(stopped)[0].get("random.cpu", torch.zeros(1)))


@pytest.mark.parametrize(
    "line", [b"[]", b"{}", b"{", b'{"refinement": 5}', b'{"valid_perplexity": NaN}', b"\xff", b"[" * 9999]
)
def test_lines_of_metrics_that_are_none(call: Call, before: Path, line: bytes) -> None:
    metrics = before / "model" / "metrics.jsonl"
    whole_lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(line + b"\n" + b"".join(whole_lines[1:]))
    assert "metrics.jsonl line 1" in refused(call("train", before / "data", "-o", before / "model", "--resume"))
    with pytest.raises(LightRNNError, match="line 1"):
        read_metrics(before / "model")


def test_a_run_of_version_0_1_goes_on_where_it_was(before: Path) -> None:
    """It had neither a clock nor a count of steps over all rounds."""
    seen: list[int] = []
    _, written = load_training(before / "model")
    _, facts, _ = load_run(before / "model")
    assert facts["clock"]["start"] == written["start_seconds"] > 0
    assert facts["clock"]["training"] == written["seconds"] + written["position"]["seconds"]
    assert facts["steps"] == pytest.approx(written["words"] / (5 * 12), abs=1)  # the last window of an epoch is short
    corpus, model = Corpus.load(before / "data"), before / "model"
    bootstrap.resume(corpus, model, {"epochs": 3.0}, device=CPU, report=lambda run, event: seen.append(run.step))
    assert seen[0] == facts["steps"] + facts["position"]["step"] + 1
