"""What people ask of a trained network: see lm.LM.

Shapes: V vocabulary, N tokens of a text, K parts of a log-probability.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..models.base import Predictor, RecurrentModel, State
from ..models.kind import kind_of
from ..models.likeliest import Likeliest, best_of, draw_from
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.vocabulary import Vocabulary
from ..text.windows import Ids
from .lm import LM
from .passes import WINDOW, sentence_log_probs, stream_log_probs


@dataclass(frozen=True)
class NetworkState:
    """What was read so far: the last word (None: nothing) and the network's state before that word's last part."""

    last_word: int | None
    inner: State


class NetworkLM(LM):
    """A LightRNN or one of its opponents."""

    def __init__(self, model: RecurrentModel, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.model = model

    @cached_property
    def _predictor(self) -> Predictor:
        return self.model.predictor()

    @cached_property
    def _begin(self) -> NetworkState:
        return self._after(self.vocabulary.bos_id)

    def _after(self, word: int) -> NetworkState:
        """One word read, and nothing before it."""
        return NetworkState(word, self._predictor.fresh_state(word))

    def begin_state(self) -> NetworkState:
        return self._begin

    def stream_state(self) -> NetworkState:
        return NetworkState(self.vocabulary.bos_id, self.model.initial_state(1))

    def empty_state(self) -> NetworkState:
        return NetworkState(None, self.model.initial_state(1))

    def advance(self, state: NetworkState, word: int) -> tuple[float, NetworkState]:
        if state.last_word is None:
            return float(self.unigram[word]), self._after(word)
        log_prob, inner = self._predictor.word(state.last_word, state.inner, word)
        return log_prob, NetworkState(word, inner)

    @torch.inference_mode()
    def advance_all(self, state: NetworkState, ids: Ids) -> tuple[NDArray[np.float64], NetworkState]:
        scored = []
        if state.last_word is None and len(ids):
            log_prob, state = self.advance(state, int(ids[0]))
            scored.append(np.array([log_prob]))
            ids = ids[1:]
        last, inner = state.last_word, state.inner
        for begin in range(0, len(ids), WINDOW):
            words = [last, *ids[begin : begin + WINDOW].tolist()]
            log_probs, inner = self.model.log_probs(torch.tensor([words], device=inner[0].device), inner)
            scored.append(log_probs[0].double().sum(dim=-1).cpu().numpy())
            last = words[-1]
        return np.concatenate([np.zeros(0), *scored]), NetworkState(last, inner)

    def next_log_probs(self, state: NetworkState) -> NDArray[np.float64]:
        if state.last_word is None:
            return self.unigram
        return self._predictor.all_words(state.last_word, state.inner)

    def likeliest(self, state: NetworkState, count: int, allowed: NDArray[np.bool_] | None = None) -> Likeliest:
        if state.last_word is None:
            return best_of(self.unigram, count, allowed)
        return self._predictor.likeliest(state.last_word, state.inner, count, allowed)

    def draw(self, state: NetworkState, temperature: float, random: np.random.Generator) -> int:
        if state.last_word is None:
            return draw_from(self.unigram, temperature, random)
        return self._predictor.draw(state.last_word, state.inner, temperature, random)

    def token_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[Any]:
        words = self.vocabulary
        if (convention or words.rules.convention) == "stream":
            return stream_log_probs(self.model, ids, words.bos_id, batch_size, progress=progress)
        return sentence_log_probs(self.model, ids, words.bos_id, words.eos_id, batch_size, progress=progress)

    @property
    def part_names(self) -> tuple[str, ...]:
        return kind_of(self.model.config).parts(self.model.config)

    @cached_property
    def unigram(self) -> NDArray[np.float64]:
        """The shares of the training text, each word counted once more."""
        counts = self.vocabulary.counts + 1.0
        return np.asarray(np.log(counts / counts.sum()), np.float64)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        return np.asarray(self.model.word_vectors().cpu().numpy(), np.float32)
