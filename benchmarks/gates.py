"""How the columns should see the row, and how row and column vectors go together at the input.

    python benchmarks/gates.py DATA [--alone 500] [--words 120000] [--inputs]

A transformer (examples/transformer.py, two layers of 128) with light ends is trained for so many words; then its states
are held, and copies of its LightSoftmax, each with another gate or other biases, go on for three passes over the words
of those states that share a row. Printed are validation nats a word that shares, after each pass. With --inputs the
whole transformer is trained anew for each way to put a row's and a column's vector together, and its perplexity on the
validation text is printed.
"""

import argparse
import copy
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lightrnn import Corpus
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable
from lightrnn.nn.softmax import Gate
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.text.spelling import Ids

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from transformer import Light, Transformer, perplexity, train

WIDTH, CONTEXT = 128, 64
TRAIN, VALID = 2500, 300  # pieces of a context whose states are held


def normed(rows: Tensor) -> Tensor:
    return nn.functional.rms_norm(rows, rows.shape[-1:])


class Independent(nn.Module):
    """Columns that know nothing of the row."""

    def forward(self, features: Tensor, rows: Tensor) -> Tensor:
        return features + 0 * rows


class RawRows(Gate):
    """The gate, but rows as small as they are."""

    def forward(self, features: Tensor, rows: Tensor) -> Tensor:
        a, z = (self.of_state(features) + self.of_row(rows)).chunk(2, dim=-1)
        found: Tensor = features + a.tanh() * z.sigmoid()
        return found


class Recurrent(Gate):
    """As in a GRU: (1 - σ(z)) f + σ(z) tanh(a)."""

    def forward(self, features: Tensor, rows: Tensor) -> Tensor:
        a, z = (self.of_state(features) + self.of_row(normed(rows))).chunk(2, dim=-1)
        found: Tensor = features + (a.tanh() - features) * (z - 1).sigmoid()
        return found


class Scaled(nn.Module):
    """f ∘ (1 + A ŷ) + B ŷ: the row scales and moves the state."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_row = nn.Linear(dim, 2 * dim)
        nn.init.zeros_(self.of_row.weight)
        nn.init.zeros_(self.of_row.bias)

    def forward(self, features: Tensor, rows: Tensor) -> Tensor:
        scale, move = self.of_row(normed(rows)).chunk(2, dim=-1)
        found: Tensor = features * (1 + scale) + move
        return found


GATES: dict[str, tuple[Callable[[], nn.Module], bool]] = {  # and whether words have biases
    "independent": (Independent, False),
    "gate, rows as they are": (lambda: RawRows(WIDTH), False),
    "gate": (lambda: Gate(WIDTH), False),
    "independent, word biases": (Independent, True),
    "gate, word biases": (lambda: Gate(WIDTH), True),
    "scale and move, word biases": (lambda: Scaled(WIDTH), True),
    "as in a GRU, word biases": (lambda: Recurrent(WIDTH), True),
}


class GatedSum(LightEmbedding):
    """row + 2 σ(A r̂) ∘ column: the row says what of the column counts."""

    def __init__(self, table: WordTable, dim: int) -> None:
        super().__init__(table, dim)
        self.of_row = nn.Linear(dim, dim)

    def forward(self, ids: Tensor) -> Tensor:
        rows = nn.functional.embedding(self.codes[ids, 0].long(), self.weight)
        found: Tensor = rows + 2 * self.of_row(normed(rows)).sigmoid() * (super().forward(ids) - rows)
        return found


class RowOnly(LightEmbedding):
    """Words of a row go in alike."""

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(self.codes[ids, 0].long(), self.weight)


INPUTS = {"sum": LightEmbedding, "gated sum": GatedSum, "row only": RowOnly}


def transformer_of(table: WordTable, put_together: type[LightEmbedding] = LightEmbedding) -> Transformer:
    torch.manual_seed(1)
    ends = Light(table, WIDTH, 0)
    ends.embedding = put_together(table, WIDTH)
    ends.softmax = LightSoftmax(table, WIDTH, tied=ends.embedding)
    return Transformer(ends, WIDTH, 2, CONTEXT, 0.1)


def train_for(model: Transformer, ids: Ids, words: int) -> None:
    train(model, ids, argparse.Namespace(epochs=words / len(ids), rate=2e-3, batch=4, context=CONTEXT, seed=1))


@torch.no_grad()
def states(model: Transformer, ids: Ids, pieces: int) -> tuple[Tensor, Tensor]:
    """The states before words that share a row, and the words."""
    text = torch.from_numpy(np.asarray(ids[: pieces * CONTEXT + 1]).astype(np.int64))
    found, targets = [], []
    for piece in torch.split(text.unfold(0, CONTEXT + 1, CONTEXT), 16):
        vectors = math.sqrt(WIDTH) * model.ends.vectors(piece[:, :-1]) + model.positions
        words = piece[:, 1:]
        sharing = model.ends.get_buffer("softmax.codes")[words, 1] >= 0
        found.append(model.norm(model.blocks(vectors))[sharing])
        targets.append(words[sharing])
    return torch.cat(found), torch.cat(targets)


def passes(layer: LightSoftmax, seen: tuple[Tensor, Tensor], valid: tuple[Tensor, Tensor]) -> list[float]:
    torch.manual_seed(2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=2e-3)
    found = []
    for _ in range(3):
        for some in torch.split(torch.randperm(len(seen[1])), 256):
            loss = layer(seen[0][some], seen[1][some])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        with torch.no_grad():
            found.append(float(layer(*valid)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder made by `lightrnn prepare`")
    parser.add_argument("--alone", type=int, default=500)
    parser.add_argument("--words", type=int, default=120_000)
    parser.add_argument("--inputs", action="store_true")
    options = parser.parse_args()
    use_threads(1)
    keep_memory()
    corpus = Corpus.load(options.data)
    vocabulary, text, valid = corpus.vocabulary, corpus.split("train"), corpus.split("valid")
    table = WordTable.from_bigrams(text, len(vocabulary), words=vocabulary.words, alone=options.alone)
    if options.inputs:
        for name, put_together in INPUTS.items():
            model = transformer_of(table, put_together)
            train_for(model, text, options.words)
            print(f"{name:28} perplexity {perplexity(model, valid[:30_000], CONTEXT):.1f}", flush=True)
        return
    model = transformer_of(table)
    train_for(model, text, options.words)
    model.eval()
    seen, unseen = states(model, text, TRAIN), states(model, valid, VALID)
    print(f"{len(seen[1]):,} words to go on with, {len(unseen[1]):,} of validation; shape {table.shape}", flush=True)
    for name, (make, word_bias) in GATES.items():
        layer = LightSoftmax(table, WIDTH, word_bias=word_bias)
        layer.load_state_dict(
            {
                part: tensor
                for part, tensor in copy.deepcopy(model.ends.get_submodule("softmax").state_dict()).items()
                if part in {"weight", "row_bias"}
            },
            strict=False,
        )
        layer.add_module("gate", make())
        begin = time.process_time()
        nats = " ".join(f"{value:.3f}" for value in passes(layer, seen, unseen))
        print(f"{name:28} {nats}  {time.process_time() - begin:.0f} seconds", flush=True)


if __name__ == "__main__":
    main()
