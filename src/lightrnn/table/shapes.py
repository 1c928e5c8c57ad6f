"""How large a word table is, and which words stand alone in it: what is settled before any word has its place.

Shapes: V vocabulary, K components; shape = (n_1 … n_K).
"""

from math import prod

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError

ROWS = 4  # times the root of the words that share: rows by `auto`
OFTEN, SHARE = 20, 1e-5  # how often a word is seen, and what it has of the text, at least, to stand alone by `auto`


def table_shape(vocabulary_size: int, components: int = 2, rows: int | str = 0, alone: int = 0) -> tuple[int, ...]:
    """The most even (n_1 … n_K) with room for V words: n_K = ceil(V^(1/K)), the rest the same way for ceil(V / n_K).

    For K = 2 that is C = ceil(√V) columns and R = ceil(V / C) rows. With `rows`, n_1 is that many, or as many fewer as
    leave the others unchanged: C = ceil(V / rows), R = ceil(V / C); `auto` is ROWS times n_K. Words that stand alone
    add a row each; where all of them do, the other components have no values.
    """
    if alone >= vocabulary_size:
        return (vocabulary_size, *(0 for _ in range(components - 1)))
    if alone:
        shared = table_shape(vocabulary_size - alone, components, rows)
        return (alone + shared[0], *shared[1:])
    if isinstance(rows, str):
        if rows != "auto":
            raise LightRNNError(f"rows must be a number of rows or 'auto', got {rows!r}")
        rows = min(ROWS * table_shape(vocabulary_size, components)[-1], vocabulary_size)
    if rows:
        rest = table_shape(-(-vocabulary_size // rows), components - 1)
        return (-(-vocabulary_size // prod(rest)), *rest)
    if components == 1:
        return (vocabulary_size,)
    side = max(round(vocabulary_size ** (1 / components)) - 1, 1)
    while side**components < vocabulary_size:
        side += 1
    return (*table_shape(-(-vocabulary_size // side), components - 1), side)


def words_alone(counts: NDArray[np.int64], setting: int | str) -> NDArray[np.int64]:
    """The words that stand alone, the most frequent first: so many, or `auto`.

    That is those that are seen often enough to learn a vector of their own and make up enough of the text to be worth
    its bytes and its part of every softmax.
    """
    least = max(OFTEN, SHARE * counts.sum())
    number = int((counts >= least).sum()) if setting == "auto" else int(setting)
    return np.argsort(-counts, kind="stable")[:number]


def zipf_counts(size: int, tokens: float = 1e8) -> NDArray[np.int64]:
    """Counts of so many words where nothing is known of them: p ∝ 1 / (rank + 2.7), by Zipf and Mandelbrot."""
    shares = 1 / (np.arange(size) + 2.7)
    return np.asarray(np.ceil(shares * (tokens / shares.sum())), np.int64)


def component_names(components: int) -> tuple[str, ...]:
    """What people call the components: row and column, or component 1 … K."""
    return ("row", "column") if components == 2 else tuple(f"component{s}" for s in range(1, components + 1))
