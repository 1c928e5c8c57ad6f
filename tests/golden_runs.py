"""Short seeded runs of the whole program, and the figures they come to; `python tests/golden_runs.py` writes them anew.

A change of the code that is not meant to change a figure must leave these as they are: to the last bit on a machine of
the same kind; elsewhere nearly, if the word table is the same one, for its near ties fall as the last bits do. Only the
command line is used, so that the runs outlive every move of the code behind it. The text is the beginning of the novels
that ship with the package.
"""

import hashlib
import json
import lzma
import os
import platform
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers import printed, run_here

GOLDEN = Path(__file__).parent / "golden"
FIGURES = GOLDEN / "figures.json"
WORDS = {"train": 6000, "valid": 450, "test": 1500}  # of each split; so few of valid that it is scored in one track
TRAINING = (
    *("--recipe", "plain"),
    *("--hidden-size", "12", "--batch-size", "5", "--window", "12", "--epochs", "2", "--learning-rate", "0.01"),
    *("--dropout", "0.1", "--threads", "1", "--seed", "3"),
)
NETWORKS: dict[str, tuple[str, ...]] = {
    "matching": ("--start", "random", "--refine", "matching", "--rounds", "2"),
    "exact": ("--start", "random", "--refine", "matching", "--solver", "exact", "--optimizer", "sgd"),
    "cluster": ("--start", "bigram", "--refine", "cluster", "--rounds", "1"),
    "three-components": ("--components", "3", "--layers", "2"),
    "tall": ("--rows", "300", "--embedding-size", "6", "--no-output-bias"),
    "gru": ("--cell", "gru"),
    "rnn-tanh": ("--cell", "rnn-tanh"),
    "rnn-sigmoid": ("--cell", "rnn-sigmoid", "--layers", "2"),
    "full": ("--model", "full"),
    "hsm": ("--model", "hsm"),
    "hsm-bigram": ("--model", "hsm", "--classes", "bigram"),
    "chsm": ("--model", "chsm"),
    "blackout": ("--model", "blackout", "--blackout-samples", "50"),
    "adaptive": ("--model", "adaptive"),
}
LINES = "it was a dark night .\nshe looked at him , and said nothing\n\nzyzzyva\n"


