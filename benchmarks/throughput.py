"""Training speed of LightRNN beside an LSTM with full softmax and one with adaptive softmax, in one run.

    python benchmarks/throughput.py [--vocabularies 10000 137000 793881] [--units 200] [--batch-size 20] [--window 35]

All three: one LSTM layer of the same size, the same batch and window, SGD with clipping, words drawn from a Zipf
distribution (which is what the adaptive softmax is made for). The opponents have sparse input gradients, the adaptive
softmax the best of three cutoff settings. LightRNN is timed before, between and after the others; medians are printed.

Then the share of this machine's own matrix-product speed that LightRNN's training reaches, at 200 and 650 units: the
arithmetic of a step (matrix products, forward and twice that backward) over its time, against a large product's.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import cycle

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightrnn.config import Recipe
from lightrnn.model import LightRNN
from lightrnn.table import WordTable, table_shape
from lightrnn.text import TextRules
from lightrnn.training import Trainer
from lightrnn.vocabulary import Vocabulary
from lightrnn.windows import Window

Step = Callable[[], None]


def zipf_words(vocabulary: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """Word ids by falling frequency, drawn with p ∝ 1 / (rank + 2.7)."""
    weights = np.cumsum(1 / (np.arange(vocabulary) + 2.7))
    draws = np.random.default_rng(seed).random(shape) * weights[-1]
    return torch.from_numpy(np.searchsorted(weights, draws).clip(max=vocabulary - 1))


def batches(vocabulary: int, batch_size: int, window: int) -> list[Tensor]:
    return [zipf_words(vocabulary, (batch_size, window + 1), seed) for seed in range(8)]


def lightrnn_step(vocabulary: int, units: int, words: list[Tensor]) -> Step:
    """The product's own training step."""
    recipe = Recipe().override({"hidden_size": units, "optimizer": "sgd", "learning_rate": 0.1, "dropout": 0.0})
    model = LightRNN(recipe.model, WordTable.random(vocabulary, seed=1))
    named = Vocabulary(["</s>", "<unk>", "a"], np.zeros(3, np.int64), TextRules())
    trainer = Trainer(model, recipe.training, np.zeros(1, np.int32), np.zeros(1, np.int32), named)
    source = cycle([Window(w, None, starts=False) for w in words])
    return lambda: (trainer.train_step(next(source)), None)[1]


class Conventional(nn.Module):
    """Word embedding with sparse gradients, LSTM, and a softmax over the vocabulary: full, or adaptive by cutoffs."""

    def __init__(self, vocabulary: int, units: int, cutoffs: list[int] | None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, units, sparse=True)
        self.recurrence = nn.LSTM(units, units, batch_first=True)
        self.full = nn.Linear(units, vocabulary) if cutoffs is None else None
        self.adaptive = None if cutoffs is None else nn.AdaptiveLogSoftmaxWithLoss(units, vocabulary, cutoffs)

    def loss(self, words: Tensor) -> Tensor:
        hidden = self.recurrence(self.embedding(words[:, :-1]))[0].flatten(0, 1)
        targets = words[:, 1:].flatten()
        if self.full is not None:
            return F.cross_entropy(self.full(hidden), targets, reduction="sum")
        assert self.adaptive is not None
        nats: Tensor = self.adaptive(hidden, targets).loss * len(targets)
        return nats


def conventional_step(vocabulary: int, units: int, words: list[Tensor], cutoffs: list[int] | None) -> Step:
    model = Conventional(vocabulary, units, cutoffs)
    dense = [p for name, p in model.named_parameters() if name != "embedding.weight"]
    optimizers = (torch.optim.SGD(dense, lr=0.1, fused=True), torch.optim.SGD([model.embedding.weight], lr=0.1))
    source = cycle(words)

    def step() -> None:
        batch = next(source)
        model.zero_grad()
        torch.autograd.backward(model.loss(batch) / len(batch))
        nn.utils.clip_grad_norm_(dense, 5.0)
        for optimizer in optimizers:
            optimizer.step()

    return step


def seconds_of(step: Step, budget: float, most: int) -> float:
    """Median time of a step: a warm-up, then as many as the budget allows, three at least."""
    step()
    times: list[float] = []
    while len(times) < 3 or (len(times) < most and sum(times) < budget):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cutoff_settings(vocabulary: int) -> list[list[int]]:
    settings = ([2000, 10_000, 100_000], [vocabulary // 20, vocabulary // 4], [1000, vocabulary // 10])
    return [sorted({c for c in setting if c < vocabulary}) for setting in settings]


def product_speed() -> float:
    """Floating-point operations a second of a large single-precision matrix product: the best of a few sizes."""
    speeds = []
    for size in (1024, 2048, 3072):
        a, b = torch.randn(size, size), torch.randn(size, size)
        times = []
        for _ in range(8):
            start = time.perf_counter()
            torch.mm(a, b)
            times.append(time.perf_counter() - start)
        speeds.append(2 * size**3 / statistics.median(times))
    return max(speeds)


def step_arithmetic(vocabulary: int, units: int, words: int) -> float:
    """Floating-point operations of a LightRNN training step: two recurrent steps and two softmaxes a word, times 3."""
    recurrent = 2 * (2 * 4 * units * (units + units))
    outputs = 2 * units * sum(table_shape(vocabulary))
    return 3.0 * words * (recurrent + outputs)


def compare(vocabulary: int, units: int, batch_size: int, window: int, budget: float) -> None:
    words = batches(vocabulary, batch_size, window)
    step = lightrnn_step(vocabulary, units, words)
    before = seconds_of(step, budget / 2, 200)
    trials = {}
    for cutoffs in cutoff_settings(vocabulary):
        trials[tuple(cutoffs)] = seconds_of(conventional_step(vocabulary, units, words, cutoffs), budget, 100)
    chosen = min(trials, key=lambda setting: trials[setting])
    between = seconds_of(step, budget / 2, 200)
    full = seconds_of(conventional_step(vocabulary, units, words, None), budget, 50)
    after = seconds_of(step, budget / 2, 200)
    light = statistics.median([before, between, after])
    print(f"V = {vocabulary:,}, {units} units")
    rows = (
        ("lightrnn", light, ""),
        ("adaptive", trials[chosen], f"cutoffs {list(chosen)} of {[list(t) for t in trials]}"),
        ("full", full, ""),
    )
    for name, seconds, remark in rows:
        speed = batch_size * window / seconds
        ratio = f"lightrnn is {seconds / light:7.1f} times as fast" if name != "lightrnn" else ""
        print(f"  {name:9} {speed:10,.0f} words/s  {ratio:40} {remark}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", type=int, nargs="*", default=[10_000, 137_000, 793_881])
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--window", type=int, default=35)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each timing")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    print(f"batch {arguments.batch_size}, window {arguments.window}, {torch.get_num_threads()} threads")
    for vocabulary in arguments.vocabularies:
        compare(vocabulary, arguments.units, arguments.batch_size, arguments.window, arguments.budget)

    print("share of the machine's matrix-product speed in training, V = 10,000")
    words = arguments.batch_size * arguments.window
    for units in (200, 650):
        step = lightrnn_step(10_000, units, batches(10_000, arguments.batch_size, arguments.window))
        first = product_speed()
        seconds = seconds_of(step, arguments.budget, 200)
        product = statistics.mean([first, product_speed()])
        reached = step_arithmetic(10_000, units, words) / seconds
        print(
            f"  {units} units: {words / seconds:,.0f} words/s, {reached / 1e9:.0f} of {product / 1e9:.0f} GFLOP/s: "
            f"share {reached / product:.2f}"
        )


if __name__ == "__main__":
    main()
