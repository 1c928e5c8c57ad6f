"""Use of a model: scores, states, next words, text. Against the NumPy oracle and against each other."""

import re
from collections.abc import Callable
from itertools import islice
from math import log, log10, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import FLOAT32, NOT_UTF8, lm_of, random_lightrnn, train_small
from lightrnn import Corpus, Mix, estimate, load
from lightrnn.errors import LightRNNError
from lightrnn.inference.cache import CacheLM
from lightrnn.inference.decoders import PyctcdecodeLM
from lightrnn.inference.lm import LM
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.ngrams import NGramLM
from lightrnn.inference.passes import evaluate
from lightrnn.inference.rescoring import rescore
from lightrnn.inference.scoring import score_lines
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from oracle import oracle_of


@pytest.mark.parametrize(("V", "K", "layers"), [(25, 2, 1), (23, 2, 2), (28, 3, 1), (16, 4, 1)])
def test_a_sentence_has_one_score(V: int, K: int, layers: int) -> None:
    """From `score`, word by word from states, in a batch, and from the oracle."""
    lm = lm_of(V, K, layers=layers)
    sentences = ["w1 w2 never w0", "", "w3", "w1 w1 w1 w2 w3 w4 w0 w5", "never never"]
    oracle = oracle_of(lm.model)
    batch = lm.scores(sentences, batch_size=3)
    for sentence, in_batch in zip(sentences, batch, strict=True):
        ids = [lm.vocabulary.bos_id, *lm.vocabulary.encode(sentence.split()), lm.vocabulary.eos_id]
        expected = float(oracle.score(np.array(ids))[0].sum()) / log(10)
        state, stepped = lm.begin_state(), 0.0
        for word in [*sentence.split(), lm.vocabulary.rules.eos]:
            value, state = lm.score_word(state, word)
            stepped += value
        for got in (lm.score(sentence), stepped, in_batch):
            assert got == pytest.approx(expected, rel=FLOAT32, abs=FLOAT32)
        assert lm.perplexity(sentence) == pytest.approx(10 ** (-expected / (len(ids) - 1)), rel=1e-4)  # in the exponent
    full = list(lm.full_scores("w1 never"))
    assert [(order, unknown) for _, order, unknown in full] == [(1, False), (1, True), (1, False)]
    # the same figures added up
    assert lm.score("w1 never", eos=False) == pytest.approx(sum(v for v, _, _ in full[:2]), rel=1e-6)
    assert "w1" in lm
    assert "never" not in lm


def test_states_are_values() -> None:
    lm = lm_of()
    state = lm.state("w1 w2")
    first, _ = lm.score_word(state, "w3")
    lm.score_word(state, "w4")
    lm.next_words(state)
    again, longer = lm.score_word(state, "w3")
    assert first == again
    assert state in {state: 1}
    assert state != longer
    assert lm.next_words(longer, 5) == lm.next_words("w1 w2 w3", 5)


KINDS = [
    {"V": 25},
    {"V": 23, "layers": 2, "cell": "gru"},
    {"V": 28, "K": 3},
    {"V": 40, "alone": 11, "tied": True},
    {"V": 60, "alone": 30, "head": 9, "tied": True},
    {"V": 40, "alone": 11, "K": 3, "cell": "rnn-tanh"},
    {"V": 9, "alone": 9},
]


def hypotheses(lm: LM, count: int = 50) -> tuple[list[object], list[str]]:
    """States after contexts of several lengths, and a word for each; unknown words and sentence ends among them."""
    rng = np.random.default_rng(4)
    words = [*lm.vocabulary.words, "never"]
    drawn = [[words[w] for w in rng.integers(len(words), size=rng.integers(1, 6))] for _ in range(count)]
    return [lm.state(" ".join(context[:-1])) for context in drawn], [context[-1] for context in drawn]


