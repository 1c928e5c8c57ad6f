"""What a pass over a text knows of a network: codes in, log-probabilities and states out, all of them arrays.

Shapes: B batch, S codes, K most codes of a word, V vocabulary, L layers, H hidden, F features.

`code_network.CodeNetwork` is one in NumPy, `base.TorchReader` makes one of a PyTorch model.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..text.spelling import Codes, Spelling
from .cells import Array

Arrays = tuple[Array, ...]  # a state, the batch in dimension 1: (L, B, H) each


class Reader(Protocol):
    """A trained network that reads tracks of codes side by side."""

    @property
    def spelling(self) -> Spelling:
        """How words are written as codes."""
        ...

    def initial_state(self, batch_size: int) -> Arrays:
        """The state before anything was read."""
        ...

    def code_log_probs(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        """Codes (B, K+S), the K before and the S to score → their natural logs in parts, (B, S, parts), and the state.

        After a state only the last of the K is fed, since the others are in it; None: a sentence or text starts afresh
        with the K codes, of which those that are -1, in front, are none.
        """
        ...

    def features(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        """The same codes → what the S of them are scored by, (B, S, F), and the state."""
        ...

    def scored(self, codes: Codes, features: Array) -> Array:
        """The same codes by their features: what `code_log_probs` gives, (B, S, parts)."""
        ...

    def word_vectors(self) -> Array:
        """(V, d): a vector for every word."""
        ...


def select_state(state: Arrays, tracks: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Arrays:
    """Some tracks of a batch of states, copied: states are values, the original stays."""
    return tuple(np.array(array[:, tracks], order="C") for array in state)
