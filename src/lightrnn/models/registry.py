"""The one place that knows every kind of model by name."""

from torch import nn

from ..config import ModelConfig
from ..table.word_table import WordTable, component_names
from ..text.vocabulary import Vocabulary
from .characters import CharacterCNN
from .lightrnn import LightRNN, RecurrentModel
from .outputs import AdaptiveSoftmax, BlackOut, FullSoftmax, HierarchicalSoftmax, Output, WordModel, class_places


def build(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> RecurrentModel:
    """A new model with random weights, from PyTorch's global generator; `seed` deals words to random classes.

    A LightRNN needs its table. A hierarchical softmax with classes from a table is given that, unless its classes come
    with the weights that are loaded into it. The others take none.
    """
    if config.model == "lightrnn":
        assert table is not None
        return LightRNN(config, table)
    word_input: nn.Module
    if config.model == "chsm":
        word_input = CharacterCNN(vocabulary)
    else:
        word_input = nn.Embedding(len(vocabulary), config.input_size, sparse=True)
    return WordModel(config, word_input, _output(config, vocabulary, table, seed))


def _output(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> Output:
    counts, units = vocabulary.counts, config.hidden_size
    if config.model == "full":
        return FullSoftmax(len(counts), units)
    if config.model == "blackout":
        return BlackOut(counts, units, config.blackout_samples, config.blackout_alpha)
    if config.model == "adaptive":
        return AdaptiveSoftmax(counts, units)
    return HierarchicalSoftmax(class_places(counts, config.classes, seed, table), units)


def part_names(config: ModelConfig) -> tuple[str, ...]:
    """What the parts of a model's log-probabilities are."""
    if config.model == "lightrnn":
        return component_names(config.components)
    return ("class", "word") if config.model in ("hsm", "chsm") else ("word",)
