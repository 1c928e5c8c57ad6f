"""What `lm.add_words` is worth: a text's first half gives new words, its second half is scored.

    python benchmarks/new_words.py MODEL TEXT [--lines 2400] [--min-count 1] [--trained MODEL]

TEXT has no unknown words in it: a novel that the model never saw, say. The tokens of its second half are words that the
model knows, new words, which are in the first half, and words that stay unknown; told are the nats a token of each sort
and of all. `before`: all new words are unknown, which says less. `by counts`: they share the probability
of the unknown word by their counts in the first half, the same in every context. `adapted`: lm.adapt has read the first
half. `--trained`: a model of `lightrnn train FIRST_HALF --init MODEL --add-words`.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightrnn import load
from lightrnn.files import read_blocks
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.new_words import Wanted, grow, place, wanted

Nats = NDArray[np.float64]


def network(path: Path) -> NetworkLM:
    lm = load(path)
    assert isinstance(lm, NetworkLM)
    return lm


class Report:
    """Prints a line for each way to score the tokens of a text."""

    def __init__(self, tokens: list[str], known: NetworkLM, grown: NetworkLM) -> None:
        self.tokens, words = tokens, grown.vocabulary
        self.ids, self.size = words.encode(tokens), len(known.vocabulary)
        self.sorts = np.where(self.ids >= self.size, 1, np.where(self.ids == words.unk_id, 2, 0))
        shares = " ".join(f"{(self.sorts == sort).mean():13.1%}" for sort in range(3))
        print(f"{'':24} {'known':>13} {'new':>13} {'unknown':>13} {'all':>9}\n{'share of tokens':24} {shares}")

    def nats(self, lm: NetworkLM) -> Nats:
        return np.asarray(-lm.token_log_probs(lm.vocabulary.encode(self.tokens)).sum(axis=1), np.float64)

    def line(self, name: str, nats: Nats) -> None:
        found = [nats[self.sorts == sort].mean() for sort in range(3)]
        columns = [f"{np.exp(found[0]):5.1f} ({found[0]:.3f})", *(f"{mean:.3f}" for mean in found[1:])]
        print(f"{name:24} " + " ".join(f"{c:>13}" for c in columns) + f" {nats.mean():9.4f}", flush=True)


def by_counts(lm: NetworkLM, words: Wanted) -> NetworkLM:
    """The model with new words that are told apart by their shares alone."""
    placing = place(lm, words)
    nowhere = replace(placing, means=np.broadcast_to(placing.centre, placing.means.shape))
    grown = NetworkLM.of_packed(grow(lm.network(), words.vocabulary, nowhere))
    return NetworkLM(grown.model, grown.vocabulary)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text")
    parser.add_argument("--lines", type=int, default=2400, help="of the text, from its start")
    parser.add_argument("--min-count", type=int, default=1, help="of new words, in the first half")
    parser.add_argument("--trained", type=Path)
    arguments = parser.parse_args()
    lines = b"".join(read_blocks(arguments.text)).decode().splitlines()[: arguments.lines]
    first = "\n".join(lines[: len(lines) // 2])
    known, placed = network(arguments.model), network(arguments.model)
    rules = known.vocabulary.rules
    tokens = [word for line in lines[len(lines) // 2 :] for word in (*rules.split(line), rules.eos)]
    counted = by_counts(known, wanted(known.vocabulary, [], first, None, arguments.min_count))
    added = placed.add_words(text=first, min_count=arguments.min_count)
    print(f"{len(added):,} new words after {len(known.vocabulary):,}; known words as perplexity, and in nats")
    report = Report(tokens, known, placed)
    models = {"before": known, "by counts": counted, "added": placed}
    for name, lm in models.items():
        report.line(name, report.nats(lm))
    for name, lm in models.items():
        lm.adapt(first)
        report.line(f"{name}, adapted", report.nats(lm))
    if arguments.trained:
        report.line("added, trained on", report.nats(network(arguments.trained)))


if __name__ == "__main__":
    main()
