"""Word vectors before any training: what stands to a word's left and right, by a truncated SVD of PPMI.

Shapes: V words, C contexts (the most frequent words), d dimensions.

Most words of a large vocabulary are seen too rarely to have neighbours of their own to speak of. What such a word lacks
is taken from the words that end as it does: endings tell how a word is used, in inflected languages above all.

Whatever has a row for every word is made and used some words at a time: there is one matrix of the neighbours' counts,
which has at most two numbers a token, and one of the vectors.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from ..runtime import Progress, silent
from ..text.spelling import Ids
from ..text.vocabulary import frequency_ranks
from .means import add_rows

CONTEXTS = 2000
DIMENSIONS = 100
PRIOR = 3.0  # vectors of rare words are shrunk to the mean as if they had been seen so many times more
ENDING = 4  # letters
ENDING_PRIOR = 20.0  # the same towards words of the same ending, which count for so many occurrences each at most
CHUNK = 1 << 22  # tokens that are read together
EVENTS = 1 << 28  # neighbours that are held together
WORDS = 1 << 17  # whose vectors are computed together


def neighbour_counts(
    ids: Ids, counts: NDArray[np.int64], contexts: int, progress: Progress = silent
) -> sparse.csr_matrix:
    """(V, 2C): how often each context stands left (first C columns) and right (last C) of each word, by streaming.

    The neighbours of every word are written one after the other and then counted, as many words at a time as have at
    most EVENTS neighbours together; the text is read once for each of these times, and once before.
    """
    size = len(counts)
    column = np.minimum(frequency_ranks(counts), contexts).astype(np.int32)  # of each word as a context
    totals = np.zeros(size, np.int64)
    _read(ids, progress, "counting neighbours, words", lambda piece: _tally(piece, column, contexts, totals))
    ends = np.cumsum(totals)
    parts, low = [], 0
    while low < size:
        before = int(ends[low - 1]) if low else 0
        high = max(int(np.searchsorted(ends, before + EVENTS, side="right")), low + 1)
        starts = np.concatenate([[0], ends[low:high] - before])
        events = np.empty(starts[-1], np.uint16 if 2 * contexts <= 2**16 else np.int32)
        at = starts[:-1].copy()
        what = f"collecting neighbours of words {low + 1:,} to {high:,}, words"
        _read(ids, progress, what, lambda piece: _collect(piece, column, contexts, low, high, at, events))  # noqa: B023
        parts.append(_count(events, starts, 2 * contexts))
        low = high
    data, columns, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((data, columns, starts), shape=(size, 2 * contexts))


def _read(ids: Ids, progress: Progress, what: str, use: Callable[[Ids], None]) -> None:
    """Pieces of a text, each with the last word of the one before."""
    for begin in range(0, len(ids) - 1, CHUNK):
        use(np.asarray(ids[begin : begin + CHUNK + 1], np.int32))
        progress(what, min(begin + CHUNK, len(ids)), len(ids))


@njit(cache=True, nogil=True)
def _tally(ids, column, contexts, totals):  # type: ignore[no-untyped-def]
    """How many neighbours each word has that are contexts."""
    for t in range(1, len(ids)):
        totals[ids[t]] += column[ids[t - 1]] < contexts
        totals[ids[t - 1]] += column[ids[t]] < contexts


@njit(cache=True, nogil=True)
def _collect(ids, column, contexts, low, high, at, events):  # type: ignore[no-untyped-def]
    """The neighbours of words low … high - 1 as columns, to where the next one of the word goes."""
    for t in range(1, len(ids)):
        left, right = ids[t - 1], ids[t]
        if low <= right < high and column[left] < contexts:
            events[at[right - low]] = column[left]
            at[right - low] += 1
        if low <= left < high and column[right] < contexts:
            events[at[left - low]] = contexts + column[right]
            at[left - low] += 1


@njit(cache=True, nogil=True)
def _count(events, starts, columns):  # type: ignore[no-untyped-def]
    """The stretches of `events` as rows of a sparse matrix: numbers, columns, and how many a row has."""
    counted = np.zeros(columns, np.int64)
    lengths = np.zeros(len(starts) - 1, np.int64)
    for word in range(len(lengths)):  # first, only how many there are
        for i in range(starts[word], starts[word + 1]):
            lengths[word] += counted[events[i]] == 0
            counted[events[i]] = 1
        for i in range(starts[word], starts[word + 1]):
            counted[events[i]] = 0
    data = np.empty(lengths.sum(), np.float32)
    found = np.empty(len(data), np.int32)
    first = 0
    for word in range(len(lengths)):
        last = first
        for i in range(starts[word], starts[word + 1]):
            if counted[events[i]] == 0:
                found[last] = events[i]
                last += 1
            counted[events[i]] += 1
        found[first:last].sort()
        for i in range(first, last):
            data[i] = counted[found[i]]
            counted[found[i]] = 0
        first = last
    return data, found, lengths


CountNeighbours = Callable[[Ids, NDArray[np.int64], int, Progress], sparse.csr_matrix]


def positive_pmi(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """max(0, log n(w, c)·N / (n(w)·n(c))) of every count, in the counts' own place."""
    data, columns, starts = counts.data, counts.indices, counts.indptr
    pieces = [(first, min(first + WORDS, counts.shape[0])) for first in range(0, counts.shape[0], WORDS)]
    words = np.zeros(counts.shape[0])
    contexts = np.zeros(counts.shape[1])
    for low, high in pieces:
        block = counts[low:high].astype(np.float64)
        words[low:high] = block.sum(axis=1).ravel()
        contexts += np.asarray(block.sum(axis=0)).ravel()
    total, of_words, of_contexts = np.float32(words.sum()), words.astype(np.float32), contexts.astype(np.float32)
    kept, lengths = 0, np.zeros(len(words), np.int64)
    for low, high in pieces:
        here = slice(starts[low], starts[high])
        word = np.repeat(np.arange(low, high), np.diff(starts[low : high + 1]))
        values = np.log(data[here] * total / (of_words[word] * of_contexts[columns[here]]))
        positive = values > 0
        lengths[low:high] = np.bincount(word[positive] - low, minlength=high - low)
        there = slice(kept, kept + int(positive.sum()))
        data[there], columns[there] = values[positive], columns[here][positive]
        kept = there.stop
    return sparse.csr_matrix((data[:kept], columns[:kept], np.append(0, np.cumsum(lengths))), shape=counts.shape)


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
    roots = np.sqrt(counts).astype(np.float32)
    dimensions = min(dimensions, size, 2 * contexts)
    sketch = np.random.default_rng(seed).standard_normal((2 * contexts, min(dimensions + 10, 2 * contexts)), np.float32)
    for turn in range(3):
        products: list[NDArray[np.float32]] = []
        for piece, block in _blocks(ppmi, f"vectors, pass {turn + 1} of 5, words", progress):
            weighted = sparse.diags_array(roots[piece]) @ block
            products = [sum(products, weighted.T @ (weighted @ sketch))]
        sketch, _ = np.linalg.qr(products[0])
    seen: NDArray[np.float32] | None = None  # the weighted words in the sketch, or as many rows with the same products
    for piece, block in _blocks(ppmi, "vectors, pass 4 of 5, words", progress):
        rows = sparse.diags_array(roots[piece]) @ block @ sketch
        seen = np.asarray(rows if seen is None else np.linalg.qr(np.concatenate([seen, rows]), mode="r"))
    assert seen is not None
    _, _, axes = np.linalg.svd(seen, full_matrices=False)
    projection = sketch @ axes[:dimensions].T
    vectors = np.empty((size, dimensions), np.float32)
    for piece, block in _blocks(ppmi, "vectors, pass 5 of 5, words", progress):
        vectors[piece] = block @ projection
    del ppmi
    return shrink(vectors, counts) if words is None else shrink_to_endings(vectors, counts, words, progress)


