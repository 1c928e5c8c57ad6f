"""Where a model begins: its first table, and its first vectors and biases.

Shapes: V words, n_s values of component s, d dimensions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import BootstrapConfig, ModelConfig
from ..models.kind import kind_of
from ..models.lightrnn import LightRNN
from ..nn.starts import fill_biases, fill_rest, fill_vectors, fill_word_biases, shares
from ..runtime import Progress, silent
from ..table.bigrams import bigram_vectors
from ..table.clustering import refuse_clustering_beyond_memory, root_counts
from ..table.shapes import words_alone
from ..table.word_table import WordTable
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from .neighbours import shared_neighbour_counts


@dataclass(frozen=True)
class Start:
    """A table, and of each component vectors (n_s, d) for its values, if there are any.

    Give one to `train` to begin with a table of your own, for which it finds vectors if it is to have some and has
    none; `choose_start` makes the one that it would begin with.
    """

    table: WordTable
    vectors: Sequence[NDArray[np.float32]] | None = None


def choose_start(
    config: BootstrapConfig,
    ids: Ids,
    vocabulary: Vocabulary,
    model: ModelConfig,
    seed: int,
    progress: Progress = silent,
) -> Start | None:
    """The table of the first round: random, as in the paper, or a clustering of the words' neighbours in the text.

    Of a hierarchical softmax whose classes are `bigram`, the table whose rows they are; None for a kind of model that
    starts without a table.
    """
    kind = kind_of(model)
    counts = vocabulary.counts
    shape = kind.start_shape(model, len(vocabulary))
    if shape is None:
        return None
    alone = words_alone(counts, model.alone)
    if config.start == "random" and kind.has_table:
        return Start(WordTable.random(len(vocabulary), model.components, model.rows, seed=seed, alone=alone))
    shared_shape = (shape[0] - len(alone), *shape[1:])
    refuse_clustering_beyond_memory(len(vocabulary) - len(alone), shared_shape, config.clustering)
    vectors = text_vectors(ids, vocabulary, seed, progress)
    way = config.clustering
    table = WordTable.clustered(vectors, counts, alone, shared_shape, way=way, seed=seed, progress=progress)
    return Start(table, table.vectors if config.uses_start_vectors else None)


def start_at(table: WordTable, ids: Ids, vocabulary: Vocabulary, seed: int, progress: Progress = silent) -> Start:
    """A table that was made otherwise, with vectors for it that stand for the bigram vectors of the words."""
    vectors = text_vectors(ids, vocabulary, seed, progress)
    return Start(table, table.vectors_for(vectors, root_counts(vocabulary.counts)))


def text_vectors(ids: Ids, vocabulary: Vocabulary, seed: int, progress: Progress = silent) -> NDArray[np.float32]:
    """(V, d): bigram vectors of all words, their neighbours counted by all processes that train together."""
    counts, words, count = vocabulary.counts, vocabulary.words, shared_neighbour_counts
    return bigram_vectors(ids, counts, words=words, seed=seed, progress=progress, count=count)


def use_start_vectors(model: LightRNN, start: Start, counts: NDArray[np.int64], scale: float) -> None:
    """Begin where the words' neighbours and frequencies say, in place of random vectors and biases of zero.

    The start's vectors, each component's brought to a standard deviation of `scale`, fill as many dimensions of the
    input and the output vectors as they have. The biases become the logs of what share of the text each row or column
    has, or each word that shares. The rows that are not in the head have together what they have one by one: their mean
    vector, their share.
    """
    assert start.vectors is not None
    with torch.no_grad():
        inputs = torch.split(model.input_vectors.weight, list(model.shape))
        outputs: list[Tensor] = [] if model.config.tied else list(model.output_vectors)
        for to_fill, vectors in zip((*inputs, *outputs), (*start.vectors, *start.vectors), strict=False):
            fill_vectors(to_fill, vectors, scale)
        for s, (bias, codes) in enumerate(zip(model.output_bias, start.table.codes.T, strict=False)):
            if model.has_word_biases(s):
                fill_word_biases(bias, start.table, counts)
            else:
                fill_biases(bias, shares(codes, counts, len(bias)))
        if model.head:
            of_rows = shares(start.table.codes[:, 0], counts, model.shape[0])
            fill_rest(model.rest_vector, model.rest_bias, model.scoring_vectors(0), of_rows, model.head)
