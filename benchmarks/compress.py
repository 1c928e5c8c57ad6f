"""The output matrix of a trained full-softmax LSTM made light: perplexity before, right after, and after fine-tuning.

    lightrnn train data -o full --model full --epochs 5
    python benchmarks/compress.py full data [--alone 4000] [--epochs 1] [--words 0]

Beside `lightrnn.nn.compress` stand, with as many bytes, the table's included: a truncated SVD, and one of factors of
eight bits a number, which has four times the rank; and the whole matrix in eight bits, with the bytes that it takes.
Biases of words stay in single precision. What can be trained is trained further for so many epochs, the whole network
with it, by Adam at the given rate; so is the model as it was, since it may gain from that too. Test perplexities.
"""

import argparse
import copy
from collections.abc import Callable
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lightrnn import Corpus, evaluate, load_model
from lightrnn.config import Recipe
from lightrnn.models.opponents import WordModel
from lightrnn.models.outputs import FullSoftmax, Output, exact_log_probs
from lightrnn.models.sizes import human_bytes
from lightrnn.nn import LightSoftmax, compress
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.text.windows import text_windows
from lightrnn.training.trainer import Trainer

BYTES = 4


class Light(Output):
    def __init__(self, layer: LightSoftmax) -> None:
        super().__init__()
        self.size, self.layer = layer.size, layer

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.layer.log_prob_of(hidden, targets)[:, None]


class Factors(Output):
    """vectors (V, r) · axes (r, H), and biases."""

    def __init__(self, vectors: Tensor, axes: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.size = len(vectors)
        self.vectors, self.axes, self.bias = (nn.Parameter(tensor.clone()) for tensor in (vectors, axes, bias))

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return exact_log_probs(hidden @ self.axes.T, targets, self.vectors, self.bias)


def eight_bits(matrix: Tensor) -> Tensor:
    """Every row rounded to 255 steps of its own, and back."""
    steps = matrix.abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / 127
    return (matrix / steps).round() * steps


def factors(linear: nn.Linear, rank: int) -> tuple[Tensor, Tensor]:
    u, s, v = torch.linalg.svd(linear.weight.detach(), full_matrices=False)
    return u[:, :rank] * s[:rank], v[:rank]


def rank_of(size: int, linear: nn.Linear, bytes_a_number: int) -> int:
    """The most that so many bytes hold, biases and the steps of eight bits taken off."""
    V, H = linear.weight.shape
    left = size - BYTES * V - (BYTES * V if bytes_a_number == 1 else 0)
    return max(1, min(H, left // (bytes_a_number * (V + H))))


def tuned(model: WordModel, corpus: Corpus, options: argparse.Namespace) -> WordModel:
    """Trained further; the rate falls as it was told."""
    recipe = Recipe().override({"optimizer": "adam", "learning_rate": options.rate, "batch_size": 20, "window": 35})
    ids = corpus.split("train")
    trainer = Trainer(model, recipe.training, ids, ids[:0], corpus.vocabulary)
    order = np.random.default_rng(1)
    shape = recipe.training.batch_size, recipe.training.window
    steps = ceil(options.epochs * len(ids) / (shape[0] * shape[1]))
    for window in islice(text_windows(ids, corpus.vocabulary, model.spelling, *shape, order), steps):
        trainer.train_step(window)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder made by `lightrnn train --model full`")
    parser.add_argument("data", type=Path, help="the data folder that it was trained on")
    parser.add_argument("--alone", type=int, default=4000)
    parser.add_argument("--epochs", type=float, default=1.0, help="of fine-tuning, at most 1")
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--words", type=int, default=0, help="of the test text that are scored; 0: all")
    parser.add_argument("--only", nargs="+", metavar="OUTPUT", help="some rows, such as light SVD")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    use_threads(options.threads)
    keep_memory()
    torch.manual_seed(1)
    corpus = Corpus.load(options.data)
    trained = cast(WordModel, load_model(options.model)[0])
    output = trained.output
    if not isinstance(output, FullSoftmax):
        raise SystemExit(f"{options.model} has no full softmax; train one with --model full and without --tied")
    linear, test = output.vectors, corpus.split("test")[: options.words or None]

    def with_output(new: Output) -> WordModel:
        model = copy.deepcopy(trained)
        model.output = new
        return model

    def perplexity(model: WordModel) -> float:
        model.eval()
        return evaluate(model, test, corpus.vocabulary).perplexity

    found = compress(linear, corpus.vocabulary.counts, alone=options.alone)
    size = found.bytes_after + found.table_bytes
    V, H = linear.weight.shape
    ranks = {"SVD": rank_of(size, linear, 4), "SVD, 8 bits": rank_of(size, linear, 1)}
    light = Light(cast(LightSoftmax, found.layer))
    eight = [eight_bits(factor) for factor in factors(linear, ranks["SVD, 8 bits"])]
    whole = copy.deepcopy(output)
    whole.vectors.weight.data = eight_bits(linear.weight.detach())
    rows: dict[str, tuple[int, Callable[[], Output], bool, str]] = {
        "as trained": (found.bytes_before, lambda: output, True, ""),
        "light": (size, lambda: light, True, f"{found.lost:.1%} of the squares lost, shape {light.layer.shape}"),
        "SVD": (
            BYTES * (ranks["SVD"] * (V + H) + V),
            lambda: Factors(*factors(linear, ranks["SVD"]), linear.bias.detach()),
            True,
            f"rank {ranks['SVD']}",
        ),
        "SVD, 8 bits": (
            ranks["SVD, 8 bits"] * (V + H) + 2 * BYTES * V,
            lambda: Factors(eight[0], eight[1], linear.bias.detach()),
            False,
            f"rank {ranks['SVD, 8 bits']}",
        ),
        "8 bits": (V * H + 2 * BYTES * V, lambda: whole, False, ""),
    }
    print(f"{'output':12} {'bytes':>8} {'right after':>12} {'tuned':>8}")
    for name in options.only or rows:
        taken, make, can_be_tuned, remark = rows[name]
        model = with_output(make())
        line: list[Any] = [f"{name:12}", f"{human_bytes(taken):>8}", f"{perplexity(model):12.1f}"]
        line.append(f"{perplexity(tuned(model, corpus, options)):8.1f}" if can_be_tuned else f"{'':8}")
        print(*line, remark, flush=True)


if __name__ == "__main__":
    main()