@pytest.mark.parametrize("settings", KINDS)
def test_many_hypotheses_go_on_as_each_by_itself(settings: dict[str, object]) -> None:
    lm = lm_of(**settings)  # type: ignore[arg-type]
    states, words = hypotheses(lm)
    log10s, after = lm.advance(states, words)
    singly = [lm.score_word(state, word) for state, word in zip(states, words, strict=True)]
    np.testing.assert_allclose(log10s, [value for value, _ in singly], atol=FLOAT32)
    for one, (_, other) in zip(after, singly, strict=True):
        np.testing.assert_allclose(lm.distribution(one), lm.distribution(other), atol=FLOAT32)
    again, _ = lm.advance(states, words)  # the states are what they were
    np.testing.assert_array_equal(again, log10s)


def test_hypotheses_of_every_model(tmp_path: Path, tiny: Corpus) -> None:
    """N-gram models, mixes and opponents, and states after nothing."""
    light = train_small(tiny, tmp_path / "light")
    full = train_small(tiny, tmp_path / "full", model="full")
    ngram = NGramLM(estimate(tiny.split("train"), tiny.vocabulary, order=3))
    models = [load(light), load(full), ngram]
    for lm in [*models, Mix(models, [3, 1, 1])]:
        states, words = hypotheses(lm, 12)
        for first in (states[0], lm.empty_state()):
            states[0] = first
            log10s, after = lm.advance(states, words)
            singly = [lm.score_word(state, word) for state, word in zip(states, words, strict=True)]
            np.testing.assert_allclose(log10s, [value for value, _ in singly], atol=FLOAT32)
            for one, (_, other) in zip(after, singly, strict=True):
                np.testing.assert_allclose(lm.distribution(one), lm.distribution(other), atol=FLOAT32)
        none, nowhere = lm.advance([], [])
        assert (none.shape, nowhere) == ((0,), [])


def test_each_hypothesis_has_a_word() -> None:
    lm = lm_of()
    with pytest.raises(LightRNNError, match="got 2 states and 1 words"):
        lm.advance([lm.begin_state()] * 2, ["w1"])


def test_sentences_are_scored_from_a_state_on() -> None:
    lm = lm_of(V=40, alone=11)
    sentences = ["w1 w2 w3", "", "w1 w2 never w4 w5", "w1 w2 w3", "w7", "w1"]
    for context in ("", "w5 w6 </s>", "w5 never"):
        state, expected = lm.state(context), []
        for sentence in sentences:
            after, total = state, 0.0
            for word in [*sentence.split(), "</s>"]:
                value, after = lm.score_word(after, word)
                total += value
            expected.append(total)
        np.testing.assert_allclose(lm.scores(sentences, state=state), expected, atol=FLOAT32, rtol=FLOAT32)
    np.testing.assert_allclose(lm.scores(sentences, state=lm.begin_state()), lm.scores(sentences), rtol=FLOAT32)
    assert lm.scores([], state=lm.begin_state()).shape == (0,)


def test_what_hypotheses_share_is_read_once() -> None:
    lm = lm_of()
    read, read_each = [], lm.read_each
    lm.read_each = lambda states, ids: read.extend(ids.tolist()) or read_each(states, ids)  # type: ignore[assignment]
    lm.scores(["w1 w2 w3", "w1 w2 w4", "w1 w2 w3 w5", "w6"], state=lm.begin_state())
    ids = lm.vocabulary.ids
    expected = ["w1", "w6", "w2", "</s>", "w3", "w4", "</s>", "</s>", "w5", "</s>"]
    assert sorted(read) == sorted(ids[word] for word in expected)


def test_without_a_sentence_start_the_first_word_has_its_share_of_the_text() -> None:
    lm = lm_of()
    counts = lm.vocabulary.counts + 1
    expected = log10(counts[lm.vocabulary.ids["w5"]] / counts.sum())
    assert lm.score("w5", bos=False, eos=False) == pytest.approx(expected)
    assert lm.score_word(lm.empty_state(), "w5")[0] == pytest.approx(expected)
    assert lm.distribution(lm.empty_state()).sum() == pytest.approx(1)
    words = [lm.vocabulary.ids["w5"], lm.vocabulary.ids["w6"]]
    after_it = oracle_of(lm.model).score(words)[0].sum() / log(10)
    assert lm.score("w5 w6", bos=False, eos=False) == pytest.approx(expected + after_it, rel=FLOAT32)


