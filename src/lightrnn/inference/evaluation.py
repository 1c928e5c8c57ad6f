"""Perplexity: every token of a text scored once, nothing dropped.

Shapes: N tokens of the text, B batch (tracks or sentences side by side), T words, K parts of a log-probability.

Two conventions. *Stream* is one pass with the state carried from the first word to the last. It is computed on B
tracks side by side, each warmed up on the words before it; then the state each track started from is compared with
the state the track before it ended in, and tracks that differ are run again from the right state, until none does.
So the result is that of the single pass for any batch size and window, as nearly as states that make no difference now
will make none later (`_state_gaps`). *Sentence* starts every sentence afresh after bos. Sums are in double precision;
the division comes last.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, nan

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import LightRNNError
from ..models.lightrnn import LanguageModel, State, select_state, stack_states
from ..text.rules import Convention
from ..text.vocabulary import Vocabulary
from ..text.windows import Ids, context_and_words, padded, sentence_bounds

BATCH_SIZE = 64
WINDOW = 64  # words scored in one call of the model
WARM_UP = 128  # words that a track reads before those it scores
TOLERANCE = 1e-3  # largest difference that states may make and count as equal

Progress = Callable[[int], None]  # tokens scored so far


def _silent(_tokens: int) -> None:
    pass


def perplexity_of(log_probs: NDArray[np.float64]) -> float:
    """Of a text's tokens, (N,) natural logs; where it would overflow, e^700."""
    return exp(min(-float(log_probs.mean()), 700.0))


@dataclass(frozen=True)
class Evaluation:
    """Sums over a text, in nats; `parts` splits `nats` by component (row, column)."""

    convention: Convention
    tokens: int
    nats: float
    unknown_tokens: int
    unknown_nats: float
    parts: tuple[float, ...]
    seconds: float

    @property
    def perplexity(self) -> float:
        """exp of nats per token, unknown words and sentence ends included."""
        return exp(min(self.nats / self.tokens, 700.0))

    @property
    def perplexity_known(self) -> float:
        """The same over the tokens that are not unk."""
        known = self.tokens - self.unknown_tokens
        return exp(min((self.nats - self.unknown_nats) / known, 700.0)) if known else nan

    @property
    def words_per_second(self) -> float:
        return self.tokens / self.seconds


def evaluate(
    model: LanguageModel,
    ids: Ids,
    vocabulary: Vocabulary,
    convention: Convention | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = _silent,
) -> Evaluation:
    """Score a token stream; the convention is the vocabulary's own unless another is named."""
    name = convention or vocabulary.rules.convention
    if name == "stream":
        return measure(
            lambda: stream_log_probs(model, ids, vocabulary.bos_id, batch_size, window, progress), ids, vocabulary, name
        )
    return measure(
        lambda: sentence_log_probs(model, ids, vocabulary.bos_id, vocabulary.eos_id, batch_size, window, progress),
        ids,
        vocabulary,
        name,
    )


def measure(
    score: Callable[[], NDArray[np.float32]], ids: Ids, vocabulary: Vocabulary, convention: Convention
) -> Evaluation:
    """Sum up what `score` gives for a token stream, (N, K), and time it."""
    if len(ids) == 0:
        raise LightRNNError("there is nothing to evaluate: the text is empty")
    start = time.perf_counter()
    log_probs = score()
    seconds = time.perf_counter() - start
    unknown = np.asarray(ids) == vocabulary.unk_id
    parts = log_probs.sum(axis=0, dtype=np.float64)
    return Evaluation(
        convention=convention,
        tokens=len(ids),
        nats=-float(parts.sum()),
        unknown_tokens=int(unknown.sum()),
        unknown_nats=-float(log_probs[unknown].sum(dtype=np.float64)),
        parts=tuple(-float(part) for part in parts),
        seconds=seconds,
    )


def _device(model: LanguageModel) -> torch.device:
    parameters = getattr(model, "parameters", None)
    return next(parameters()).device if parameters else torch.device("cpu")


