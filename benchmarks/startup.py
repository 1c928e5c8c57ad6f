"""How long a person waits for the first answer: cold processes of two versions of the program, side by side.

    python benchmarks/startup.py MODEL [--against REVISION] [--repeats 10]

MODEL is a folder made by `lightrnn train`, of either version. The old version is checked out of git into a temporary
folder and run with the same interpreter; the two take turns. Medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEFORE_THE_ROOMS = "3715ece"  # the last revision in which every module lay in one folder


def seconds(source: Path, arguments: list[str]) -> float:
    """Of one cold process."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "lightrnn", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--against", default=BEFORE_THE_ROOMS)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    commands = {
        "--help": ["--help"],
        "--version": ["--version"],
        "train --help": ["train", "--help"],
        'next MODEL "it was"': ["next", str(arguments.model.resolve()), "it was"],
    }
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", old, arguments.against], cwd=ROOT, check=True)
        try:
            print(
                f"{'command':24} {arguments.against:>10} {'now':>10}   ratio   (median seconds of {arguments.repeats})"
            )
            for name, command in commands.items():
                times: dict[Path, list[float]] = {old / "src": [], ROOT / "src": []}
                for source in times:
                    seconds(source, command)  # compiled modules and the disk's cache, for both alike
                for _ in range(arguments.repeats):
                    for source, found in times.items():
                        found.append(seconds(source, command))
                before, now = (statistics.median(found) for found in times.values())
                print(f"{name:24} {before:10.3f} {now:10.3f} {now / before:7.2f}", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", old], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
