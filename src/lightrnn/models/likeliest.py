"""Choosing words from a distribution: the likeliest ones, or a draw.

Shapes: V vocabulary.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Likeliest:
    """The likeliest words, best first, with natural-log probabilities; opened: how many prefixes (rows) it took."""

    words: NDArray[np.int64]
    log_probs: NDArray[np.float64]
    opened: int = 0


def best_of(log_probs: NDArray[np.float64], count: int, allowed: NDArray[np.bool_] | None = None) -> Likeliest:
    """The likeliest words of a whole distribution, log_probs[V]."""
    values = log_probs if allowed is None else np.where(allowed, log_probs, -np.inf)
    count = min(count, len(values))
    best = np.argpartition(-values, max(count - 1, 0))[:count]
    best = best[np.argsort(-values[best], kind="stable")]
    best = best[values[best] > -np.inf]
    return Likeliest(best, values[best])


def draw_from(log_probs: NDArray[np.floating], temperature: float, random: np.random.Generator) -> int:
    """A word drawn from a distribution, log_probs[V] up to a constant; at temperature 0 the likeliest."""
    if temperature == 0:
        return int(np.argmax(log_probs))
    with np.errstate(over="ignore"):  # at next to no temperature all but the likeliest are at -inf
        total = np.exp((log_probs - np.max(log_probs)).astype(np.float64) / temperature).cumsum()
    return min(int(np.searchsorted(total, random.random() * total[-1], side="right")), len(total) - 1)
