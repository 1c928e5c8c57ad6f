"""The paper's opponents: an input for every word, a recurrence, and an output layer over the vocabulary.

Shapes: B batch, T words, N = B·T positions, V vocabulary, D embedding, H hidden, K parts.

A WordModel is made of two exchangeable parts. Its input is an embedding, or a CharacterCNN: word ids (…) → vectors
(…, D). Its output is one of the layers of outputs.py. Rows that a mini-batch merely picks have sparse gradients: they
are the weights of an nn.Embedding with `sparse`, which the Trainer looks for. A tied output scores with the embedding's
vectors, whose gradients are dense.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import ModelConfig
from ..nn.starts import fill_vectors
from ..text.spelling import Ids
from .base import RecurrentModel, State, TorchReader, recurrence_of, to_arrays, to_tensors
from .cells import Array
from .likeliest import Likeliest, best_of, draw_from
from .outputs import Output, RankedEmbedding
from .reader import Arrays


class WordModel(RecurrentModel):
    """Input, recurrence, output."""

    def __init__(self, config: ModelConfig, word_input: nn.Module, output: Output) -> None:
        super().__init__(config)
        self.input = word_input
        self.recurrence = recurrence_of(config)
        self.output = output
        self.reset()

    def reset(self, scale: float = 0.1, forget_bias: float = 0.0) -> None:
        super().reset(scale, forget_bias)
        if (reset_input := getattr(self.input, "reset", None)) is not None:
            reset_input()

    def features(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """words (B, T+1) → the states that score words 1 … T, (B, T, H)."""
        return self.recur(self.input(words[:, :-1]), state)

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        hidden, state = self.features(words, state)
        return self.scored(words, hidden), state

    def scored(self, words: Tensor, features: Tensor) -> Tensor:
        parts = self.output.log_probs(features.flatten(0, 1), words[:, 1:].flatten())
        return parts.view(len(words), -1, parts.shape[-1])

    def losses(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        hidden, state = self.features(words, state)
        return self.output.losses(hidden.flatten(0, 1), words[:, 1:].flatten()).view(len(words), -1), state

    @torch.inference_mode()
    def distribution(self, last_word: int, state: State) -> NDArray[np.float64]:
        """(V,): the natural-log probability of every word after last_word; `state` is the one before it was fed."""
        word = torch.tensor([[last_word]], device=state[0].device)
        outputs, _ = self.recur(self.input(word), state)
        return self.output.distribution(outputs[0, 0]).double().cpu().numpy()

    def predictor(self) -> "WordPredictor":
        return WordPredictor(self)

    @torch.inference_mode()
    def word_vectors(self) -> Tensor:
        """(V, D): what goes in for each word."""
        device = self.recurrence.all_weights[0][0].device
        vectors: Tensor = self.input(torch.arange(self.output.size, device=device))
        return vectors

    @torch.no_grad()
    def use_word_vectors(self, vectors: NDArray[np.float32], counts: NDArray[np.int64], scale: float) -> None:
        """Begin where the words' neighbours and frequencies say, in place of random vectors and biases of zero.

        The vectors (V, d), brought to a standard deviation of `scale`, fill as many dimensions of the input and the
        output vectors as they have. The biases become the logs of the counts (V,).
        """
        words = cast(nn.Embedding, self.input)
        found = torch.from_numpy(vectors).to(words.weight)
        by_row = found[torch.argsort(words.ranks)] if isinstance(words, RankedEmbedding) else found
        fill_vectors(words.weight, by_row, scale)
        at_least_half = torch.from_numpy(np.maximum(counts, 0.5)).to(found.device)
        self.output.use_word_vectors(found, at_least_half, scale)


class WordPredictor:
    """The questions of a Predictor, answered by the whole distribution."""

    def __init__(self, model: WordModel) -> None:
        self._model = model
        self.start = to_arrays(model.initial_state(1))
        self.reader = TorchReader(model)

    def fresh_state(self, word: int) -> Arrays:
        return self.start  # a word is fed whole, when the next one is asked for

    @torch.inference_mode()
    def word(self, last_word: int, state: Arrays, word: int) -> tuple[float, Arrays]:
        before = to_tensors(state, self._model)
        log_probs, after = self._model.log_probs(torch.tensor([[last_word, word]], device=before[0].device), before)
        return float(log_probs.double().sum()), to_arrays(after)

    @torch.inference_mode()
    def words(self, last_words: Ids, state: Arrays, words: Ids) -> tuple[NDArray[np.float64], Arrays]:
        before = to_tensors(state, self._model)
        pairs = torch.from_numpy(np.stack([last_words, words], axis=1).astype(np.int64)).to(before[0].device)  # (B, 2)
        log_probs, after = self._model.log_probs(pairs, before)
        return log_probs[:, 0].double().sum(dim=-1).cpu().numpy(), to_arrays(after)

    @torch.inference_mode()
    def features(self, last_word: int, state: Arrays) -> Array:
        before = to_tensors(state, self._model)
        words = torch.tensor([[last_word, 0]], device=before[0].device)
        return np.asarray(self._model.features(words, before)[0][0, 0].cpu().numpy(), np.float32)

    def continuations(self, last_word: int, state: Arrays) -> Callable[[int], tuple[float, Arrays]]:
        log_probs = self.all_words(last_word, state)
        _, after = self.word(last_word, state, last_word)  # whatever the word is: it is not fed yet
        return lambda word: (float(log_probs[word]), after)

    def all_words(self, last_word: int, state: Arrays) -> NDArray[np.float64]:
        return self._model.distribution(last_word, to_tensors(state, self._model))

    def likeliest(
        self, last_word: int, state: Arrays, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> Likeliest:
        return best_of(self.all_words(last_word, state), count, allowed)

    def draw(self, last_word: int, state: Arrays, temperature: float, random: np.random.Generator) -> int:
        return draw_from(self.all_words(last_word, state), temperature, random)