def test_next_words_begin_as_asked() -> None:
    lm = lm_of(60)
    ordered = sorted(((p, w) for w, p in zip(lm.vocabulary.words, lm.distribution("w1"), strict=True)), reverse=True)
    expected = [w for _, w in ordered if w.startswith("w2")]
    assert [w for w, _ in lm.next_words("w1", 4, prefix="w2")] == expected[:4]
    assert [w for w, _ in lm.next_words("w1", 99, prefix="w2")] == expected
    assert lm.next_words("w1", prefix="zzz") == []
    assert lm.next_words("w1", 0) == lm.next_words("w1", 0, prefix="w2") == []


@pytest.mark.parametrize("settings", KINDS)
def test_the_unknown_word_is_left_out_unless_asked_for(settings: dict[str, object]) -> None:
    """What is shown in its place is the next one, and every figure is that of the distribution."""
    lm = lm_of(**settings)  # type: ignore[arg-type]
    words, unk = lm.vocabulary.words, lm.vocabulary.rules.unk
    for context in ("", "w1 w2", "never"):
        probabilities = dict(zip(words, lm.distribution(context), strict=True))
        ordered = sorted(words, key=lambda word: -probabilities[word])
        place = ordered.index(unk)
        for count in {1, place, place + 1, place + 2, len(words)} - {0}:
            for asked, expected in ((False, [word for word in ordered if word != unk]), (True, ordered)):
                found = lm.next_words(context, count, unk=asked)
                assert [word for word, _ in found] == expected[:count]
                np.testing.assert_allclose([p for _, p in found], [probabilities[w] for w, _ in found], atol=FLOAT32)
        assert lm.next_words(context, prefix="<un") == []
        assert [word for word, _ in lm.next_words(context, prefix="<un", unk=True)] == [unk]


def test_vectors_are_the_states_that_words_leave_and_similar_words_have_near_ones() -> None:
    lm = lm_of(25)
    vectors = lm.vectors
    assert vectors.shape == (25, 7)
    model, word = lm.model, lm.vocabulary.ids["w4"]
    row, column = (int(code) for code in model.codes[word])
    outputs, _ = model.recurrence(model.input_vectors(torch.tensor([[row, 5 + column]])))
    np.testing.assert_allclose(vectors[word], outputs[0, 1].detach(), atol=1e-6)  # two steps in float32
    centred = vectors - np.average(vectors, axis=0, weights=np.sqrt(lm.vocabulary.counts + 1))
    cosines = centred @ centred[word] / np.linalg.norm(centred, axis=1) / np.linalg.norm(centred[word])
    best = [w for w in np.argsort(-cosines) if w not in (word, lm.vocabulary.unk_id)][:3]
    assert [w for w, _ in lm.similar("w4", 3)] == [lm.vocabulary.words[w] for w in best]
    with pytest.raises(LightRNNError, match="not in the vocabulary"):
        lm.similar("never")
    assert lm.similar("w4", 0) == []
    everything = [word for word, _ in lm.similar("w4", 10**6)]
    assert {"w4", "<unk>", *everything} == set(lm.vocabulary.words)
    assert len(everything) == len(lm.vocabulary) - 2


def test_callers_who_pass_lone_surrogates() -> None:
    lm = lm_of()
    for ask in (
        lambda: lm.score(f"w1 {NOT_UTF8}"),
        lambda: lm.scores(["w1", NOT_UTF8]),
        lambda: lm.perplexity(NOT_UTF8),
        lambda: lm.score_word(lm.begin_state(), NOT_UTF8),
        lambda: lm.advance([lm.begin_state()], [NOT_UTF8]),
        lambda: lm.next_words("w1", 3, prefix=NOT_UTF8),
        lambda: lm.distribution(NOT_UTF8),
        lambda: next(lm.generate(NOT_UTF8)),
        lambda: lm.similar(NOT_UTF8),
    ):
        with pytest.raises(LightRNNError, match=r"caf\\udce9"):
            ask()


