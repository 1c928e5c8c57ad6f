"""The paper's recipe against `plain` on Penn Treebank: one layer of 200 units, a random table, two seeds each,
forget gates as in the paper.

    LIGHTRNN_CORPORA=… python benchmarks/recipes.py --work runs/recipes

Each run is a `lightrnn train` of its own with one thread; two go side by side. Finished runs are kept in the work
folder and not repeated; stopped ones are resumed. Some 25 minutes on two cores.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from corpora import corpus_folder

RUNS = {
    "paper-aclw": [
        "--layers",
        "1",
        "--hidden-size",
        "200",
        "--dropout",
        "0.25",
        "--epochs",
        "8",
        "--validate-every",
        "0",
    ],
    "plain": ["--epochs", "8"],
}
RANDOM = ["--start", "random", "--refine", "none", "--forget-bias", "0"]
SEEDS = (1, 2)


def lightrnn(*arguments: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "lightrnn", *arguments], check=True, env=environment)


def perplexities(work: Path, recipe: str, seed: int) -> list[float]:
    """Validation perplexity after each epoch; trains if that was not done yet."""
    folder = work / f"{recipe}-{seed}"
    begun = (folder / "training.safetensors").exists()
    options = ["--resume"] if begun else ["--recipe", recipe, *RUNS[recipe], *RANDOM, "--seed", str(seed)]
    options += ["--threads", "1"]
    lightrnn("train", str(work / "ptb"), "-o", str(folder), *options)
    return [json.loads(line)["valid_perplexity"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the data and the models")
    work: Path = parser.parse_args().work
    if not (work / "ptb").exists():
        work.mkdir(parents=True, exist_ok=True)
        lightrnn("prepare", str(corpus_folder("ptb")), "--preset", "ptb", "-o", str(work / "ptb"))
    runs = [(recipe, seed) for recipe in RUNS for seed in SEEDS]
    with ThreadPoolExecutor(2) as pool:
        curves = dict(zip(runs, pool.map(lambda run: perplexities(work, *run), runs), strict=True))
    best = {}
    for recipe in RUNS:
        for seed in SEEDS:
            print(f"{recipe:11} seed {seed}  " + " ".join(f"{p:7.2f}" for p in curves[recipe, seed]))
        best[recipe] = statistics.median(min(curves[recipe, seed]) for seed in SEEDS)
        print(f"{recipe:11} median of the best {best[recipe]:.2f}")
    print(f"plain ends {1 - best['plain'] / best['paper-aclw']:.1%} lower")


if __name__ == "__main__":
    main()
