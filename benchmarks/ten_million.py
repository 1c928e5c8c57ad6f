"""Ten million words in the vocabulary: every stage from text to next words, its seconds and its memory.

    LIGHTRNN_CORPORA=… python benchmarks/ten_million.py --work FOLDER
        [--copies 13] [--max-words 10000000] [--share 1] [--minutes 60] [--recipe small] [--sample 20000000]
        [--threads 0]

The text is the pooled novels of six languages, 58 million words, in 13 copies whose words are marked by their copy: the
the|A and the|B of two copies are different words, so that there are more than 10 million, in 750 million words. It is
kept in FOLDER as shards, lightly compressed (2.5 GB), beside what the stages make: prepare, the start table (`train`
whose minutes are over when the table is there), training, evaluation, next words, a refinement by clustering that reads
a sample of the text, and its evaluation. What a stage took is noted in FOLDER/stages.json when it has ended, and it is
not run again: start the program again after a stop, with --from STAGE to repeat a stage and those after it. --copies,
--share (of each novel) and --minutes make small trials.
"""

import argparse
import gzip
import itertools
import json
import shutil
import string
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from corpora import POOLED, lines_of
from measured import Cost, lightrnn

MARKS = [f"|{letter}".encode() for letter in string.ascii_uppercase + string.ascii_lowercase]
SHARD_LINES = 8_000  # of each language and copy
TOGETHER = 100  # lines of a language and copy, before the next one's: an hour of training meets all of them
HELD_OUT_LINES = 500  # of each language, for validation and for the test


def marked(lines: list[bytes], mark: bytes) -> bytes:
    """Lines of words with one space between, each word with a mark at its end."""
    return b"".join(lines).replace(b" ", mark + b" ").replace(b"\n", mark + b"\n")


def make_text(folder: Path, copies: int, share: float) -> int:
    """Shards of all copies of the training text, taking turns, and two texts to hold out; the bytes of all."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "train").mkdir(parents=True)
    marks = MARKS[:copies]
    of_languages = (_lots(lines_of(name), share) for name in POOLED)
    for number, lots in enumerate(itertools.zip_longest(*of_languages, fillvalue=[])):
        with gzip.open(folder / "train" / f"{number:03}.gz", "wb", compresslevel=1) as file:
            for begin in range(0, max(map(len, lots)), TOGETHER):
                file.writelines(marked(lot[begin : begin + TOGETHER], mark) for lot in lots for mark in marks)
        print(f"\rshard {number}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    hold_out(folder, marks)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def hold_out(folder: Path, marks: list[bytes]) -> None:
    """Two texts of all languages and marks, some lines of each together: a text does not change its copy at every
    line."""
    for split in ("valid", "test"):
        with (folder / f"{split}.txt").open("wb") as file:
            for name in POOLED:
                lines = list(itertools.islice(lines_of(name, split), HELD_OUT_LINES))
                each = -(-len(lines) // len(marks))
                for number, mark in enumerate(marks):
                    file.write(marked(lines[number * each : (number + 1) * each], mark))


def _lots(lines: Iterator[bytes], share: float) -> Iterator[list[bytes]]:
    """Lines in lots, and of each lot a share."""
    while lot := list(itertools.islice(lines, SHARD_LINES)):
        yield lot[: max(1, round(share * len(lot)))]


class Stages:
    """What was done, in a file, so that it is not done again."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self.done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"settings": settings}
        if self.done["settings"] != settings:
            sys.exit(f"{path} is of a run with {self.done['settings']}; use another --work, or remove it")

    def forget(self, first: str, order: list[str]) -> None:
        for stage in order[order.index(first) :]:
            self.done.pop(stage, None)

    def run(self, stage: str, work: Callable[[], dict[str, Any]]) -> None:
        if stage not in self.done:
            self.done[stage] = work()
            self._path.write_text(json.dumps(self.done, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--copies", type=int, choices=range(1, len(MARKS) + 1), metavar="N", default=13)
    parser.add_argument("--max-words", type=int, default=10_000_000)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--sample", type=int, default=20_000_000, help="words that the refinement reads")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--from", dest="first", metavar="STAGE", help="repeat this stage and those after it")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    settings = {
        name: value
        for name, value in vars(arguments).items()
        if name not in ("work", "first", "minutes", "sample", "threads")
    }
    stages = Stages(work / "stages.json", settings)
    text, data, start, model, moved = (work / name for name in ("text", "data", "start", "model", "moved"))
    threads = ("--threads", arguments.threads)
    training = ("--recipe", arguments.recipe, "--refine", "none", *threads, "--force")
    commands: dict[str, tuple[object, ...]] = {
        "prepare": (
            *("prepare", text / "train", "--valid", text / "valid.txt", "--test", text / "test.txt", "-o", data),
            *("--max-words", arguments.max_words, *threads, "--force", "--json"),
        ),
        "start": ("train", data, "-o", start, "--start", "bigram", "--minutes", 0.001, *training),
        "train": ("train", data, "-o", model, "--init", start, "--minutes", arguments.minutes, *training),
        "evaluate": ("evaluate", model, text / "test.txt", *threads, "--json"),
        "next": ("next", model, "il|A était|A une|A", *threads, "--json"),
        "info": ("info", model, "--json"),
        "reallocate": (
            *("reallocate", model, data, "--refine", "cluster", "--sample", arguments.sample, "-o", moved),
            *(*threads, "--force"),
        ),
        "evaluate moved": ("evaluate", moved, text / "test.txt", *threads, "--json"),
    }
    order = ["text", *commands]
    if arguments.first:
        if arguments.first not in order:
            sys.exit(f"--from must be one of {', '.join(order)}")
        stages.forget(arguments.first, order)

    def text_stage() -> dict[str, Any]:
        begin = time.monotonic()
        size = make_text(text, arguments.copies, arguments.share)
        return {"seconds": time.monotonic() - begin, "bytes": size}

    stages.run("text", text_stage)
    for stage, command in commands.items():
        stages.run(stage, lambda command=command: _noted(lightrnn(*command)) | {"threads": arguments.threads})  # type: ignore[misc]
    show(stages.done, order)


def _noted(cost: Cost) -> dict[str, Any]:
    try:
        told: Any = json.loads(cost.out)
    except ValueError:
        told = cost.out
    return asdict(cost) | {"out": told}


def show(done: dict[str, Any], order: list[str]) -> None:
    info = done["prepare"]["out"]
    tokens = info["splits"]["train"]["tokens"]
    print(f"{info['vocabulary_size']:,} words in the vocabulary, {tokens:,} in the training text")
    print(f"{'stage':14} {'seconds':>9} {'memory':>11} {'of its own':>11}")
    for stage in order:
        facts = done[stage]
        memory = "".join(f" {facts[name]:8,.0f} MB" for name in ("memory", "own") if name in facts)
        print(f"{stage:14} {facts['seconds']:9,.1f}{memory}")
    print("test:", json.dumps(done["evaluate"]["out"]))
    print("test, moved:", json.dumps(done["evaluate moved"]["out"]))
    print("next:", json.dumps(done["next"]["out"], ensure_ascii=False))


if __name__ == "__main__":
    main()
