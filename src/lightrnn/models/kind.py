"""What the rest of the package asks of a kind of model: one record each, found by name in `registry.KINDS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from ..config import ModelConfig
from ..registry import KINDS
from ..table.word_table import WordTable
from ..text.vocabulary import Vocabulary
from .predictor import Predictor

if TYPE_CHECKING:
    from .base import RecurrentModel

Build = Callable[[ModelConfig, Vocabulary, WordTable | None, int], "RecurrentModel"]
MakePredictor = Callable[[ModelConfig, Mapping[str, NDArray[Any]], WordTable], Predictor]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Size:
    """What a model's size depends on besides its settings: how many words there are, its table's shape if it has one,
    how many different characters the words are made of."""

    words: int
    shape: Shape | None = None
    characters: int = 100  # of an alphabet that is not known


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    build: a new one from settings, vocabulary, the table that it starts from, and the seed that deals words to random
    classes. parts: what the parts of its log-probabilities are called. parameters: how many there are, by part.
    has_table: a word table belongs to it, is saved with it and can be refined. predictor: makes one from the weights
    and the table alone, where that can be done without PyTorch. start_shape: the shape of the table that
    it starts from, for so many words; None where it needs none. settings: the fields of the recipe that mean something
    to it, among those that do not to all. permutations: arrays among the weights that hold each of the numbers 0 … N-1
    once. input_size: of its input vectors, where that is not a setting. input_dropout: whether there is dropout between
    the input and the recurrence.
    """

    build: Build
    parts: Callable[[ModelConfig], tuple[str, ...]]
    parameters: Callable[[ModelConfig, Size], dict[str, int]]
    has_table: bool = False
    predictor: MakePredictor | None = None
    start_shape: Callable[[ModelConfig, int], Shape | None] = lambda config, words: None
    settings: frozenset[str] = field(default_factory=frozenset)
    permutations: frozenset[str] = frozenset()
    input_size: int = 0
    input_dropout: bool = True


def kind_of(config: ModelConfig) -> Kind:
    return cast(Kind, KINDS[config.model])


def build(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "RecurrentModel":
    """A new model with random weights, from PyTorch's global generator; `seed` deals words to random classes.

    A LightRNN needs its table. A hierarchical softmax with classes from a table is given that, unless its classes come
    with the weights that are loaded into it. The others take none.
    """
    return kind_of(config).build(config, vocabulary, table, seed)
