"""Trained matrices made light: exactly where a table can hold them, and with the error told where not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lightrnn.errors import LightRNNError
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable, compress

COUNTS = np.arange(60, 0, -1) ** 2


def additive(table: WordTable, size: int) -> torch.Tensor:
    """Vectors that are sums of a row's and a column's, (V, size)."""
    rng = np.random.default_rng(0)
    rows, columns = (rng.standard_normal((n, size)) for n in table.shape)
    columns = np.concatenate([columns - columns.mean(axis=0), np.zeros((1, size))])  # -1: no column
    return torch.from_numpy(rows[table.codes[:, 0]] + columns[table.codes[:, 1]]).float()


def test_an_embedding_that_a_table_can_hold_is_kept() -> None:
    table = WordTable.random(60, seed=3, alone=7, counts=COUNTS)
    trained = nn.Embedding.from_pretrained(additive(table, 5))
    found = compress(trained, table=table)
    assert isinstance(found.layer, LightEmbedding)
    ids = torch.arange(60)
    torch.testing.assert_close(found.layer(ids), trained(ids), atol=1e-4, rtol=0)  # an alternation, in float32
    assert found.lost < 1e-6
    assert found.bytes_before == 60 * 5 * 4
    assert found.bytes_after == sum(table.shape) * 5 * 4


def test_an_output_that_a_table_can_hold_is_kept() -> None:
    """P ∝ exp(h·(r + c)) is P_r ∝ exp(h·r) times P_c ∝ exp(h·c) where all rows are full."""
    table = WordTable.random(49, seed=3)
    trained = nn.Linear(5, 49, bias=False)
    trained.weight.data = additive(table, 5)
    hidden = torch.randn(3, 4, 5)
    found = compress(trained, table=table, hidden=hidden)
    torch.testing.assert_close(found.layer.log_prob(hidden), trained(hidden).log_softmax(dim=-1), atol=1e-4, rtol=1e-4)
    assert found.divergence == pytest.approx(0, abs=1e-6)


def test_with_all_words_alone_nothing_is_lost() -> None:
    trained, hidden = nn.Linear(5, 60), torch.randn(7, 5)
    found = compress(trained, COUNTS, alone=60, hidden=hidden)
    torch.testing.assert_close(found.layer.log_prob(hidden), trained(hidden).log_softmax(dim=-1))
    assert found.lost == 0


@pytest.mark.parametrize("word_bias", [True, False])
def test_what_is_lost_is_told(word_bias: bool) -> None:
    torch.manual_seed(0)
    trained, hidden = nn.Linear(5, 60), torch.randn(50, 5)
    lost, divergence = [], []
    for alone in (0, 20, 40, 60):
        found = compress(trained, COUNTS, alone=alone, hidden=hidden, word_bias=word_bias)
        assert isinstance(found.layer, LightSoftmax)
        with torch.no_grad():
            old, new = trained(hidden).log_softmax(dim=-1).double(), found.layer.log_prob(hidden).double()
        assert found.divergence == pytest.approx(float((old.exp() * (old - new)).sum(dim=-1).mean()), abs=1e-6)
        lost.append(found.lost)
        divergence.append(found.divergence)
    assert lost == sorted(lost, reverse=True)
    assert divergence == sorted(divergence, reverse=True)
    assert 0.1 < lost[0] < 1  # vectors without any order, which a table cannot hold: 16 sums for 60 words
    at_rest = compress(trained, COUNTS, hidden=torch.zeros(1, 5), word_bias=True)
    assert at_rest.divergence == pytest.approx(0, abs=1e-6)  # biases of words are kept


def test_a_compressed_layer_learns() -> None:
    torch.manual_seed(0)
    trained, hidden = nn.Linear(5, 60), torch.randn(400, 5)
    target = trained(3 * hidden).argmax(dim=-1)
    layer = compress(trained, COUNTS, alone=10).layer
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        losses.append(layer(hidden, target))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


def test_counts_weigh_with_a_table_that_is_given() -> None:
    torch.manual_seed(1)
    trained, counts = torch.nn.Embedding(30, 6), np.arange(1, 31) ** 3
    table = WordTable.random(30, seed=1)
    known = compress(trained, table=replace(table, counts=counts)).lost
    assert compress(trained, counts, table=table).lost == known != compress(trained, table=table).lost
    with pytest.raises(LightRNNError, match="counts must be one a word, 30, got 29"):
        compress(trained, counts[1:], table=table)
