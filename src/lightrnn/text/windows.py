"""Windows of the token stream: what one step of training or one batch of scoring sees.

Shapes: B batch, T words. A window's words are (B, T+1): the word before, then the T words to predict.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .vocabulary import Vocabulary

Ids = NDArray[np.int32]
POOL = 100  # batches of sentences that are sorted by length together


@dataclass(frozen=True)
class Window:
    """words (B, T+1); mask (B, T), False where a short sentence is padded, None where tracks are a stream's; starts:
    whether the tracks begin here, without a carried state."""

    words: NDArray[np.int64]
    mask: NDArray[np.bool_] | None
    starts: bool

    @property
    def tokens(self) -> int:
        """How many words the window predicts."""
        return int(self.words[:, 1:].size if self.mask is None else self.mask.sum())


def text_windows(
    ids: Ids, vocabulary: Vocabulary, batch_size: int, window: int, order: np.random.Generator, skip: int = 0
) -> Iterator[Window]:
    """A text as its convention reads it: one stream, or sentences in random order that start afresh."""
    if vocabulary.rules.convention == "stream":
        return stream_windows(ids, vocabulary.bos_id, batch_size, window, skip)
    return sentence_windows(ids, vocabulary.bos_id, vocabulary.eos_id, batch_size, window, order, skip)


def stream_windows(ids: Ids, first: int, batch_size: int, window: int, skip: int = 0) -> Iterator[Window]:
    """The stream cut into batch_size consecutive tracks, read side by side; each goes on where its last window ended.

    `first` is the context of the stream's first word; `skip` leaves out so many windows at the start. Fewer than
    batch_size words at the very end are left out, as training may; evaluation leaves out nothing.
    """
    tracks = min(batch_size, len(ids))
    length = len(ids) // tracks
    starts = np.arange(tracks) * length
    for begin in range(skip * window, length, window):
        stop = min(begin + window, length)
        words = np.stack([context_and_words(ids, first, start + begin, start + stop) for start in starts])
        yield Window(words, None, starts=begin == 0)


def context_and_words(
    ids: Ids, first: int, begin: int | np.integer[Any], stop: int | np.integer[Any]
) -> NDArray[np.int64]:
    """Words begin … stop-1 of the stream with the word before them in front."""
    before = first if begin == 0 else ids[begin - 1]
    return np.concatenate([[before], ids[begin:stop]]).astype(np.int64)


def sentence_bounds(ids: Ids, eos: int) -> NDArray[np.int64]:
    """(S, 2): begin and end (eos included) of every sentence; a last one without eos counts too."""
    ends = np.flatnonzero(np.asarray(ids) == eos) + 1
    if len(ids) and (len(ends) == 0 or ends[-1] != len(ids)):
        ends = np.append(ends, len(ids))
    return np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1) if len(ends) else np.zeros((0, 2), np.int64)


def padded(ids: Ids, bounds: NDArray[np.int64], bos: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Sentences side by side, bos in front, padded with bos to the longest: words (B, T+1) and mask (B, T)."""
    lengths = bounds[:, 1] - bounds[:, 0]
    mask = np.arange(lengths.max()) < lengths[:, None]
    words = np.full((len(bounds), mask.shape[1] + 1), bos, np.int64)
    words[:, 1:][mask] = np.concatenate([ids[begin:end] for begin, end in bounds])
    return words, mask


def sentence_windows(
    ids: Ids, bos: int, eos: int, batch_size: int, window: int, order: np.random.Generator, skip: int = 0
) -> Iterator[Window]:
    """All sentences in random order, in batches of like length; each starts afresh after bos.

    Sentences longer than `window` go on in further windows with the state carried. `skip` leaves out so many windows at
    the start.
    """
    bounds = sentence_bounds(ids, eos)
    bounds = bounds[order.permutation(len(bounds))]
    for pool_start in range(0, len(bounds), POOL * batch_size):
        pool = bounds[pool_start : pool_start + POOL * batch_size]
        pool = pool[np.argsort(pool[:, 1] - pool[:, 0], kind="stable")]
        batches = [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        for index in order.permutation(len(batches)):
            longest = int((batches[index][:, 1] - batches[index][:, 0]).max())
            skipped = min(skip, -(-longest // window))
            skip -= skipped
            if skipped * window >= longest:
                continue
            words, mask = padded(ids, batches[index], bos)
            for begin in range(skipped * window, longest, window):
                stop = min(begin + window, mask.shape[1])
                yield Window(words[:, begin : stop + 1], mask[:, begin:stop], starts=begin == 0)
