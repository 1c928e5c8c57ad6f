"""Text from a model: drawn, greedy, by a beam."""

import itertools

import numpy as np
import pytest

from helpers import FLOAT32, lm_of
from lightrnn.inference.cache import CacheLM
from lightrnn.inference.generate import beam_search, sample
from lightrnn.inference.lm import LM
from lightrnn.inference.network import NetworkLM
from oracle import oracle_of


def test_drawn_words_follow_the_distribution() -> None:
    lm = lm_of(V=26, K=3, seed=3)
    expected = lm.distribution("w1")
    state, random = lm.state("w1"), np.random.default_rng(5)
    drawn = np.zeros(len(expected))
    for _ in range(3000):
        drawn[lm.draw(state, 1.0, random)] += 1
    # chi squared: twice its degrees of freedom
    assert ((drawn - 3000 * expected) ** 2 / np.maximum(3000 * expected, 1e-9)).sum() < 2 * len(expected)
    drawn = np.zeros(len(expected))
    for _ in range(3000):
        drawn[LM.draw(lm, state, 1.0, random)] += 1  # by the whole distribution, as other models do
    # chi squared: twice its degrees of freedom
    assert ((drawn - 3000 * expected) ** 2 / np.maximum(3000 * expected, 1e-9)).sum() < 2 * len(expected)


def test_temperature_zero_takes_the_likeliest_row_then_column() -> None:
    lm = lm_of(seed=3)
    oracle = oracle_of(lm.model)
    words = [lm.vocabulary.bos_id, lm.vocabulary.ids["w1"], lm.vocabulary.ids["w2"]]
    for word in itertools.islice(lm.generate("w1 w2", temperature=0, unk=True), 12):
        _, state = oracle.score(np.array(words))
        parts = np.array([oracle.word_log_probs(words[-1], w, state)[0] for w in range(23)])
        best_row = parts[:, 0] == parts[:, 0].max()
        words.append(int(np.where(best_row, parts[:, 1], -np.inf).argmax()))
        assert word == lm.vocabulary.words[words[-1]]


def test_top_k_and_top_p_keep_what_they_say() -> None:
    lm = lm_of(V=60, seed=4)
    state, random = lm.state("w1"), np.random.default_rng(1)
    probabilities = lm.distribution(state)
    order = np.argsort(-probabilities)

    def drawn(**limits: float) -> set[int]:
        return {next(sample(lm, state, random=random, **limits)) for _ in range(300)}  # type: ignore[arg-type]

    assert drawn(top_k=3) == set(order[:3].tolist())
    size = int(np.searchsorted(np.cumsum(probabilities[order]), 0.5)) + 1
    assert drawn(top_p=0.5) <= set(order[:size].tolist())
    assert len(drawn(top_p=0.5, temperature=5.0)) == size
    assert drawn(top_k=1, top_p=0.9) == {int(order[0])}
    assert len(drawn(top_p=0.9999)) > size
    assert list(itertools.islice(lm.generate("w1", seed=7), 9)) == list(itertools.islice(lm.generate("w1", seed=7), 9))


def test_a_wide_beam_finds_the_likeliest_sentence() -> None:
    lm = lm_of(V=5, seed=2)
    eos = lm.vocabulary.eos_id
    best, value = max(
        (
            (words, sum(lm.read_word(s, w)[0] for s, w in _path(lm, words)))
            for n in (1, 2, 3)
            for words in itertools.product(range(5), repeat=n)
            if eos not in words[:-1] and (n == 3 or words[-1] == eos)
        ),
        key=lambda pair: pair[1],
    )
    found = beam_search(lm, lm.begin_state(), 200, 3)
    assert tuple(found[0][0]) == best
    assert found[0][1] == pytest.approx(value, rel=FLOAT32)
    assert [v for _, v in found] == sorted((v for _, v in found), reverse=True)


def _path(lm: NetworkLM, words: tuple[int, ...]) -> list[tuple[object, int]]:
    state, path = lm.begin_state(), []
    for word in words:
        path.append((state, word))
        state = lm.read_word(state, word)[1]
    return path


def test_the_unknown_word_is_left_out_unless_asked_for() -> None:
    lm = lm_of(V=9, seed=2, alone=4, tied=True)
    lm.model.output_bias[0].data[:] = -20.0
    unknown = lm.vocabulary.unk_id
    row = int(lm.model.table.codes[unknown, 0])
    lm.model.output_bias[0].data[row] = 20.0  # nearly all of the probability
    word = lm.vocabulary.words[unknown]
    for settings in ({}, {"temperature": 0.0}, {"top_k": 1}, {"top_k": 3}, {"top_p": 0.5}, {"temperature": 3.0}):
        drawn = list(itertools.islice(lm.generate("w1", seed=1, **settings), 20))  # type: ignore[arg-type]
        assert word not in drawn
    assert word in list(itertools.islice(lm.generate("w1", seed=1, unk=True), 50))
    best, _ = beam_search(lm, lm.begin_state(), 3, 4, never=unknown)[0]
    assert unknown not in best


def test_a_cache_that_knows_the_unknown_word_only_ends_its_sentence() -> None:
    lm = lm_of(V=9)
    recent = CacheLM(lm, 5)
    state = recent.begin_state()
    for _ in range(5):
        state = recent.read_word(state, lm.vocabulary.unk_id)[1]
    assert next(recent.generate(state)) == lm.vocabulary.words[lm.vocabulary.eos_id]


def test_what_is_drawn_in_place_of_the_unknown_word_follows_the_distribution() -> None:
    lm = lm_of(V=8, seed=3)
    state, random, unknown = lm.state("w1"), np.random.default_rng(0), lm.vocabulary.unk_id
    draws = 5000
    counts = np.bincount([next(sample(lm, state, random=random, never=unknown)) for _ in range(draws)], minlength=8)
    expected = lm.distribution(state)
    expected[unknown] = 0
    expected *= draws / expected.sum()
    others = np.arange(8) != unknown
    assert counts[unknown] == 0
    assert ((counts - expected) ** 2)[others] @ (1 / expected[others]) < 22.5  # chi-square, 6 degrees of freedom, 0.1%
