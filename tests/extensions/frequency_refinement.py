"""A refinement from outside the package: words of like frequency share a row, whatever the model has learned."""

from lightrnn.config import BootstrapConfig
from lightrnn.models.lightrnn import LightRNN
from lightrnn.registry import REFINEMENTS
from lightrnn.runtime import Progress
from lightrnn.table.word_table import WordTable
from lightrnn.text.spelling import Ids
from lightrnn.text.vocabulary import Vocabulary, frequency_ranks
from lightrnn.training.refinement import NextTable, Refinement


def by_frequency(
    model: LightRNN, ids: Ids, vocabulary: Vocabulary, config: BootstrapConfig, seed: int, progress: Progress, /
) -> NextTable:
    old = model.table  # words that stand alone stay as they are
    ranks = frequency_ranks(vocabulary.counts[old.sharing])
    return NextTable(old.with_shared(WordTable.from_places(ranks, old.shared.shape)))


REFINEMENTS.add("frequency", Refinement(by_frequency, restarts=True))
