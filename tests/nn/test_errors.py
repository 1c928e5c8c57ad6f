"""Bad calls get one sentence that names the argument."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from lightrnn.errors import LightRNNError
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable, compress

TABLE = WordTable.random(20, seed=1)
EMBEDDING = LightEmbedding(TABLE, 4)
SOFTMAX = LightSoftmax(TABLE, 4)
STATES, WORDS = torch.zeros(3, 4), torch.zeros(3, dtype=torch.long)
NAN = torch.tensor([[0.0, 1.0, float("nan"), 2.0]] * 3)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: EMBEDDING(WORDS + 20), "ids must be from 0 to 19, got 20"),
        (lambda: EMBEDDING(WORDS - 1), "ids must be from 0 to 19, got -1"),
        (lambda: EMBEDDING(WORDS.float()), "ids must be whole numbers such as torch.long, got torch.float32"),
        (lambda: EMBEDDING([1, 2]), "ids must be a tensor, got list"),
        (lambda: SOFTMAX([[0.0] * 4] * 3, WORDS), "hidden must be a tensor, got list"),
        (lambda: LightEmbedding(TABLE, 4, scale=float("nan")), "scale must be a number from 0, got nan"),
        (lambda: SOFTMAX(STATES, WORDS + 20), "target must be from 0 to 19, or ignore_index, -100, got 20"),
        (lambda: SOFTMAX(STATES, WORDS - 1), "target must be from 0 to 19, or ignore_index, -100, got -1"),
        (lambda: SOFTMAX(STATES, STATES[:, 0]), "target must be whole numbers"),
        (lambda: SOFTMAX(STATES, WORDS[:2]), r"target must be one word a state, shape \(3,\), got \(2,\)"),
        (lambda: SOFTMAX(STATES, WORDS[:, None]), "target must be one word a state"),
        (lambda: SOFTMAX(STATES[:, :3], WORDS), "hidden must have in_features, 4, as its last dimension"),
        (lambda: SOFTMAX(WORDS[:, None].expand(3, 4), WORDS), "hidden must be floating-point numbers"),
        (lambda: SOFTMAX(NAN, WORDS), "hidden must be finite"),
        (lambda: SOFTMAX(STATES / 0, WORDS), "hidden must be finite"),
        (lambda: SOFTMAX.log_prob(NAN), "hidden must be finite"),
        (lambda: SOFTMAX.topk(NAN, 1), "hidden must be finite"),
        (lambda: SOFTMAX.sample(NAN), "hidden must be finite"),
        (lambda: SOFTMAX(STATES, WORDS, reduction="average"), "reduction must be one of mean, sum, none"),
        (lambda: SOFTMAX.log_prob_of(STATES, WORDS - 100), "words must be from 0 to 19, got -100"),
        (lambda: SOFTMAX.topk(STATES, 21), "k must be from 1 to the number of words, 20, got 21"),
        (lambda: SOFTMAX.sample(STATES, -1.0), "temperature must be a number from 0"),
        (lambda: LightEmbedding(np.zeros((20, 2)), 4), "table must be a WordTable, got ndarray"),
        (lambda: LightEmbedding(TABLE, 0), "dim must be a whole number from 1, got 0"),
        (lambda: LightSoftmax(TABLE, 4.0), "in_features must be a whole number from 1"),
        (lambda: LightSoftmax(TABLE, 4, head=-3), "head must be a whole number from 0, got -3"),
        (lambda: LightSoftmax(WordTable.random(20, 3), 4), "table must have rows and columns, got one of 3 components"),
        (lambda: LightSoftmax(WordTable.random(21), 4, tied=EMBEDDING), "tied must have the same table"),
        (lambda: LightSoftmax(WordTable.random(20, seed=2), 4, tied=EMBEDDING), "tied must have the same table"),
        (lambda: LightSoftmax(TABLE, 4, tied=nn.Embedding(20, 4)), "tied must be a LightEmbedding"),
        (lambda: LightSoftmax(TABLE, 4, tied=EMBEDDING, dim=5), "dim must be that of tied, 4, got 5"),
        (lambda: compress(nn.Conv1d(1, 1, 1)), "trained must be an nn.Embedding or an nn.Linear, got Conv1d"),
        (lambda: compress(nn.Embedding(21, 3), table=TABLE), "table must be for the 21 words of the matrix, got 20"),
        (lambda: compress(nn.Embedding(20, 3), hidden=STATES), "hidden is for an output"),
        (lambda: WordTable.from_bigrams([1.0, 2.0]), "ids must be one dimension of whole numbers, got float64"),
        (lambda: WordTable.from_bigrams(torch.zeros(2, 2, dtype=torch.long)), "ids must be one dimension"),
        (lambda: WordTable.from_bigrams([0, 5, 2], 5), "ids must be from 0 to 4, got 5"),
        (lambda: WordTable.from_bigrams([0, -5, 2]), "ids must be from 0, got -5"),
        (lambda: WordTable.from_embeddings(np.zeros(4)), r"matrix must have a vector a word, \(V, d\)"),
        (lambda: WordTable.from_embeddings(np.full((4, 2), np.nan)), "matrix must be finite"),
        (lambda: WordTable.from_embeddings(np.zeros((4, 2)), [1, 2]), "counts must be one a word, 4, got 2"),
        (lambda: WordTable.from_counts([3, -1]), "counts must be from 0, got -1"),
        (lambda: WordTable.random(20, alone=3), "alone=3 needs counts"),
        (lambda: WordTable.random(20, alone=21, counts=np.ones(20, int)), "alone must be .* got 21"),
        (lambda: WordTable.from_counts([1, 2], alone="all"), "alone must be .* got 'all'"),
    ],
)
def test_the_argument_is_named(call: Callable[[], object], told: str) -> None:
    with pytest.raises(LightRNNError, match=told) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_a_table_of_another_size_is_not_loaded() -> None:
    with pytest.raises(RuntimeError, match="codes"):
        LightSoftmax(WordTable.random(21), 4).load_state_dict(SOFTMAX.state_dict())


def test_what_is_no_table_is_not_loaded_and_changes_nothing() -> None:
    layer = LightEmbedding(TABLE, 4)
    other = EMBEDDING.state_dict() | {"codes": EMBEDDING.codes.clone()}
    other["codes"][0, 1] = -1  # one word alone, whose row others have too
    with pytest.raises(RuntimeError, match="codes is no table for this layer"):
        layer.load_state_dict(other)
    assert layer.codes.equal(EMBEDDING.codes)
    assert layer.alone == 0
