"""Estimates against a literal Kneser-Ney without arrays, and against published figures."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import Sentences, contexts, made_up_sentences, prepared_corpus, random_sentences, stream, vocabulary_with
from lightrnn.errors import LightRNNError
from lightrnn.inference.ngrams import NGramLM
from lightrnn.ngram.kneser_ney import FALLBACK, estimate
from lightrnn.ngram.model import NGram
from lightrnn.text.corpus import Corpus
from oracle import kneser_ney


@st.composite
def corpora(draw: st.DrawFn) -> Sentences:
    """Sentences over a few words, skewed, some of them empty, some often repeated, now and then with <unk> in them."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    letters = ["a", "b", "c", "d", "e", "f", "<unk>"][: draw(st.integers(1, 7))]
    weights = rng.dirichlet(np.full(len(letters), draw(st.sampled_from([0.3, 1.0, 5.0]))))
    lengths = rng.integers(0, draw(st.integers(1, 9)), draw(st.integers(1, 60)))
    sentences = [tuple(rng.choice(letters, length, p=weights)) for length in lengths]
    return [*sentences, *sentences[: draw(st.integers(0, 10))], *[("a",)] * draw(st.integers(0, 3))]


@settings(max_examples=200, deadline=None)
@given(corpora(), st.integers(1, 5), st.sampled_from([None, "<s>", "<S>"]))
def test_estimates_are_kneser_neys(sentences: Sentences, order: int, bos: str | None) -> None:
    vocabulary = vocabulary_with(["a", "b", "c", "d", "e", "f", "never"], bos)
    model = estimate(stream(sentences, vocabulary), vocabulary, order)
    predicted = [word for word in vocabulary.words if word != bos]
    probability = kneser_ney(sentences, predicted, order)
    texts = [*sentences[:20], *random_sentences(10, [w for w in predicted if w != "</s>"], seed=order)]
    expected = [probability(word, context) for word, context in contexts(texts)]
    scores, _ = model.score_tokens(stream(texts, vocabulary))
    np.testing.assert_allclose(10**scores, expected, rtol=1e-9, atol=1e-14)  # where D is 0 some have probability 0


@settings(max_examples=100, deadline=None)
@given(corpora(), st.lists(st.integers(0, 3), min_size=1, max_size=4).map(sorted), st.sampled_from([None, "<s>"]))
def test_pruned_estimates_are_kneser_neys(sentences: Sentences, prune: list[int], bos: str | None) -> None:
    sentences = [*sentences, *[("a", "a")] * 2]  # a word at least is kept
    vocabulary = vocabulary_with(["a", "b", "c", "d", "e", "f"], bos)
    model = estimate(stream(sentences, vocabulary), vocabulary, 4, prune=prune)
    thresholds = prune + [prune[-1]] * (4 - len(prune))
    seen = Counter(word for sentence in sentences for word in sentence)
    assert set(vocabulary.words) - set(model.vocabulary.words) == {
        word for word in "abcdef" if thresholds[0] and seen[word] <= thresholds[0]
    }
    predicted = [word for word in model.vocabulary.words if word != bos]
    probability = kneser_ney(sentences, predicted, 4, thresholds)
    texts = [*sentences[:20], *random_sentences(10, predicted, seed=len(predicted))]
    known = [tuple(word for word in text if word in predicted and word != "</s>") for text in texts]
    expected = [probability(word, context) for word, context in contexts(known)]
    scores, _ = model.score_tokens(stream(known, model.vocabulary))
    np.testing.assert_allclose(10**scores, expected, rtol=1e-9, atol=1e-14)  # where D is 0 some have probability 0


def test_the_closed_form_is_used_where_it_can_be(small: NGram) -> None:
    assert small.discounts is not None
    assert [d != FALLBACK for d in small.discounts[1:]] == [True] * 3
    regular = [("a",)] * 6
    vocabulary = vocabulary_with(["a"], None)
    assert estimate(stream(regular, vocabulary), vocabulary, 3).discounts == [FALLBACK] * 3


def test_distributions_are_the_oracles_and_sum_to_one(small: NGram) -> None:
    vocabulary = small.vocabulary
    bos = vocabulary.rules.bos
    predicted = [word for word in vocabulary.words if word != bos]
    probability = kneser_ney(made_up_sentences(), predicted, 4)
    places = vocabulary.encode(predicted)
    for sentence in [*made_up_sentences()[:12], *random_sentences(12, vocabulary.words[3:], seed=5), ()]:
        _, state = small.read(small.start_state(of_sentence=True), vocabulary.encode(sentence))
        after = small.distribution(state)
        assert after.shape == (len(vocabulary),)
        assert (10**after).sum() == pytest.approx(1, abs=1e-12)  # float64
        expected = [probability(word, ("<s>", *sentence)) for word in predicted]
        np.testing.assert_allclose(10 ** after[places], expected, rtol=1e-9)  # float64, through logarithms and back
        for word in (0, 5, vocabulary.eos_id):
            assert small.read(state, np.array([word]))[0][0] == pytest.approx(after[word], abs=1e-12)  # float64


