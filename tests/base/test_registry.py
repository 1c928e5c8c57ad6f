"""A cell, a kind of model, a solver and a refinement, each added by one module outside the package, used by name."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest
import torch

from helpers import EXTENSIONS, FLOAT32, Call
from lightrnn import load
from lightrnn.errors import LightRNNError
from lightrnn.models.lightrnn import LightRNN
from lightrnn.registry import CELLS, KINDS, REFINEMENTS, SOLVERS
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.text.vocabulary import frequency_ranks
from lightrnn.training.refinement import NextTable, Refinement

FAST = (
    "--recipe",
    "plain",
    "--hidden-size",
    "8",
    "--epochs",
    "1",
    "--batch-size",
    "5",
    "--window",
    "9",
    "--threads",
    "1",
)
ADDED = {
    "relu_cell": (CELLS, "rnn-relu"),
    "narrow_kind": (KINDS, "narrow"),
    "swap_solver": (SOLVERS, "swap"),
    "frequency_refinement": (REFINEMENTS, "frequency"),
}


@pytest.fixture(params=ADDED)
def added(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name that a module of tests/extensions adds to its registry, for the time of a test."""
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    registry, name = ADDED[request.param]
    assert name not in registry
    import_module(request.param)
    yield name
    registry.remove(name)
    del sys.modules[request.param]


OPTIONS = {
    "rnn-relu": ("--cell", "rnn-relu"),
    "narrow": ("--model", "narrow"),
    "swap": ("--start", "random", "--refine", "matching", "--solver", "swap"),
    "frequency": ("--start", "random", "--refine", "frequency"),
}


def test_one_module_is_all_it_takes(added: str, tiny: Corpus, call: Call) -> None:
    """Trained, saved, resumed, loaded, scored and asked by the command line like those of the package."""
    trained = call("train", tiny.path, "-o", "model", *FAST, *OPTIONS[added])
    assert trained.code == 0, trained.err
    assert call("train", tiny.path, "-o", "model", "--resume", "--epochs", "1.5").code == 0
    facts = json.loads(call("evaluate", "model", tiny.path, "--json").out)
    assert facts["perplexity"] < 60  # better than to guess among the 62 words
    weights = sum(json.loads(call("info", "model", "--json").out)["parameters"].values())
    lm = load("model")
    assert weights == sum(parameter.numel() for parameter in lm.model.parameters())
    assert lm.distribution("w1 w2").sum() == pytest.approx(1, abs=FLOAT32)
    by_step = sum(lm.score_word(state, word)[0] for state, word in ((lm.begin_state(), "w1"), (lm.state("w1"), "w2")))
    assert by_step == pytest.approx(lm.score("w1 w2", eos=False), rel=1e-4)  # the cell's step is its module's
    if added == "frequency":
        np.testing.assert_array_equal(lm.model.table.places, frequency_ranks(lm.vocabulary.counts))


@pytest.mark.parametrize("added", ["frequency_refinement"], indirect=True)
def test_a_refinement_moves_words_that_share(added: str, tiny: Corpus, call: Call) -> None:
    options = ("--start", "bigram", "--refine", added, "--alone", "5", "--tied")
    assert call("train", tiny.path, "-o", "model", *FAST, *options).code == 0
    lm = load("model")
    table, counts = lm.model.table, lm.vocabulary.counts
    np.testing.assert_array_equal(table.shared.places, frequency_ranks(counts[table.sharing]))
    assert counts[table.codes[:, 1] < 0].min() >= counts[table.sharing].max()


def test_a_refinement_that_moves_others_is_refused(tiny: Corpus, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def anywhere(model: LightRNN, *asked: object) -> NextTable:
        return NextTable(WordTable.random(len(model.table), 2, seed=3))

    REFINEMENTS.add("anywhere", Refinement(anywhere, restarts=True))
    try:
        failed = call("train", tiny.path, "-o", "model", *FAST, "--refine", "anywhere", "--alone", "5", "--tied")
    finally:
        REFINEMENTS.remove("anywhere")
    assert failed.code == 2
    assert "make it by model.table.with_shared" in failed.err


def test_names_are_taken_once_and_unknown_ones_are_told() -> None:
    with pytest.raises(LightRNNError, match="there is a cell 'lstm' already; choose another name"):
        CELLS.add("lstm", None)
    with pytest.raises(LightRNNError, match="there is no solver 'magic'; known are block, half, exact"):
        SOLVERS["magic"]
    assert isinstance(CELLS["lstm"].layers(3, 4), torch.nn.LSTM)
