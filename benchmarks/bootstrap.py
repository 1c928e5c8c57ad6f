"""Does learning the table pay? Start tables and refinements at equal total epochs, one model size, several corpora.

    LIGHTRNN_CORPORA=… python benchmarks/bootstrap.py --work runs/bootstrap [--only ptb] [--jobs 2]

Every run (corpus, start/refine, seed) is a `lightrnn train` of its own with one thread, `--jobs` of them side by side;
stopped runs are resumed. A finished run is a small JSON file in docs/results/bootstrap/, is not run again, and can be
committed, so that the table fills over time. The table of all finished runs is printed at the end.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from corpora import corpus_folder

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "bootstrap"
CORPORA = {  # preset, seeds, epochs in all
    "ptb": ("ptb", (1, 2), 8),
    "wikitext-2": ("wikitext", (1,), 6),
    "eltec-cs-1m": ("aclw", (1,), 8),
}
ROWS = {
    "random/none": "--start random --refine none",
    "random/matching": "--start random --refine matching --rounds 3 --round-share 0.25",
    "random/cluster": "--start random --refine cluster --rounds 1 --round-share 0.25",
    "bigram/none": "--start bigram --refine none",
    "bigram/cluster": "--start bigram --refine cluster --rounds 1 --round-share 0.25",
    "bigram/none, K=3": "--start bigram --refine none --components 3",
    "bigram/none, K=4": "--start bigram --refine none --components 4",
    "bigram/none, 1000 rows": "--start bigram --refine none --rows 1000",
}
EXTRA = {"bigram/none, K=3", "bigram/none, K=4", "bigram/none, 1000 rows"}  # on Penn Treebank only, one seed
COMMON = "--recipe plain --no-start-vectors --forget-bias 0"  # as in the paper: only the table differs


def lightrnn(*arguments: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "lightrnn", *arguments]
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout


def train_and_evaluate(work: Path, corpus: str, row: str, seed: int) -> None:
    name = re.sub(r"\W+", "-", row.replace("K=", "k"))
    result = RESULTS / f"{corpus}-{name}-{seed}.json"
    if result.exists():
        return
    data, folder = work / corpus, work / result.stem
    options = f"{COMMON} --epochs {CORPORA[corpus][2]} {ROWS[row]}"
    begun = (folder / "training.safetensors").exists()
    settings = ["--resume"] if begun else [*options.split(), "--seed", str(seed)]
    lightrnn("train", str(data), "-o", str(folder), *settings, "--threads", "1")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    test = json.loads(lightrnn("evaluate", str(folder), str(data), "--threads", "1", "--json"))
    facts = {
        "corpus": corpus,
        "row": row,
        "seed": seed,
        "options": options,
        "megabytes": (folder / "weights.safetensors").stat().st_size / 1e6,
        "words_per_second": statistics.median(line["words_per_second"] for line in lines if "valid_perplexity" in line),
        "valid": min(line["valid_perplexity"] for line in lines if "valid_perplexity" in line),
        "test": test["perplexity"],
        "curve": [[line["epoch"], line["valid_perplexity"]] for line in lines if "valid_perplexity" in line],
        "refinements": [line for line in lines if "refinement" in line],
    }
    result.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)


def print_table() -> None:
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    names = [corpus for corpus in CORPORA if any(run["corpus"] == corpus for run in runs)]
    print("| start/refine | " + " | ".join(f"{name} valid | test" for name in names) + " |")
    print("|---" * (1 + 2 * len(names)) + "|")
    for row in ROWS:
        figures = []
        for name in names:
            found = [run for run in runs if run["corpus"] == name and run["row"] == row]
            for split in ("valid", "test"):
                figures.append(f"{statistics.mean(run[split] for run in found):.1f} ({len(found)})" if found else "")
        print(f"| {row} | " + " | ".join(figures) + " |")
    print("\n(in brackets: how many seeds the mean is of)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for data and models")
    parser.add_argument("--only", choices=CORPORA, action="append", help="these corpora only")
    parser.add_argument("--row", choices=ROWS, action="append", help="these rows only")
    parser.add_argument("--seed", type=int, action="append", help="these seeds only")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    runs = []
    for corpus in arguments.only or CORPORA:
        preset, seeds, _ = CORPORA[corpus]
        if not (arguments.work / corpus).exists():
            source = str(corpus_folder(corpus))
            lightrnn("prepare", source, "--preset", preset, "-o", str(arguments.work / corpus))
        for seed in arguments.seed or seeds:
            rows = arguments.row or [row for row in ROWS if row not in EXTRA or (corpus, seed) == ("ptb", 1)]
            runs += [(corpus, row, seed) for row in rows]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda run: train_and_evaluate(arguments.work, *run), runs))
    print_table()


if __name__ == "__main__":
    main()
