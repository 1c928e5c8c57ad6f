"""What packing a model costs and saves: perplexity by precision, bytes, cold starts, the ten likeliest words; one run.

    python benchmarks/packing.py MODEL DATA [--groups 64 32 16] [--tokens N] [--repeats 7] [--queries 200]

MODEL is a LightRNN's folder, DATA one made by `lightrnn prepare` with its words. One thread.

Precision: perplexity of DATA's test text, or of its first N tokens, under weights of float32, float16 and int8, with a
scale for each vector and for groups of so many numbers. Bytes: of the folder (weights, table, words), of the packed
file, of each after gzip, and of a marisa-trie of the words alone, where that package is installed. Cold: a process from
its start to its end that asks for the next word of the file, of the folder, and one that merely imports PyTorch, in
turns; CPU seconds and seconds, medians. Texts: words a CPU second, read by NumPy and by PyTorch. Top ten:
exact, from the states of the validation text, NumPy on the packed file and the same search in PyTorch, in turns.
"""

import argparse
import gzip
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lightrnn.inference.network import NetworkLM
from lightrnn.models.base import to_tensors
from lightrnn.models.folder import TABLE, VOCABULARY, WEIGHTS
from lightrnn.models.lightrnn import LightRNN
from lightrnn.packed.model import Network, read, write
from lightrnn.packed.weights import Precision
from lightrnn.runtime import use_threads
from lightrnn.text.corpus import Corpus
from lightrnn.text.vocabulary import Vocabulary

FIRST_CHUNK, LAST_CHUNK = 16, 256  # rows opened together, as CodePredictor opens them
SOURCE = Path(__file__).parents[1] / "src"


def precisions(network: Network, corpus: Corpus, groups: list[int], tokens: int | None) -> None:
    print("| weights | bytes | test perplexity | above float32 |\n|---|---:|---:|---:|")
    ids = corpus.split("test")[:tokens]
    kinds: list[tuple[str, Precision, int]] = [
        ("float32", "float32", 0),
        ("float16", "float16", 0),
        ("int8, a scale a vector", "int8", 0),
        *((f"int8, a scale for {group} numbers", "int8", group) for group in groups),
    ]
    whole = 0.0
    for name, precision, group in kinds:
        data = write(network, precision, group)
        lm = NetworkLM.of_packed(read(data, name))
        perplexity = lm.evaluate(lm.vocabulary.encode(corpus.vocabulary.words)[ids]).perplexity
        whole = whole or perplexity
        print(f"| {name} | {len(data):,} | {perplexity:.3f} | {perplexity / whole - 1:+.3%} |", flush=True)


def sizes(folder: Path, packed: bytes, vocabulary: Vocabulary) -> None:
    files = {name: (folder / name).read_bytes() for name in (WEIGHTS, TABLE, VOCABULARY)}
    total = sum(len(data) for data in files.values())
    print("\n| what | bytes | gzip -9 | of the folder |\n|---|---:|---:|---:|")
    for name, data in (*files.items(), ("the folder", b"".join(files.values())), ("packed, int8", packed)):
        print(f"| {name} | {len(data):,} | {len(gzip.compress(data, 9)):,} | {len(data) / total:.3f} |")
    if importlib.util.find_spec("marisa_trie"):
        import marisa_trie

        trie = marisa_trie.Trie(vocabulary.words).tobytes()
        print(
            f"| marisa-trie of the words | {len(trie):,} | {len(gzip.compress(trie, 9)):,} | {len(trie) / total:.3f} |"
        )


