"""Do the rows mean something? How alike the words of a row are used in a text that the table has not seen.

Shapes: V words, C contexts, R rows, those of words that stand alone among them.
"""

import numpy as np
from numpy.typing import NDArray

from ..text.spelling import Ids
from .bigrams import neighbour_counts, positive_pmi
from .word_table import WordTable

CONTEXTS = 500
SEEN = 5  # words that occur less often in the text are left out: too little is known of them


def row_coherence(table: WordTable, ids: Ids, *, least: int = 2, contexts: int = CONTEXTS) -> NDArray[np.float64]:
    """[R]: the mean cosine similarity of two words of a row, by their neighbours in the text.

    A word's vector is the PPMI of the contexts to its left and right. NaN where fewer than `least` words of the row
    occur often enough, and so for the row of a word that stands alone.
    """
    counts = np.bincount(ids, minlength=len(table))
    ppmi = positive_pmi(neighbour_counts(ids, counts, min(contexts, len(table))))
    lengths = np.sqrt(np.asarray(ppmi.multiply(ppmi).sum(axis=1)).ravel())
    usable = np.flatnonzero((counts >= SEEN) & (lengths > 0))
    unit = (ppmi[usable].multiply(1 / lengths[usable, None])).tocsr()
    rows = table.codes[usable, 0]
    coherence = np.full(table.shape[0], np.nan)
    for row in np.unique(rows):
        members = np.flatnonzero(rows == row)
        if len(members) >= least:
            total = np.asarray(unit[members].sum(axis=0)).ravel()
            pairs = len(members) * (len(members) - 1)
            coherence[row] = (total @ total - len(members)) / pairs
    return coherence


def table_coherence(table: WordTable, ids: Ids) -> float:
    """The mean over the rows that words share, each weighing as much as its words occur in the text."""
    coherence = row_coherence(table, ids)
    tokens = np.zeros(table.shape[0])
    np.add.at(tokens, table.codes[np.asarray(ids), 0], 1)
    known = ~np.isnan(coherence)
    return float(np.average(coherence[known], weights=tokens[known])) if known.any() else 0.0
