"""A small transformer with four ends: what LightEmbedding and LightSoftmax bring to a model that is not ours.

    lightrnn prepare train.txt --valid valid.txt --test test.txt -o data
    python examples/transformer.py data --end light --epochs 3
    python examples/transformer.py data --end full --minutes 30 --out results

The ends, on the same transformer: `full`, a tied softmax over all words; `adaptive`, PyTorch's adaptive softmax with
an adaptive input (Baevski and Auli 2019); `light`, the layers of lightrnn.nn with a table from the text's bigrams;
`random`, the same with a random table. Biases of all start at the words' shares of the text. A run prints its
figures, and with --out writes them to a file of that folder; a run whose file is there is not made again, and all
files there are printed as a table.
"""

import argparse
import json
import math
import resource
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from lightrnn import Corpus
from lightrnn.models.sizes import adaptive_shape
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable
from lightrnn.nn.starts import fill_biases
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.text.vocabulary import frequency_ranks

SCALE = 0.02  # of vectors at the start
Facts = dict[str, Any]


# --- the transformer: words' vectors (B, T, W) → states (B, T, W)


class Block(nn.Module):
    """Attention to what came before, and two layers, each added to what was there."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        B, T, W = x.shape
        projected = self.queries_keys_values(self.before_attention(x))
        q, k, v = projected.view(B, T, 3, self.heads, W // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, W)
        x = x + F.dropout(self.out(seen), self.dropout, self.training)
        return x + F.dropout(self.layers(self.before_layers(x)), self.dropout, self.training)


class Transformer(nn.Module):
    def __init__(self, ends: "Ends", width: int, layers: int, context: int, dropout: float) -> None:
        super().__init__()
        self.ends, self.dropout = ends, dropout
        self.positions = nn.Parameter(0.1 * torch.randn(context, width))
        self.blocks = nn.Sequential(*(Block(width, max(width // 64, 2), dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def losses(self, words: Tensor, after: int = 0) -> Tensor:
        """words (B, T+1) → nats of words 1 … T, (B, T), or of those after so many."""
        x = math.sqrt(self.positions.shape[1]) * self.ends.vectors(words[:, :-1]) + self.positions[: words.shape[1] - 1]
        hidden = self.norm(self.blocks(F.dropout(x, self.dropout, self.training)))
        return self.ends.losses(F.dropout(hidden[:, after:], self.dropout, self.training), words[:, 1 + after :])


# --- the ends


class Ends(nn.Module):
    """words (…) → vectors (…, W), and states (…, W) and words (…) → losses (…)."""

    def vectors(self, words: Tensor) -> Tensor:
        raise NotImplementedError

    def losses(self, hidden: Tensor, words: Tensor) -> Tensor:
        raise NotImplementedError


class Full(Ends):
    def __init__(self, corpus: Corpus, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(corpus.vocabulary), width)
        nn.init.normal_(self.embedding.weight, std=SCALE)
        self.bias = nn.Parameter(torch.zeros(len(corpus.vocabulary)))
        fill_biases(self.bias.data, counts_of(corpus))

    def vectors(self, words: Tensor) -> Tensor:
        found: Tensor = self.embedding(words)
        return found

    def losses(self, hidden: Tensor, words: Tensor) -> Tensor:
        scores = F.linear(hidden.flatten(0, -2), self.embedding.weight, self.bias)
        return F.cross_entropy(scores, words.flatten(), reduction="none").view(words.shape)


class Adaptive(Ends):
    """Bands of words by frequency, the rarer the narrower, each with a projection to the width."""

    def __init__(self, corpus: Corpus, width: int) -> None:
        super().__init__()
        size = len(corpus.vocabulary)
        self.cutoffs, divisor = adaptive_shape(size, width)
        self.register_buffer("ranks", torch.from_numpy(frequency_ranks(corpus.vocabulary.counts)))
        bounds = [0, *self.cutoffs, size]
        sizes = [max(int(width / divisor**band), 1) for band in range(len(bounds) - 1)]
        self.bands = nn.ModuleList(
            nn.Sequential(nn.Embedding(end - begin, dim), nn.Linear(dim, width, bias=False))
            for (begin, end), dim in zip(pairwise(bounds), sizes, strict=True)
        )
        for band in self.bands:
            nn.init.normal_(band.get_parameter("0.weight"), std=SCALE)
        self.width, self.bounds = width, bounds
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(width, size, self.cutoffs, divisor, head_bias=True)
        ranked = counts_of(corpus).sort(descending=True).values
        tails = [ranked[begin:end].sum() for begin, end in pairwise(bounds[1:])]
        fill_biases(self.softmax.head.bias.data, torch.cat([ranked[: self.cutoffs[0]], torch.stack(tails)]))

    def vectors(self, words: Tensor) -> Tensor:
        ranks = self.get_buffer("ranks")[words.flatten()]
        found = self.positions_of(ranks)
        vectors = self.softmax.head.weight.new_zeros(len(ranks), self.width)
        for band, (begin, where) in zip(self.bands, found, strict=True):
            vectors = vectors.index_copy(0, where, band(ranks[where] - begin))
        return vectors.view(*words.shape, self.width)

    def positions_of(self, ranks: Tensor) -> list[tuple[int, Tensor]]:
        return [
            (begin, ((ranks >= begin) & (ranks < end)).nonzero().squeeze(1)) for begin, end in pairwise(self.bounds)
        ]

    def losses(self, hidden: Tensor, words: Tensor) -> Tensor:
        ranks = self.get_buffer("ranks")[words.flatten()]
        found: Tensor = -self.softmax(hidden.flatten(0, -2), ranks).output.view(words.shape)
        return found


class Light(Ends):
    """The layers of lightrnn.nn: all that a model's code has to change."""

    def __init__(self, table: WordTable, width: int, head: int) -> None:
        super().__init__()
        self.embedding = LightEmbedding(table, width, scale=SCALE)
        self.softmax = LightSoftmax(table, width, tied=self.embedding, head=head)

    def vectors(self, words: Tensor) -> Tensor:
        found: Tensor = self.embedding(words)
        return found

    def losses(self, hidden: Tensor, words: Tensor) -> Tensor:
        found: Tensor = self.softmax(hidden, words, reduction="none")
        return found


