"""Text that nobody tuned on, by defaults alone: is the model that comes out better than a Kneser-Ney 5-gram?

    LIGHTRNN_CORPORA=… python benchmarks/defaults.py --work runs/defaults

For each text `lightrnn prepare`, `train`, `evaluate` and `ngram` as a newcomer types them, without an option: two
languages of novels, and the two halves of One Billion Words' held-out shard, each trained on and the other one scored.
Printed are test perplexities, how far LightRNN is below the 5-gram, the seconds of training, and the parameters.
"""

import argparse
import json
import lzma
import subprocess
import sys
import time
from pathlib import Path

from corpora import corpus_folder

NOVELS = ("eltec-hu-1m", "eltec-es-1m")
SHARD = "lm1b-heldout"


def lightrnn(*arguments: str | Path) -> str:
    """Run a command; what it prints."""
    command = [sys.executable, "-m", "lightrnn", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def halves(work: Path) -> dict[str, tuple[Path, Path]]:
    """The shard's first and second half of sentences as (text to train on, text to score), either way."""
    with lzma.open(corpus_folder(SHARD) / "test.txt.xz", "rt", encoding="utf-8", newline="\n") as shard:
        lines = shard.readlines()
    first, second = work / f"{SHARD}-first.txt", work / f"{SHARD}-second.txt"
    for path, part in ((first, lines[: len(lines) // 2]), (second, lines[len(lines) // 2 :])):
        path.write_text("".join(part), encoding="utf-8", newline="\n")
    return {f"{SHARD}, first half": (first, second), f"{SHARD}, second half": (second, first)}


def measure(name: str, train: Path, test: Path, work: Path) -> None:
    """One text, from nothing; `train` may be a folder that holds all splits."""
    folder = work / name.replace(",", "").replace(" ", "-")
    data, model, ngram = folder / "data", folder / "model", folder / "kn5.arpa"
    folder.mkdir()
    lightrnn("prepare", train, "-o", data)
    begin = time.perf_counter()
    lightrnn("train", data, "-o", model)
    seconds = time.perf_counter() - begin
    lightrnn("ngram", data, "-o", ngram)
    light, kneser_ney = (
        json.loads(lightrnn("evaluate", found, test, "--json"))["perplexity"] for found in (model, ngram)
    )
    parameters = sum(json.loads(lightrnn("info", model, "--json"))["parameters"].values())
    print(
        f"{name:24} LightRNN {light:7.1f}  KN-5 {kneser_ney:7.1f}  {1 - light / kneser_ney:6.1%} below  "
        f"{seconds:4.0f} s of training  {parameters:,} parameters",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="a new folder for data and models")
    parser.add_argument("--only", help="texts whose name begins so")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True)
    texts = {name: (corpus_folder(name), corpus_folder(name) / "test.txt.xz") for name in NOVELS}
    for name, (train, test) in (texts | halves(arguments.work)).items():
        if name.startswith(arguments.only or ""):
            measure(name, train, test, arguments.work)


if __name__ == "__main__":
    main()
