"""What a network scores each word of a text by: its features (`models.base.RecurrentModel.features`) before the word.

Shapes: N tokens of the text, M codes of it, B batch, S codes, F features.

The passes of passes.py know of a model that it gives numbers for codes and carries a state. So a model that gives its
features in place of log-probabilities has them found for a whole text, in either convention and for any batch size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..models.base import RecurrentModel, State
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids, Spelling
from ..text.vocabulary import Vocabulary
from .passes import sentence_log_probs, stream_log_probs


def token_features(
    model: RecurrentModel,
    ids: Ids,
    vocabulary: Vocabulary,
    convention: Convention,
    batch_size: int = BATCH_SIZE,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """(N, F): what every token's first code is scored by."""
    giver, bos, eos = _FeatureGiver(model), vocabulary.bos_id, vocabulary.eos_id
    if convention == "stream":
        return stream_log_probs(giver, ids, bos, batch_size, progress=progress)
    return sentence_log_probs(giver, ids, bos, eos, batch_size, progress=progress)


@dataclass(frozen=True)
class _FirstOfWords(Spelling):
    """The model's spelling, of whose codes each word's first one counts."""

    def by_word(self, parts: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
        """(M, F) → (N, F)."""
        return parts[self.ends(ids)[:-1]]


class _FeatureGiver:
    """A model whose numbers for codes, (B, S, F), are its features."""

    def __init__(self, model: RecurrentModel) -> None:
        self._model = model
        self.spelling = _FirstOfWords(model.spelling.codes, model.spelling.begins)

    def parameters(self) -> Iterator[nn.Parameter]:
        return self._model.parameters()

    def initial_state(self, batch_size: int) -> State:
        return self._model.initial_state(batch_size)

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        return self._model.features(words, state)
