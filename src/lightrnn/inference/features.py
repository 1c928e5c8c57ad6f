"""What a network scores each word of a text by: its features before the word.

Shapes: N tokens of the text, M codes of it, B batch, S codes, P parts, F features.

The passes of passes.py know of a reader that it gives numbers for codes and carries a state. So one that gives features
in place of log-probabilities has them found for a whole text, in either convention and for any batch size.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.cells import Array
from ..models.reader import Reader
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids, Spelling
from ..text.vocabulary import Vocabulary
from .passes import token_log_probs


class Reading(NamedTuple):
    """Of every token of a text: the natural logs in parts, (N, P), and the features before it, (N, F)."""

    log_probs: NDArray[np.float32]
    features: NDArray[np.float32]


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
        self.word_vectors = reader.word_vectors
