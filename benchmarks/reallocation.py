"""The matching solvers side by side on the costs of a real model: what they cost, how long they take, what is proved.

    python benchmarks/reallocation.py MODEL DATA [--no-exact]

MODEL is trained, DATA is what it was trained on (`lightrnn prepare`, `lightrnn train`). Costs are in nats a token above
every word's own least. Beside our solvers: a two-stage greedy (rows by regret, then columns within rows), which is what
the official implementation does. The clustering is timed from the same sums.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightrnn.bigrams import shrink
from lightrnn.checkpoint import load_lightrnn
from lightrnn.clustering import cluster
from lightrnn.corpus import Corpus
from lightrnn.matching import Costs, Matching, block, exact, half, table_cost
from lightrnn.refinement import root_counts
from lightrnn.statistics import matching_costs, mean_states, word_sums
from lightrnn.table import WordTable


def by_regret(costs: NDArray[np.float32], capacities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words in order of what they lose if they miss their best bin, each to the best that still has room."""
    two = np.partition(costs, 1, axis=1)
    room = capacities.copy()
    bins = np.empty(len(costs), np.int64)
    for word in np.argsort(two[:, 0] - two[:, 1], kind="stable"):
        bins[word] = np.where(room > 0, costs[word], np.inf).argmin()
        room[bins[word]] -= 1
    return bins


def two_stage_greedy(costs: Costs, table: WordTable) -> Matching:
    start = time.perf_counter()
    size, (rows, columns) = len(table), table.shape
    codes = np.empty((size, 2), np.int64)
    row_sizes = np.bincount(np.arange(size) // columns, minlength=rows)
    codes[:, 0] = by_regret(costs[0][np.arange(size)], row_sizes)
    for row in range(rows):
        words = np.flatnonzero(codes[:, 0] == row)
        places = (np.arange(columns) < row_sizes[row]).astype(np.int64)
        codes[words, 1] = by_regret(costs[1][words], places)
    found = WordTable(codes, table.shape)
    return Matching(found, table_cost(costs, found), 0.0, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--no-exact", action="store_true", help="leave out what takes V² memory")
    arguments = parser.parse_args()
    model, vocabulary = load_lightrnn(arguments.model)
    start = time.perf_counter()
    sums = word_sums(model, Corpus.load(arguments.data).split("train"), vocabulary)
    print(f"V = {len(vocabulary):,}, table {model.shape}; word sums in {time.perf_counter() - start:.1f} s")
    costs, tokens = matching_costs(model, sums), float(sums.counts.sum())
    table = model.table
    print(f"the table it was trained with   {table_cost(costs, table) / tokens:.4f} nats a token")

    solvers: dict[str, Callable[[], Matching]] = {
        "two-stage greedy": lambda: two_stage_greedy(costs, table),
        "block, no sweep": lambda: block(costs, table, sweeps=0),
        "block": lambda: block(costs, table),
        "block, 12 sweeps": lambda: block(costs, table, sweeps=12),
    }
    if not arguments.no_exact:
        solvers |= {"half": lambda: half(costs, table), "exact": lambda: exact(costs, table)}
    block(costs, table, sweeps=0)  # compiles what is compiled
    found = {name: solve() for name, solve in solvers.items()}
    best = found.get("exact")
    for name, matching in found.items():
        cost, bound = matching.cost / tokens, matching.bound / tokens
        line = f"{name:18} cost {cost:.4f}  bound {bound:.4f}  {matching.seconds:8.2f} s"
        if best is not None:
            share = best.seconds / matching.seconds
            line += f"  {matching.cost / best.cost - 1:+7.2%} above exact, in 1/{share:.0f} of its time"
        print(line, flush=True)

    start = time.perf_counter()
    cluster(shrink(mean_states(sums), sums.counts), root_counts(sums.counts), table.shape)
    print(f"{'cluster':18} {time.perf_counter() - start:.1f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