def machine() -> dict[str, str]:
    """What the last bits of a figure depend on."""
    cpu = Path("/proc/cpuinfo")
    listed = cpu.read_text(encoding="utf-8").split("\n\n")[0].splitlines() if cpu.exists() else []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in listed)}
    return {
        "cpu": ", ".join(told.get(name, "?") for name in ("model name", "cpu family", "model", "stepping")),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "system": platform.system(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def program(*arguments: object) -> str:
    """What `lightrnn ARGUMENTS` prints."""
    return printed(run_here(*arguments))


def write_texts(folder: Path) -> None:
    """The beginning of each split, up to the line that fills it."""
    for split, size in WORDS.items():
        source = resources.files("lightrnn") / "data" / "eltec-en-1m" / f"{split}.txt.xz"
        lines, words = [], 0
        for line in lzma.decompress(source.read_bytes()).decode().split("\n"):
            words += len(line.split()) + 1
            if words > size:
                break
            lines.append(line)
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(folder: Path, *options: str, name: str = "data") -> Path:
    if not (folder / "train.txt").exists():
        write_texts(folder)
    texts = (folder / "train.txt", "--valid", folder / "valid.txt", "--test", folder / "test.txt")
    program("prepare", *texts, "-o", folder / name, "--min-count", "2", *options)
    return folder / name


def digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def curve(model: Path) -> list[float]:
    """Training and validation perplexities, and what refinements found, in their order."""
    facts = ("train_perplexity", "valid_perplexity", "perplexity_before", "perplexity_after", "cost_after", "moved")
    lines = [json.loads(line) for line in (model / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line[name] for line in lines for name in facts if line.get(name) is not None]


def nats(model: Path, *text: object) -> float:
    value = json.loads(program("evaluate", model, *text, "--batch-size", "1", "--threads", "1", "--json"))["nats"]
    assert isinstance(value, float)
    return value


def trained(model: Path) -> dict[str, Any]:
    """How it came about, and what it is."""
    return {
        "curve": curve(model),
        "weights": digest(model / "weights.safetensors"),
        "table": digest(model / "table.tsv"),
    }


def use(folder: Path, model: Path, data: Path) -> dict[str, Any]:
    """What a trained model answers."""
    (folder / "lines.txt").write_text(LINES, encoding="utf-8")
    words = json.loads(program("next", model, "it was a", "--unk", "--json", "--threads", "1"))["words"]
    return {
        "nats": nats(model, data),
        "sentence_nats": nats(model, data, "--convention", "sentence"),
        "next": [[entry["word"], entry["probability"]] for entry in words],
        "score": [line.split("\t")[0] for line in program("score", model, folder / "lines.txt").splitlines()],
    }


def network(name: str, folder: Path) -> dict[str, Any]:
    """Train one and use it."""
    data = prepare(folder)
    model = folder / "model"
    program("train", data, "-o", model, *TRAINING, *NETWORKS[name])
    return {**trained(model), **use(folder, model, data)}


def sentences(folder: Path) -> dict[str, Any]:
    """Trained and evaluated sentence by sentence."""
    data = prepare(folder, "--preset", "billionw", name="sentences")
    model = folder / "model"
    program("train", data, "-o", model, *TRAINING)
    return {**trained(model), **use(folder, model, data)}


def ngram(folder: Path) -> dict[str, Any]:
    data = prepare(folder)
    program("ngram", data, "--order", "3", "-o", folder / "kn3.arpa")
    return {"arpa": digest(folder / "kn3.arpa"), **use(folder, folder / "kn3.arpa", data)}


def mix(folder: Path) -> dict[str, Any]:
    """A LightRNN and a trigram."""
    data = prepare(folder)
    program("train", data, "-o", folder / "model", *TRAINING)
    program("ngram", data, "--order", "3", "-o", folder / "kn3.arpa")
    tuned = program("mix", folder / "model", folder / "kn3.arpa", "--tune", data, "-o", folder / "mixed", "--json")
    return {"weights": [row["weight"] for row in json.loads(tuned)["models"]], **use(folder, folder / "mixed", data)}


RUNS = (*NETWORKS, "sentences", "ngram", "mix", "before")


def run(name: str, folder: Path) -> dict[str, Any]:
    """The figures of a run, made in an empty folder."""
    if name in NETWORKS:
        return network(name, folder)
    return {"sentences": sentences, "ngram": ngram, "mix": mix, "before": before}[name](folder)


def before(folder: Path) -> dict[str, Any]:
    """What the folders of version 0.1.0 in tests/golden/before come to: used as they are, and one trained further."""
    copies = Path(shutil.copytree(GOLDEN / "before", folder / "before"))
    data, found = copies / "data", {}
    for name in ("model", "hsm", "kn2.arpa", "mixed"):
        found[name] = nats(copies / name, data)
    program("train", data, "-o", copies / "model", "--resume", "--epochs", "3", "--threads", "1")
    return {"nats": found, "resumed": curve(copies / "model")}


def make_before() -> None:
    """The folders themselves; only the version that they are named after can make them."""
    folder = GOLDEN / "before"
    data = prepare(folder)
    program("train", data, "-o", folder / "model", *TRAINING, "--schedule", "constant", "--refine", "cluster")
    program("train", data, "-o", folder / "hsm", *TRAINING, "--model", "hsm")
    program("ngram", data, "--order", "2", "-o", folder / "kn2.arpa")
    program("mix", folder / "model", folder / "kn2.arpa", "--tune", data, "-o", folder / "mixed", "--json")


def write() -> None:
    figures: dict[str, Any] = {}
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            figures[name] = run(name, Path(folder))
        sys.stderr.write(f"{name}\n")
    FIGURES.write_text(json.dumps({"machine": machine(), "runs": figures}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    write()