def counts_of(corpus: Corpus) -> Tensor:
    return torch.from_numpy(np.maximum(corpus.vocabulary.counts, 0.5)).float()


def bigram_light(corpus: Corpus, options: argparse.Namespace) -> Ends:
    vocabulary = corpus.vocabulary
    table = WordTable.from_bigrams(
        corpus.split("train"), len(vocabulary), words=vocabulary.words, alone=options.alone, seed=options.seed
    )
    return Light(table, options.width, options.head)


def random_light(corpus: Corpus, options: argparse.Namespace) -> Ends:
    counts = corpus.vocabulary.counts
    table = WordTable.random(len(counts), counts=counts, alone=options.alone, seed=options.seed)
    return Light(table, options.width, options.head)


ENDS: dict[str, Callable[[Corpus, argparse.Namespace], Ends]] = {
    "full": lambda corpus, options: Full(corpus, options.width),
    "adaptive": lambda corpus, options: Adaptive(corpus, options.width),
    "light": bigram_light,
    "random": random_light,
}


# --- training and evaluation


def batches(ids: NDArray[np.int32], batch: int, context: int, seed: int) -> Iterator[Tensor]:
    """Pieces of a text, (B, T+1), in random order, for ever; an epoch is so many that every word comes once."""
    random = np.random.default_rng(seed)
    starts = np.arange(0, len(ids) - context - 1, context)
    while True:
        order = random.permutation(starts) + random.integers(context)
        for chosen in np.split(order, range(batch, len(order), batch)):
            begins = np.minimum(chosen, len(ids) - context - 1)
            yield torch.from_numpy(np.asarray(ids)[begins[:, None] + np.arange(context + 1)].astype(np.int64))


