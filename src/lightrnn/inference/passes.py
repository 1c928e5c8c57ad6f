"""A network's pass over a text: the log-probability of every token, in either convention.

Shapes: N tokens of the text, B batch (tracks or sentences side by side), S codes, P parts of a log-probability.

A text is read as the model spells it: as one stream of codes, of which a word has one or several (`text.spelling`).

*Stream* is one pass with the state carried from the first word to the last. It is computed on B tracks side by side, at
first each from nothing. Then every track is corrected: read again from the state in which the track before it ended,
until its states are what they were, from where on nothing changes. Where they never are, its end has changed too, and
the next track is corrected again. So the result is that of the single pass for any batch size and window, as nearly as
states that make no difference now will make none later (`_state_gaps`). *Sentence* starts every sentence afresh after
bos.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..models.reader import Arrays, Reader, select_state
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention, check_convention
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from ..text.windows import padded, sentence_bounds
from .evaluation import Evaluation, measure

if TYPE_CHECKING:
    from ..models.base import LanguageModel

WINDOW = 64  # words scored in one call of the model, or as many codes as they have on average
SHORTEST = 256  # words of a track at least
MARKS = 64  # windows of a track after which a corrected state is compared with what it was
PADDED = 1 << 22  # codes of sentences side by side at most, all as long as the longest; one alone may have more
TOLERANCE = 3e-6  # largest difference that states may make and count as equal; rounding makes some 3e-7


def evaluate(
    model: "LanguageModel",
    ids: Ids,
    vocabulary: Vocabulary,
    convention: Convention | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = silent,
) -> Evaluation:
    """Score a token stream; the convention is the vocabulary's own unless another is named.

    For a PyTorch network, its own or yours, in the course of training; what `load` gives has `LM.evaluate`, n-gram
    models and mixes too.
    """
    from ..models.base import TorchReader

    name, reader = vocabulary.rules.read_as(convention), TorchReader(model)
    with _without_dropout(model):
        return measure(
            lambda: token_log_probs(reader, ids, vocabulary, name, batch_size, window, progress), ids, vocabulary, name
        )


@contextlib.contextmanager
def _without_dropout(model: "LanguageModel") -> Iterator[None]:
    """A module that is being trained is not, during the block."""
    from torch import nn

    if not isinstance(model, nn.Module):
        yield
        return
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def token_log_probs(
    reader: Reader,
    ids: Ids,
    vocabulary: Vocabulary,
    convention: Convention,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """(N, P) log-probabilities of all tokens."""
    check_convention(convention)
    if not len(ids):
        return np.zeros((0, 1), np.float32)
    if convention == "stream":
        return stream_log_probs(reader, ids, vocabulary.bos_id, batch_size, window, progress)
    return sentence_log_probs(reader, ids, vocabulary.bos_id, vocabulary.eos_id, batch_size, window, progress)


def stream_log_probs(
    reader: Reader,
    ids: Ids,
    first: int,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """(N, P) log-probabilities of all tokens in one carried-state pass; `first` is the first word's context."""
    spelling = reader.spelling
    stream, front = spelling.stream(ids), spelling.context(first)

    def score(begins: NDArray[np.int64], length: int, state: Arrays) -> tuple[NDArray[np.float32], Arrays]:
        """The `length` codes from each of `begins` on, side by side."""
        codes = np.stack([stream.piece(front, int(begin), int(begin) + length) for begin in begins])
        return reader.code_log_probs(codes, state)

    tracks = max(1, min(batch_size, len(ids) // SHORTEST))
    length, window = stream.share(len(ids) // tracks), stream.share(window)
    begins = np.arange(tracks) * length
    windows = [(offset, min(window, length - offset)) for offset in range(0, length, window)]
    state = reader.initial_state(tracks)
    pieces, marks = [], []  # the log-probabilities and, of the first windows, the states after them
    for index, (offset, size) in enumerate(windows):
        piece, state = score(begins + offset, size, state)
        pieces.append(piece)
        progress("scoring", tracks * (offset + size) * len(ids) // len(stream), len(ids))
        if index < MARKS:
            marks.append(select_state(state, slice(None)))
    ends = state
    changed = np.arange(tracks)  # whose end is not what the next track started from
    while (wrong := changed[changed < tracks - 1] + 1).size:
        state, changed = select_state(ends, wrong - 1), wrong
        for index, (offset, size) in enumerate(windows):
            pieces[index][changed], state = score(begins[changed] + offset, size, state)
            if index < MARKS:
                differs = _state_gaps(state, select_state(marks[index], changed)) > TOLERANCE
                _replace(marks[index], changed, state)
                changed, state = changed[differs], select_state(state, differs)
                progress("joining", (tracks - len(changed)) * len(ids) // tracks, len(ids))
                if changed.size == 0:
                    break
        else:
            _replace(ends, changed, state)
    scored = [np.concatenate(pieces, axis=1).reshape(tracks * length, -1)]
    state = select_state(ends, slice(-1, None))
    for begin in range(tracks * length, len(stream), window):
        piece, state = score(np.array([begin]), min(window, len(stream) - begin), state)
        scored.append(piece[0])
    return spelling.by_word(np.concatenate(scored), ids)


def _replace(state: Arrays, tracks: NDArray[np.int64], new: Arrays) -> None:
    """Put the states of some tracks in place of what they were."""
    for array, values in zip(state, new, strict=True):
        array[:, tracks] = values


def _state_gaps(one: Arrays, other: Arrays) -> NDArray[np.float64]:
    """(B,): the largest difference that two batches of states make, track by track.

    An LSTM shows its c through tanh. Units that count up to hundreds never agree as numbers and need not: what a gate
    that closes later could bring back into sight was below 1e-8 of the nats where it was measured (docs/trials.md).
    """

    def seen(array: NDArray[np.generic]) -> NDArray[np.float32]:
        values = array.astype(np.float32)
        return np.tanh(values) if array.dtype.kind == "f" else values

    gaps = [np.abs(seen(a) - seen(b)).max(axis=(0, 2)) for a, b in zip(one, other, strict=True)]
    return np.asarray(np.stack(gaps).max(axis=0), np.float64)


def sentence_log_probs(
    reader: Reader,
    ids: Ids,
    bos: int,
    eos: int,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """(N, P) log-probabilities of all tokens, each sentence from a fresh state after bos."""
    spelling = reader.spelling
    window = spelling.stream(ids).share(window)
    bounds, ends = sentence_bounds(ids, eos), spelling.ends(ids)
    bounds = bounds[np.argsort(ends[bounds[:, 1]] - ends[bounds[:, 0]], kind="stable")]
    scored: NDArray[np.float32] | None = None
    done = 0
    for batch in _batches(bounds, (ends[bounds[:, 1]] - ends[bounds[:, 0]]).tolist(), batch_size):
        codes, mask = padded(ids, spelling, batch, bos)
        lengths = mask.sum(axis=1)
        state: Arrays | None = None
        alive = 0  # sentences before this one have ended
        for begin in range(0, mask.shape[1], window):
            ended = int(np.searchsorted(lengths, begin, side="right"))
            if ended > alive and state is not None:
                state, alive = select_state(state, slice(ended - alive, None)), ended
            values, state = reader.code_log_probs(codes[alive:, begin : begin + spelling.most + window], state)
            if scored is None:
                scored = np.empty((ends[-1], values.shape[-1]), np.float32)
            for start, end, row in zip(ends[batch[alive:, 0]], ends[batch[alive:, 1]], values, strict=True):
                scored[start + begin : min(start + begin + window, end)] = row[: end - start - begin]
        done += int((batch[:, 1] - batch[:, 0]).sum())
        progress("scoring", done, len(ids))
    assert scored is not None
    return spelling.by_word(scored, ids)


def _batches(bounds: NDArray[np.int64], lengths: list[int], batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Sentences of growing length some at a time: as many as are asked for, fewer where they would take much room."""
    begin = 0
    while begin < len(bounds):
        end = min(begin + batch_size, len(bounds))
        while end - begin > 1 and (end - begin) * lengths[end - 1] > PADDED:
            end -= 1
        yield bounds[begin:end]
        begin = end


def continue_track(
    reader: Reader, last_word: int, state: Arrays, ids: Ids, window: int = WINDOW
) -> tuple[NDArray[np.float64], Arrays]:
    """(N,): the log-probabilities of words in a row after a state, and the state after them."""
    spelling, scored = reader.spelling, []
    window = spelling.stream(ids).share(window)
    codes = np.concatenate([spelling.context(last_word), spelling.spell(ids)])
    for begin in range(0, len(codes) - spelling.most, window):
        piece, state = reader.code_log_probs(codes[None, begin : begin + spelling.most + window], state)
        scored.append(piece[0])
    return spelling.by_word(np.concatenate(scored), ids).sum(axis=1, dtype=np.float64), state
