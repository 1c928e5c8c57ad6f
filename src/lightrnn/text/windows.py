"""Windows of the stream of codes: what one step of training or one batch of scoring sees.

Shapes: B batch, S codes, K most codes of a word. A window's codes are (B, K+S): the K before, then the S to predict.
For networks that read words a code is a word, and K is 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .spelling import Codes, Ids, Spelling
from .vocabulary import Vocabulary

POOL = 100  # batches of sentences that are sorted by length together
STRETCH = 4096  # words that are taken together into a sample of a text


@dataclass(frozen=True)
class Window:
    """codes (B, K+S); mask (B, S), False where a short sentence is padded, None where tracks are a stream's; starts:
    whether the tracks begin here, without a carried state; tokens: how many words begin among those to predict."""

    codes: Codes
    mask: NDArray[np.bool_] | None
    starts: bool
    tokens: int

    def part(self, tracks: slice) -> "Window":
        """Some of its tracks; tokens are still those of all."""
        return replace(self, codes=self.codes[tracks], mask=None if self.mask is None else self.mask[tracks])


def text_windows(
    ids: Ids,
    vocabulary: Vocabulary,
    spelling: Spelling,
    batch_size: int,
    window: int,
    order: np.random.Generator,
    skip: int = 0,
) -> Iterator[Window]:
    """A text as its convention reads it: one stream, or sentences in random order that start afresh."""
    if vocabulary.rules.convention == "stream":
        return stream_windows(ids, spelling, vocabulary.bos_id, batch_size, window, skip)
    return sentence_windows(ids, spelling, vocabulary.bos_id, vocabulary.eos_id, batch_size, window, order, skip)


def stream_windows(
    ids: Ids, spelling: Spelling, first: int, batch_size: int, window: int, skip: int = 0
) -> Iterator[Window]:
    """The stream cut into batch_size consecutive tracks, read side by side; each goes on where its last window ended.

    Tracks and windows have as many codes as so many words have on average, and may begin inside a word. `first` is the
    context of the stream's first word; `skip` leaves out so many windows at the start. What a track lacks at the very
    end is left out, as training may; evaluation leaves out nothing.
    """
    stream, front = spelling.stream(ids), spelling.context(first)
    tracks = min(batch_size, len(ids))
    length, size = stream.share(len(ids) // tracks), stream.share(window)
    starts = range(0, tracks * length, length)
    for begin in range(skip * size, length, size):
        stop = min(begin + size, length)
        codes = np.stack([stream.piece(front, start + begin, start + stop) for start in starts])
        tokens = int(spelling.starts_word(codes[:, spelling.most :]).sum())
        yield Window(codes, None, begin == 0, tokens)


def sampled(ids: Ids, words: int) -> Ids:
    """About so many words of a text, in stretches at equal distances; 0, or about as many as it has: all of it."""
    stretches = -(-words // STRETCH)
    if not 0 < stretches * STRETCH < len(ids):
        return ids
    begins = np.linspace(0, len(ids) - STRETCH, stretches).astype(np.int64)
    return np.concatenate([ids[begin : begin + STRETCH] for begin in begins.tolist()])


def sentence_bounds(ids: Ids, eos: int) -> NDArray[np.int64]:
    """(S, 2): begin and end (eos included) of every sentence; a last one without eos counts too."""
    ends = np.flatnonzero(np.asarray(ids) == eos) + 1
    if len(ids) and (len(ends) == 0 or ends[-1] != len(ids)):
        ends = np.append(ends, len(ids))
    return np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1) if len(ends) else np.zeros((0, 2), np.int64)


def padded(ids: Ids, spelling: Spelling, bounds: NDArray[np.int64], bos: int) -> tuple[Codes, NDArray[np.bool_]]:
    """Sentences side by side, bos in front, padded with bos to the longest: codes (B, K+S) and mask (B, S)."""
    front = spelling.context(bos)
    sentences = [spelling.spell(ids[begin:end]) for begin, end in bounds]
    lengths = np.array([len(codes) for codes in sentences])
    mask = np.arange(lengths.max()) < lengths[:, None]
    codes = np.empty((len(bounds), len(front) + mask.shape[1]), np.int64)
    codes[:, : len(front)] = front
    for row, sentence in zip(codes[:, len(front) :], sentences, strict=True):
        row[: len(sentence)] = sentence
        row[len(sentence) :] = np.resize(front[front >= 0], len(row) - len(sentence))
    return codes, mask


def sentence_windows(
    ids: Ids,
    spelling: Spelling,
    bos: int,
    eos: int,
    batch_size: int,
    window: int,
    order: np.random.Generator,
    skip: int = 0,
) -> Iterator[Window]:
    """All sentences in random order, in batches of like length; each starts afresh after bos.

    Sentences longer than `window` go on in further windows with the state carried. `skip` leaves out so many windows at
    the start.
    """
    context, size = spelling.most, spelling.stream(ids).share(window)
    bounds = sentence_bounds(ids, eos)
    bounds = bounds[order.permutation(len(bounds))]
    for pool_start in range(0, len(bounds), POOL * batch_size):
        pool = bounds[pool_start : pool_start + POOL * batch_size]
        pool = pool[np.argsort(pool[:, 1] - pool[:, 0], kind="stable")]
        batches = [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        for index in order.permutation(len(batches)):
            codes, mask = padded(ids, spelling, batches[index], bos)
            longest = mask.shape[1]
            skipped = min(skip, -(-longest // size))
            skip -= skipped
            for begin in range(skipped * size, longest, size):
                stop = min(begin + size, longest)
                part, shown = codes[:, begin : context + stop], mask[:, begin:stop]
                tokens = int((spelling.starts_word(part[:, context:]) & shown).sum())
                yield Window(part, shown, begin == 0, tokens)
