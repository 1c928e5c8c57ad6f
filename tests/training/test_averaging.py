"""The mean of the weights of a run: what it is, and that it is the model which a run makes."""

from math import comb
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import CPU, FAST
from lightrnn.inference.passes import evaluate
from lightrnn.models.checkpoint import load_model, load_training
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.averaging import ALL, EVERY, POWER, Average


def test_later_weights_count_more_and_where_they_started_does_not() -> None:
    model = LightRNN(FAST.model, WordTable.random(30, 2, seed=1))
    average = Average(model)
    seen = []
    power = int(POWER)

    def check(counts: list[float]) -> None:
        expected = np.tensordot(counts / np.sum(counts), np.stack(seen).astype(np.float64), axes=1)
        found = average.model.input_vectors.weight.detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-6)  # of weights up to 0.1, in single precision

    for step in range(ALL + 4 * EVERY + 3):
        model.reset()
        average.add(model, step)
        if step < ALL or step % EVERY == 0:
            seen.append(model.input_vectors.weight.detach().numpy().copy())
        if step in (0, 4, ALL - 1):  # all of the first ones
            check([comb(i + power, power) for i in range(step + 1)])
    early = np.array([comb(i + power, power) for i in range(ALL)], np.float64)
    few = ALL // EVERY  # weights, for which all the early ones stand
    late = [comb(i + power, power) for i in range(few + 5)]
    check([*(early / early.sum() * sum(late[:few])), *late[few:]])
    assert (average.model.codes == model.codes).all()


@pytest.mark.parametrize("refine", ["none", "matching"])
def test_the_mean_is_what_is_validated_and_kept(tiny: Corpus, tmp_path: Path, refine: str) -> None:
    recipe = FAST.override({"schedule": "average", "refine": refine})
    outcome = bootstrap.train(tiny, recipe, tmp_path / "m", device=CPU)
    model, vocabulary = load_model(tmp_path / "m")
    assert evaluate(model, tiny.split("valid"), vocabulary).perplexity == pytest.approx(
        outcome.best_perplexity,
        rel=1e-6,  # the same weights on the same text, in other batches
    )
    tensors, _ = load_training(tmp_path / "m")
    name = "input_vectors.weight"
    torch.testing.assert_close(model.state_dict()[name], tensors[f"average.{name}"], atol=0, rtol=0)
    assert not torch.allclose(model.state_dict()[name], tensors[f"model.{name}"], atol=1e-3)
