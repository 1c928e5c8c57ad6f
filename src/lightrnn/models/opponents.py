"""The paper's opponents: an input for every word, a recurrence, and an output layer over the vocabulary.

Shapes: B batch, T words, N = B·T positions, V vocabulary, D embedding, H hidden, K parts.

A WordModel is made of two exchangeable parts. Its input is an embedding, or a CharacterCNN: word ids (…) → vectors
(…, D). Its output is one of the layers of outputs.py. Rows that a mini-batch merely picks have sparse gradients: they
are the weights of an nn.Embedding with `sparse`, which the Trainer looks for.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import ModelConfig
from ..table.word_table import WordTable, table_shape
from ..text.vocabulary import Vocabulary
from .base import RecurrentModel, State, recurrence_of
from .characters import CHARACTER_SIZE, FEATURES, FILTERS, CharacterCNN
from .kind import Kind, Size
from .likeliest import Likeliest, best_of, draw_from
from .outputs import AdaptiveSoftmax, BlackOut, FullSoftmax, HierarchicalSoftmax, Output, adaptive_shape, class_places
from .sizes import vectors_and_recurrence

MakeOutput = Callable[[ModelConfig, Vocabulary, WordTable | None, int], Output]


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
        if isinstance(self.input, CharacterCNN):
            self.input.reset()

    def _hidden(self, words: Tensor, state: State | None) -> tuple[Tensor, State]:
        """words (B, T+1) → the states that score words 1 … T, (N, H)."""
        outputs, state = self.recur(self.input(words[:, :-1]), state)
        return outputs.flatten(0, 1), state

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        hidden, state = self._hidden(words, state)
        parts = self.output.log_probs(hidden, words[:, 1:].flatten())
        return parts.view(len(words), -1, parts.shape[-1]), state

    def losses(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        hidden, state = self._hidden(words, state)
        return self.output.losses(hidden, words[:, 1:].flatten()).view(len(words), -1), state

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


class WordPredictor:
    """The questions of base.Predictor, answered by the whole distribution."""

    def __init__(self, model: WordModel) -> None:
        self._model = model

    def fresh_state(self, word: int) -> State:
        return self._model.initial_state(1)  # a word is fed whole, when the next one is asked for

    @torch.inference_mode()
    def word(self, last_word: int, state: State, word: int) -> tuple[float, State]:
        log_probs, state = self._model.log_probs(torch.tensor([[last_word, word]], device=state[0].device), state)
        return float(log_probs.double().sum()), state

    def all_words(self, last_word: int, state: State) -> NDArray[np.float64]:
        return self._model.distribution(last_word, state)

    def likeliest(
        self, last_word: int, state: State, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> Likeliest:
        return best_of(self.all_words(last_word, state), count, allowed)

    def draw(self, last_word: int, state: State, temperature: float, random: np.random.Generator) -> int:
        return draw_from(self.all_words(last_word, state), temperature, random)


def _opponent(
    output: MakeOutput,
    output_parameters: Callable[[int, int], int],
    settings: tuple[str, ...] = (),
    parts: tuple[str, ...] = ("word",),
    start_shape: Callable[[ModelConfig, int], tuple[int, ...] | None] = lambda config, words: None,
) -> Kind:
    """A kind with a vector a word as its input; output_parameters: of V words and m units."""

    def build(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> WordModel:
        word_input = nn.Embedding(len(vocabulary), config.input_size, sparse=True)
        return WordModel(config, word_input, output(config, vocabulary, table, seed))

    def parameters(config: ModelConfig, size: Size) -> dict[str, int]:
        found = vectors_and_recurrence(config, size.words)
        return found | {"output vectors": output_parameters(size.words, config.hidden_size)}

    names = frozenset({"embedding_size", *settings})
    return Kind(build, lambda config: parts, parameters, start_shape=start_shape, settings=names)


def _hierarchical(
    config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int
) -> HierarchicalSoftmax:
    return HierarchicalSoftmax(class_places(vocabulary.counts, config.classes, seed, table), config.hidden_size)


def _hierarchical_parameters(words: int, units: int) -> int:
    classes, size = table_shape(words)
    return (classes + classes * size) * (units + 1)


def _adaptive_parameters(words: int, units: int) -> int:
    cutoffs, divisor = adaptive_shape(words, units)
    widths = [int(units // divisor ** (tail + 1)) for tail in range(len(cutoffs))]
    ends = [*cutoffs[1:], words]
    tails = [width * (units + end - begin) for width, begin, end in zip(widths, cutoffs, ends, strict=True)]
    return (cutoffs[0] + len(cutoffs)) * (units + 1) + sum(tails)


def _class_shape(config: ModelConfig, words: int) -> tuple[int, ...] | None:
    """The rows of a square table are the classes, where they come from a bigram start."""
    return table_shape(words) if config.classes == "bigram" else None


def _build_chsm(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> WordModel:
    return WordModel(config, CharacterCNN(vocabulary), _hierarchical(config, vocabulary, table, seed))


def _chsm_parameters(config: ModelConfig, size: Size) -> dict[str, int]:
    convolutions = sum(count * (width * CHARACTER_SIZE + 1) for width, count in FILTERS.items())
    highway = 2 * FEATURES * (FEATURES + 1)
    return vectors_and_recurrence(config, size.words) | {
        "input vectors": (size.characters + 2) * CHARACTER_SIZE + convolutions + highway,
        "output vectors": _hierarchical_parameters(size.words, config.hidden_size),
    }


FULL = _opponent(
    lambda config, vocabulary, table, seed: FullSoftmax(len(vocabulary), config.hidden_size),
    lambda words, units: words * (units + 1),
)
HSM = _opponent(
    _hierarchical, _hierarchical_parameters, settings=("classes",), parts=("class", "word"), start_shape=_class_shape
)
CHSM = Kind(
    _build_chsm,
    lambda config: ("class", "word"),
    _chsm_parameters,
    start_shape=_class_shape,
    settings=frozenset({"classes"}),
    input_size=FEATURES,
    input_dropout=False,  # Kim et al. have none between the highway layer and the recurrence
)
BLACKOUT = _opponent(
    lambda config, vocabulary, table, seed: BlackOut(
        vocabulary.counts, config.hidden_size, config.blackout_samples, config.blackout_alpha
    ),
    lambda words, units: words * (units + 1),
    settings=("blackout_samples", "blackout_alpha"),
)
ADAPTIVE = _opponent(
    lambda config, vocabulary, table, seed: AdaptiveSoftmax(vocabulary.counts, config.hidden_size),
    _adaptive_parameters,
)
