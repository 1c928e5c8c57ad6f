"""Training speed and memory of LightRNN beside its opponents, in one run, at growing vocabularies.

    python benchmarks/throughput.py [--vocabularies 10000 137000 793881] [--units 200] [--plot growth.png]
    python benchmarks/throughput.py --vocabularies 793881 --units 200 650 --kinds adaptive blackout

Every model is the product's own, one LSTM layer of the same size, stepped by the product's own Trainer: the same
batch, window, optimiser and clipping, one text of words drawn from a Zipf distribution (which is what the adaptive
softmax is made for), cut into eight windows that come round and round. LightRNN is there with the paper's table and
with its frequent words alone, as in the recipes: vectors tied and a quarter as wide as the state, rows with a head. The
opponents have sparse gradients where a mini-batch picks rows; the adaptive softmax has the best of four cutoff
settings. Both LightRNNs are timed before, between and after the others; medians are printed, beside each how many times
as fast either LightRNN is, the bytes of parameters, gradients and optimiser state, and the power of V that time and
bytes grow with from the smallest to the largest vocabulary. Table and vocabulary, which every word has a part of, are
listed beside.

Then, unless --kinds chooses opponents, LightRNN's speed with two, three and four components, and the share of this
machine's own matrix-product speed that LightRNN's training reaches, at 200 and 650 units: the arithmetic of a step
(matrix products, forward and twice that backward) over its time, against a large product's.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from itertools import cycle, islice
from math import log
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lightrnn.config import Recipe
from lightrnn.models.kind import build
from lightrnn.models.lightrnn import LightRNN
from lightrnn.models.opponents import WordModel
from lightrnn.models.outputs import AdaptiveSoftmax
from lightrnn.models.sizes import adaptive_shape, human_bytes
from lightrnn.registry import KINDS
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.table.shapes import table_shape, words_alone, zipf_counts
from lightrnn.table.word_table import WordTable
from lightrnn.text.rules import TextRules
from lightrnn.text.spelling import Ids
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.text.windows import Window, stream_windows
from lightrnn.training.trainer import Trainer

OPPONENTS = ("adaptive", "hsm", "chsm", "blackout", "full")
ALONE = 4000  # words, or a fifth of a small vocabulary
HEAD = 1500  # of them, or half
WINDOWS = 8
GROWING = {
    "seconds": "seconds a word",
    "parameters": "parameters",
    "gradients": "gradients",
    "state": "optimiser state",
}

Facts = dict[str, Any]


def made_up_words(size: int) -> Vocabulary:
    """Words of about eight letters, no two alike, with Zipf's counts."""
    letters = str.maketrans("0123456789abcdef", "etaoinshrdlcumwf")
    words = [f"{number * 2654435761 % 2**32:x}".translate(letters) for number in range(2, size)]
    return Vocabulary(["</s>", "<unk>", *words], zipf_counts(size), TextRules())


def zipf_text(size: int, words: int) -> Ids:
    """Words drawn one by one."""
    cumulated = np.cumsum(zipf_counts(size))
    draws = np.random.default_rng(1).random(words) * cumulated[-1]
    return np.asarray(np.searchsorted(cumulated, draws).clip(max=size - 1), np.int32)


def windows(trainer: Trainer) -> list[Window]:
    """The text of a trainer as its model reads it."""
    config, vocabulary = trainer.config, trainer.vocabulary
    shape = config.batch_size, config.window
    return list(islice(stream_windows(trainer.train, trainer.model.spelling, vocabulary.bos_id, *shape), WINDOWS))


def trainer_of(vocabulary: Vocabulary, fields: Facts) -> Trainer:
    """Of a model with these fields of a recipe; that of a LightRNN has a random table."""
    recipe = Recipe().override(fields)
    config, training, size = recipe.model, recipe.training, len(vocabulary)
    alone = words_alone(vocabulary.counts, config.alone)
    has_table = KINDS[config.model].has_table
    table = WordTable.random(size, config.components, config.rows, seed=1, alone=alone) if has_table else None
    model = build(config, vocabulary, table, seed=1)
    text = zipf_text(size, WINDOWS * training.batch_size * training.window)
    return Trainer(model, training, text, text[:0], vocabulary)