@pytest.mark.parametrize("word", ["", " w1", "w1\n", "w1 w2"])
def test_what_is_not_one_word_is_refused_and_not_taken_for_an_unknown_one(word: str) -> None:
    lm = lm_of()
    for ask in (lambda: lm.score_word(lm.begin_state(), word), lambda: lm.advance([lm.begin_state()], [word])):
        with pytest.raises(LightRNNError, match="a word is not empty and holds no white space"):
            ask()


def test_a_context_serves_as_a_state() -> None:
    lm = lm_of()
    assert lm.score_word("w1 w2", "w3")[0] == lm.score_word(lm.state("w1 w2"), "w3")[0]
    np.testing.assert_array_equal(lm.advance(["w1"], ["w2"])[0], lm.advance([lm.state("w1")], ["w2"])[0])
    np.testing.assert_array_equal(lm.scores(["w2"], state="w1"), lm.scores(["w2"], state=lm.state("w1")))
    assert lm.next_words(lm.state("w2", after="w1"), 3) == lm.next_words("w1 w2", 3)


def in_capitals() -> NetworkLM:
    """A model of One Billion Words' specials whose text is in lower case."""
    rules = TextRules(lowercase=True, eos="</S>", unk="<UNK>", bos="<S>", convention="sentence")
    words = [*rules.specials, *(f"w{i}" for i in range(20))]
    return NetworkLM(random_lightrnn(V=23), Vocabulary(words, np.arange(23, 0, -1), rules))


def test_specials_keep_their_case_where_text_is_folded() -> None:
    lm = in_capitals()
    state, rules = lm.state("W1"), lm.vocabulary.rules
    end = float(lm.next_log_probs(state)[lm.vocabulary.eos_id]) / log(10)
    assert lm.score_word(state, rules.eos)[0] == pytest.approx(end, abs=FLOAT32)
    assert lm.advance([state], [rules.eos])[0][0] == pytest.approx(end, abs=FLOAT32)
    assert lm.score_word(state, "W2")[0] == lm.score_word(state, "w2")[0]
    scorer = PyctcdecodeLM(lm, alpha=1.0, beta=0.0)
    word = lm.score_word(state, "w2")
    expected = (word[0] + lm.score_word(word[1], rules.eos)[0]) * log(10)
    assert scorer.score(state, "w2", is_last_word=True)[0] == pytest.approx(expected, abs=FLOAT32)


def test_text_goes_on_after_a_sentence_as_the_convention_has_it() -> None:
    """Where sentences stand by themselves, what comes after an end is what comes at a beginning."""
    for lm in (in_capitals(), lm_of()):
        end, state = lm.vocabulary.eos_id, lm.state("w1 w2 w3")
        after, fresh = (lm.next_log_probs(s) for s in (lm.go_on(state, end), lm.begin_state()))
        assert np.array_equal(after, fresh) == (lm.vocabulary.rules.convention == "sentence")
        mix = Mix([lm, lm_of(V=23, seed=5)], [0.5, 0.5])
        inner = mix.go_on(mix.state("w1"), end)
        np.testing.assert_array_equal(lm.next_log_probs(inner[0]), lm.next_log_probs(lm.go_on(lm.state("w1"), end)))
        assert not np.array_equal(mix.members[1].next_log_probs(inner[1]), mix.members[1].unigram)
    lm = in_capitals()
    drawn = list(islice(lm.generate(seed=1), 600))
    second = drawn.index(lm.vocabulary.rules.eos) + 1
    state = lm.begin_state()
    random = np.random.default_rng(1)
    for place, word in enumerate(drawn):  # the same draws by hand
        state = lm.begin_state() if place == second else state
        while (found := lm.draw(state, 1.0, random)) == lm.vocabulary.unk_id:
            pass
        assert lm.vocabulary.words[found] == word
        _, state = lm.read_word(state, found)
        if place >= second and word == lm.vocabulary.rules.eos:
            break


