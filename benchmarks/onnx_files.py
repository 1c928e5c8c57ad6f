"""ONNX files of a model: bytes, perplexity and speed in onnxruntime, beside PyTorch's and a packed file's in NumPy.

    python benchmarks/onnx_files.py MODEL DATA [--sentences 500] [--repeats 3]

Sentences are the first of the test text, each from a fresh state, in one thread: side by side, 64 of like length in a
batch, and word by word, as a decoder asks. The engines take turns; medians of the processor's seconds, not the clock's.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from math import exp, log
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import lightrnn
from lightrnn.packed.model import Network, write
from lightrnn.packed.onnx_export import export
from lightrnn.runtime import BATCH_SIZE, use_threads
from lightrnn.text.corpus import Corpus

Score = Callable[[list[str]], NDArray[np.float64]]  # sentences → log10 of each
PRECISIONS = ("float32", "float16", "int8")


class Onnx:
    """A file of a table with rows and columns, as docs/onnx.md describes it."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        entries = self._session.get_modelmeta().custom_metadata_map
        self._about = json.loads(entries["lightrnn"])
        self._places = {word: place for place, word in enumerate(entries["words"].split("\n"))}
        self._outputs = [output.name for output in self._session.get_outputs()]
        states = self._session.get_inputs()[1:]
        self._start = {i.name: np.zeros([n if isinstance(n, int) else 1 for n in i.shape], np.float32) for i in states}

    def _codes(self, words: list[str]) -> list[int]:
        (rows, columns), alone, unknown = self._about["table_shape"], self._about["alone"], self._about["rules"]["unk"]
        codes: list[int] = []
        for word in words:
            place = self._places.get(word, self._places[unknown])
            row, column = divmod(place - alone, columns)
            codes += [place] if place < alone else [alone + row, rows + column]
        return codes

    def _spelled(self, sentence: str) -> tuple[list[int], int]:
        """A sentence's codes between the bounds, and how many are not scored."""
        rules = self._about["rules"]
        before = self._codes([rules["bos"] or rules["eos"]])
        return before + self._codes([*sentence.split(), rules["eos"]]), len(before)

    def batches(self, sentences: list[str]) -> NDArray[np.float64]:
        spelled = [self._spelled(sentence) for sentence in sentences]
        order = sorted(range(len(spelled)), key=lambda i: len(spelled[i][0]))
        found = np.zeros(len(spelled))
        for begin in range(0, len(order), BATCH_SIZE):
            some = order[begin : begin + BATCH_SIZE]
            codes = np.full((len(some), max(len(spelled[i][0]) for i in some)), -1)
            for track, i in zip(codes, some, strict=True):
                track[: len(spelled[i][0])] = spelled[i][0]
            (log_probs,) = self._session.run(["log_probs"], {"codes": codes, **self._start})
            found[some] = [row[spelled[i][1] - 1 :].sum() for row, i in zip(log_probs, some, strict=True)]
        return found / log(10)

    def words(self, sentences: list[str]) -> NDArray[np.float64]:
        rows, found = self._about["table_shape"][0], np.zeros(len(sentences))
        for number, sentence in enumerate(sentences):
            codes, before = self._spelled(sentence)
            state, total = self._start, 0.0
            for place, (code, target) in enumerate(pairwise(codes), 1):
                after = dict(zip(self._outputs, self._session.run(None, {"codes": [[code]], **state}), strict=True))
                state = {name: after[f"{name}_after"] for name in state}
                if place >= before:
                    total += after["next_row"][0, target] if target < rows else after["next_column"][0, target - rows]
            found[number] = total
        return found / log(10)


def words_one_by_one(lm: lightrnn.LM) -> Score:
    def score(sentences: list[str]) -> NDArray[np.float64]:
        found = np.zeros(len(sentences))
        for number, sentence in enumerate(sentences):
            state = lm.state("")
            for word in (*sentence.split(), lm.vocabulary.rules.eos):
                log10, state = lm.score_word(state, word)
                found[number] += log10
        return found

    return score


def compare(title: str, engines: dict[str, Score], sentences: list[str], repeats: int) -> None:
    """Print words a second and perplexities; ratios are to the first engine."""
    tokens = sum(len(sentence.split()) + 1 for sentence in sentences)
    times: dict[str, list[float]] = {name: [] for name in engines}
    perplexities = {}
    for _ in range(repeats):
        for name, score in engines.items():
            begin = time.process_time()
            perplexities[name] = exp(-score(sentences).sum() * log(10) / tokens)
            times[name].append(time.process_time() - begin)
    first = statistics.median(next(iter(times.values())))
    print(f"\n{title:28} words/s   ratio  perplexity   ({tokens:,} words, median of {repeats})")
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name:28} {tokens / median:7,.0f} {first / median:7.2f} {perplexities[name]:11.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    use_threads(1)
    network, corpus = Network.of_folder(arguments.model), Corpus.load(arguments.data)
    ids, words = corpus.split("test"), corpus.vocabulary
    ends = np.flatnonzero(ids == words.eos_id)[: arguments.sentences]
    pieces = np.split(ids[: ends[-1] + 1], ends[:-1] + 1)
    sentences = [" ".join(words.words[word] for word in piece[:-1]) for piece in pieces]
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "model.lightrnn"
        packed.write_bytes(write(network, "int8"))
        files = {precision: Path(folder) / f"{precision}.onnx" for precision in PRECISIONS}
        for precision, path in files.items():
            path.write_bytes(export(network, precision).SerializeToString())  # type: ignore[arg-type]
        weights = (arguments.model / "weights.safetensors").stat().st_size
        print(f"{'weights.safetensors':28} {weights:10,} bytes\n{'packed, int8':28} {packed.stat().st_size:10,}")
        for precision, path in files.items():
            print(f"{'ONNX, ' + precision:28} {path.stat().st_size:10,}")
        torch_lm, numpy_lm = lightrnn.load(arguments.model), lightrnn.load(packed)
        onnx = {precision: Onnx(path) for precision, path in files.items()}
        batches: dict[str, Score] = {"PyTorch": torch_lm.scores, "NumPy, packed, int8": numpy_lm.scores}
        batches |= {f"onnxruntime, {precision}": file.batches for precision, file in onnx.items()}
        compare("sentences side by side", batches, sentences, arguments.repeats)
        singly: dict[str, Score] = {"NumPy, packed, int8": words_one_by_one(numpy_lm)}
        singly |= {f"onnxruntime, {precision}": file.words for precision, file in onnx.items()}
        compare("word by word", singly, sentences[: max(len(sentences) // 10, 1)], arguments.repeats)


if __name__ == "__main__":
    main()
