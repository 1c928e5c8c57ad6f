"""Word vectors before any training: what stands to a word's left and right, by a truncated SVD of PPMI.

Shapes: V words, C contexts (the most frequent words), d dimensions.

Most words of a large vocabulary are seen too rarely to have neighbours of their own to speak of. What such a word lacks
is taken from the words that end as it does: endings tell how a word is used, in inflected languages above all.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..runtime import Progress, silent
from ..text.spelling import Ids
from ..text.vocabulary import frequency_ranks

CONTEXTS = 2000
DIMENSIONS = 100
PRIOR = 3.0  # vectors of rare words are shrunk to the mean as if they had been seen so many times more
ENDING = 4  # letters
ENDING_PRIOR = 20.0  # the same towards words of the same ending, which count for so many occurrences each at most
CHUNK = 1 << 22


def neighbour_counts(
    ids: Ids, counts: NDArray[np.int64], contexts: int, progress: Progress = silent
) -> sparse.csr_matrix:
    """(V, 2C): how often each context stands left (first C columns) and right (last C) of each word, by streaming."""
    rank = frequency_ranks(counts)
    total = sparse.csr_matrix((len(counts), 2 * contexts), dtype=np.float32)
    for begin in range(0, len(ids) - 1, CHUNK):
        piece = np.asarray(ids[begin : begin + CHUNK + 1])
        context = rank[piece]
        after, before = context[:-1] < contexts, context[1:] < contexts
        words = np.concatenate([piece[1:][after], piece[:-1][before]])
        columns = np.concatenate([context[:-1][after], contexts + context[1:][before]])
        ones = np.ones(len(words), np.float32)
        total += sparse.csr_matrix((ones, (words, columns)), shape=total.shape)
        progress("counting neighbours, words", min(begin + CHUNK, len(ids)), len(ids))
    return total


CountNeighbours = Callable[[Ids, NDArray[np.int64], int, Progress], sparse.csr_matrix]


def positive_pmi(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """max(0, log n(w, c)·N / (n(w)·n(c))) of every count."""
    found = counts.tocoo()
    words = np.asarray(counts.sum(axis=1)).ravel()
    contexts = np.asarray(counts.sum(axis=0)).ravel()
    values = np.log(found.data * counts.sum() / (words[found.row] * contexts[found.col]))
    positive = values > 0
    return sparse.csr_matrix(
        (values[positive].astype(np.float32), (found.row[positive], found.col[positive])), shape=counts.shape
    )


def bigram_vectors(
    ids: Ids,
    counts: NDArray[np.int64],
    *,
    contexts: int = CONTEXTS,
    dimensions: int = DIMENSIONS,
    words: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress = silent,
    count: CountNeighbours = neighbour_counts,
) -> NDArray[np.float32]:
    """(V, d): vectors of all words from the neighbours they have in a token stream.

    The subspace is that of the words weighted by the root of their counts, found by a randomised SVD with two power
    iterations (Halko et al. 2011). Given the words, vectors of rare ones are drawn to those of the same ending. `count`
    may count neighbours in another way, to the same numbers.
    """
    size = len(counts)
    contexts = min(contexts, size)
    ppmi = positive_pmi(count(ids, counts, contexts, progress))
    weighted = sparse.diags_array(np.sqrt(counts).astype(np.float32)) @ ppmi
    dimensions = min(dimensions, size, 2 * contexts)
    sketch = np.random.default_rng(seed).standard_normal((2 * contexts, min(dimensions + 10, 2 * contexts)), np.float32)
    for iteration in range(3):
        progress(f"vectors of {size:,} words, pass", iteration + 1, 3)
        sketch, _ = np.linalg.qr(weighted.T @ (weighted @ sketch))
    _, _, axes = np.linalg.svd(weighted @ sketch, full_matrices=False)
    vectors = ppmi @ (sketch @ axes[:dimensions].T)
    return shrink(np.asarray(vectors), counts) if words is None else shrink_to_endings(vectors, counts, words)


def shrink(means: NDArray[np.float32], counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Means of few observations, drawn to the global mean by a prior count."""
    overall = np.average(means, axis=0, weights=np.maximum(counts, 1e-9))
    share = (counts / (counts + PRIOR))[:, None]
    return (share * means + (1 - share) * overall).astype(np.float32)


def shrink_to_endings(
    means: NDArray[np.float32], counts: NDArray[np.int64], words: Sequence[str]
) -> NDArray[np.float32]:
    """Means of few observations, drawn to the mean of the words with the same last letters by a prior count.

    The mean of an ending is itself drawn to that of the ending one letter shorter, and so on to the mean of all words.
    """
    weights = np.minimum(counts, ENDING_PRIOR)
    typical = np.average(means, axis=0, weights=np.maximum(weights, 1e-9))[None]  # broadcast to (V, d)
    for letters in range(1, ENDING + 1):
        numbers: dict[str, int] = {}
        ending = np.array([numbers.setdefault(word[-letters:], len(numbers)) for word in words])
        members = sparse.csr_matrix((weights, (ending, np.arange(len(words)))))
        totals = members.sum(axis=1)[ending] + ENDING_PRIOR
        typical = ((members @ means)[ending] + ENDING_PRIOR * typical) / np.asarray(totals).reshape(-1, 1)
    share = (counts / (counts + ENDING_PRIOR))[:, None]
    return (share * means + (1 - share) * typical).astype(np.float32)
