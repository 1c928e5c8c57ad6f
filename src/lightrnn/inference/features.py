"""What a network scores each word of a text by: its features before the word.

Shapes: N tokens of the text, M codes of it, B batch, S codes, P parts, F features.

The passes of passes.py know of a reader that it gives numbers for codes and carries a state. So one that gives features
in place of log-probabilities, or beside them, has them found for a whole text, in either convention and for any batch
size.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.cells import Array
from ..models.reader import Arrays, Reader
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Codes, Ids, Spelling
from ..text.vocabulary import Vocabulary
from .passes import token_log_probs


class Reading(NamedTuple):
    """Of every token of a text: the natural logs in parts, (N, P), and the features before it, (N, F)."""

    log_probs: NDArray[Any]
    features: NDArray[np.float32]


def read_tokens(
    reader: Reader,
    ids: Ids,
    vocabulary: Vocabulary,
    convention: Convention,
    batch_size: int = BATCH_SIZE,
    progress: Progress = silent,
) -> Reading:
    """Both in one pass."""
    both = _BothReader(reader)
    found = token_log_probs(both, ids, vocabulary, convention, batch_size, progress=progress)
    parts = found.shape[1] - both.width
    return Reading(found[:, :parts], found[:, parts:])


def token_features(
    reader: Reader,
    ids: Ids,
    vocabulary: Vocabulary,
    convention: Convention,
    batch_size: int = BATCH_SIZE,
    progress: Progress = silent,
) -> Array:
    """(N, F): what every token's first code is scored by."""
    return token_log_probs(_FeatureReader(reader), ids, vocabulary, convention, batch_size, progress=progress)


@dataclass(frozen=True)
class _ScoresAndFirstOfWords(Spelling):
    """A spelling in which a word's log-probabilities are those of its codes, and its features those of the first."""

    def by_word(self, parts: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
        """(M, P+F) → (N, P+F), where words have codes (N, K+F)."""
        if self.codes is None:
            return parts
        return np.concatenate([super().by_word(parts[:, :1], ids), parts[self.ends(ids)[:-1], 1:]], axis=1)


class _BothReader:
    """A reader whose numbers for codes, (B, S, P+F), are its log-probabilities and its features."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self.width = reader, 0
        self.spelling = _ScoresAndFirstOfWords(reader.spelling.codes, reader.spelling.begins)
        self.initial_state, self.features = reader.initial_state, reader.features
        self.scored, self.word_vectors = reader.scored, reader.word_vectors

    def code_log_probs(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        features, state = self._reader.features(codes, state)
        self.width = features.shape[-1]
        return np.concatenate([self._reader.scored(codes, features), features], axis=-1), state


@dataclass(frozen=True)
class _FirstOfWords(Spelling):
    """A spelling of whose codes each word's first one counts."""

    def by_word(self, parts: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
        """(M, F) → (N, F)."""
        return parts[self.ends(ids)[:-1]]


class _FeatureReader:
    """A reader whose numbers for codes, (B, S, F), are its features."""

    def __init__(self, reader: Reader) -> None:
        self.spelling = _FirstOfWords(reader.spelling.codes, reader.spelling.begins)
        self.initial_state = reader.initial_state
        self.code_log_probs = self.features = reader.features
        self.scored, self.word_vectors = reader.scored, reader.word_vectors
