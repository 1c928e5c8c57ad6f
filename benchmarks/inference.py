"""Latency of a trained model beside the same cell with a full softmax, and batch scoring beside a loop; one run.

    python benchmarks/inference.py latency MODEL DATA [--queries 200]
    python benchmarks/inference.py batch MODEL TEXT

`latency`: one thread, batch 1, contexts from the validation text of DATA. LightRNN: the exact ten likeliest next words,
and the probability of one given word, each from a state. Opponent: one LSTM layer of the same size over a word
embedding and a full softmax of the same vocabulary (random weights: its time does not depend on them), then topk, or
the log-softmax of one word. Both are asked in turn; medians, ratios, and how many rows the search opened.

`batch`: words/s of `lm.scores` over all lines of TEXT, and of `lm.score` line by line over a sample of them.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import lightrnn
from lightrnn.files import read_blocks
from lightrnn.inference.network import NetworkLM
from lightrnn.models.lightrnn import LightRNN
from lightrnn.text.corpus import Corpus


def seconds(ask: Callable[[], object]) -> float:
    start = time.perf_counter()
    ask()
    return time.perf_counter() - start


class FullSoftmax(nn.Module):
    """The conventional model: word embedding, one LSTM layer, a softmax over all words."""

    def __init__(self, vocabulary: int, units: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, units)
        self.cell = nn.LSTMCell(units, units)
        self.output = nn.Linear(units, vocabulary)

    def forward(self, word: int, state: tuple[Tensor, Tensor]) -> Tensor:
        hidden, _ = self.cell(self.embedding(torch.tensor([word])), state)
        scores: Tensor = self.output(hidden)[0]
        return scores


@torch.inference_mode()
def latency(model: Path, data: Path, queries: int) -> None:
    torch.set_num_threads(1)
    lm = lightrnn.load(model)
    assert isinstance(lm, NetworkLM)
    assert isinstance(lm.model, LightRNN)
    size, units = len(lm.vocabulary), lm.model.config.hidden_size
    print(f"V = {size:,}, {units} units, table {lm.model.shape}")
    full = FullSoftmax(size, units)
    opponent_state = (torch.zeros(1, units), torch.zeros(1, units))
    ids = Corpus.load(data).split("valid")[: queries + 1].tolist()
    times: dict[str, list[float]] = {"top 10": [], "full top 10": [], "word": [], "full word": []}
    opened = []
    state = lm.begin_state()
    for word, following in itertools.pairwise(ids):
        _, state = lm.advance(state, word)
        times["top 10"].append(seconds(lambda state=state: opened.append(lm.likeliest(state, 10).opened)))  # type: ignore[misc]
        times["full top 10"].append(seconds(lambda word=word: full(word, opponent_state).topk(10)))  # type: ignore[misc]
        times["word"].append(seconds(lambda state=state, w=following: lm.advance(state, w)))  # type: ignore[misc]
        times["full word"].append(
            seconds(lambda word=word, w=following: float(full(word, opponent_state).log_softmax(dim=-1)[w]))  # type: ignore[misc]
        )
    middle = {name: statistics.median(values) for name, values in times.items()}
    for name in ("top 10", "word"):
        ours, theirs = middle[name], middle[f"full {name}"]
        print(f"{name:8} LightRNN {1e3 * ours:8.3f} ms   full softmax {1e3 * theirs:8.2f} ms   1/{theirs / ours:.0f}")
    print(
        f"rows opened of {lm.model.shape[0]}: median {statistics.median(opened):.0f}, "
        f"mean {statistics.mean(opened):.1f}, most {max(opened)}"
    )


def batch(model: Path, text: Path) -> None:
    lm = lightrnn.load(model)
    lines = b"".join(read_blocks(text)).decode().splitlines()
    sample = lines[:: max(1, len(lines) // 300)]
    lm.scores(lines[:64])
    words = sum(len(line.split()) + 1 for line in lines)
    few = sum(len(line.split()) + 1 for line in sample)
    together, one_by_one = [], []
    for _ in range(3):
        together.append(words / seconds(lambda: lm.scores(lines)))
        one_by_one.append(few / seconds(lambda: [lm.score(line) for line in sample]))
    print(f"V = {len(lm.vocabulary):,}; {len(lines):,} sentences, {words:,} words with their ends")
    print(f"in batches     {statistics.median(together):10,.0f} words/s")
    print(f"one by one     {statistics.median(one_by_one):10,.0f} words/s")
    print(f"ratio          {statistics.median(together) / statistics.median(one_by_one):10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("latency")
    one.add_argument("model", type=Path)
    one.add_argument("data", type=Path)
    one.add_argument("--queries", type=int, default=200)
    many = kinds.add_parser("batch")
    many.add_argument("model", type=Path)
    many.add_argument("text", type=Path)
    arguments = parser.parse_args()
    if arguments.kind == "latency":
        latency(arguments.model, arguments.data, arguments.queries)
    else:
        batch(arguments.model, arguments.text)


if __name__ == "__main__":
    main()
