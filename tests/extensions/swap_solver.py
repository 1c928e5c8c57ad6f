"""A solver of the matching from outside the package: random swaps of two words, taken where they help."""

import time

import numpy as np

from lightrnn.registry import SOLVERS
from lightrnn.table.matching import Costs, Matching, table_cost
from lightrnn.table.word_table import WordTable


def swap(costs: Costs, table: WordTable) -> Matching:
    begin, codes = time.perf_counter(), table.codes.copy()
    random = np.random.default_rng(0)
    for _ in range(2000):
        pair = random.choice(len(codes), 2, replace=False)
        now = sum(float(matrix[pair][[0, 1], codes[pair, s]].sum()) for s, matrix in enumerate(costs))
        swapped = sum(float(matrix[pair][[0, 1], codes[pair[::-1], s]].sum()) for s, matrix in enumerate(costs))
        if swapped < now:
            codes[pair] = codes[pair[::-1]]
    found = WordTable(codes, table.shape)
    return Matching(found, table_cost(costs, found), None, time.perf_counter() - begin)


SOLVERS.add("swap", swap)
