"""Training speed and memory of LightRNN beside its opponents, in one run, at growing vocabularies.

    python benchmarks/throughput.py [--vocabularies 10000 137000 793881] [--units 200] [--plot growth.png]

Every model is the product's own, one LSTM layer of the same size, stepped by the product's own Trainer: the same
batch, window, optimiser and clipping, words drawn from a Zipf distribution (which is what the adaptive softmax is made
for). The opponents have sparse gradients where a mini-batch picks rows; the adaptive softmax has the best of four
cutoff settings. LightRNN is timed before, between and after the others; medians are printed, with the bytes of
parameters, gradients and optimiser state, and the power of V that time and bytes grow with from the smallest to the
largest vocabulary. Table and vocabulary, which every word has a part of, are listed beside.

Then LightRNN's speed with two, three and four components, and the share of this machine's own matrix-product speed that
LightRNN's training reaches, at 200 and 650 units: the arithmetic of a step (matrix products, forward and twice that
backward) over its time, against a large product's.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from itertools import cycle
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lightrnn.config import Recipe
from lightrnn.models.kind import build
from lightrnn.models.opponents import WordModel
from lightrnn.models.outputs import AdaptiveSoftmax
from lightrnn.models.sizes import adaptive_shape, human_bytes
from lightrnn.registry import KINDS
from lightrnn.table.word_table import WordTable, table_shape
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.text.windows import Window
from lightrnn.training.trainer import Trainer

OPPONENTS = ("adaptive", "hsm", "chsm", "blackout", "full")
GROWING = {
    "seconds": "seconds a word",
    "parameters": "parameters",
    "gradients": "gradients",
    "state": "optimiser state",
}

Facts = dict[str, Any]


def zipf_counts(size: int) -> np.ndarray[Any, Any]:
    """Words by falling frequency, p ∝ 1 / (rank + 2.7)."""
    return (1e7 / (np.arange(size) + 2.7)).astype(np.int64) + 1


def made_up_words(size: int) -> Vocabulary:
    """Words of about eight letters, no two alike, with Zipf's counts."""
    letters = str.maketrans("0123456789abcdef", "etaoinshrdlcumwf")
    words = [f"{number * 2654435761 % 2**32:x}".translate(letters) for number in range(2, size)]
    return Vocabulary(["</s>", "<unk>", *words], zipf_counts(size), TextRules())


def windows(size: int, batch_size: int, window: int) -> list[Window]:
    cumulated = np.cumsum(zipf_counts(size) / 1e7)
    draws = np.random.default_rng(1).random((8, batch_size, window + 1)) * cumulated[-1]
    words = np.searchsorted(cumulated, draws).clip(max=size - 1)
    return [Window(batch, None, starts=False, tokens=batch[:, 1:].size) for batch in words]


def trainer_of(kind: str, vocabulary: Vocabulary, units: int, optimizer: str, components: int = 2) -> Trainer:
    rate = {"adam": 2e-3, "sgd": 0.1}[optimizer]
    fields = {"model": kind, "hidden_size": units, "optimizer": optimizer, "learning_rate": rate}
    table = WordTable.random(len(vocabulary), components, seed=1) if KINDS[kind].has_table else None
    recipe = Recipe().override(fields | ({"components": components} if table else {}))
    model = build(recipe.model, vocabulary, table, seed=1)
    return Trainer(model, recipe.training, np.zeros(1, np.int32), np.zeros(1, np.int32), vocabulary)


def with_cutoffs(trainer: Trainer, cutoffs: list[int], divisor: float, vocabulary: Vocabulary, units: int) -> Trainer:
    """The same adaptive softmax, cut elsewhere."""
    output = trainer.model.output
    assert isinstance(output, AdaptiveSoftmax)
    output.softmax = nn.AdaptiveLogSoftmaxWithLoss(units, len(vocabulary), cutoffs, divisor, head_bias=True)
    return Trainer(trainer.model, trainer.config, trainer.train, trainer.valid, vocabulary)


