"""`lightrnn prepare` on 800 million words in 100 shards: words a second and memory on one core and two, the same bytes.

    LIGHTRNN_CORPORA=… python benchmarks/billion.py --work FOLDER [--words 800e6] [--shards 100] [--processes 1 2]

The shards are made of the pooled novels of six languages, again and again, and are kept in FOLDER for the next time
(5.4 bytes a word); the data folders (4 bytes a word) are removed when they were compared. A tenth of the shards, which
has the same vocabulary if it has 60 million words or more, shows what memory owes to the length of the text.
"""

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from corpora import POOLED, lines_of
from measured import lightrnn


def all_lines() -> Iterator[bytes]:
    """Those of all corpora, without end."""
    while True:
        for name in POOLED:
            yield from lines_of(name)


def make_shards(folder: Path, words: int, shards: int) -> list[Path]:
    """Text of so many words, sentence ends counted, in so many files; those of an earlier run if they are as asked."""
    paths = [folder / f"{number:04}.txt" for number in range(shards)]
    note, wanted = folder.with_suffix(".json"), {"words": words, "shards": shards}
    if note.exists() and json.loads(note.read_text()) == wanted:
        return paths
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = all_lines()
    for path in paths:
        left = words // shards
        with path.open("wb") as file:
            while left > 0:
                line = next(lines)
                file.write(line)
                left -= line.count(b" ") + 2
        print(f"\r{path.name} of {shards}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    note.write_text(json.dumps(wanted))
    return paths


def digest(folder: Path) -> str:
    """Of all files of a folder."""
    found = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--words", type=float, default=800e6)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    shards = make_shards(arguments.work / "shards", int(arguments.words), arguments.shards)
    tenth = shards[: max(1, len(shards) // 10)]
    print(
        f"{'processes':>9} {'shards':>7} {'words':>13} {'vocabulary':>11} {'seconds':>8} {'words/s':>10} {'memory':>9}"
    )
    for files in (tenth, shards):
        digests = set()
        for processes in arguments.processes:
            data = arguments.work / f"data-{processes}"
            cost = lightrnn("prepare", *files, "-o", data, "--threads", processes, "--force", "--json")
            info = json.loads(cost.out)
            words = sum(split["tokens"] for split in info["splits"].values())
            print(
                f"{processes:9} {len(files):7} {words:13,} {info['vocabulary_size']:11,} {cost.seconds:8.1f} "
                f"{words / cost.seconds:10,.0f} {cost.memory:6,.0f} MB",
                flush=True,
            )
            digests.add(digest(data))
            shutil.rmtree(data)
        print("the same bytes" if len(digests) == 1 else "NOT THE SAME BYTES", flush=True)


if __name__ == "__main__":
    main()
