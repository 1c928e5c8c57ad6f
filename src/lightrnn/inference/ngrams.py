"""What people ask of an n-gram model: see lm.LM.

Shapes: V vocabulary, N tokens of a text.
"""

from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ngram.model import LN10, BackoffModel
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids
from .lm import LM


class NGramLM(LM):
    """An n-gram model. A sentence never sees the one before, so both conventions give the same figures."""

    def __init__(self, model: BackoffModel) -> None:
        super().__init__(model.vocabulary)
        self.model = model

    def begin_state(self) -> Any:
        return self.model.start_state(of_sentence=True)

    def empty_state(self) -> Any:
        return self.model.start_state(of_sentence=False)

    def is_state(self, state: Any) -> bool:
        own = self.begin_state()
        if not isinstance(own, tuple):
            return type(state) is type(own)
        return isinstance(state, tuple) and all(isinstance(place, Integral) for place in state)

    def read_word(self, state: Any, word: int) -> tuple[float, Any]:
        log10, _, state = self.model.step(state, word)
        return LN10 * log10, state

    def read_words(self, state: Any, ids: Ids) -> tuple[NDArray[np.float64], Any]:
        log10, state = self.model.read(state, ids)
        return LN10 * log10, state

    def next_log_probs(self, state: Any) -> NDArray[np.float64]:
        return LN10 * self.model.distribution(state)

    def token_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[np.float64]:
        self.vocabulary.rules.read_as(convention)
        log10, _ = self.model.score_tokens(ids)
        progress("scoring", len(ids), len(ids))
        return LN10 * log10[:, None]

    def orders(self, ids: Ids) -> NDArray[np.int64]:
        return self.model.score_tokens(ids)[1]

    def order_after(self, state: Any, word: int) -> int:
        return self.model.step(state, word)[1]

    @property
    def order(self) -> int:
        return self.model.order

    @property
    def has_orders(self) -> bool:
        return True

    @cached_property
    def unigram(self) -> NDArray[np.float64]:
        return self.next_log_probs(self.empty_state())
