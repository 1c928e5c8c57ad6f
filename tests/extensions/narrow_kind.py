"""A kind of model from outside the package: a full softmax behind a narrow layer."""

import torch.nn.functional as F
from torch import Tensor, nn

from lightrnn.config import ModelConfig
from lightrnn.models.kind import Kind, Size
from lightrnn.models.opponents import WordModel
from lightrnn.models.outputs import Output, exact_log_probs
from lightrnn.models.sizes import vectors_and_recurrence
from lightrnn.registry import KINDS
from lightrnn.table.word_table import WordTable
from lightrnn.text.vocabulary import Vocabulary

WIDTH = 4


class NarrowSoftmax(Output):
    """hidden (…, H) → a vector of WIDTH numbers → the scores of all words."""

    def __init__(self, words: int, units: int) -> None:
        super().__init__()
        self.size = words
        self.narrow = nn.Linear(units, WIDTH)
        self.vectors = nn.Linear(WIDTH, words)

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return exact_log_probs(self.narrow(hidden), targets, self.vectors.weight, self.vectors.bias)

    def distribution(self, hidden: Tensor) -> Tensor:
        return F.log_softmax(self.vectors(self.narrow(hidden)), dim=-1)


def build(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> WordModel:
    word_input = nn.Embedding(len(vocabulary), config.input_size)
    return WordModel(config, word_input, NarrowSoftmax(len(vocabulary), config.hidden_size))


def parameters(config: ModelConfig, size: Size) -> dict[str, int]:
    outputs = WIDTH * (config.hidden_size + 1) + size.words * (WIDTH + 1)
    return vectors_and_recurrence(config, size.words) | {"output vectors": outputs}


KINDS.add("narrow", Kind(build, parts=lambda config: ("word",), parameters=parameters))
