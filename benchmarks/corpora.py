"""Where the benchmarks find real text."""

import os
import sys
from pathlib import Path


def corpus_folder(name: str) -> Path:
    """The folder of a corpus under LIGHTRNN_CORPORA."""
    root = os.environ.get("LIGHTRNN_CORPORA")
    if root is None:
        sys.exit(f"{name} is wanted: set LIGHTRNN_CORPORA to your folder of corpora")
    return Path(root) / name
