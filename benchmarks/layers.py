"""Loss layers alone: forward and backward of a full softmax, PyTorch's adaptive one and LightSoftmax, in one run.

    python benchmarks/layers.py [--vocabularies 10000 100000 1000000 10000000] [--hidden 256] [--positions 1024]

One thread, states at random, words drawn from a Zipf distribution, which is what the adaptive softmax is made for; it
has the best of four cutoff settings. `light` has the paper's table, about √V rows and columns; `alone` 4,000 frequent
words alone, and a head of 2,000. Tables are random, which changes no time. A step is a loss and its gradients, of the
states and of all parameters. The light ones are timed before, between and after the others. Printed are medians of
the seconds of a core that a step takes, how many times as fast `light` and `alone` are, and bytes: of parameters, of
gradients, and what a step takes beside them at its most, by PyTorch's own count. A layer that would not fit into the
free memory is left out; the full softmax takes its positions 128 at a time.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from lightrnn.models.sizes import human_bytes
from lightrnn.nn import LightSoftmax, WordTable
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.table.shapes import zipf_counts
from throughput import cutoff_settings, zipf_text

ALONE, HEAD = 4000, 2000
BLOCK = 128  # positions of the full softmax
Facts = dict[str, Any]


class Full(nn.Linear):
    """Steps backward block by block, so that the scores of one are all that is held."""

    def step(self, hidden: Tensor, words: Tensor) -> None:
        for states, target in zip(torch.split(hidden, BLOCK), torch.split(words, BLOCK), strict=True):
            torch.autograd.backward(F.cross_entropy(self(states), target, reduction="sum") / len(words))


class Adaptive(nn.AdaptiveLogSoftmaxWithLoss):
    def step(self, hidden: Tensor, words: Tensor) -> None:
        torch.autograd.backward(self(hidden, words).loss)


class Light(LightSoftmax):
    def step(self, hidden: Tensor, words: Tensor) -> None:
        torch.autograd.backward(self(hidden, words))


def light(size: int, hidden: int, alone: int, head: int) -> Light:
    counts = zipf_counts(size)
    return Light(WordTable.random(size, alone=min(alone, size // 5), counts=counts), hidden, head=min(head, size // 10))


def seconds(layer: Any, hidden: Tensor, words: Tensor, budget: float) -> float:
    """The median of a few steps, the first left out unless it is all that the budget allows."""
    times: list[float] = []
    while len(times) < 2 or (sum(times) < budget and len(times) < 50):
        layer.zero_grad()
        hidden.grad = None
        begin = time.process_time()
        layer.step(hidden, words)
        times.append(time.process_time() - begin)
        if times[0] > budget:
            return times[0]
    return statistics.median(times[1:])


def peak(layer: Any, hidden: Tensor, words: Tensor) -> int:
    """The most bytes that a step allocates on top of parameters and gradients."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        layer.step(hidden, words)
    most = held = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def measure(layer: Any, hidden: Tensor, words: Tensor, budget: float, remark: str = "") -> Facts:
    found: Facts = {"seconds": seconds(layer, hidden, words, budget), "remark": remark}
    parameters = list(layer.parameters())
    found["parameters"] = sum(p.numel() * p.element_size() for p in parameters)
    found["gradients"] = sum(p.grad.numel() * p.grad.element_size() for p in parameters if p.grad is not None)
    found["step"] = peak(layer, hidden, words)
    return found


def fits(needed: float) -> bool:
    return needed < 0.8 * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def adaptive_numbers(size: int, units: int, cutoffs: list[int], divisor: float, words: Tensor) -> float:
    """Parameters, gradients, and of the scores of a step three times as many as there are: theirs, and backward."""
    bounds = [0, *cutoffs, size]
    total = 0.0
    for band, (begin, end) in enumerate(pairwise(bounds)):
        positions = int(((words >= begin) & (words < end)).sum()) if band else len(words)
        total += (end - begin) * (2 * units / divisor**band + 3 * positions)
    return total


def opponents(size: int, units: int, words: Tensor) -> list[tuple[str, str, Callable[[], nn.Module]]]:
    """Name, remark and how it is made, of those that fit."""
    found: list[tuple[str, str, Callable[[], nn.Module]]] = []
    for cutoffs, divisor in cutoff_settings(size, units):
        if fits(4 * adaptive_numbers(size, units, cutoffs, divisor, words)):
            remark = f"cut at {cutoffs}, divisor {divisor:g}"
            found.append(
                ("adaptive", remark, lambda c=cutoffs, d=divisor: Adaptive(units, size, c, d, head_bias=True))  # type: ignore[misc]
            )
    if fits(4 * (2.2 * size * units + 3 * BLOCK * size)):
        found.append(("full", "", lambda: Full(units, size)))
    return found


def compare(size: int, units: int, positions: int, budget: float, leave_out: list[str]) -> None:
    torch.manual_seed(1)
    hidden = torch.randn(positions, units, requires_grad=True)
    words = torch.from_numpy(zipf_text(size, positions)).long()  # ids in order of falling frequency
    lights = {"light": light(size, units, 0, 0), "alone": light(size, units, ALONE, HEAD)}
    turns = [{name: seconds(layer, hidden, words, budget) for name, layer in lights.items()}]
    found: dict[str, Facts] = {}
    for name, remark, make in opponents(size, units, words):
        if name in leave_out:
            continue
        layer = make()
        facts = measure(layer, hidden, words, budget, remark)
        if name not in found or facts["seconds"] < found[name]["seconds"]:
            found[name] = facts
        del layer
        gc.collect()
        turns.append({name: seconds(layer, hidden, words, budget) for name, layer in lights.items()})
    for name, layer in lights.items():
        remark = f"{layer.shape[0]:,} rows, {layer.shape[1]:,} columns"
        found[name] = measure(layer, hidden, words, budget, remark)
        found[name]["seconds"] = statistics.median(turn[name] for turn in turns)
    print(f"V = {size:,}, hidden {units}, {positions:,} positions", flush=True)
    print(f"  {'':9} {'seconds':>9} {'light is':>9} {'alone is':>9} {'parameters':>11} {'gradients':>10} {'a step':>9}")
    for name, facts in sorted(found.items(), key=lambda item: item[1]["seconds"]):
        ratios = " ".join(f"{facts['seconds'] / found[base]['seconds']:8.1f}×" for base in lights)
        sizes = f"{human_bytes(facts['parameters']):>11} {human_bytes(facts['gradients']):>10}"
        line = f"  {name:9} {facts['seconds']:9.4f} {ratios} {sizes} {human_bytes(facts['step']):>9}  {facts['remark']}"
        print(line.rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--positions", type=int, default=1024)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for each timing")
    parser.add_argument("--leave-out", nargs="*", default=[], choices=("adaptive", "full"))
    arguments = parser.parse_args()
    use_threads(1)
    keep_memory()
    for size in arguments.vocabularies:
        compare(size, arguments.hidden, arguments.positions, arguments.budget, arguments.leave_out)


if __name__ == "__main__":
    main()
