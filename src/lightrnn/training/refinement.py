"""From a trained model to its next table: the refinements of the bootstrap's step 3.

Shapes: V words, H hidden, K components, n_s values of component s.

`matching` is the paper's step: the vectors stay, words move to the places where their loss would be least. `cluster` is
ours: words whose contexts the trained model sees alike get a row together, the weights start afresh on the new table.
Each takes a model and finds a table; none trains. Words that stand alone stay where they are.
"""

import time
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import BootstrapConfig
from ..errors import LightRNNError
from ..models.lightrnn import LightRNN
from ..registry import REFINEMENTS, SOLVERS
from ..runtime import Progress, silent
from ..table.bigrams import shrink
from ..table.clustering import cluster, refuse_clustering_beyond_memory, root_counts
from ..table.matching import Matching, table_cost
from ..table.word_table import WordTable
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from ..text.windows import sampled
from .word_sums import matching_costs, mean_states, word_sums

NOTHING_TO_REFINE = "all words stand alone, so a refinement has none to move; leave --refine out, or lower --alone"


@dataclass(frozen=True)
class NextTable:
    """What a refinement found. Costs are in nats a token of the words that share rows, above every word's own least;
    None where it knows none.

    moved: words whose place changed; moved_tokens: the share of the training tokens that they carry.
    """

    table: WordTable
    moved: int = 0
    moved_tokens: float = 0.0
    seconds: float = 0.0
    cost_before: float | None = None
    cost_after: float | None = None
    bound: float | None = None


class FindTable(Protocol):
    """The table that a refinement finds for a model that was trained on a text; `seed` is for what is drawn."""

    def __call__(
        self,
        model: LightRNN,
        ids: Ids,
        vocabulary: Vocabulary,
        config: BootstrapConfig,
        seed: int,
        progress: Progress,
        /,
    ) -> NextTable: ...


@dataclass(frozen=True)
class Refinement:
    """A refinement of the table; restarts: whether the weights start afresh on the table that it finds; uses_solver
    and uses_clustering: whether `config.solver`, or `config.clustering` and `config.sample`, mean something to it."""

    find: FindTable
    restarts: bool
    uses_solver: bool = False
    uses_clustering: bool = False


def refine(
    model: LightRNN,
    ids: Ids,
    vocabulary: Vocabulary,
    config: BootstrapConfig,
    *,
    seed: int,
    progress: Progress = silent,
) -> NextTable:
    """The next table for a trained model, by the refinement that `config` names."""
    begin, old = time.perf_counter(), model.table
    if old.alone == len(old):
        raise LightRNNError(NOTHING_TO_REFINE)
    refinement: Refinement = REFINEMENTS[config.refine]
    found = refinement.find(model, ids, vocabulary, config, seed, progress)
    moved = np.ones(len(old), bool)
    if found.table.shape == old.shape:
        moved = (old.codes != found.table.codes).any(axis=1)
    if found.table.shape != old.shape or np.delete(moved, old.sharing).any():
        raise LightRNNError(
            f"the refinement {config.refine} found a table of shape {found.table.shape} in which words alone "
            f"moved; only those that share rows may, in one of shape {old.shape}: make it by model.table.with_shared"
        )
    share = float(vocabulary.counts[moved].sum() / max(vocabulary.counts.sum(), 1))
    return replace(found, moved=int(moved.sum()), moved_tokens=share, seconds=time.perf_counter() - begin)


def _cluster(
    model: LightRNN, ids: Ids, vocabulary: Vocabulary, config: BootstrapConfig, seed: int, progress: Progress, /
) -> NextTable:
    refuse_clustering_beyond_memory(len(model.table.sharing), model.table.shared.shape, config.clustering)
    sums = word_sums(model, ids, vocabulary, components=1, sample=config.sample, progress=progress)
    old, way, counts = model.table, config.clustering, sums.counts
    is_sample = sampled(ids, config.sample) is not ids
    states = shrink(mean_states(sums), counts, old.shared.codes[:, 0] if is_sample else None)
    del sums
    weights = root_counts(vocabulary.counts[old.sharing] if is_sample else counts)
    shape = old.shared.shape
    found = cluster(states, weights, shape, way=way, seed=seed, in_place=True, progress=progress)
    return NextTable(old.with_shared(WordTable(found.codes, shape)))


def _matching(
    model: LightRNN, ids: Ids, vocabulary: Vocabulary, config: BootstrapConfig, seed: int, progress: Progress, /
) -> NextTable:
    sums = word_sums(model, ids, vocabulary, for_matching=True, progress=progress)
    costs = matching_costs(model, sums)
    old = model.table
    progress("matching words", 0, len(old.sharing))
    found = cast(Matching, SOLVERS[config.solver](costs, old.shared))
    tokens = max(float(sums.counts.sum()), 1.0)
    before = table_cost(costs, old.shared) / tokens
    bound = None if found.bound is None else found.bound / tokens
    table = old.with_shared(found.table)
    return NextTable(table, cost_before=before, cost_after=found.cost / tokens, bound=bound)


NONE = None
MATCHING = Refinement(_matching, restarts=False, uses_solver=True)
CLUSTER = Refinement(_cluster, restarts=True, uses_clustering=True)


def carried_over(model: LightRNN, table: WordTable, counts: NDArray[np.int64]) -> LightRNN:
    """The same weights on another table of the same shape.

    An input vector becomes the mean of the old vectors of the words that now live there, by frequency, so that what the
    recurrence is fed changes as little as it can; the output vectors are those the matching was made for, and so are
    vectors that are both. A word's bias goes with it.
    """
    new = LightRNN(model.config, table)
    new.load_state_dict(model.state_dict() | {"codes": new.codes})
    new = new.to(model.codes.device)
    if model.has_word_biases(model.components - 1):
        sharing, alone = model.table.sharing, model.alone
        before, now = (torch.from_numpy(t.places[sharing] - alone).to(new.codes.device) for t in (model.table, table))
        with torch.no_grad():
            new.output_bias[-1].view(-1)[now] = model.output_bias[-1].view(-1)[before]
    if model.config.tied:
        return new
    old_codes, new_codes = model.spelling.codes, new.spelling.codes
    assert old_codes is not None
    assert new_codes is not None
    with torch.no_grad():
        old_vectors = model.input_vectors.weight
        sums = torch.zeros_like(old_vectors, dtype=torch.float64)
        totals = torch.zeros(len(old_vectors), dtype=torch.float64, device=sums.device)
        for s in range(model.components):
            words = np.flatnonzero(new_codes[:, s] >= 0)
            weights = torch.from_numpy(np.maximum(counts[words], 1e-3)).to(sums)
            old, now = (torch.from_numpy(codes[words, s]).to(sums.device) for codes in (old_codes, new_codes))
            sums.index_add_(0, now, old_vectors[old].double() * weights[:, None])
            totals.index_add_(0, now, weights)
        new.input_vectors.weight.copy_(sums / totals[:, None])
    return new