def _blocks(ppmi: sparse.csr_matrix, what: str, progress: Progress) -> Iterator[tuple[slice, sparse.csr_matrix]]:
    """Some rows after the other, and which they are."""
    size = ppmi.shape[0]
    for first in range(0, size, WORDS):
        yield slice(first, first + WORDS), ppmi[first : first + WORDS]
        progress(what, min(first + WORDS, size), size)


def shrink(
    means: NDArray[np.float32], counts: NDArray[np.int64], groups: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """Means of few observations, drawn to the global mean by a prior count, or to that of their group (V,), which is
    itself drawn to the global one; in their own place."""
    typical = _average(means, np.maximum(counts, 1e-9))
    if groups is None:
        groups = np.zeros(len(means), np.int64)
    else:
        totals = np.bincount(groups, weights=counts)
        sums = np.zeros((len(totals), means.shape[1]))
        add_rows(means, counts, np.arange(len(means)), groups, sums)
        typical = (sums + PRIOR * typical) / (totals + PRIOR)[:, None]
    return _drawn(means, counts / (counts + PRIOR), typical, groups)


def _average(vectors: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(1, d): the weighted mean, in double precision."""
    total = np.zeros((1, vectors.shape[1]))
    add_rows(vectors, weights, np.arange(len(vectors)), np.zeros(len(vectors), np.int64), total)
    return np.asarray(total / weights.sum())


def _drawn(
    means: NDArray[np.float32], shares: NDArray[np.float64], typical: NDArray[np.float64], kinds: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Of every word, its share of its own mean and the rest of what is typical of its kind, in the means' place."""
    for first in range(0, len(means), WORDS):
        piece = slice(first, first + WORDS)
        share = shares[piece, None]
        means[piece] = share * means[piece] + (1 - share) * typical[kinds[piece]]
    return means


def shrink_to_endings(
    means: NDArray[np.float32], counts: NDArray[np.int64], words: Sequence[str], progress: Progress = silent
) -> NDArray[np.float32]:
    """Means of few observations, drawn to the mean of the words with the same last letters by a prior count; in their
    own place.

    The mean of an ending is itself drawn to that of the ending one letter shorter, and so on to the mean of all words.
    """
    weights = np.minimum(counts, ENDING_PRIOR)
    typical = _average(means, np.maximum(weights, 1e-9))  # of every ending, (endings, d)
    shorter = np.zeros(len(words), np.int64)
    for letters in range(1, ENDING + 1):
        progress(f"endings of {len(words):,} words, letters", letters, ENDING)
        numbers: dict[str, int] = {}
        ending = np.fromiter(
            (numbers.setdefault(word[-letters:], len(numbers)) for word in words), np.int64, len(words)
        )
        parent = np.zeros(len(numbers), np.int64)
        parent[ending] = shorter
        sums = np.zeros((len(numbers), means.shape[1]))
        add_rows(means, weights, np.arange(len(words)), ending, sums)
        totals = np.bincount(ending, weights=weights, minlength=len(numbers)) + ENDING_PRIOR
        typical = (sums + ENDING_PRIOR * typical[parent]) / totals[:, None]
        shorter = ending
    return _drawn(means, counts / (counts + ENDING_PRIOR), typical, shorter)
