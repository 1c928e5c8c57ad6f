"""Start tables, and the vectors that come with them."""

import numpy as np
import pytest
import torch

from helpers import FLOAT32
from lightrnn import runtime
from lightrnn.config import BootstrapConfig, ModelConfig
from lightrnn.errors import LightRNNError
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table import clustering
from lightrnn.table.bigrams import bigram_vectors
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.training.starts import choose_start, start_at, use_start_vectors


def test_start_tables(tiny: Corpus) -> None:
    def start(name: str) -> WordTable:
        return choose_start(
            BootstrapConfig(start=name), tiny.split("train"), tiny.vocabulary, ModelConfig(), seed=1
        ).table

    assert (start("random").codes == WordTable.random(len(tiny.vocabulary), seed=1).codes).all()
    assert (start("bigram").codes != start("random").codes).any()
    assert (start("bigram").codes == start("bigram").codes).all()


@pytest.mark.parametrize(("components", "alone"), [(2, 0), (2, 9), (3, 4)])
def test_a_table_that_is_given_has_the_vectors_that_it_would_have_as_a_start(
    tiny: Corpus, components: int, alone: int
) -> None:
    config = ModelConfig(components=components, alone=alone)
    start = choose_start(BootstrapConfig(), tiny.split("train"), tiny.vocabulary, config, seed=1)
    given = start_at(start.table, tiny.split("train"), tiny.vocabulary, seed=1)
    assert len(given.vectors) == components
    for found, expected in zip(given.vectors, start.vectors, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)  # sums of float32


def test_of_words_that_all_stand_alone_the_vectors_are_the_rows() -> None:
    words = np.arange(12, dtype=np.float32).reshape(4, 3)
    table = WordTable.from_counts([1, 5, 3, 2], alone=4)
    rows, columns = table.vectors_for(words, np.ones(4, np.float32))
    np.testing.assert_array_equal(rows, words[[1, 2, 3, 0]])
    assert columns.shape == (0, 3)


@pytest.mark.parametrize(("components", "rows", "size"), [(2, 0, 8), (2, 9, 300), (3, 0, 64)])
def test_a_bigram_start_gives_vectors_and_biases(tiny: Corpus, components: int, rows: int, size: int) -> None:
    config = ModelConfig(components=components, rows=rows, hidden_size=size)
    ids, counts = tiny.split("train"), tiny.vocabulary.counts
    start = choose_start(BootstrapConfig(), ids, tiny.vocabulary, config, seed=1)
    model = LightRNN(config, start.table)
    before = model.input_vectors.weight.detach().clone()
    outputs_before = [vectors.detach().clone() for vectors in model.output_vectors]
    use_start_vectors(model, start, counts, 0.1)
    words = bigram_vectors(ids, counts, words=tiny.vocabulary.words, seed=1)
    weights = np.sqrt(np.maximum(counts, 0.1))
    offset, filled = 0, min(size, words.shape[1])
    for s, n in enumerate(start.table.shape):
        chosen = start.table.codes[:, s]
        means = np.stack([np.average(words[chosen == i], axis=0, weights=weights[chosen == i]) for i in range(n)])
        words = words - means[chosen]
        means = (means - means.mean(axis=0))[:, :filled]
        got = model.input_vectors.weight.detach()[offset : offset + n]
        # float32, scaled by the standard deviation
        assert np.allclose(got[:, :filled], means * (0.1 / means.std()), atol=1e-4)
        assert torch.equal(got[:, filled:], before[offset : offset + n, filled:])
        outputs = model.output_vectors[s].detach()
        assert torch.equal(outputs[:, :filled], got[:, :filled])
        assert torch.equal(outputs[:, filled:], outputs_before[s][:, filled:])
        offset += n
        share = np.array([np.maximum(counts, 0.5)[chosen == i].sum() for i in range(n)])
        assert np.allclose(model.output_bias[s].detach().softmax(dim=0), share / share.sum(), atol=FLOAT32)


@pytest.mark.parametrize(("components", "alone"), [(2, 0), (2, 5), (3, 5)])
def test_biases_of_words_start_at_their_shares_of_what_is_before(tiny: Corpus, components: int, alone: int) -> None:
    config = ModelConfig(components=components, alone=alone, hidden_size=8, word_bias=True)
    counts = tiny.vocabulary.counts
    start = choose_start(BootstrapConfig(), tiny.split("train"), tiny.vocabulary, config, seed=1)
    model = LightRNN(config, start.table)
    use_start_vectors(model, start, counts, 0.1)
    model.projection = torch.nn.Identity()
    for prefix in {tuple(codes[:-1]) for codes in start.table.codes.tolist() if codes[1] >= 0}:
        mates = np.flatnonzero((start.table.codes[:, :-1] == prefix).all(axis=1) & (start.table.codes[:, 1] >= 0))
        numbered = torch.tensor([[offset + code for offset, code in zip(model.offsets, prefix, strict=False)]])
        found = model.scores(components - 1, torch.zeros(1, 8), numbered).softmax(dim=-1)[0].detach()
        expected = np.maximum(counts[mates], 0.5)
        assert np.allclose(found[start.table.codes[mates, -1]], expected / expected.sum(), atol=FLOAT32)


def test_a_table_beyond_memory_is_refused(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in (runtime, clustering):
        monkeypatch.setattr(user, "free_memory", lambda: 100.0)
    ids, vocabulary, model = tiny.split("train"), tiny.vocabulary, ModelConfig(rows=30)
    with pytest.raises(
        LightRNNError, match=r"by transport of .* into a table of 21 × 3 needs .* GB and .* use --clustering bisection"
    ):
        choose_start(BootstrapConfig(clustering="transport"), ids, vocabulary, model, seed=1)
    found = choose_start(BootstrapConfig(), ids, vocabulary, model, seed=1)  # without the matrix
    halved = choose_start(BootstrapConfig(clustering="bisection"), ids, vocabulary, model, seed=1)
    assert found is not None
    assert halved is not None
    assert (found.table.codes == halved.table.codes).all()
