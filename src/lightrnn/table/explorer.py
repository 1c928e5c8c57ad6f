"""Looking at the table: which words share a row or a column, and a page to explore all of it in a browser.

Shapes: V vocabulary, R rows, C columns. A table of more than two components is looked at as one of two: the first
component is the row, the others in lexicographic order are the column.
"""

import json
from importlib import resources
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..text.vocabulary import Vocabulary
from .word_table import WordTable


def rows_and_columns(table: WordTable) -> tuple[int, int]:
    """(R, C)"""
    return table.shape[0], prod(table.shape[1:])


def row_words(table: WordTable, counts: NDArray[np.int64], row: int) -> NDArray[np.int64]:
    """The words of a row, the most frequent first."""
    _, columns = rows_and_columns(table)
    return _by_frequency(table.words[row * columns : (row + 1) * columns], counts)


def column_words(table: WordTable, counts: NDArray[np.int64], column: int) -> NDArray[np.int64]:
    """The words of a column, the most frequent first."""
    _, columns = rows_and_columns(table)
    return _by_frequency(table.words[column::columns], counts)


def _by_frequency(words: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return words[np.lexsort((words, -counts[words]))]


def row_tokens(table: WordTable, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[R]: how often the words of each row occur in the training text, together."""
    rows, _ = rows_and_columns(table)
    tokens = np.zeros(rows, np.int64)
    np.add.at(tokens, table.codes[:, 0], counts)
    return tokens


def rank_rows(
    table: WordTable, counts: NDArray[np.int64], coherence: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The rows, the most used first; or, by coherence[R], the most coherent first, without those it is NaN of."""
    score = row_tokens(table, counts) if coherence is None else coherence
    ranked = np.argsort(-score, kind="stable")
    return ranked[~np.isnan(score[ranked])]


def explorer_page(table: WordTable, vocabulary: Vocabulary, title: str) -> str:
    """One HTML page that needs nothing else: search, rows and columns of any word, the whole table at a glance."""
    words = _by_frequency(np.arange(len(table)), vocabulary.counts)
    data = {
        "title": title,
        "shape": table.shape,
        "words": "\n".join(vocabulary.words[w] for w in words),  # no word holds white space
        "counts": vocabulary.counts[words].tolist(),
        "places": table.places[words].tolist(),
    }
    # "<" occurs in strings only, and without it nothing can end the script element that holds the data.
    safe = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = (resources.files("lightrnn") / "table" / "explorer.html").read_text(encoding="utf-8")
    return page.replace("{{data}}", safe)
