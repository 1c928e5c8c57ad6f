"""Kneser-Ney 5-grams: seconds and peak memory of estimating one, its files and how fast they are read, and perplexities
beside those of KenLM's lmplz.

    LIGHTRNN_CORPORA=… python benchmarks/ngram.py [DATA]

DATA is a folder made by `lightrnn prepare`; without it only the perplexities of PTB and WikiText-2 are printed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpora import corpus_folder
from lightrnn.inference.ngrams import NGramLM
from lightrnn.ngram.arpa import read_arpa, write_arpa
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.ngram.packed import read_packed, write_packed
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.presets import PRESETS

# `lmplz -o 5` with its defaults, every line from a fresh start, sentence ends counted, <unk> in the text a word
REFERENCE = {"ptb": ("ptb", 141.19), "wikitext-2": ("wikitext", 220.14)}
MEASURED = """
import resource, sys, time
from pathlib import Path
from lightrnn.text.corpus import Corpus
from lightrnn.ngram.kneser_ney import estimate
corpus = Corpus.load(Path(sys.argv[1]))
ids = corpus.split("train")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
model = estimate(ids, corpus.vocabulary, 5)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"{len(ids):,} tokens, {sum(model.counts):,} n-grams: {seconds:.1f} s, {len(ids) / seconds / 1e6:.2f} M words/s, "
      f"peak memory {peak / 2**20:.2f} GB, {before / 2**20:.2f} GB of it before")
"""


def measure_files(data: Path) -> None:
    """Bytes of a packed file and an ARPA file of one model, and the seconds of a processor that reading each takes."""
    import kenlm

    corpus = Corpus.load(data)
    model = estimate(corpus.split("train"), corpus.vocabulary, 5)
    with tempfile.TemporaryDirectory() as folder:
        packed, arpa = Path(folder) / "kn.lightrnn", Path(folder) / "kn.arpa"
        write_packed(model, packed)
        write_arpa(model, arpa)
        for name, path, read in (
            ("packed", packed, read_packed),
            ("ARPA", arpa, read_arpa),
            ("ARPA, by KenLM", arpa, lambda path: kenlm.Model(str(path))),
        ):
            begin = time.process_time()
            read(path)
            print(f"{name:16} {path.stat().st_size:13,} bytes, read in {time.process_time() - begin:6.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    arguments = parser.parse_args()
    if arguments.data:
        done = subprocess.run([sys.executable, "-c", MEASURED, str(arguments.data)], stdout=subprocess.PIPE, check=True)
        print(f"{arguments.data.name}: {done.stdout.decode().strip()}")
        measure_files(arguments.data)
    for name, (preset, reference) in REFERENCE.items():
        source = corpus_folder(name)
        train, valid, test = ([str(source / f"{split}.txt.xz")] for split in ("train", "valid", "test"))
        with tempfile.TemporaryDirectory() as folder:
            corpus = prepare(train, Path(folder) / "data", valid=valid, test=test, rules=PRESETS[preset].rules)
            model = estimate(corpus.split("train"), corpus.vocabulary, 5)
            result = NGramLM(model).evaluate(corpus.split("test"), "sentence")
        print(f"{name}: test perplexity {result.perplexity:.2f} over {result.tokens:,} tokens, lmplz {reference}")


if __name__ == "__main__":
    main()
