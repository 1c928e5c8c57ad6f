"""Where the benchmarks find real text."""

import lzma
import os
import sys
from collections.abc import Iterator
from pathlib import Path

POOLED = tuple(f"eltec-{language}" for language in ("cs", "de", "en", "es", "fr", "hu"))  # 58 million words of novels


def corpus_folder(name: str) -> Path:
    """The folder of a corpus under LIGHTRNN_CORPORA."""
    root = os.environ.get("LIGHTRNN_CORPORA")
    if root is None:
        sys.exit(f"{name} is wanted: set LIGHTRNN_CORPORA to your folder of corpora")
    return Path(root) / name


def lines_of(name: str, split: str = "train") -> Iterator[bytes]:
    """The lines of a corpus, with their ends; words have one space between."""
    with lzma.open(corpus_folder(name) / f"{split}.txt.xz") as file:
        for line in file:
            if words := line.split():
                yield b" ".join(words) + b"\n"
