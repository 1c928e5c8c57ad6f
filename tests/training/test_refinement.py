"""Refinements: a better table, and the weights that are carried over to it."""

import numpy as np
import pytest
import torch

from helpers import FLOAT32, random_lightrnn
from lightrnn.config import BootstrapConfig
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.text.windows import STRETCH
from lightrnn.training.refinement import carried_over, refine
from oracle import oracle_of


def test_weights_carried_to_the_same_table_are_the_same_model(tiny: Corpus) -> None:
    model = random_lightrnn(V=len(tiny.vocabulary)).eval()
    same = carried_over(model, model.table, tiny.vocabulary.counts).eval()
    words = torch.randint(len(tiny.vocabulary), (2, 9))
    torch.testing.assert_close(same.log_probs(words)[0], model.log_probs(words)[0], atol=FLOAT32, rtol=FLOAT32)


def test_input_vectors_become_the_means_of_those_who_moved_in(tiny: Corpus) -> None:
    model = random_lightrnn(V=len(tiny.vocabulary))
    table = WordTable.random(len(tiny.vocabulary), seed=8)
    moved = carried_over(model, table, tiny.vocabulary.counts)
    rows, columns = np.split(model.input_vectors.weight.detach().numpy(), [model.shape[0]])
    weights = np.maximum(tiny.vocabulary.counts, 1e-3)
    for column in range(model.shape[1]):
        here = np.flatnonzero(table.codes[:, 1] == column)
        mean = np.average(columns[model.table.codes[here, 1]], axis=0, weights=weights[here])
        np.testing.assert_allclose(moved.input_vectors.weight[model.shape[0] + column].detach(), mean, atol=FLOAT32)
    assert (moved.codes.numpy() == table.codes).all()
    assert len(rows) == model.shape[0]


@pytest.mark.parametrize("components", [2, 3])
def test_a_words_bias_goes_with_it(tiny: Corpus, components: int) -> None:
    V = len(tiny.vocabulary)
    model = random_lightrnn(V=V, K=components, alone=7, word_bias=True)
    table = model.table.with_shared(WordTable.random(V - 7, components, seed=8))
    moved = carried_over(model, table, tiny.vocabulary.counts)
    oracle, after = oracle_of(model), oracle_of(moved)
    for word in table.sharing.tolist():
        before, now = model.table.codes[word].tolist(), table.codes[word].tolist()
        bias = oracle.biases(components - 1, before[:-1])[before[-1]]
        assert after.biases(components - 1, now[:-1])[now[-1]] == bias


@pytest.mark.parametrize(
    ("solver", "word_bias"), [("block", False), ("half", False), ("exact", False), ("block", True)]
)
def test_matching_lowers_the_cost_and_reports_it(tiny: Corpus, solver: str, word_bias: bool) -> None:
    model = random_lightrnn(V=len(tiny.vocabulary), word_bias=word_bias)
    config = BootstrapConfig(refine="matching", solver=solver)
    done = refine(model, tiny.split("train"), tiny.vocabulary, config, seed=1)
    assert done.cost_before > done.cost_after
    assert done.bound is None if solver == "half" else done.cost_after >= done.bound >= 0
    assert done.moved == (done.table.codes != model.table.codes).any(axis=1).sum() > 0
    assert 0 < done.moved_tokens <= 1


def test_words_that_a_sample_lacks_stay_with_their_row(tiny: Corpus) -> None:
    V, words = len(tiny.vocabulary), np.asarray(tiny.split("train"))
    model, ids = random_lightrnn(V=V), np.tile(words[words % 2 == 0], 4)
    done = refine(model, ids, tiny.vocabulary, BootstrapConfig(refine="cluster", sample=STRETCH), seed=1)
    assert len(np.unique(done.table.places)) == V
    unseen = np.setdiff1d(np.arange(V), ids)
    before, after = model.table.codes[unseen, 0], done.table.codes[unseen, 0]

    def pairs_together(rows: np.ndarray) -> int:
        return int(((before[:, None] == before) & (rows[:, None] == rows)).sum())

    by_chance = [pairs_together(np.random.default_rng(seed).permutation(after)) for seed in range(20)]
    assert pairs_together(after) > max(by_chance)
