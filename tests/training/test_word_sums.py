"""Word sums, and the costs of a matching made of them, against sums position by position."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers import random_lightrnn
from lightrnn.config import ModelConfig
from lightrnn.errors import LightRNNError
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.text.windows import STRETCH
from lightrnn.training.word_sums import matching_costs, word_sums


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("units", [6, 40])  # narrower and wider than the table's sides
@pytest.mark.parametrize("bias", [True, False])
def test_costs_are_the_losses_up_to_a_constant_of_the_word(
    tiny: Corpus, components: int, units: int, bias: bool
) -> None:
    """Against log-softmaxes summed position by position, which is what they stand for."""
    model = random_lightrnn(V=len(tiny.vocabulary), K=components, bias=bias, units=units).train()
    model.is_full = True  # the costs know no missing places: compare with the unmasked softmax
    ids = tiny.split("valid")[:640]
    sums = word_sums(model, ids, tiny.vocabulary, for_matching=True)
    assert sums.is_scores == tuple(n < units for n in model.shape)
    costs = matching_costs(model, sums)
    model.eval()
    length = len(ids) // 64
    words = np.stack(
        [np.concatenate([[tiny.vocabulary.bos_id], ids])[b * length : (b + 1) * length + 1] for b in range(64)]
    )
    codes = torch.from_numpy(np.stack([model.spelling.spell(track) for track in words]))  # (64, (T+1)·K)
    with torch.no_grad():
        hidden = model.hidden_states(codes, model.initial_state(64))[0].unflatten(1, (-1, components))
    counts = np.bincount(words[:, 1:].ravel(), minlength=len(tiny.vocabulary))
    assert (sums.counts == counts).all()
    everything = np.arange(len(tiny.vocabulary))
    for s, n in enumerate(model.shape):
        with torch.no_grad():
            losses = -model.scores(s, hidden[:, :, s], None).log_softmax(dim=-1).double().numpy()
        expected = np.zeros((len(tiny.vocabulary), n))
        np.add.at(expected, words[:, 1:].ravel(), losses.reshape(-1, n))
        expected -= expected.min(axis=1, keepdims=True)
        # sums over some hundred positions in float32
        np.testing.assert_allclose(costs[s][everything], expected, atol=2e-3)


def test_sums_of_sentences_start_each_afresh(tiny: Corpus) -> None:
    """Against one sentence after the other, as a model of the sentence convention was trained."""
    rules = replace(tiny.vocabulary.rules, bos="<S>", convention="sentence")
    words, counts = ["<S>", *tiny.vocabulary.words], [0, *tiny.vocabulary.counts]
    vocabulary = Vocabulary(words, np.array(counts), rules)
    ids = vocabulary.encode([tiny.vocabulary.words[i] for i in tiny.split("valid")])
    torch.manual_seed(2)
    model = LightRNN(ModelConfig(hidden_size=5), WordTable.random(len(vocabulary), seed=3)).eval()
    model.reset(0.5)
    sums = word_sums(model, ids, vocabulary)
    expected = [np.zeros((len(vocabulary), 5)) for _ in range(2)]
    for sentence in filter(len, np.split(ids, np.flatnonzero(ids == vocabulary.eos_id) + 1)):
        with torch.no_grad():
            codes = torch.from_numpy(model.spelling.spell(np.array([vocabulary.bos_id, *sentence])))[None]
            hidden = model.hidden_states(codes)[0].unflatten(1, (-1, 2))
        for s in range(2):
            np.add.at(expected[s], sentence, hidden[0, :, s].double().numpy())
    assert (sums.counts == np.bincount(ids, minlength=len(vocabulary))).all()
    for s in range(2):
        np.testing.assert_allclose(sums.sums[s], expected[s], atol=1e-4)  # sums over some dozen positions in float32


def test_sums_leave_the_model_as_it_was_and_refuse_too_much(tiny: Corpus) -> None:
    model = random_lightrnn(V=len(tiny.vocabulary)).train()
    word_sums(model, tiny.split("valid"), tiny.vocabulary)
    assert model.training
    with pytest.raises(LightRNNError, match=r"word sums need .* GB"):
        word_sums(model, tiny.split("valid"), tiny.vocabulary, memory=100.0)


def test_the_unknown_word_has_its_share_of_the_words_seen_once(tiny: Corpus) -> None:
    """Where it is expected, and the text has none."""
    vocabulary, ids = tiny.vocabulary, tiny.split("train")
    unknown = vocabulary.unk_id
    ids = np.where(ids == unknown, vocabulary.eos_id, ids)
    counts = np.bincount(ids, minlength=len(vocabulary))
    counts[counts.argsort()[-6:-3]] = 1  # three words, as if they had been seen once
    rare = counts == 1
    model = random_lightrnn(V=len(vocabulary))
    none, some = (
        word_sums(
            model,
            ids,
            Vocabulary(vocabulary.words, counts + expected * (np.arange(len(counts)) == unknown), vocabulary.rules),
        )
        for expected in (0, 2)
    )
    assert none.counts[unknown] == 0
    share = 2 / rare.sum()
    assert some.counts[unknown] == int(none.counts[rare].sum() * share)
    for before, after in zip(none.sums, some.sums, strict=True):
        np.testing.assert_allclose(after[unknown], before[rare].sum(axis=0) * share, rtol=1e-5, atol=1e-5)
        others = np.arange(len(counts)) != unknown
        np.testing.assert_array_equal(after[others], before[others])


def test_sums_of_a_sample_are_those_of_its_text(tiny: Corpus) -> None:
    model, ids = random_lightrnn(V=len(tiny.vocabulary)), np.tile(tiny.split("train"), 3)
    of_sample = word_sums(model, ids, tiny.vocabulary, sample=STRETCH)
    by_hand = word_sums(model, ids[:STRETCH], tiny.vocabulary)
    assert (of_sample.counts == by_hand.counts).all()
    assert (of_sample.sums[0] == by_hand.sums[0]).all()
