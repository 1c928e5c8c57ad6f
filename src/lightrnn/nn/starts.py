"""Where layers over a table start: vectors from what is known of the words, biases from their shares of the text.

Shapes: V words, n values of a component, d dimensions of what is known, D of what is filled.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..table.word_table import WordTable

SCALE = 0.02  # standard deviation of vectors unless told otherwise: scores stay small after a LayerNorm

Numbers = NDArray[np.floating[Any]] | Tensor


def _array(numbers: Numbers) -> NDArray[np.floating[Any]]:
    found: NDArray[np.floating[Any]] = numbers.numpy(force=True) if isinstance(numbers, Tensor) else numbers
    return found


def fill_vectors(to_fill: Tensor, vectors: Numbers, scale: float) -> None:
    """Fill as many dimensions of (n, D) as vectors (n, d) have: centred, with a standard deviation of `scale`."""
    if len(to_fill) == 0:
        return
    known = _array(vectors)
    centred = (known - known.mean(axis=0))[:, : to_fill.shape[1]]
    scaled = centred * (scale / max(float(centred.std()), 1e-30))
    to_fill[:, : scaled.shape[1]] = torch.from_numpy(scaled).to(to_fill)


@torch.no_grad()
def start_vectors(weight: Tensor, table: WordTable, scale: float) -> None:
    """Draw the vectors of all components, stacked, at random, and fill in what the table knows."""
    nn.init.normal_(weight, std=scale)
    for to_fill, known in zip(torch.split(weight, list(table.shape)), table.vectors or (), strict=False):
        fill_vectors(to_fill, known, scale)


def shares(codes: NDArray[np.int64], counts: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """(n,): what each value of a component has of the text, in words; codes (V,), -1 for a word without one. A word
    that was never seen counts a half."""
    there = codes >= 0
    weights = np.maximum(counts, 0.5)[there]
    return np.asarray(np.bincount(codes[there], weights=weights, minlength=n), np.float64)


def fill_biases(to_fill: Tensor, found: Numbers) -> None:
    """Begin (n,) at the logs of the shares, which a softmax makes shares again."""
    if len(to_fill):
        logs = np.log(_array(found))
        to_fill.copy_(torch.from_numpy(logs - logs.mean()))


def fill_word_biases(to_fill: Tensor, table: WordTable, counts: NDArray[np.int64]) -> None:
    """The same of the places that words share, one after the other; those that do not exist stay as they are."""
    sharing = len(table) - table.alone
    fill_biases(to_fill.view(-1)[:sharing], shares(table.places - table.alone, counts, sharing))


def fill_rest(vector: Tensor, bias: Tensor | None, vectors: Tensor, found: NDArray[np.float64], head: int) -> None:
    """The rows that are not in the head have together what they have one by one: their mean vector (1, D), their share.

    vectors (R, D) and found (R,), the shares, are those of all rows.
    """
    rest = found[head:]
    weights = torch.from_numpy(rest / rest.sum()).to(vectors)
    vector.copy_((weights @ vectors[head:])[None])
    if bias is not None:
        bias.fill_(float(np.log(rest.sum()) - np.log(found).mean()))
