"""`lightrnn prepare` against the obvious two-pass loop, and its memory on a text ten times as long.

    LIGHTRNN_CORPORA=… python benchmarks/prepare.py [--corpus eltec-en] [--repeats 3]

Prints medians measured side by side in one run, their ratio, and peak resident memory.
"""

import argparse
import lzma
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from pathlib import Path

from corpora import corpus_folder
from lightrnn.text.corpus import prepare


def two_pass(source: Path, out: Path) -> int:
    """Count, choose ids, read again and encode: what one would write first."""
    counts: Counter[str] = Counter()
    with lzma.open(source, "rt", encoding="utf-8") as file:
        for line in file:
            counts.update(line.split())
            counts["</s>"] += 1
    ids = {word: index for index, (word, _) in enumerate(counts.most_common())}
    stream = array("i")
    with lzma.open(source, "rt", encoding="utf-8") as file:
        for line in file:
            for word in line.split():
                stream.append(ids.get(word, 0))
            stream.append(ids["</s>"])
    with out.open("wb") as written:
        stream.tofile(written)
    return len(stream)


def peak_memory(source: Path, out: Path) -> float:
    """Peak resident megabytes of a process that does nothing but prepare."""
    script = (
        "import sys, resource\nfrom pathlib import Path\nfrom lightrnn.runtime import use_threads\n"
        "from lightrnn.text.corpus import prepare\nuse_threads(1)\n"
        "prepare([sys.argv[1]], Path(sys.argv[2]))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(source), str(out)], capture_output=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="eltec-en")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    source = corpus_folder(arguments.corpus) / "train.txt.xz"
    times: dict[str, list[float]] = {"two-pass loop": [], "prepare": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokens = 0
        for repeat in range(arguments.repeats):
            start = time.perf_counter()
            tokens = two_pass(source, folder / "ids")
            times["two-pass loop"].append(time.perf_counter() - start)
            start = time.perf_counter()
            prepare([str(source)], folder / f"data{repeat}")
            times["prepare"].append(time.perf_counter() - start)
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name, seconds in medians.items():
            print(f"{name:14} {seconds:6.2f} s  {tokens / seconds / 1e6:5.2f} M words/s")
        print(f"prepare is {medians['two-pass loop'] / medians['prepare']:.2f} times as fast, {tokens:,} words")

        text = lzma.open(source).read()  # noqa: SIM115
        for times_longer in (1, 10):
            with (folder / "long.txt").open("wb") as file:
                for _ in range(times_longer):
                    file.write(text)
            peak = peak_memory(folder / "long.txt", folder / f"long{times_longer}")
            print(f"{times_longer:2} × the text: peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