def test_without_a_sentence_start_the_context_is_empty(small: NGram) -> None:
    """Nothing before a word is not the same as a sentence start before it."""
    first = small.vocabulary.encode(["w3", "w4"])
    plain, _ = small.read(small.start_state(of_sentence=False), first)
    probability = kneser_ney(
        made_up_sentences(), [w for w in small.vocabulary.words if w != small.vocabulary.rules.bos], 4
    )
    assert plain[1] == pytest.approx(np.log10(probability("w4", ("w3",))), abs=1e-9)  # float64, through logarithms


@pytest.mark.parametrize("order", [1, 2, 4])
def test_pieces_with_the_state_carried_are_the_whole(order: int) -> None:
    sentences = made_up_sentences()
    vocabulary = vocabulary_with([word for s in sentences for word in s], None)
    ids = stream(sentences, vocabulary)
    model = estimate(ids, vocabulary, order)
    whole, end = model.read(model.start_state(of_sentence=True), ids[:200])
    assert whole.shape == (200,)
    assert len(end) <= order - 1
    for size in (1, 2, 3, 7, 50):
        state, parts = model.start_state(of_sentence=True), []
        for begin in range(0, 200, size):
            part, state = model.read(state, ids[begin : min(begin + size, 200)])
            parts.append(part)
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert state == end


def test_stream_and_sentence_conventions_agree(small: NGram) -> None:
    ids = stream(made_up_sentences(4000, seed=8), small.vocabulary)
    scores, orders = small.score_tokens(ids)
    assert set(orders) == {1, 2, 3, 4}
    for convention in ("stream", "sentence"):
        result = NGramLM(small).evaluate(ids, convention)
        assert result.nats == pytest.approx(-np.log(10) * scores.sum(), rel=1e-6)  # kept as float32 on the way


def test_long_streams_are_scored_in_chunks(small: NGram, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = stream(made_up_sentences(300, seed=8), small.vocabulary)
    whole = small.score_tokens(ids)
    for size in (1, 2, 5, 100):
        monkeypatch.setattr("lightrnn.ngram.model.CHUNK", size)
        for got, expected in zip(small.score_tokens(ids), whole, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_what_cannot_be_estimated() -> None:
    vocabulary = vocabulary_with(["a"], "<s>")
    for ids, order, message in (
        ([], 3, "the text is empty"),
        ([vocabulary.eos_id], 0, "must be at least 1, got 0"),
        ([vocabulary.bos_id, vocabulary.eos_id], 2, "'<s>' among its words"),
    ):
        with pytest.raises(LightRNNError, match=message):
            estimate(np.array(ids, np.int32), vocabulary, order)
    for prune in ([0, 1, 0], [0, 0, 0, 1], [-1]):
        with pytest.raises(LightRNNError, match=rf"at most 3 whole numbers.*got {' '.join(map(str, prune))}$"):
            estimate(np.array([vocabulary.eos_id], np.int32), vocabulary, 3, prune=prune)
    with pytest.raises(LightRNNError, match="no word occurs more than 2 times"):
        estimate(np.array([vocabulary.eos_id] * 9, np.int32), vocabulary, 3, prune=[2])


# --- published figures: lmplz -o 5 with its defaults

PUBLISHED = 1e-3  # relative: they have five digits, and ways of counting that differ are off by more


def test_penn_treebank(penn: tuple[Corpus, NGram]) -> None:
    corpus, model = penn
    scores, _ = model.score_tokens(corpus.split("test"))
    assert len(scores) == 82_430
    assert 10 ** -scores.mean() == pytest.approx(141.19, rel=PUBLISHED)
    assert NGramLM(model).evaluate(corpus.split("test")).perplexity == pytest.approx(141.19, rel=PUBLISHED)


@pytest.mark.slow
def test_wikitext_2(tmp_path: Path) -> None:
    corpus = prepared_corpus("wikitext-2", "wikitext", tmp_path)
    model = estimate(corpus.split("train"), corpus.vocabulary)
    scores, _ = model.score_tokens(corpus.split("test"))
    assert len(scores) == 245_569
    assert 10 ** -scores.mean() == pytest.approx(220.14, rel=PUBLISHED)
