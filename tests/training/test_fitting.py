"""What a given table or model makes of a recipe, also for Python callers; what rounds make of its budget."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import CPU, SMALL_RECIPE
from lightrnn import Recipe, Start, WordTable, load, load_model, prepare, train
from lightrnn.errors import LightRNNError
from lightrnn.inference.passes import evaluate
from lightrnn.models.folder import load_vocabulary
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.fitting import round_budget

RECIPE = SMALL_RECIPE.override({"epochs": 0.5, "start": "random", "dropout": 0.1})


@pytest.fixture(scope="module")
def base(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "model"
    train(tiny, RECIPE, folder, device=CPU)
    return folder


def test_going_on_leaves_the_callers_model_alone(tiny: Corpus, base: Path, tmp_path: Path) -> None:
    model, vocabulary = load_model(str(base))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train(tiny, RECIPE.override({"dropout": 0.3}), tmp_path / "next", init=(model, vocabulary), device=CPU)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.config.dropout == 0.1
    assert not model.training
    further, _ = load_model(tmp_path / "next")
    assert further.config.dropout == 0.3
    assert not torch.equal(further.state_dict()["input_vectors.weight"], before["input_vectors.weight"])


def test_going_on_to_something_worse_leaves_the_model_that_it_began_from(
    tiny: Corpus, base: Path, tmp_path: Path
) -> None:
    model, vocabulary = load_model(base)
    recipe = RECIPE.override({"learning_rate": 10.0, "epochs": 0.5})
    outcome = train(tiny, recipe, tmp_path / "next", init=(model, vocabulary), device=CPU)
    assert outcome.best_perplexity == evaluate(model, tiny.split("valid"), vocabulary).perplexity
    kept = load_model(tmp_path / "next")[0].state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("field", [{"hidden_size": 9}, {"layers": 2}, {"cell": "gru"}, {"components": 3}])
def test_a_recipe_of_another_shape_than_the_model_is_refused(
    tiny: Corpus, base: Path, tmp_path: Path, field: dict[str, object]
) -> None:
    with pytest.raises(LightRNNError, match="cannot change with --init: the model has"):
        train(tiny, RECIPE.override(field), tmp_path / "next", init=load_model(base), device=CPU)
    assert not (tmp_path / "next").exists()


def test_a_text_with_other_words_than_the_model_is_refused(base: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("other words\nthan these\n" * 50, encoding="utf-8")
    corpus = prepare(tmp_path / "text", tmp_path / "data")
    with pytest.raises(LightRNNError, match="has another vocabulary or other text rules than the --init model"):
        train(corpus, RECIPE, tmp_path / "next", init=load_model(base), device=CPU)


def test_a_model_that_is_trained_further_keeps_the_counts_of_its_words(
    tiny: Corpus, base: Path, tmp_path: Path
) -> None:
    """They are its unigrams; those of a small new text say little of most words. So after a stop too."""
    (tmp_path / "text").write_text("w1 w2 w1\nw3 w1\n" * 60, encoding="utf-8")
    vocabulary = load_vocabulary(base)
    corpus = prepare(tmp_path / "text", tmp_path / "data", vocabulary=vocabulary)
    assert corpus.vocabulary.counts.sum() < vocabulary.counts.sum() / 5  # the new text is small
    folder = tmp_path / "next"
    train(corpus, RECIPE, folder, init=load_model(base), device=CPU, should_stop=lambda: True)
    np.testing.assert_array_equal(load_vocabulary(folder).counts, vocabulary.counts)
    bootstrap.resume(corpus, folder, device=CPU)
    np.testing.assert_array_equal(load_vocabulary(folder).counts, vocabulary.counts)
    np.testing.assert_array_equal(load(folder).unigram, load(base).unigram)


def test_a_table_must_fit_the_kind_and_the_components(tiny: Corpus, tmp_path: Path) -> None:
    start = Start(WordTable.random(len(tiny.vocabulary), rows=20, seed=1))
    train(tiny, RECIPE, tmp_path / "model", start=start, device=CPU)
    assert load_model(tmp_path / "model")[0].config.rows == start.table.shape[0]
    with pytest.raises(LightRNNError, match="--table is for --model lightrnn, got it with --model full"):
        train(tiny, Recipe().override({"model": "full"}), tmp_path / "full", start=start, device=CPU)
    three = Start(WordTable.random(len(tiny.vocabulary), 3, seed=1))
    with pytest.raises(LightRNNError, match="--components cannot differ from --table's, which has 3"):
        train(tiny, RECIPE, tmp_path / "three", start=three, device=CPU)


def test_rounds_share_the_budget() -> None:
    recipe = Recipe().override({"epochs": 10.0, "minutes": 5.0, "rounds": 3, "round_share": 0.2, "refine": "cluster"})
    budgets = [round_budget(recipe, r) for r in range(4)]
    assert [b.epochs for b in budgets] == pytest.approx([2, 2, 2, 4])
    assert [round_budget(recipe, r, 60.0 * r).minutes for r in range(4)] == pytest.approx([1, 1, 1, 2])
    assert [round_budget(recipe, r, 150.0).minutes for r in range(4)] == pytest.approx([0.5, 0.625, 2.5 / 3, 2.5])
    assert round_budget(recipe, 0, 1e6).minutes > 0  # 0 would be without end
    assert round_budget(recipe.override({"minutes": 0.0}), 1, 90).minutes == 0
    assert round_budget(recipe.override({"refine": "none"}), 0).epochs == 10
    assert round_budget(recipe.override({"round_share": 0.3}), 3).epochs == 1  # and not a bit more