@torch.no_grad()
def perplexity(model: Transformer, ids: NDArray[np.int32], context: int) -> float:
    """Of all words but the first, each after at least half a context, where the text has it; it has more than one."""
    model.eval()
    text, half = torch.from_numpy(np.asarray(ids).astype(np.int64)), context // 2
    whole = text[: len(text) - (len(text) - 1) % half].unfold(0, 2 * half + 1, half)  # (pieces, T+1)
    nats = model.losses(text[None, : half + 1]).double().sum()
    for pieces in torch.split(whole, 16):
        nats += model.losses(pieces, after=half).double().sum()
    if rest := (len(text) - 1) % half:
        nats += model.losses(text[None, -rest - half - 1 :], after=half).double().sum()
    model.train()
    return math.exp(float(nats) / (len(text) - 1))


def train(model: Transformer, ids: NDArray[np.int32], options: argparse.Namespace, spent: float = 0.0) -> Facts:
    """By Adam, the rate falling as a cosine from the first hundredth of the budget on, which is epochs, or minutes of
    which so many seconds are spent."""
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate, betas=(0.9, 0.98))
    start, words = time.perf_counter(), 0
    budget = options.epochs * len(ids) if options.epochs else 60 * options.minutes - spent
    for piece in batches(ids, options.batch, options.context, options.seed):
        seconds = time.perf_counter() - start
        done = (words if options.epochs else seconds) / budget
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(done / 0.01 + 0.01, 0.5 * (1 + math.cos(math.pi * done)))
        loss = model.losses(piece).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        words += piece[:, 1:].numel()
    return {"words": words, "seconds": seconds, "words/s": words / seconds}


def run(options: argparse.Namespace) -> Facts:
    torch.manual_seed(options.seed)
    corpus = Corpus.load(options.data)
    begin = time.perf_counter()
    ends = ENDS[options.end](corpus, options)
    made = time.perf_counter() - begin
    model = Transformer(ends, options.width, options.layers, options.context, options.dropout)
    trained = train(model, corpus.split("train"), options, spent=made)
    return {
        "end": options.end,
        "budget": f"{options.epochs:g} epochs" if options.epochs else f"{options.minutes:g} minutes",
        "perplexity": perplexity(model, corpus.split("test"), options.context),
        "parameters of the ends": sum(parameter.numel() for parameter in ends.parameters()),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "peak megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        "seconds of the table": made,
        **trained,
        "settings": {name: value for name, value in vars(options).items() if name not in {"data", "out"}},
    }


def print_table(found: list[Facts]) -> None:
    print("| end | budget | test perplexity | parameters of the ends | in all | peak MB | words/s |")
    print("|---|---|---|---|---|---|---|")
    for facts in sorted(found, key=lambda facts: (facts["budget"], facts["perplexity"])):
        print(
            f"| {facts['end']} | {facts['budget']} | {facts['perplexity']:.1f} | {facts['parameters of the ends']:,} | "
            f"{facts['parameters']:,} | {facts['peak megabytes']:,.0f} | {facts['words/s']:,.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder made by `lightrnn prepare`")
    parser.add_argument("--end", choices=ENDS, default="light")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--epochs", type=float, default=0.0)
    budget.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=64, help="words")
    parser.add_argument("--batch", type=int, default=16, help="pieces of a context")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--alone", type=int, default=5000, help="words with a row of their own, of the light ends")
    parser.add_argument("--head", type=int, default=0, help="rows scored at every word, of the light ends; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where runs are kept")
    options = parser.parse_args()
    if not options.epochs and not options.minutes:
        options.epochs = 1.0
    use_threads(options.threads)
    keep_memory()
    if options.out is None:
        print_table([run(options)])
        return
    options.out.mkdir(parents=True, exist_ok=True)
    unit = f"{options.epochs:g}-epochs" if options.epochs else f"{options.minutes:g}-minutes"
    file = options.out / f"{options.end}-{unit}-{options.layers}x{options.width}-seed{options.seed}.json"
    if not file.exists():
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(run(options), indent=1) + "\n", encoding="utf-8")
        unfinished.replace(file)
    print_table([json.loads(path.read_text(encoding="utf-8")) for path in sorted(options.out.glob("*.json"))])


if __name__ == "__main__":
    main()
