"""Words seen once, read as unknown now and then."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers import CPU, made_up_text, snapshot
from lightrnn.config import ModelConfig, Recipe, TrainingConfig
from lightrnn.inference.loading import load
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rare import expected_counts, with_unknown
from lightrnn.training import bootstrap


@pytest.fixture
def rare(tmp_path: Path) -> Corpus:
    """Every tenth word of the text is there once, always after w1."""
    often = made_up_text(3000, 12, seed=1).split()
    words = [f"w1 once{place}" if place % 10 == 0 else word for place, word in enumerate(often)]
    (tmp_path / "text").write_text("\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20)) + "\n")
    return prepare(tmp_path / "text", tmp_path / "data", valid=tmp_path / "text")


def test_only_words_seen_once_are_read_as_unknown_at_the_rate_asked_for(rare: Corpus) -> None:
    vocabulary, ids = rare.vocabulary, rare.split("train")
    read = with_unknown(ids, vocabulary, 0.5, np.random.default_rng(1))
    changed = read != ids
    assert (vocabulary.counts[ids[changed]] == 1).all()
    assert (read[changed] == vocabulary.unk_id).all()
    once = int((vocabulary.counts == 1).sum())
    assert abs(changed.sum() - once / 2) < 4 * np.sqrt(once / 4)  # four standard deviations of a binomial
    assert expected_counts(vocabulary, 0.5)[vocabulary.unk_id] == round(once / 2)
    assert (with_unknown(ids, vocabulary, 1.0, np.random.default_rng(1)) == vocabulary.unk_id).sum() == once


def test_a_word_that_is_frequent_in_a_later_text_is_not_rare(rare: Corpus) -> None:
    """With --init the counts are of the text before."""
    vocabulary = rare.vocabulary
    once, twice, *_ = np.flatnonzero(vocabulary.counts == 1)
    ids = np.array([once, twice, 5, twice], np.uint32)
    read = with_unknown(ids, vocabulary, 1.0, np.random.default_rng(1))
    assert read.tolist() == [vocabulary.unk_id, twice, 5, twice]


def test_the_end_of_a_text_of_one_line_is_no_word(tmp_path: Path) -> None:
    (tmp_path / "line").write_text("a b c d b a\n", encoding="utf-8")
    corpus = prepare(tmp_path / "line", tmp_path / "line-data", valid=tmp_path / "line")
    vocabulary, ids = corpus.vocabulary, corpus.split("train")
    read = [vocabulary.words[word] for word in with_unknown(ids, vocabulary, 1.0, np.random.default_rng(1))]
    assert [word for word in read if word not in ("a", "b")] == [vocabulary.rules.unk] * 2 + [vocabulary.rules.eos]
    assert expected_counts(vocabulary, 1.0)[vocabulary.unk_id] == 2


def test_a_text_with_unknown_words_of_its_own_stays_as_it_is(rare: Corpus, tmp_path: Path) -> None:
    taught = prepare(tmp_path / "text", tmp_path / "taught", min_count=2)
    ids, vocabulary = taught.split("train"), taught.vocabulary
    assert with_unknown(ids, vocabulary, 0.5, np.random.default_rng(1)) is ids
    assert (expected_counts(vocabulary, 0.5) == vocabulary.counts).all()
    assert with_unknown(rare.split("train"), rare.vocabulary, 0.0, np.random.default_rng(1)) is rare.split("train")


RECIPE = Recipe(
    ModelConfig(hidden_size=8, alone=5, tied=True),
    TrainingConfig(epochs=3, learning_rate=2e-2, batch_size=8, window=10, unk_rate=0.5),
)


def test_a_model_learns_where_new_words_come(rare: Corpus, tmp_path: Path) -> None:
    found = {}
    for rate in (0.0, 0.5):
        recipe = replace(RECIPE, training=replace(RECIPE.training, unk_rate=rate))
        bootstrap.train(rare, recipe, tmp_path / f"model{rate}", device=CPU)
        lm = load(tmp_path / f"model{rate}")
        found[rate] = lm.distribution("w2 w1")[lm.vocabulary.unk_id], lm.distribution("w2 w3")[lm.vocabulary.unk_id]
        assert lm.vocabulary.never_saw_unknown == (rate == 0)
    assert found[0.5][0] > 10 * found[0.0][0]
    assert found[0.5][0] > 3 * found[0.5][1]  # after w1, not elsewhere


def test_a_stopped_run_goes_on_to_the_same_bytes(rare: Corpus, tmp_path: Path) -> None:
    bootstrap.train(rare, RECIPE, tmp_path / "straight", device=CPU)
    seen = iter(range(10**9))
    bootstrap.train(rare, RECIPE, tmp_path / "stopped", device=CPU, should_stop=lambda: next(seen) == 55)
    bootstrap.resume(rare, tmp_path / "stopped", device=CPU)
    straight, resumed = snapshot(tmp_path / "straight"), snapshot(tmp_path / "stopped")
    assert all(straight[name] == resumed[name] for name in ("weights.safetensors", "vocab.tsv", "table.tsv"))
