"""Mixes: weighted sums of probabilities, also of models that know other words."""

from math import exp, log

import numpy as np
import pytest

from helpers import FLOAT32, lm_of, made_up_sentences, random_lightrnn, stream, vocabulary_with
from lightrnn.errors import LightRNNError
from lightrnn.inference.mixture import Mix, tune
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.ngrams import NGramLM
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary


def test_a_mix_is_the_weighted_sum_token_by_token() -> None:
    one, other = lm_of(V=25, seed=1), lm_of(V=25, seed=2)
    mix = Mix([one, other], [3, 1])
    ids = np.array([5, 6, 0, 7, 7, 8, 0], np.int32)
    both = [lm.token_log_probs(ids).sum(axis=1) for lm in (one, other)]
    expected = np.log(0.75 * np.exp(both[0]) + 0.25 * np.exp(both[1]))
    np.testing.assert_allclose(mix.token_log_probs(ids)[:, 0], expected, atol=FLOAT32)
    np.testing.assert_allclose(
        mix.distribution("w1 w2"),
        0.75 * one.distribution("w1 w2") + 0.25 * other.distribution("w1 w2"),
        atol=1e-6,  # probabilities: float32 below one
    )
    state = mix.state("w1")
    assert 10 ** mix.score_word(state, "w2")[0] == pytest.approx(
        mix.distribution(state)[mix.vocabulary.ids["w2"]],
        1e-4,  # a power of ten of a float32
    )
    assert mix.score("w1 w2") == pytest.approx(sum(v for v, _, _ in mix.full_scores("w1 w2")))
    assert mix.next_words("w1", 3) == mix.next_words(state, 3)
    assert mix.evaluate(ids).tokens == 7
    assert exp(mix.unigram[3]) == pytest.approx(exp(one.unigram[3]))
    with pytest.raises(LightRNNError, match="weights"):
        Mix([one, other], [1.0])
    with pytest.raises(LightRNNError, match="no word vectors"):
        _ = mix.vectors


def test_models_of_different_vocabularies_mix_without_counting_twice() -> None:
    """The second knows w0 … w9 of the first's words and others that the first does not have."""
    first = lm_of(V=25, seed=1)
    rules = TextRules(eos="<e>", unk="<oov>", bos="<S>", convention="sentence", normalize="none")
    words = [*rules.specials, *(f"w{i}" for i in range(10)), *(f"x{i}" for i in range(12))]
    second = NetworkLM(random_lightrnn(V=25, seed=2), Vocabulary(words, np.ones(25, np.int64), rules))
    mix = Mix([first, second], [0.5, 0.5])
    unknown = 25 - 10 - 1  # all of the first's words but w0 … w9 and the end of a sentence
    theirs = second.distribution("w3")
    for word in first.vocabulary.words:
        expected = 0.5 * first.distribution("w3")[first.vocabulary.ids[word]]
        if word in second:
            expected += 0.5 * theirs[second.vocabulary.ids[word]]
        elif word == "</s>":
            expected += 0.5 * theirs[second.vocabulary.eos_id]
        else:
            expected += 0.5 * theirs[second.vocabulary.unk_id] / unknown
        # small probabilities in float32
        assert mix.distribution("w3")[first.vocabulary.ids[word]] == pytest.approx(expected, rel=1e-4)
    assert mix.distribution("w3").sum() <= 1 + 1e-6  # float32
    # Each keeps its own rule: the first carries its state over the end of a sentence, the second does not.
    ids = first.vocabulary.encode(["w1", "w2", "</s>", "w3", "</s>"])
    carried = first.token_log_probs(ids).sum(axis=1)
    fresh = second.token_log_probs(second.vocabulary.encode(["w1", "w2", "<e>", "w3", "<e>"])).sum(axis=1)
    np.testing.assert_allclose(mix.token_log_probs(ids)[:, 0], np.logaddexp(carried, fresh) + log(0.5), atol=FLOAT32)


def test_tuned_weights_are_the_best_on_the_held_out_text() -> None:
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet([1, 1, 1], size=500)[:, :3] * [1.0, 0.7, 0.2])
    weights = tune(log_probs)
    assert sum(weights) == pytest.approx(1)

    def likelihood(w: np.ndarray) -> float:
        return float(np.log(np.exp(log_probs) @ w).sum())

    best = max(likelihood(w) for w in rng.dirichlet([1, 1, 1], size=3000))
    assert likelihood(np.array(weights)) >= best - 1e-3  # nats of 500 tokens
    assert tune(np.log(np.array([[0.9, 0.1]] * 5))) == pytest.approx([1, 0], abs=1e-3)  # where the iterations stop


def test_a_start_of_sentences_that_a_member_lacks_is_no_second_end() -> None:
    """An n-gram file has <s>; the network's word in its place is the end of a sentence, which has its own column."""
    ids = stream(made_up_sentences(), vocabulary_with([f"w{i}" for i in range(25)], "<s>"))
    kneser_ney = NGramLM(estimate(ids, vocabulary_with([f"w{i}" for i in range(25)], "<s>"), 2))
    network = lm_of(V=27)
    for members in ([kneser_ney, network], [network, kneser_ney]):
        mix = Mix(members, [0.5, 0.5])
        for context in ("", "w1 w2"):
            assert mix.distribution(context).sum() == pytest.approx(1, abs=FLOAT32)


def test_nothing_to_tune_on() -> None:
    impossible = np.full((3, 2), -np.inf)
    for log_probs in (np.zeros((0, 2)), impossible):
        with pytest.raises(LightRNNError, match="nothing to tune on"):
            tune(log_probs)
    possible = np.log(np.array([[0.1, 0.4], [0.3, 0.2], [0.2, 0.5]]))
    assert tune(np.concatenate([impossible, possible])) == pytest.approx(tune(possible))
