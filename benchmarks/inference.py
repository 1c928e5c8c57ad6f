"""Latency of a trained model beside the same cell with a full softmax, and batch scoring beside a loop; one run.

    python benchmarks/inference.py latency MODEL DATA [--against MODEL] [--queries 200]
    python benchmarks/inference.py batch MODEL TEXT
    python benchmarks/inference.py hypotheses MODEL TEXT [--count 100]

`latency`: one thread, batch 1, contexts from the validation text of DATA. The model: the exact ten likeliest next
words, and the probability of one given word, each from a state. Opponent: one LSTM layer of the same size over a word
embedding and a full softmax of the same vocabulary (random weights: its time does not depend on them), then topk, or
the log-softmax of one word. --against: another model of DATA, a table with words that stand alone against one without,
say. All are asked in turn; medians, ratios, and how many rows the search opened.

`batch`: words/s of `lm.scores` over all lines of TEXT, and of `lm.score` line by line over a sample of them.

`hypotheses`: one thread; a word after each of `--count` states, those of so many lines of TEXT: `lm.advance` for all
together, and `lm.score_word` for one after the other, in turn; medians, their ratio, and the largest difference.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import lightrnn
from lightrnn.files import read_blocks
from lightrnn.inference.network import NetworkLM
from lightrnn.runtime import use_threads
from lightrnn.text.corpus import Corpus

QUESTIONS = ("top 10", "word")


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


class Asked:
    """A model that reads a text word by word: its times, and the rows that its searches opened."""

    def __init__(self, folder: Path, corpus: Corpus) -> None:
        lm = lightrnn.load(folder)
        if not isinstance(lm, NetworkLM) or lm.vocabulary.digest != corpus.vocabulary.digest:
            sys.exit(f"{folder} is no network over the words of {corpus.path}")
        self.lm, self.folder = lm, folder
        self.times: dict[str, list[float]] = {name: [] for name in QUESTIONS}
        self.opened: list[int] = []
        self._state = lm.begin_state()

    @property
    def described(self) -> str:
        config, table = self.lm.model.config, self.lm.model.table
        shape = f", table {table.shape}, {table.alone:,} words alone" if table else ""
        return f"{self.folder}: {config.model}, {config.hidden_size} units{shape}"

    def read(self, word: int) -> None:
        _, self._state = self.lm.read_word(self._state, word)

    def ask(self, word: int) -> None:
        self.times["top 10"].append(seconds(lambda: self.opened.append(self.lm.likeliest(self._state, 10).opened)))
        self.times["word"].append(seconds(lambda: self.lm.read_word(self._state, word)))

    def median(self, question: str) -> float:
        return statistics.median(self.times[question])

    @property
    def rows_opened(self) -> str:
        table = self.lm.model.table
        opened = statistics.median(self.opened), statistics.mean(self.opened), max(self.opened)
        of = f" of {table.shape[0] - table.alone:,} that words share" if table else ""
        return "rows opened{}: median {:.0f}, mean {:.1f}, most {}".format(of, *opened)


@torch.inference_mode()
def latency(folders: list[Path], data: Path, queries: int) -> None:
    use_threads(1)
    corpus = Corpus.load(data)
    models = [Asked(folder, corpus) for folder in folders]
    size, units = len(corpus.vocabulary), models[0].lm.model.config.hidden_size
    print(f"V = {size:,}; full softmax of {units} units")
    full = FullSoftmax(size, units)
    state = (torch.zeros(1, units), torch.zeros(1, units))
    answers = {
        "top 10": lambda word, following: full(word, state).topk(10),
        "word": lambda word, following: float(full(word, state).log_softmax(dim=-1)[following]),
    }
    times: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    for word, following in itertools.pairwise(corpus.split("valid")[: queries + 1].tolist()):
        for model in models:
            model.read(word)
            model.ask(following)
        for name, answer in answers.items():
            times[name].append(seconds(partial(answer, word, following)))
    for model in models:
        print(model.described)
        for name in QUESTIONS:
            here, there = model.median(name), statistics.median(times[name])
            print(f"  {name:8} {1e3 * here:8.3f} ms   full softmax {1e3 * there:8.2f} ms   1/{there / here:.0f}")
        print(f"  {model.rows_opened}")
    for other in models[1:]:
        ratios = (f"{name} {models[0].median(name) / other.median(name):.2f}" for name in QUESTIONS)
        print(f"time of {models[0].folder} over that of {other.folder}: {', '.join(ratios)}")


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


def hypotheses(model: Path, text: Path, count: int) -> None:
    use_threads(1)
    lm = lightrnn.load(model)
    lines = [line.split() for line in b"".join(read_blocks(text)).decode().splitlines()]
    chosen = [line for line in lines if len(line) > 5][:count]
    states, words = [lm.state(" ".join(line[:5])) for line in chosen], [line[5] for line in chosen]
    together, one_by_one = [], []
    for _ in range(31):
        one_by_one.append(seconds(lambda: [lm.score_word(s, w) for s, w in zip(states, words, strict=True)]))
        together.append(seconds(lambda: lm.advance(states, words)))
    figures, _ = lm.advance(states, words)
    singly = [lm.score_word(state, word)[0] for state, word in zip(states, words, strict=True)]
    apart = max(abs(a - b) for a, b in zip(figures, singly, strict=True))
    here, there = statistics.median(together), statistics.median(one_by_one)
    print(f"V = {len(lm.vocabulary):,}; {len(states)} hypotheses, largest difference in log10 {apart:.1e}")
    print(f"together {1e3 * here:.2f} ms   one by one {1e3 * there:.2f} ms   ratio {there / here:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("latency")
    one.add_argument("model", type=Path)
    one.add_argument("data", type=Path)
    one.add_argument("--against", type=Path, metavar="MODEL")
    one.add_argument("--queries", type=int, default=200)
    many = kinds.add_parser("batch")
    many.add_argument("model", type=Path)
    many.add_argument("text", type=Path)
    beam = kinds.add_parser("hypotheses")
    beam.add_argument("model", type=Path)
    beam.add_argument("text", type=Path)
    beam.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.kind == "latency":
        folders = [folder for folder in (arguments.model, arguments.against) if folder is not None]
        latency(folders, arguments.data, arguments.queries)
    elif arguments.kind == "batch":
        batch(arguments.model, arguments.text)
    else:
        hypotheses(arguments.model, arguments.text, arguments.count)


if __name__ == "__main__":
    main()