def test_what_nobody_means_is_refused() -> None:
    lm = lm_of()
    ids = np.array([3, 4, 0], np.int32)
    network = lm.model
    asked: list[Callable[[], object]] = [
        lambda: lm.evaluate(ids, "streaming"),  # type: ignore[arg-type]
        lambda: lm.token_log_probs(ids, "Sentence"),  # type: ignore[arg-type]
        lambda: evaluate(network, ids, lm.vocabulary, "streaming"),  # type: ignore[arg-type]
        lambda: list(score_lines(lm, [[["w1"]]], "streaming")),  # type: ignore[arg-type]
        lambda: list(rescore(lm, [], None, "streaming")),  # type: ignore[arg-type]
        lambda: CacheLM(lm, 10).token_log_probs(ids, "streaming"),  # type: ignore[arg-type]
    ]
    for ask in asked:
        with pytest.raises(LightRNNError, match=r"must be one of stream, sentence, got '(streaming|Sentence)'"):
            ask()
    with pytest.raises(LightRNNError, match="sentences must be a list, got the string 'w1 w2'"):
        lm.scores("w1 w2")
    with pytest.raises(LightRNNError, match="words must be a list, got the string 'Wil'"):
        lm.add_words("Wil")
    for slip in (["w1", "w2"], None):
        got = f"got {type(slip).__name__}"
        with pytest.raises(LightRNNError, match=f"a state.* or a context .*{got}"):
            lm.next_words(slip)
        with pytest.raises(LightRNNError, match=f"a sentence must be a string, {got}"):
            lm.score(slip)  # type: ignore[arg-type]
        with pytest.raises(LightRNNError, match=f"text must be a string or an array of ids, {got}"):
            lm.evaluate(slip)  # type: ignore[arg-type]
    for limits in ({"temperature": -1}, {"temperature": nan}, {"top_k": -2}, {"top_p": nan}, {"top_p": 0}):
        with pytest.raises(LightRNNError, match=f"{next(iter(limits))} must be a (whole )?number (from|above) 0"):
            lm.generate(**limits)  # type: ignore[arg-type]


