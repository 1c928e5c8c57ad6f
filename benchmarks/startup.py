"""How long a person waits for the first answer: cold processes of two versions of the program, side by side.

    python benchmarks/startup.py MODEL [--against REVISION] [--repeats 10]

MODEL is a folder made by `lightrnn train`, of either version. The old version is checked out of git into a temporary
folder and run with the same interpreter; the two take turns. The new one is also asked of the packed model. Medians of
seconds, and of CPU seconds, which other work on the machine does not change.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEFORE_THE_ROOMS = "3715ece"  # the last revision in which every module lay in one folder


def seconds(source: Path, arguments: list[str]) -> tuple[float, float]:
    """Of one cold process, and its CPU seconds."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "lightrnn", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--against", default=BEFORE_THE_ROOMS)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    model, packed = str(arguments.model.resolve()), "words.lightrnn"
    commands: dict[str, list[str]] = {
        "--help": ["--help"],
        "--version": ["--version"],
        "train --help": ["train", "--help"],
        'next MODEL "it was"': ["next", model, "it was"],
        f'next {packed} "it was"': ["next", packed, "it was"],
    }
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        seconds(ROOT / "src", ["pack", model, "-o", str(Path(folder) / packed)])
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", old, arguments.against], cwd=ROOT, check=True)
        try:
            print(f"medians of {arguments.repeats}: seconds (CPU seconds)")
            print(f"{'command':30} {arguments.against:>16} {'now':>16}   ratio of CPU")
            for name, command in commands.items():
                there = [model if argument == packed else argument for argument in command]
                here = [str(Path(folder) / packed) if argument == packed else argument for argument in command]
                versions = {"before": (old / "src", there), "now": (ROOT / "src", here)}
                times: dict[str, list[tuple[float, float]]] = {version: [] for version in versions}
                for turn in range(arguments.repeats + 1):
                    for version, (source, given) in versions.items():
                        found = seconds(source, given)
                        if turn:  # the first fills the disk's cache, for both alike
                            times[version].append(found)
                medians = [
                    [statistics.median(values) for values in zip(*found, strict=True)] for found in times.values()
                ]
                shown = " ".join(f"{waited:7.3f} ({used:6.3f})" for waited, used in medians)
                print(f"{name:30} {shown} {medians[1][1] / medians[0][1]:7.2f}", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", old], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
