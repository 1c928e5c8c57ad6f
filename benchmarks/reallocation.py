"""The matching solvers side by side on the costs of a real model: what they cost, how long they take, what is proved.

    python benchmarks/reallocation.py MODEL DATA [--no-exact] [--every N]
    python benchmarks/reallocation.py MODEL DATA --growth growth.png [--every N] [--sizes 10000 … 793881]

MODEL is trained, DATA is what it was trained on (`lightrnn prepare`, `lightrnn train`). Costs are in nats a token above
every word's own least. Beside our solvers: a two-stage greedy (rows by regret, then columns within rows), which is what
the official implementation does. The clustering is timed from the same sums. --every N gathers the sums from an
N-th of the text, in pieces from all over it; --sums FILE.npz keeps them.

--growth measures the default matching and the clustering at several sizes of the vocabulary, from sums to table, each
in a process of its own for the sake of its peak memory, and plots them: the most frequent words of the model with as
many of its row and column vectors as a table of that size has; for more words than the model has, the same ones again
with a little noise. The exponent between the two largest sizes gives the estimate for ten million words.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightrnn.models.checkpoint import load_lightrnn
from lightrnn.table.bigrams import shrink
from lightrnn.table.clustering import cluster, root_counts
from lightrnn.table.matching import Costs, Matching, block, exact, half, table_cost
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from lightrnn.training.word_sums import LinearCosts, WordSums, matching_costs, mean_states, word_sums

STORED = ("counts", "sums0", "sums1", "y0", "y1", "b0", "b1")


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
    return Matching(found, table_cost(costs, found), None, time.perf_counter() - start)


def peak_gigabytes() -> float:
    """Of this process; getrusage would count what the process that started it held."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1e6


def measure_size(folder: Path, size: int) -> dict[str, float]:
    """One size of the growth: seconds of the matching and of the clustering, and this process's peak memory."""
    random = np.random.default_rng(1)
    stored = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in STORED}
    shape = table_shape(size)

    def taken(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        if count <= len(rows):
            return np.array(rows[:count])
        again = rows[np.arange(count) % len(rows)]
        again *= 1 + 0.1 * random.standard_normal(again.shape, np.float32)
        return again

    counts = np.resize(stored["counts"], size)
    costs = [
        LinearCosts(taken(stored[f"sums{s}"], size), counts, taken(stored[f"y{s}"], n), np.resize(stored[f"b{s}"], n))
        for s, n in enumerate(shape)
    ]
    small = WordTable.random(100, seed=1)
    block([LinearCosts(c.sums[:100], counts[:100], c.vectors[:10], c.bias[:10]) for c in costs], small)  # type: ignore[index]
    matching = block(costs, WordTable.random(size, seed=1))
    facts: dict[str, float] = {"size": size, "matching": matching.seconds, "gap": matching.gap or 0.0}
    facts["matching_gigabytes"] = peak_gigabytes()
    sums = WordSums(counts, (costs[0].sums,), (False,))
    del costs
    start = time.perf_counter()
    cluster(shrink(mean_states(sums), counts), root_counts(counts), shape)
    return facts | {"cluster": time.perf_counter() - start, "gigabytes": peak_gigabytes()}


def growth(costs: list[LinearCosts], sizes: list[int], plot: Path) -> None:
    """Measure every size in a process of its own, print and plot."""
    import matplotlib.pyplot as plt

    found = []
    with tempfile.TemporaryDirectory() as name:
        arrays: dict[str, NDArray[Any]] = {"counts": costs[0].counts}
        for s, matrix in enumerate(costs):
            arrays |= {f"sums{s}": matrix.sums, f"y{s}": np.asarray(matrix.vectors), f"b{s}": matrix.bias}
        for key, array in arrays.items():
            np.save(Path(name) / f"{key}.npy", array)
        costs.clear()
        for size in sizes:
            command = [sys.executable, __file__, name, "-", "--measure", str(size)]
            found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            facts = found[-1]
            print(
                f"V = {facts['size']:>9,}  matching {facts['matching']:7.1f} s, gap {facts['gap']:.1%}, "
                f"{facts['matching_gigabytes']:.1f} GB   clustering {facts['cluster']:7.1f} s   "
                f"peak of both {facts['gigabytes']:.1f} GB",
                flush=True,
            )
    for name in ("matching", "cluster", "gigabytes"):
        last, before = found[-1], found[-2]
        power = np.log(last[name] / before[name]) / np.log(last["size"] / before["size"])
        estimate = last[name] * (1e7 / last["size"]) ** power
        unit = "GB" if name == "gigabytes" else "s"
        print(f"{name:10} grows as V^{power:.2f}; at 10,000,000 words about {estimate:,.0f} {unit}")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    words = [facts["size"] for facts in found]
    for name in ("matching", "cluster"):
        left.loglog(words, [facts[name] for facts in found], "o-", label=name)
    left.set(xlabel="words", ylabel="seconds, sums to table")
    left.legend()
    right.loglog(words, [facts["gigabytes"] for facts in found], "o-")
    right.set(xlabel="words", ylabel="peak memory, GB")
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
    figure.tight_layout()
    figure.savefig(plot, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--no-exact", action="store_true", help="leave out what takes V² memory")
    parser.add_argument("--every", type=int, default=1, help="gather the sums from an N-th of the text")
    parser.add_argument("--sums", type=Path, help="gather the sums into this file and stop, or go on from it")
    parser.add_argument("--growth", type=Path, metavar="PNG", help="measure several sizes and plot them")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 793_881])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure_size(arguments.model, arguments.measure)))
        return
    model, vocabulary = load_lightrnn(arguments.model)
    if arguments.sums and arguments.sums.exists():
        with np.load(arguments.sums) as kept:
            sums = WordSums(kept["counts"], (kept["sums0"], kept["sums1"]), (False, False))
        print(f"V = {len(vocabulary):,}, table {model.shape}; word sums from {arguments.sums}", flush=True)
    else:
        start = time.perf_counter()
        ids = Corpus.load(arguments.data).split("train")
        sums = word_sums(model, ids, vocabulary, sample=len(ids) // arguments.every)
        seconds = time.perf_counter() - start
        print(f"V = {len(vocabulary):,}, table {model.shape}; word sums in {seconds:.1f} s", flush=True)
        if arguments.sums:
            np.savez(arguments.sums, counts=sums.counts, sums0=sums.sums[0], sums1=sums.sums[1])
            return
    costs, tokens = matching_costs(model, sums), float(sums.counts.sum())
    if arguments.growth:
        del sums
        growth(costs, arguments.sizes, arguments.growth)
        return
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
        bound = "none" if matching.bound is None else f"{matching.bound / tokens:.4f}"
        line = f"{name:18} cost {matching.cost / tokens:.4f}  bound {bound:6}  {matching.seconds:8.2f} s"
        if best is not None:
            share = best.seconds / matching.seconds
            line += f"  {matching.cost / best.cost - 1:+7.2%} above exact, in 1/{share:.0f} of its time"
        print(line, flush=True)

    start = time.perf_counter()
    cluster(shrink(mean_states(sums), sums.counts), root_counts(sums.counts), table.shape)
    print(f"{'cluster':18} {time.perf_counter() - start:.1f} s")
    print(f"peak memory {peak_gigabytes():.1f} GB")


if __name__ == "__main__":
    main()
