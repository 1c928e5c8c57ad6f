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
    return NextTable(WordTable.from_places(frequency_ranks(vocabulary.counts), model.shape))


REFINEMENTS.add("frequency", Refinement(by_frequency, restarts=True))
