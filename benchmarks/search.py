"""Settings by validation text: `lightrnn train` with every choice of some options, and which was best.

    python benchmarks/search.py runs/ptb runs/wikitext-2 --work runs/search \\
        --try learning-rate 0.004 0.008 --try dropout 0.2 0.3 0.4 -- --recipe small --alone 7500 --epochs 4

Trains with all combinations, on every data folder of `lightrnn prepare`; what follows -- is common to all runs. With
--greedy one option is searched after the other, in the order given: the others have the best value so far, at first
their first. Better is what has the lower geometric mean of the texts' validation perplexities; test texts are not
read. An option without a value, --tied, is tried as `--try tied yes no`.

A finished run is one JSON file in the work folder and is not repeated; a stopped one is resumed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from math import exp, fsum, log
from pathlib import Path
from typing import Any

Settings = dict[str, str]  # option without dashes → value
Facts = dict[str, Any]  # of a finished run


def options_of(settings: Settings) -> list[str]:
    """As the command line has them."""
    options = []
    for name, value in settings.items():
        options += {"yes": [f"--{name}"], "no": [f"--no-{name}"]}.get(value, [f"--{name}", value])
    return options


def run(data: Path, work: Path, settings: Settings, common: list[str]) -> Facts:
    """The facts of a run on one text; trains if that was not done yet."""
    chosen = "+".join(f"{name}={value}" for name, value in settings.items())
    model, file = work / f"{data.name}+{chosen}", work / f"{data.name}+{chosen}.json"
    asked = {"data": str(data), "options": [*options_of(settings), *common]}
    if file.exists():
        facts: Facts = json.loads(file.read_text(encoding="utf-8"))
        if {name: facts[name] for name in asked} != asked:
            sys.exit(f"{file} is of other settings: {facts['data']} {' '.join(facts['options'])}; use another --work")
        return facts
    begun = (model / "training.safetensors").exists()
    given = ["--resume"] if begun else [str(option) for option in asked["options"]]
    command = [sys.executable, "-m", "lightrnn", "train", str(data), "-o", str(model), *given, "--threads", "1"]
    print(f"{model.name}{': goes on' if begun else ''}", file=sys.stderr, flush=True)
    if code := subprocess.run(command, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}).returncode:
        sys.exit(code)
    lines = [json.loads(line) for line in (model / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    curve = [line for line in lines if "valid_perplexity" in line]
    best = min(curve, key=lambda line: float(line["valid_perplexity"]))
    facts = asked | {
        "valid": best["valid_perplexity"],
        "train": best["train_perplexity"],
        "epoch": best["epoch"],
        "seconds": curve[-1]["seconds"],
        "curve": [line["valid_perplexity"] for line in curve],
    }
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(file)
    return facts


def over_texts(found: list[Facts]) -> float:
    """The geometric mean of validation perplexities."""
    return exp(fsum(log(facts["valid"]) for facts in found) / len(found))


class Search:
    """Runs on all texts, remembered in the order in which they were asked for."""

    def __init__(self, texts: list[Path], work: Path, common: list[str]) -> None:
        self.texts, self.work, self.common = texts, work, common
        self.found: dict[tuple[str, ...], tuple[Settings, list[Facts]]] = {}

    def perplexity(self, settings: Settings) -> float:
        key = tuple(settings.values())
        if key not in self.found:
            runs = [run(text, self.work, settings, self.common) for text in self.texts]
            self.found[key] = settings, runs
        return over_texts(self.found[key][1])

    def greedy(self, choices: dict[str, list[str]]) -> None:
        best = {name: values[0] for name, values in choices.items()}
        for name, values in choices.items():
            best = min(({**best, name: value} for value in values), key=self.perplexity)

    def all(self, choices: dict[str, list[str]]) -> None:
        for values in product(*choices.values()):
            self.perplexity(dict(zip(choices, values, strict=True)))

    def table(self) -> Iterator[str]:
        """The best first: the settings, and for each text validation and training perplexity and the best epoch."""
        names = list(next(iter(self.found.values()))[0])
        heads = [f"{text.name}, train, epoch" for text in self.texts]
        yield "| " + " | ".join([*names, *heads, "mean", "seconds"]) + " |"
        yield "|---" * (len(names) + len(heads) + 2) + "|"
        for settings, runs in sorted(self.found.values(), key=lambda found: over_texts(found[1])):
            cells = [f"{facts['valid']:.2f}, {facts['train']:.1f}, {facts['epoch']:.1f}" for facts in runs]
            seconds = sum(facts["seconds"] for facts in runs)
            yield "| " + " | ".join([*settings.values(), *cells, f"{over_texts(runs):.2f}", f"{seconds:,.0f}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path, metavar="DATA", help="folders of lightrnn prepare")
    parser.add_argument("--work", type=Path, required=True, help="folder for runs and models")
    tried = "an option of lightrnn train, without dashes, and its values"
    parser.add_argument("--try", dest="tries", nargs="+", action="append", required=True, metavar="WORD", help=tried)
    parser.add_argument("--greedy", action="store_true", help="one option after the other")
    line = sys.argv[1:]
    end = line.index("--") if "--" in line else len(line)
    asked, common = parser.parse_args(line[:end]), line[end + 1 :]
    choices = {name: list(dict.fromkeys(values)) for name, *values in asked.tries}
    if not all(choices.values()):
        parser.error("every --try needs an option and at least one value")
    asked.work.mkdir(parents=True, exist_ok=True)
    search = Search(asked.texts, asked.work, common)
    (search.greedy if asked.greedy else search.all)(choices)
    print("\n".join(search.table()))
    best = min(search.found.values(), key=lambda found: over_texts(found[1]))[0]
    print(f"best: {' '.join(options_of(best))}")


if __name__ == "__main__":
    main()
