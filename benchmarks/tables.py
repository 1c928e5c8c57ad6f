"""Tables without a matrix of all words and rows: how good, how fast and how large beside the dense way.

    python benchmarks/tables.py DATA… [--seed 1] [--threads 1]
    python benchmarks/tables.py --growth growth.png [--sizes 100000 … 10000000] [--dimensions 100]

DATA is made by `lightrnn prepare`. Of each, the bigram vectors of its training text are clustered by transport and by
bisection. Distances are the weighted squares that rows, and then columns, leave of the vectors, beside those of a
random table; seconds are those of the processor, of all threads together.

--growth clusters made-up vectors of several numbers of words by bisection, and fits seconds and memory by powers of V:
words of 20,000 kinds, a kind's words scattered about its mean, counts by Zipf and Mandelbrot.

Every measurement is a process of its own for the sake of its peak memory, which includes the vectors.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightrnn.runtime import use_threads
from lightrnn.table.bigrams import bigram_vectors
from lightrnn.table.clustering import WAYS, cluster, root_counts, table_vectors
from lightrnn.table.means import distance, subtract
from lightrnn.table.shapes import table_shape, zipf_counts
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus
from reallocation import peak_gigabytes

KINDS = 20_000
BLOCK = 1 << 18  # words that are made up together

Facts = dict[str, float]


def make_vectors(data: Path, folder: Path, seed: int) -> Facts:
    """The bigram vectors and the counts of a data folder, as files."""
    corpus = Corpus.load(data)
    ids, vocabulary = corpus.split("train"), corpus.vocabulary
    begin = time.process_time()
    vectors = bigram_vectors(ids, vocabulary.counts, words=vocabulary.words, seed=seed)
    facts = {"words": len(vectors), "seconds": time.process_time() - begin, "gigabytes": peak_gigabytes()}
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "counts.npy", vocabulary.counts)
    return facts


def compile_all(way: str) -> None:
    """What is compiled is compiled before the clock runs."""
    vectors = np.random.default_rng(0).standard_normal((2500, 8), np.float32)
    cluster(vectors, np.ones(2500, np.float32), (50, 50), way=way)


def cluster_file(way: str, folder: Path, seed: int) -> Facts:
    """One way on the vectors of a folder, or a random table for comparison."""
    vectors, counts = np.load(folder / "vectors.npy"), np.load(folder / "counts.npy")
    weights, shape = root_counts(counts), table_shape(len(vectors))
    if way == "random":
        codes = WordTable.random(len(vectors), seed=seed).codes
        left = []
        for vectors_of, chosen in zip(table_vectors(vectors, weights, codes, shape), codes.T, strict=True):
            subtract(vectors, vectors_of, chosen)
            left.append(distance(vectors, weights, np.zeros_like(vectors_of), chosen))
        return {"rows": left[0], "both": left[1], "seconds": 0.0, "gigabytes": 0.0}
    compile_all(way)
    begin = time.process_time()
    found = cluster(vectors, weights, shape, way=way, seed=seed, in_place=True)
    seconds = time.process_time() - begin
    WordTable(found.codes, shape)
    return {"rows": found.distances[0], "both": found.distances[1], "seconds": seconds, "gigabytes": peak_gigabytes()}


def made_up_vectors(size: int, dimensions: int) -> NDArray[np.float32]:
    random = np.random.default_rng(1)
    kinds = 2 * random.standard_normal((KINDS, dimensions), np.float32)
    vectors = np.empty((size, dimensions), np.float32)
    for first in range(0, size, BLOCK):
        block = vectors[first : first + BLOCK]
        random.standard_normal(out=block, dtype=np.float32)
        block += kinds[random.integers(KINDS, size=len(block))]
    return vectors


def cluster_made_up(size: int, dimensions: int) -> Facts:
    compile_all("bisection")
    vectors, weights = made_up_vectors(size, dimensions), root_counts(zipf_counts(size, 70.0 * size))
    before = distance(vectors, weights, np.zeros((1, dimensions), np.float32), np.zeros(size, np.int64))
    begin = time.process_time()
    found = cluster(vectors, weights, table_shape(size), way="bisection", in_place=True)
    seconds = time.process_time() - begin
    left = [distance / before for distance in found.distances]
    return {"size": size, "rows": left[0], "both": left[1], "seconds": seconds, "gigabytes": peak_gigabytes()}


def apart(arguments: argparse.Namespace, *options: str) -> Facts:
    """A measurement in a process of its own."""
    shared = ["--seed", str(arguments.seed), "--threads", str(arguments.threads)]
    shared += ["--dimensions", str(arguments.dimensions)]
    result = subprocess.run([sys.executable, __file__, *shared, *options], stdout=subprocess.PIPE, check=True)
    facts: Facts = json.loads(result.stdout)
    return facts


def compare(data: Path, arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        made = apart(arguments, "--folder", name, "--measure", "vectors", str(data))
        print(f"{data.name}: {made['words']:,} words; vectors {made['seconds']:.1f} s, {made['gigabytes']:.2f} GB")
        found = {way: apart(arguments, "--folder", name, "--measure", way) for way in ("random", *WAYS)}
    dense = found["transport"]
    for way, facts in found.items():
        print(
            f"  {way:10} rows {facts['rows']:.5g} ({facts['rows'] / dense['rows'] - 1:+.1%})  rows and columns "
            f"{facts['both']:.5g} ({facts['both'] / dense['both'] - 1:+.1%})  {facts['seconds']:7.1f} s "
            f"({facts['seconds'] / dense['seconds']:.2f})  {facts['gigabytes']:.2f} GB",
            flush=True,
        )


def growth(arguments: argparse.Namespace) -> None:
    """Every size, with exponents, and a plot of them."""
    import matplotlib.pyplot as plt

    found: list[Facts] = []
    for size in arguments.sizes:
        facts = apart(arguments, "--measure", str(size))
        found.append(facts)
        print(
            f"V = {size:>10,}  {facts['seconds']:8.1f} s  {facts['gigabytes']:6.2f} GB  left by rows "
            f"{facts['rows']:.3f}, by columns too {facts['both']:.3f} of the squares",
            flush=True,
        )
    sizes = np.array([facts["size"] for facts in found])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for one, name in zip(axes, ("seconds", "gigabytes"), strict=True):
        values = np.array([facts[name] for facts in found])
        label = name
        if len(found) > 1:
            power = np.polyfit(np.log(sizes), np.log(values), 1)[0]
            ends = np.log(values[-1] / values[0]) / np.log(sizes[-1] / sizes[0])
            print(f"{name:9} grow as V^{power:.2f}; from the smallest to the largest V^{ends:.2f}")
            label = f"{name}, V^{power:.2f}"
        one.loglog(sizes, values, "o-", label=label)
        one.set_xlabel("words")
        one.legend()
        one.grid(alpha=0.3, which="both")
    figure.tight_layout()
    figure.savefig(arguments.growth, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="*")
    parser.add_argument("--growth", type=Path, metavar="PNG", help="measure several numbers of words and plot them")
    sizes = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    if arguments.measure == "vectors":
        print(json.dumps(make_vectors(arguments.data[0], arguments.folder, arguments.seed)))
    elif arguments.measure and arguments.folder:
        print(json.dumps(cluster_file(arguments.measure, arguments.folder, arguments.seed)))
    elif arguments.measure:
        print(json.dumps(cluster_made_up(int(arguments.measure), arguments.dimensions)))
    for data in [] if arguments.measure else arguments.data:
        compare(data, arguments)
    if arguments.growth:
        growth(arguments)


if __name__ == "__main__":
    main()
