"""What it brings that memory is kept between the steps of training (`runtime.keep_memory`): LightRNN and HSM.

    python benchmarks/memory.py [--turns 3] [--budget 10] [--threads 1]

A LightRNN of 200 units with 4,000 of 33,278 words alone, tied, vectors of 100, and an HSM of 200 units, batch 20,
window 35, Adam. What the allocator was told cannot be taken back, so each timing is a process of its own; without and
with take turns. Medians of words/s, the pages that the system had to map in a step, and the ratio.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
from typing import Any

from lightrnn.runtime import keep_memory, use_threads
from lightrnn.text.windows import Window
from throughput import made_up_words, seconds_a_word, trainer_of, windows

WORDS = 33_278  # of WikiText-2
MODELS: dict[str, dict[str, Any]] = {
    "lightrnn": {"alone": 4000, "tied": True, "embedding_size": 100},
    "hsm": {"model": "hsm"},
}


def faults() -> int:
    """Pages that were mapped for this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def time_here(name: str, keep: bool, budget: float, threads: int) -> dict[str, float]:
    use_threads(threads)
    if keep:
        keep_memory()
    trainer = trainer_of(made_up_words(WORDS), MODELS[name])
    source = windows(trainer)
    for window in source:  # by now the optimiser's state is there too
        trainer.train_step(window)
    before, steps = faults(), 0

    def step(window: Window) -> None:
        nonlocal steps
        steps += 1
        trainer.train_step(window)

    seconds = seconds_a_word(step, source, budget)
    return {"words/s": 1 / seconds, "pages": (faults() - before) / steps}


def time_apart(name: str, keep: bool, budget: float, threads: int) -> dict[str, float]:
    """The same in a process of its own."""
    options = ["--budget", str(budget), "--threads", str(threads), "--here", name, *(["--keep"] if keep else [])]
    result = subprocess.run([sys.executable, __file__, *options], stdout=subprocess.PIPE, check=True)
    facts: dict[str, float] = json.loads(result.stdout)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for each timing")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--here", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limits = arguments.budget, arguments.threads
    if arguments.here:
        print(json.dumps(time_here(arguments.here, arguments.keep, *limits)))
        return
    print(f"{'':9} {'without':>15} {'pages a step':>13} {'with':>15} {'pages a step':>13}   ratio")
    for name in MODELS:
        turns = [[time_apart(name, keep, *limits) for keep in (False, True)] for _ in range(arguments.turns)]
        without, with_it = (
            {fact: statistics.median(turn[index][fact] for turn in turns) for fact in turns[0][0]} for index in (0, 1)
        )
        columns = "".join(f" {f['words/s']:7,.0f} words/s {f['pages']:13,.0f}" for f in (without, with_it))
        print(f"{name:9}{columns} {with_it['words/s'] / without['words/s']:7.2f}", flush=True)


if __name__ == "__main__":
    main()
