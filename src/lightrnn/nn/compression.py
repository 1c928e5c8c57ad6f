"""A trained matrix of word vectors made light: a table by clustering, and the vectors that fit the words best.

Shapes: V words, D size of a vector, R rows, C columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..errors import LightRNNError
from ..table.numbers import counts_of
from ..table.word_table import WordTable
from .checks import check_table
from .embedding import LightEmbedding
from .softmax import LightSoftmax

SWEEPS = 10  # of the least squares

Layer = TypeVar("Layer", LightEmbedding, LightSoftmax)


@dataclass(frozen=True)
class Compressed:
    """A light layer in the place of a trained one, and what that costs.

    lost: what share of the matrix's squares the table leaves out, each word weighted by the root of its count, after
    the mean vector is taken off: 0 where all is kept, 1 where all words have the same vector. divergence: how many nats
    a word the new distribution is above the old one (Kullback-Leibler) after the states that were given, if any.
    Bytes are those of parameters; `table_bytes`, beside, those of the table.
    """

    layer: LightEmbedding | LightSoftmax
    lost: float
    bytes_before: int
    bytes_after: int
    table_bytes: int
    divergence: float | None = None


def compress(
    trained: nn.Embedding | nn.Linear,
    counts: ArrayLike | None = None,
    *,
    table: WordTable | None = None,
    rows: int | str = 0,
    alone: int | str = 0,
    hidden: Tensor | None = None,
    word_bias: bool = True,
    seed: int = 0,
) -> Compressed:
    """A trained `nn.Embedding` as a LightEmbedding, or an output `nn.Linear` as a LightSoftmax, to be trained further.

    The table comes from a balanced clustering of the matrix, or is given. counts (V,): how often words occur, which
    frequent words stand alone by (see `words_alone`) and all are weighted by. hidden (P, in_features): some states, of
    an output, to tell by how much its distributions change.
    """
    from ..table.clustering import root_counts  # here, since Numba takes its time and models import this room

    if not isinstance(trained, nn.Embedding | nn.Linear):
        raise LightRNNError(f"trained must be an nn.Embedding or an nn.Linear, got {type(trained).__name__}")
    if hidden is not None and isinstance(trained, nn.Embedding):
        raise LightRNNError("hidden is for an output, an nn.Linear; leave it out for an nn.Embedding")
    matrix = trained.weight.detach().float().cpu().numpy()
    if table is None:
        table = WordTable.from_embeddings(matrix, counts, rows=rows, alone=alone, seed=seed)
    check_table(table, components=0 if isinstance(trained, nn.Embedding) else 2)
    if len(table) != len(matrix):
        raise LightRNNError(f"table must be for the {len(matrix):,} words of the matrix, got {len(table):,}")
    known = table.counts if counts is None else counts_of(counts, len(matrix))
    weights = root_counts(np.ones(len(matrix), np.int64) if known is None else known)
    vectors = table.vectors_for(matrix, weights, sweeps=SWEEPS)
    layer: LightEmbedding | LightSoftmax
    divergence = None
    if isinstance(trained, nn.Embedding):
        layer = _filled(LightEmbedding(table, matrix.shape[1]), vectors, trained)
    else:
        softmax = _filled(LightSoftmax(table, matrix.shape[1], word_bias=word_bias), vectors, trained)
        biases = None if trained.bias is None else trained.bias.detach().double().cpu().numpy()
        _fill_biases(softmax, table, np.zeros(len(matrix)) if biases is None else biases)
        divergence = None if hidden is None else _divergence(trained, softmax, hidden)
        layer = softmax
    lost = _lost(matrix, weights, table, vectors)
    table_bytes = sum(buffer.nbytes for buffer in layer.buffers())
    return Compressed(layer, lost, _bytes(trained), _bytes(layer), table_bytes, divergence)


def _filled(layer: Layer, vectors: Sequence[NDArray[np.float32]], trained: nn.Embedding | nn.Linear) -> Layer:
    """With these vectors, where and in the precision in which the trained one is."""
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.concatenate(vectors)))
    layer.to(trained.weight)
    return layer


def _bytes(module: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


def _lost(
    matrix: NDArray[np.float32], weights: NDArray[np.float32], table: WordTable, vectors: Sequence[NDArray[np.float32]]
) -> float:
    left = matrix.astype(np.float64)
    for codes, found in zip(table.codes.T, vectors, strict=True):
        there = codes >= 0
        left[there] -= found[codes[there]]
    centred = matrix - np.average(matrix, axis=0, weights=weights)
    return float(weights @ (left**2).sum(axis=1) / max(weights @ (centred**2).sum(axis=1), 1e-30))


@torch.no_grad()
def _fill_biases(layer: LightSoftmax, table: WordTable, biases: NDArray[np.float64]) -> None:
    """biases (V,) of words as those of rows, which have together what their words have, and of words in their rows or
    of columns."""
    R, C = table.shape
    of_rows = np.full(R, -np.inf)
    np.logaddexp.at(of_rows, table.codes[:, 0], biases)
    layer.row_bias.copy_(torch.from_numpy(of_rows))
    within = (biases - of_rows[table.codes[:, 0]])[table.sharing]
    if layer.column_bias.dim() == 2:
        layer.column_bias.view(-1)[table.shared.places] = torch.from_numpy(within).to(layer.column_bias)
    elif len(within):
        columns = table.codes[table.sharing, 1]
        means = np.bincount(columns, weights=within, minlength=C) / np.bincount(columns, minlength=C)
        layer.column_bias.copy_(torch.from_numpy(means))


@torch.no_grad()
def _divergence(trained: nn.Linear, layer: LightSoftmax, hidden: Tensor) -> float:
    """Mean KL(old ‖ new) in nats, some states at a time."""
    states = hidden.reshape(-1, hidden.shape[-1])
    total = 0.0
    for block in torch.split(states, 64):
        old = trained(block).double().log_softmax(dim=-1)
        total += float((old.exp() * (old - layer.log_prob(block))).sum())
    return total / max(len(states), 1)
