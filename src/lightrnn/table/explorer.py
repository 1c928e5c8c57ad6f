"""Looking at the table: which words share a row or a column, and a page to explore all of it in a browser.

Shapes: V vocabulary, N words that stand alone, R rows that words share, C columns. A table of more than two components
is looked at as one of two: the first component is the row, the others in lexicographic order are the column. Rows have
the numbers of table.tsv: 0 … N-1 hold a word each, N … N+R-1 are shared.
"""

import json
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..pages import filled, source
from ..text.vocabulary import Vocabulary
from .word_table import WordTable


def rows_and_columns(table: WordTable) -> tuple[int, int]:
    """(R, C): of the words that share."""
    return table.shape[0] - table.alone, prod(table.shape[1:])


def alone_words(table: WordTable, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N]: the words that stand alone, the most frequent first."""
    return _by_frequency(table.words[: table.alone], counts)


def row_words(table: WordTable, counts: NDArray[np.int64], row: int) -> NDArray[np.int64]:
    """The words of a row, the most frequent first."""
    if row < table.alone:
        return table.words[row : row + 1]
    _, columns = rows_and_columns(table)
    begin = table.alone + (row - table.alone) * columns
    return _by_frequency(table.words[begin : begin + columns], counts)


def column_words(table: WordTable, counts: NDArray[np.int64], column: int) -> NDArray[np.int64]:
    """The words of a column, the most frequent first."""
    _, columns = rows_and_columns(table)
    return _by_frequency(table.words[table.alone + column :: columns], counts)


def _by_frequency(words: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return words[np.lexsort((words, -counts[words]))]


def row_tokens(table: WordTable, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N+R]: how often the words of each row occur in the training text, together."""
    tokens = np.zeros(table.shape[0], np.int64)
    np.add.at(tokens, table.codes[:, 0], counts)
    return tokens


def rank_rows(
    table: WordTable, counts: NDArray[np.int64], coherence: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The rows that words share, the most used first; or, by coherence[N+R], the most coherent first, without those it
    is NaN of."""
    score = row_tokens(table, counts) if coherence is None else coherence
    ranked = table.alone + np.argsort(-score[table.alone :], kind="stable")
    return ranked[~np.isnan(score[ranked])]


def explorer_page(table: WordTable, vocabulary: Vocabulary, title: str) -> str:
    """One HTML page that needs nothing else: search, rows and columns of any word, the whole table at a glance."""
    words = _by_frequency(np.arange(len(table)), vocabulary.counts)
    data = {
        "title": title,
        "shape": table.shape,
        "alone": table.alone,
        "words": "\n".join(vocabulary.words[w] for w in words),  # no word holds white space
        "counts": vocabulary.counts[words].tolist(),
        "places": table.places[words].tolist(),
    }
    # "<" occurs in strings only, and without it nothing can end the script element that holds the data.
    safe = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return filled(source("table", "explorer.html"), data=safe)
