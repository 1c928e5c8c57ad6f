"""Perplexity: sums over the tokens of a text, every one scored once, nothing dropped; the division comes last.

Shapes: N tokens of the text, K parts of a log-probability.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..text.rules import Convention
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary


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

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> "Evaluation":
        """From `asdict`, perhaps by way of JSON."""
        return cls(**facts | {"parts": tuple(facts["parts"])})

    def __repr__(self) -> str:
        return (
            f"<Evaluation: perplexity {self.perplexity:.2f}, {self.perplexity_known:.2f} without unknown words, of "
            f"{self.tokens:,} tokens, {self.unknown_tokens:,} of them unknown, {self.convention} convention>"
        )

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


def measure(score: Callable[[], NDArray[Any]], ids: Ids, vocabulary: Vocabulary, convention: Convention) -> Evaluation:
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
        nats=0.0 - float(parts.sum()),
        unknown_tokens=int(unknown.sum()),
        unknown_nats=0.0 - float(log_probs[unknown].sum(dtype=np.float64)),
        parts=tuple(0.0 - float(part) for part in parts),
        seconds=seconds,
    )