@torch.inference_mode()
def stream_log_probs(
    model: LanguageModel,
    ids: Ids,
    first: int,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = _silent,
) -> NDArray[np.float32]:
    """(N, K) log-probabilities of all tokens in one carried-state pass; `first` is the first word's context."""
    device = _device(model)
    done = 0

    def read(begins: NDArray[np.int64], length: int, state: State) -> tuple[NDArray[np.float32], State]:
        """Score `length` words from each of `begins` on, side by side."""
        nonlocal done
        parts = []
        for offset in range(0, length, window):
            stop = min(offset + window, length)
            words = np.stack([context_and_words(ids, first, b + offset, b + stop) for b in begins])
            log_probs, state = model.log_probs(torch.from_numpy(words).to(device), state)
            parts.append(log_probs.float().cpu().numpy())
            done += len(begins) * (stop - offset)
            progress(min(done, len(ids)))
        return np.concatenate(parts, axis=1), state

    tracks = max(1, min(batch_size, len(ids) // (2 * WARM_UP)))
    length = len(ids) // tracks
    begins = np.arange(tracks) * length
    starts = model.initial_state(1)
    if tracks > 1:
        _, warm = read(begins[1:] - WARM_UP, WARM_UP, model.initial_state(tracks - 1))
        starts = stack_states([starts, warm])
    log_probs, ends = read(begins, length, starts)
    while True:
        wrong = 1 + np.flatnonzero(
            _state_gaps(select_state(ends, slice(0, -1)), select_state(starts, slice(1, None))) > TOLERANCE
        )
        if wrong.size == 0:
            break
        right = select_state(ends, wrong - 1)
        log_probs[wrong], after = read(begins[wrong], length, right)
        for tensors, replaced in ((starts, right), (ends, after)):
            for tensor, values in zip(tensors, replaced, strict=True):
                tensor[:, wrong] = values
    scored = [log_probs.reshape(tracks * length, -1)]
    if tracks * length < len(ids):
        tail, _ = read(np.array([tracks * length]), len(ids) - tracks * length, select_state(ends, slice(-1, None)))
        scored.append(tail[0])
    return np.concatenate(scored)


def _state_gaps(one: State, other: State) -> NDArray[np.float64]:
    """(B,): the largest difference that two batches of states make, track by track.

    An LSTM shows its c through tanh. Units that count up to hundreds never agree as numbers and need not: what a gate
    that closes later could bring back into sight was 2e-8 of the nats where it was measured (docs/results.md).
    """

    def seen(tensor: Tensor) -> Tensor:
        return tensor.float().tanh() if tensor.is_floating_point() else tensor.float()

    gaps = [(seen(a) - seen(b)).abs().amax(dim=(0, 2)).cpu().numpy() for a, b in zip(one, other, strict=True)]
    return np.asarray(np.stack(gaps).max(axis=0), np.float64)


@torch.inference_mode()
def sentence_log_probs(
    model: LanguageModel,
    ids: Ids,
    bos: int,
    eos: int,
    batch_size: int = BATCH_SIZE,
    window: int = WINDOW,
    progress: Progress = _silent,
) -> NDArray[np.float32]:
    """(N, K) log-probabilities of all tokens, each sentence from a fresh state after bos."""
    device = _device(model)
    bounds = sentence_bounds(ids, eos)
    bounds = bounds[np.argsort(bounds[:, 1] - bounds[:, 0], kind="stable")]
    scored: NDArray[np.float32] | None = None
    done = 0
    for index in range(0, len(bounds), batch_size):
        batch = bounds[index : index + batch_size]
        words, mask = padded(ids, batch, bos)
        lengths = batch[:, 1] - batch[:, 0]
        state = model.initial_state(len(batch))
        alive = 0  # sentences before this one have ended
        for begin in range(0, mask.shape[1], window):
            ended = int(np.searchsorted(lengths, begin, side="right"))
            if ended > alive:
                state, alive = select_state(state, slice(ended - alive, None)), ended
            piece = torch.from_numpy(words[alive:, begin : begin + window + 1]).to(device)
            log_probs, state = model.log_probs(piece, state)
            values = log_probs.float().cpu().numpy()
            if scored is None:
                scored = np.empty((len(ids), values.shape[-1]), np.float32)
            for (start, end), row in zip(batch[alive:], values, strict=True):
                scored[start + begin : min(start + begin + window, end)] = row[: end - start - begin]
        done += int(mask.sum())
        progress(done)
    assert scored is not None
    return scored