ASKED: dict[str, Callable[[LM, Any], object]] = {
    "text must be a string, got int": lambda lm, s: lm.score_word(s, 5),  # type: ignore[arg-type]
    "text must be a string, got NoneType": lambda lm, s: lm.advance([s], [None]),  # type: ignore[list-item]
    "text must be a string, got float": lambda lm, s: lm.next_words("w1", 3, prefix=5.0),  # type: ignore[arg-type]
    "k must be a whole number from 0, got '5'": lambda lm, s: lm.next_words("w1", "5"),  # type: ignore[arg-type]
    "k must be a whole number from 0, got 2.5": lambda lm, s: lm.next_words("w1", 2.5),  # type: ignore[arg-type]
    "sentences must be a list, got NoneType": lambda lm, s: lm.scores(None),  # type: ignore[arg-type]
    "words must be a list, got int": lambda lm, s: lm.advance([s], 5),  # type: ignore[arg-type]
    "states must be a list": lambda lm, s: lm.advance(s, ["w1"]),
    "states must be a list, got NoneType": lambda lm, s: lm.advance(None, ["w1"]),  # type: ignore[arg-type]
    "context in one string is needed, got NoneType": lambda lm, s: lm.advance([None], ["w1"]),
    "context in one string is needed, got tuple": lambda lm, s: lm.next_words(("w1", "w2")),
    "context in one string is needed, got float": lambda lm, s: lm.state("w1", after=0.5),
    "temperature must be a number from 0, got '1'": lambda lm, s: lm.generate(temperature="1"),  # type: ignore[arg-type]
    "top_p must be a number from 0 to 1, got None": lambda lm, s: lm.generate(top_p=None),  # type: ignore[arg-type]
    "top_k must be a whole number from 0, got 2.5": lambda lm, s: lm.generate(top_k=2.5),  # type: ignore[arg-type]
    "seed must be a whole number from 0, got -1": lambda lm, s: lm.generate(seed=-1),
    "batch_size must be a whole number from 1 to 65,536, got 0": lambda lm, s: lm.scores(["w1"], batch_size=0),
    "batch_size must be a whole number from 1 to 65,536, got 1.5": lambda lm, s: lm.evaluate("w1", batch_size=1.5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("told", ASKED)
@pytest.mark.parametrize("kind", ["network", "ngram", "cache", "mix"])
def test_slips_are_told_by_name(kind: str, told: str) -> None:
    lm = lm_of(V=23)
    ngram = NGramLM(estimate(np.array([3, 4, 0, 4, 3, 0], np.int32), lm.vocabulary, 2))
    model: LM = {"network": lm, "ngram": ngram, "cache": CacheLM(lm, 10), "mix": Mix([lm, ngram], [1, 1])}[kind]
    with pytest.raises(LightRNNError, match=re.escape(told)):
        ASKED[told](model, model.begin_state())
    assert 5 not in model


def test_what_a_prompt_shows_is_short() -> None:
    lm = lm_of(V=23)
    ngram = NGramLM(estimate(np.array([3, 4, 0, 4, 3, 0], np.int32), lm.vocabulary, 2))
    cached = CacheLM(lm, 10)
    assert repr(lm) == "<NetworkLM of 23 words>"
    assert repr(lm.vocabulary) == "<Vocabulary of 23 words>"
    assert repr(ngram) == "<NGramLM of 23 words>"
    assert len(repr(lm.state("w1"))) < 100
    assert len(repr(cached.state("w1 w2"))) < 200
    found = lm.evaluate(np.array([3, 4, 0], np.int32))
    assert repr(found).startswith(f"<Evaluation: perplexity {found.perplexity:.2f}, ")
    assert "of 3 tokens" in repr(found)


def test_a_state_of_another_model_is_refused() -> None:
    lm, other = lm_of(V=23), lm_of(V=23, units=9)
    mix = Mix([lm, other], [1, 1])
    states = [model.begin_state() for model in (lm, other, mix, CacheLM(lm, 5))]
    for model, own in ((lm, 0), (other, 1), (mix, 2), (CacheLM(lm, 5), 3)):
        for number, state in enumerate(states):
            if number == own:
                assert len(model.next_words(state, 2)) == 2
                continue
            with pytest.raises(LightRNNError, match="a state of this model"):
                model.next_words(state, 2)


def test_mixes_and_caches_that_cannot_be() -> None:
    lm = lm_of()
    for members, weights, told in (
        ([], [], "a mix needs as many weights as models"),
        ([lm], [1, 2], "got 1 models and the weights [1, 2]"),
        ([lm, lm], [0, 0], "not all 0"),
        ([lm, lm], [1, -2], "a weight must be a number from 0, got -2"),
        ([lm, lm], [1, float("inf")], "a weight must be a number from 0, got inf"),
        ([lm], ["a"], "a weight must be a number from 0, got 'a'"),
        (["model"], [1], "a mix is of models that lightrnn.load gives, got str"),
    ):
        with pytest.raises(LightRNNError, match=re.escape(told)):
            Mix(members, weights)  # type: ignore[arg-type]
    with pytest.raises(LightRNNError, match="a cache goes with a network, got Mix"):
        CacheLM(Mix([lm], [1]), 5)  # type: ignore[arg-type]


def test_texts_are_evaluated_as_their_ids_are() -> None:
    lm = lm_of()
    eos = lm.vocabulary.rules.eos
    ids = lm.vocabulary.encode(["w1", "w2", eos, "w2", eos])
    assert lm.evaluate("w1 w2\nw2\n").nats == lm.evaluate(ids).nats


def test_of_nothing_comes_nothing() -> None:
    lm, nothing = lm_of(), np.zeros(0, np.int32)
    for convention in ("stream", "sentence"):
        assert len(lm.token_log_probs(nothing, convention)) == 0  # type: ignore[arg-type]
    with pytest.raises(LightRNNError, match="the text is empty"):
        lm.adapt("")


@pytest.mark.parametrize("ids", [[-1, 2], [10**6], [1.5, 1.0], [[1, 2]]], ids=str)
def test_ids_of_no_word_are_refused(ids: list[object]) -> None:
    with pytest.raises(LightRNNError, match="ids must be an array of whole numbers from 0 to "):
        lm_of().evaluate(np.array(ids))