def cold(packed: Path, folder: Path, repeats: int) -> None:
    """CPU seconds are what counts where other work shares the core."""
    python = [sys.executable]
    asked = ["-m", "lightrnn", "next"]
    commands = {
        "next PACKED": [*python, *asked, str(packed), "it was"],
        "next FOLDER": [*python, *asked, str(folder), "it was"],
        "import torch": [*python, "-c", "import torch"],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(repeats + 1):  # the first fills the disk's cache
        for name, command in commands.items():
            begin = time.perf_counter()
            environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                sys.exit(f"{name} failed")
            if turn:
                used = usage.ru_utime + usage.ru_stime
                times[name].append((used, time.perf_counter() - begin))
    print("\n| a cold process | CPU s | s | CPU, of importing torch |\n|---|---:|---:|---:|")
    base = statistics.median(found[0] for found in times["import torch"])
    for name, found in times.items():
        used, waited = (statistics.median(values) for values in zip(*found, strict=True))
        print(f"| {name} | {used:.2f} | {waited:.2f} | {used / base:.2f} |", flush=True)


def texts(folder: Path, packed: bytes, corpus: Corpus, tokens: int | None) -> None:
    lms = {"NumPy": NetworkLM.of_packed(read(packed, "the packed model")), "PyTorch": NetworkLM.load(folder)}
    for name, lm in lms.items():
        ids = lm.vocabulary.encode(corpus.vocabulary.words)[corpus.split("test")[:tokens]]
        lm.token_log_probs(ids[:500])
        begin = time.process_time()
        lm.token_log_probs(ids)
        print(f"{name} reads {len(ids) / (time.process_time() - begin):,.0f} words of text a CPU second")


class TorchSearch:
    """The search of CodePredictor.likeliest in PyTorch, for K = 2: rows in falling order until no more can matter."""

    def __init__(self, model: LightRNN) -> None:
        self.model = model

    def _rows(self, features: Tensor) -> Tensor:
        model = self.model
        scores = model.scores(0, features, None)
        if not model.head:
            return scores.log_softmax(dim=-1)[0]
        rest = features @ model.rest_vector.T + (model.rest_bias if model.rest_bias is not None else 0)
        of_head = torch.cat([scores[:, : model.head], rest], dim=1).log_softmax(dim=-1)
        within = scores[:, model.head :].log_softmax(dim=-1)
        return torch.cat([of_head[:, :-1], within + of_head[:, -1:]], dim=1)[0]

    @torch.inference_mode()
    def top(self, code: int, state: tuple[Tensor, ...], count: int) -> Tensor:
        """The log-probabilities of the likeliest words after one more code."""
        model = self.model
        outputs, after = model.read(torch.tensor([[code]]), state)
        rows = self._rows(model.projection(outputs[0]))
        best = rows[: model.alone].topk(min(count, model.alone)).values
        order = torch.argsort(rows[model.alone :], descending=True) + model.alone
        begin, chunk = 0, FIRST_CHUNK
        while begin < len(order):
            some = order[begin : begin + chunk]
            if len(best) == count:
                some = some[rows[some] > best[-1]]
            if len(some) == 0:
                break
            states = tuple(tensor.expand(-1, len(some), -1).contiguous() for tensor in after)
            opened, _ = model.read(some[:, None], states)
            scores = model.scores(1, model.projection(opened[:, 0]), some[:, None])
            found = torch.cat([best, (scores.log_softmax(dim=-1) + rows[some, None]).flatten()])
            best = found.topk(min(count, len(found))).values
            begin, chunk = begin + chunk, min(2 * chunk, LAST_CHUNK)
        return best


def top_ten(packed: bytes, corpus: Corpus, queries: int) -> None:
    lm = NetworkLM.of_packed(read(packed, "the packed model"))
    model = lm.model
    if not isinstance(model, LightRNN) or model.components != 2:
        print("\nthe search in PyTorch is written for K = 2 only")
        return
    search, spelling = TorchSearch(model), model.spelling.codes
    assert spelling is not None
    ids = lm.vocabulary.encode(corpus.vocabulary.words)[corpus.split("valid")[:queries]]
    times: dict[str, list[float]] = {"NumPy": [], "PyTorch": []}
    state, furthest = lm.begin_state(), 0.0
    for word in ids.tolist():
        _, state = lm.read_word(state, word)
        code, inner = int(spelling[word].max()), to_tensors(state.inner, model)
        begin = time.perf_counter()
        found = lm.likeliest(state, 10)
        times["NumPy"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        same = search.top(code, inner, 10)
        times["PyTorch"].append(time.perf_counter() - begin)
        furthest = max(furthest, float(np.abs(same.numpy() - found.log_probs).max()))
    numpy_ms, torch_ms = (1e3 * statistics.median(found) for found in times.values())
    print(f"top ten of {len(lm.vocabulary):,} words, median of {len(ids)}: NumPy {numpy_ms:.2f} ms, PyTorch")
    print(f"{torch_ms:.2f} ms, ratio {numpy_ms / torch_ms:.2f}; log-probabilities differ by at most {furthest:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--groups", type=int, nargs="*", default=[64, 32, 16])
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args()
    use_threads(1)
    network, corpus = Network.of_folder(arguments.model), Corpus.load(arguments.data)
    table = network.table
    print(f"V = {len(table):,}, {table.alone:,} alone, {network.config.hidden_size} units")
    precisions(network, corpus, arguments.groups, arguments.tokens)
    packed = write(network)
    sizes(arguments.model, packed, network.vocabulary)
    if arguments.repeats:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "words.lightrnn"
            path.write_bytes(packed)
            cold(path, arguments.model.resolve(), arguments.repeats)
    if arguments.queries:
        print()
        texts(arguments.model, packed, corpus, arguments.tokens)
        top_ten(packed, corpus, arguments.queries)


if __name__ == "__main__":
    main()