def with_words_alone(size: int, units: int) -> Facts:
    """As the recipes have it."""
    alone = min(ALONE, size // 5)
    found: Facts = {"alone": alone, "head": min(HEAD, alone // 2), "tied": True, "embedding_size": units // 4}
    return found | {"rows": "auto", "word_bias": True}


def with_cutoffs(trainer: Trainer, cutoffs: list[int], divisor: float, vocabulary: Vocabulary, units: int) -> Trainer:
    """The same adaptive softmax, cut elsewhere."""
    output = trainer.model.output
    assert isinstance(output, AdaptiveSoftmax)
    output.softmax = nn.AdaptiveLogSoftmaxWithLoss(units, len(vocabulary), cutoffs, divisor, head_bias=True)
    return Trainer(trainer.model, trainer.config, trainer.train, trainer.valid, vocabulary)


def cutoff_settings(size: int, units: int) -> list[tuple[list[int], float]]:
    """The product's own, and three others that are in use, where the vocabulary has room; PyTorch's divisor is 4."""
    others = ([2000, 10_000, 100_000], [size // 20, size // 4], [1000, size // 10])
    cut = [sorted({c for c in cutoffs if 0 < c < size}) for cutoffs in others]
    return [adaptive_shape(size, units), *((cutoffs, 4.0) for cutoffs in cut if cutoffs)]


def seconds_a_word(step: Callable[[Window], object], source: list[Window], budget: float) -> float:
    """A warm-up, then steps as the budget allows: each window's median time, over the words of all that were reached.

    Where a model reads codes, windows differ in their words, and each is reached.
    """
    step(source[0])
    times: dict[int, list[float]] = {}
    steps, spent = 0, 0.0
    least = 3 if len({window.tokens for window in source}) == 1 else len(source)
    for index in cycle(range(len(source))):
        if steps >= least and (spent > budget or steps >= 200):
            break
        start = time.perf_counter()
        step(source[index])
        times.setdefault(index, []).append(time.perf_counter() - start)
        steps, spent = steps + 1, spent + times[index][-1]
    return sum(map(statistics.median, times.values())) / sum(source[index].tokens for index in times)


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


def measure(trainer: Trainer, budget: float) -> Facts:
    return {"seconds": seconds_a_word(trainer.train_step, windows(trainer), budget)} | memory(trainer)


def measure_adaptive(trainer: Trainer, budget: float) -> Facts:
    """With the cutoffs that are fastest."""
    trials, units = [], trainer.model.config.hidden_size
    for cutoffs, divisor in cutoff_settings(len(trainer.vocabulary), units):
        changed = with_cutoffs(trainer, cutoffs, divisor, trainer.vocabulary, units)
        trials.append(measure(changed, budget / 2) | {"remark": f"cut at {cutoffs}, divisor {divisor:g}"})
        del changed
        gc.collect()
    return min(trials, key=lambda facts: facts["seconds"])


def compare(size: int, fields: Facts, kinds: list[str], budget: float) -> dict[str, Facts]:
    """All models at one size of the vocabulary; `fields`: those of the recipe that all share."""
    vocabulary, units = made_up_words(size), fields["hidden_size"]
    print(f"V = {size:,}, {units} units, {fields['optimizer']}", flush=True)
    alone = with_words_alone(size, units)
    light = {
        "lightrnn": trainer_of(vocabulary, fields),
        "with alone": trainer_of(vocabulary, fields | alone),
    }
    turns = [{name: measure(trainer, budget / 2) for name, trainer in light.items()}]
    opponents: dict[str, Facts] = {}
    for kind in kinds:
        trainer = trainer_of(vocabulary, fields | {"model": kind})
        adaptive = isinstance(trainer.model, WordModel) and isinstance(trainer.model.output, AdaptiveSoftmax)
        opponents[kind] = (measure_adaptive if adaptive else measure)(trainer, budget)
        del trainer
        gc.collect()
        turns.append({name: measure(trainer, budget / 4) for name, trainer in light.items()})
    found = {
        name: turns[-1][name] | {"seconds": statistics.median(turn[name]["seconds"] for turn in turns)}
        for name in light
    }
    found["with alone"]["remark"] = f"{alone['alone']:,} words alone, tied, vectors of {alone['embedding_size']}"
    found |= opponents
    print_comparison(found)
    table = stored(light["lightrnn"].model.get_buffer("codes"))
    words = sum(len(word.encode()) + 1 for word in vocabulary.words)
    print(f"  beside: table {human_bytes(table)}, vocabulary {human_bytes(words)} of text", flush=True)
    return found


def print_comparison(found: dict[str, Facts]) -> None:
    """The two LightRNNs, by which the times are divided, come first."""
    sizes = ("parameters", "gradients", "state")
    bases = [name for name in found if name not in OPPONENTS]
    print(f"  {'':20}  {'times as fast is':>22}")
    print(f"  {'':10} {'words/s':>9}  {'  '.join(f'{name:>10}' for name in (*bases, *sizes))}")
    for name, facts in found.items():
        ratios = "  ".join(f"{facts['seconds'] / found[base]['seconds']:10.2f}" for base in bases)
        stored_bytes = "  ".join(f"{human_bytes(facts[size]):>10}" for size in sizes)
        line = f"  {name:10} {1 / facts['seconds']:9,.0f}  {ratios}  {stored_bytes}  {facts.get('remark', '')}"
        print(line.rstrip(), flush=True)


def print_growth(found: dict[int, dict[str, Facts]]) -> None:
    small, large = min(found), max(found)
    print(f"growth from {small:,} to {large:,} words, as powers of V")
    for kind in found[small]:
        powers = [
            f"{name} {log(found[large][kind][key] / found[small][kind][key]) / log(large / small):5.2f}"
            for key, name in GROWING.items()
            if found[small][kind][key]
        ]
        print(f"  {kind:10} {'  '.join(powers)}")


def plot_growth(found: dict[int, dict[str, Facts]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    sizes, lines = sorted(found), iter(("-", "--"))
    for kind in found[sizes[0]]:
        facts = [found[size][kind] for size in sizes]
        style: Facts = {"alpha": 0.8}
        if kind not in OPPONENTS:
            style = {"linewidth": 2.5, "color": "black", "linestyle": next(lines)}
        left.loglog(sizes, [1e6 * f["seconds"] for f in facts], marker="o", label=kind, **style)
        megabytes = [(f["parameters"] + f["gradients"] + f["state"]) / 1e6 for f in facts]
        right.loglog(sizes, megabytes, marker="o", label=kind, **style)
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


def arithmetic(model: LightRNN, source: list[Window]) -> float:
    """Floating-point operations of a training step on each window: those of the matrix products forward, times 3.

    Every code is a recurrent step, D and H → 4 gates of H, and a projection, if there is one, H → D; scored it is
    against all values of its component, by vectors of F = D where they are tied, else H.
    """
    D, H, K = model.config.input_size, model.config.hidden_size, model.components
    F = D if model.config.tied else H
    projection = H * D if isinstance(model.projection, nn.Linear) else 0
    codes = np.concatenate([window.codes[:, K:].ravel() for window in source])
    scored = sum(
        n * int(((codes >= first) & (codes < first + n)).sum())
        for first, n in zip(model.offsets, model.shape, strict=True)
    )
    return 3.0 * 2 * (len(codes) * (4 * H * (D + H) + projection) + F * scored)


def print_components(size: int, fields: Facts, budget: float) -> None:
    """Tables of two, three and four components, in turns."""
    print(f"LightRNN by components, V = {size:,}, {fields['hidden_size']} units, adam")
    vocabulary = made_up_words(size)
    trainers = {K: trainer_of(vocabulary, fields | {"components": K}) for K in (2, 3, 4)}
    turns = [{K: measure(trainer, budget / 4) for K, trainer in trainers.items()} for _ in range(4)]
    for K in trainers:
        seconds = statistics.median(turn[K]["seconds"] for turn in turns)
        shape = " × ".join(map(str, table_shape(size, K)))
        print(
            f"  K = {K}: {1 / seconds:,.0f} words/s, {human_bytes(turns[0][K]['parameters'])}, table {shape}",
            flush=True,
        )


def print_share(size: int, fields: Facts, budget: float) -> None:
    print(f"share of the machine's matrix-product speed in training, V = {size:,}, sgd")
    vocabulary = made_up_words(size)
    for units in (200, 650):
        alone = with_words_alone(size, units)
        for remark, more in (("", {}), (f", {alone['alone']:,} words alone, tied", alone)):
            trainer = trainer_of(vocabulary, fields | {"hidden_size": units} | more)
            source = windows(trainer)
            first = product_speed()
            seconds = measure(trainer, budget)["seconds"]
            product = statistics.mean([first, product_speed()])
            operations = arithmetic(cast(LightRNN, trainer.model), source) / sum(window.tokens for window in source)
            print(
                f"  {units} units{remark}: {1 / seconds:,.0f} words/s, {operations / seconds / 1e9:.0f} of "
                f"{product / 1e9:.0f} GFLOP/s: share {operations / seconds / product:.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", type=int, nargs="*", default=[10_000, 137_000, 793_881])
    parser.add_argument("--units", type=int, nargs="+", default=[200])
    parser.add_argument("--kinds", nargs="*", choices=OPPONENTS, help="these opponents, and the comparison only")
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--window", type=int, default=35)
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each timing")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="plot the growth, at the first of the units")
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    keep_memory()
    torch.manual_seed(1)
    print(f"batch {arguments.batch_size}, window {arguments.window}, {torch.get_num_threads()} threads")
    shape = {"batch_size": arguments.batch_size, "window": arguments.window}
    rates = {"adam": 2e-3, "sgd": 0.1}
    shared = {name: shape | {"optimizer": name, "learning_rate": rate} for name, rate in rates.items()}
    kinds = list(OPPONENTS) if arguments.kinds is None else arguments.kinds
    for units in arguments.units:
        fields = shared[arguments.optimizer] | {"hidden_size": units}
        found = {size: compare(size, fields, kinds, arguments.budget) for size in arguments.vocabularies}
        if len(found) > 1:
            print_growth(found)
        if arguments.plot and units == arguments.units[0]:
            plot_growth(found, arguments.plot)
    if arguments.kinds is None:
        print_components(10_000, shared["adam"] | {"hidden_size": arguments.units[0]}, arguments.budget)
        print_share(10_000, shared["sgd"], arguments.budget)


if __name__ == "__main__":
    main()