def cutoff_settings(size: int, units: int) -> list[tuple[list[int], float]]:
    """The product's own, and three others that are in use; PyTorch's divisor is 4."""
    others = ([2000, 10_000, 100_000], [size // 20, size // 4], [1000, size // 10])
    return [adaptive_shape(size, units), *((sorted({c for c in cut if c < size}), 4.0) for cut in others)]


def seconds_of(step: Callable[[], object], budget: float, most: int) -> float:
    """Median time of a step: a warm-up, then as many as the budget allows, three at least."""
    step()
    times: list[float] = []
    while len(times) < 3 or (len(times) < most and sum(times) < budget):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def stored(tensor: Tensor) -> int:
    """Bytes of a tensor; of a sparse one, of its indices and values."""
    if tensor.is_sparse:
        return stored(tensor._indices()) + stored(tensor._values())
    return tensor.numel() * tensor.element_size()


def memory(trainer: Trainer) -> Facts:
    """Bytes after a step."""
    parameters = list(trainer.model.parameters())
    states = [state for optimizer in trainer.optimizers.values() for state in optimizer.state.values()]
    return {
        "parameters": sum(stored(p) for p in parameters),
        "gradients": sum(stored(p.grad) for p in parameters if p.grad is not None),
        "state": sum(stored(t) for state in states for t in state.values() if isinstance(t, Tensor)),
    }


def measure(trainer: Trainer, source: list[Window], budget: float) -> Facts:
    batches = cycle(source)
    seconds = seconds_of(lambda: trainer.train_step(next(batches)), budget, 200)
    return {"seconds": seconds / source[0].tokens} | memory(trainer)


def compare(size: int, units: int, source: list[Window], optimizer: str, budget: float) -> dict[str, Facts]:
    """All models at one size of the vocabulary."""
    vocabulary = made_up_words(size)
    print(f"V = {size:,}, {units} units, {optimizer}", flush=True)
    lightrnn = trainer_of("lightrnn", vocabulary, units, optimizer)
    light = [measure(lightrnn, source, budget / 2)]
    found: dict[str, Facts] = {}
    for kind in OPPONENTS:
        trainer = trainer_of(kind, vocabulary, units, optimizer)
        if isinstance(trainer.model, WordModel) and isinstance(trainer.model.output, AdaptiveSoftmax):
            trials = []
            for cutoffs, divisor in cutoff_settings(size, units):
                changed = with_cutoffs(trainer, cutoffs, divisor, vocabulary, units)
                trials.append(
                    measure(changed, source, budget / 2) | {"remark": f"cut at {cutoffs}, divisor {divisor:g}"}
                )
                del changed
                gc.collect()
            found[kind] = min(trials, key=lambda facts: facts["seconds"])
        else:
            found[kind] = measure(trainer, source, budget)
        del trainer
        gc.collect()
        light.append(measure(lightrnn, source, budget / 4))
    seconds = statistics.median(facts["seconds"] for facts in light)
    found = {"lightrnn": light[-1] | {"seconds": seconds}} | found
    for kind, facts in found.items():
        ratio = f"LightRNN {facts['seconds'] / seconds:6.1f} times as fast" if kind in OPPONENTS else " " * 29
        sizes = "  ".join(f"{human_bytes(facts[name]):>8}" for name in ("parameters", "gradients", "state"))
        print(
            f"  {kind:9} {1 / facts['seconds']:9,.0f} words/s  {ratio}  {sizes}  {facts.get('remark', '')}", flush=True
        )
    table = stored(lightrnn.model.get_buffer("codes"))
    words = sum(len(word.encode()) + 1 for word in vocabulary.words)
    print(f"  beside: table {human_bytes(table)}, vocabulary {human_bytes(words)} of text", flush=True)
    return found


def print_growth(found: dict[int, dict[str, Facts]]) -> None:
    small, large = min(found), max(found)
    print(f"growth from {small:,} to {large:,} words, as powers of V")
    for kind in found[small]:
        powers = [
            f"{name} {log(found[large][kind][key] / found[small][kind][key]) / log(large / small):5.2f}"
            for key, name in GROWING.items()
            if found[small][kind][key]
        ]
        print(f"  {kind:9} {'  '.join(powers)}")


def plot_growth(found: dict[int, dict[str, Facts]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    sizes = sorted(found)
    for kind in found[sizes[0]]:
        facts = [found[size][kind] for size in sizes]
        style: Facts = {"alpha": 0.8} if kind in OPPONENTS else {"linewidth": 2.5, "color": "black"}
        left.loglog(sizes, [1e6 * f["seconds"] for f in facts], "o-", label=kind, **style)
        megabytes = [(f["parameters"] + f["gradients"] + f["state"]) / 1e6 for f in facts]
        right.loglog(sizes, megabytes, "o-", label=kind, **style)
    for axes, name in ((left, "microseconds a word"), (right, "MB: parameters, gradients, optimiser state")):
        low = axes.get_ylim()[0]
        root = [(size / sizes[0]) ** 0.5 * low for size in sizes]
        axes.loglog(sizes, root, ":", color="grey", label="slope of √V")
        axes.set(xlabel="words in the vocabulary", ylabel=name)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    figure.savefig(path, dpi=130)


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


def step_arithmetic(size: int, units: int, words: int) -> float:
    """Floating-point operations of a LightRNN training step: two recurrent steps and two softmaxes a word, times 3."""
    recurrent = 2 * (2 * 4 * units * (units + units))
    outputs = 2 * units * sum(table_shape(size))
    return 3.0 * words * (recurrent + outputs)


def print_components(size: int, units: int, source: list[Window], budget: float) -> None:
    """Tables of two, three and four components, in turns."""
    print(f"LightRNN by components, V = {size:,}, {units} units, adam")
    vocabulary = made_up_words(size)
    trainers = {K: trainer_of("lightrnn", vocabulary, units, "adam", components=K) for K in (2, 3, 4)}
    turns = [{K: measure(trainer, source, budget / 4) for K, trainer in trainers.items()} for _ in range(4)]
    for K in trainers:
        seconds = statistics.median(turn[K]["seconds"] for turn in turns)
        shape = " × ".join(map(str, table_shape(size, K)))
        print(
            f"  K = {K}: {1 / seconds:,.0f} words/s, {human_bytes(turns[0][K]['parameters'])}, table {shape}",
            flush=True,
        )


def print_share(size: int, source: list[Window], budget: float) -> None:
    print(f"share of the machine's matrix-product speed in training, V = {size:,}, sgd")
    vocabulary = made_up_words(size)
    words = source[0].tokens
    for units in (200, 650):
        trainer = trainer_of("lightrnn", vocabulary, units, "sgd")
        first = product_speed()
        seconds = measure(trainer, source, budget)["seconds"] * words
        product = statistics.mean([first, product_speed()])
        reached = step_arithmetic(size, units, words) / seconds
        print(
            f"  {units} units: {words / seconds:,.0f} words/s, {reached / 1e9:.0f} of {product / 1e9:.0f} GFLOP/s: "
            f"share {reached / product:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", type=int, nargs="*", default=[10_000, 137_000, 793_881])
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--window", type=int, default=35)
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each timing")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="plot the growth")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    print(f"batch {arguments.batch_size}, window {arguments.window}, {torch.get_num_threads()} threads")
    found = {}
    for size in arguments.vocabularies:
        source = windows(size, arguments.batch_size, arguments.window)
        found[size] = compare(size, arguments.units, source, arguments.optimizer, arguments.budget)
    if len(found) > 1:
        print_growth(found)
    if arguments.plot:
        plot_growth(found, arguments.plot)
    source = windows(10_000, arguments.batch_size, arguments.window)
    print_components(10_000, arguments.units, source, arguments.budget)
    print_share(10_000, source, arguments.budget)


if __name__ == "__main__":
    main()
