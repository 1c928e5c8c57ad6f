"""Start tables and refinements: where the table comes from before a round, and where words move after it.

Shapes: V words, H hidden, K components, n_s values of component s.

`matching` is the paper's step: the vectors stay, words move to the cells where their loss would be least. `cluster` is
ours: words whose contexts the trained model sees alike get a row together, the weights start afresh on the new table.
Each takes a model and gives the next one; neither trains.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import BootstrapConfig, ModelConfig
from ..models.lightrnn import LightRNN
from ..table.allocation import refuse_beyond_memory
from ..table.bigrams import bigram_vectors, shrink
from ..table.clustering import cluster, table_vectors
from ..table.matching import SOLVERS, table_cost
from ..table.word_table import WordTable, table_shape
from ..text.vocabulary import Vocabulary
from ..text.windows import Ids
from .word_sums import matching_costs, mean_states, word_sums


@dataclass(frozen=True)
class Refinement:
    """What a refinement did. Costs are in nats a token above every word's own least; clusterings have none.
    `bound` is None where the solver proves none.

    moved: words whose cell changed; moved_tokens: the share of the training tokens that they carry.
    """

    table: WordTable
    moved: int
    moved_tokens: float
    seconds: float
    cost_before: float | None = None
    cost_after: float | None = None
    bound: float | None = None


Tell = Callable[[str], None]  # what is being done, for a person who waits


@dataclass(frozen=True)
class Start:
    """Where a model begins: its table, and of each component vectors (n_s, d) for its values, if there are any."""

    table: WordTable
    vectors: list[NDArray[np.float32]] | None = None


def choose_start(
    config: BootstrapConfig,
    ids: Ids,
    vocabulary: Vocabulary,
    model: ModelConfig,
    seed: int,
    tell: Tell = lambda message: None,
) -> Start:
    """The table of the first round: random, as in the paper, or a clustering of the words' neighbours in the text.

    Of a hierarchical softmax whose classes are `bigram`, the table whose rows they are.
    """
    if config.start == "random" and model.model == "lightrnn":
        return Start(WordTable.random(len(vocabulary), model.components, model.rows, seed=seed))
    shape = table_shape(len(vocabulary))
    if model.model == "lightrnn":
        shape = table_shape(len(vocabulary), model.components, model.rows)
    refuse_beyond_memory(
        f"the clustering of {len(vocabulary):,} words into a table of {' × '.join(map(str, shape))}",
        4 * len(vocabulary) * max(shape),
        "use a smaller vocabulary, or --rows nearer to its root",
    )
    vectors = bigram_vectors(ids, vocabulary.counts, words=vocabulary.words, seed=seed, tell=tell)
    weights = root_counts(vocabulary.counts)
    table = cluster(vectors, weights, shape, seed=seed, tell=tell)
    return Start(table, table_vectors(vectors, weights, table) if config.start_vectors else None)


def use_start_vectors(model: LightRNN, start: Start, counts: NDArray[np.int64], scale: float) -> None:
    """Begin where the words' neighbours and frequencies say, in place of random vectors and biases of zero.

    The start's vectors, each component's brought to a standard deviation of `scale`, fill as many dimensions of the
    input and the output vectors as they have. The biases become the logs of what share of the text each row or column
    has.
    """
    assert start.vectors is not None
    with torch.no_grad():
        inputs = torch.split(model.input_vectors.weight, list(model.shape))
        for mine, vectors in zip((*inputs, *model.output_vectors), 2 * start.vectors, strict=True):
            centred = (vectors - vectors.mean(axis=0))[:, : mine.shape[1]]
            scaled = centred * (scale / max(float(centred.std()), 1e-30))
            mine[:, : scaled.shape[1]] = torch.from_numpy(scaled).to(mine)
        for bias, chosen in zip(model.output_bias, start.table.codes.T, strict=False):
            logs = np.log(np.bincount(chosen, weights=np.maximum(counts, 0.5), minlength=len(bias)))
            bias.copy_(torch.from_numpy(logs - logs.mean()))


def root_counts(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """What a word weighs in a clustering: the root of its count, and a little where it has none."""
    return np.sqrt(np.maximum(counts, 0.1)).astype(np.float32)


def refine(
    model: LightRNN,
    ids: Ids,
    vocabulary: Vocabulary,
    config: BootstrapConfig,
    *,
    seed: int,
    tell: Tell = lambda message: None,
) -> Refinement:
    """The next table for a trained model, by the refinement that `config` names."""
    start = time.perf_counter()
    old = model.table

    def progress(tokens: int) -> None:
        tell(f"read {tokens:,} of {len(ids):,} words")

    if config.refine == "cluster":
        sums = word_sums(model, ids, vocabulary, components=1, progress=progress)
        states = shrink(mean_states(sums), sums.counts)
        new = cluster(states, root_counts(sums.counts), model.shape, seed=seed, tell=tell)
        return _refinement(old, new, vocabulary, start)
    sums = word_sums(model, ids, vocabulary, for_matching=True, progress=progress)
    costs = matching_costs(model, sums)
    tell(f"matching {len(vocabulary):,} words")
    found = SOLVERS[config.solver](costs, old)
    tokens = float(sums.counts.sum())
    bound = None if found.bound is None else found.bound / tokens
    return _refinement(old, found.table, vocabulary, start, table_cost(costs, old) / tokens, found.cost / tokens, bound)


def _refinement(
    old: WordTable, new: WordTable, vocabulary: Vocabulary, start: float, *costs: float | None
) -> Refinement:
    moved = (old.codes != new.codes).any(axis=1)
    share = float(vocabulary.counts[moved].sum() / max(vocabulary.counts.sum(), 1))
    return Refinement(new, int(moved.sum()), share, time.perf_counter() - start, *costs)


def carried_over(model: LightRNN, table: WordTable, counts: NDArray[np.int64]) -> LightRNN:
    """The same weights on another table of the same shape.

    An input vector becomes the mean of the old vectors of the words that now live there, by frequency, so that what the
    recurrence is fed changes as little as it can; the output vectors are those the matching was made for.
    """
    new = LightRNN(model.config, table)
    new.load_state_dict(model.state_dict() | {"codes": new.codes})
    new = new.to(model.codes.device)
    weights = torch.from_numpy(np.maximum(counts, 1e-3)).to(model.codes.device, torch.float64)
    old_codes, new_codes = model.codes.long() + model.offsets, new.codes.long() + new.offsets
    with torch.no_grad():
        old_vectors = model.input_vectors.weight
        sums = torch.zeros_like(old_vectors, dtype=torch.float64)
        totals = torch.zeros(len(old_vectors), dtype=torch.float64, device=weights.device)
        for s in range(model.components):
            sums.index_add_(0, new_codes[:, s], old_vectors[old_codes[:, s]].double() * weights[:, None])
            totals.index_add_(0, new_codes[:, s], weights)
        new.input_vectors.weight.copy_(sums / totals[:, None])
    return new
