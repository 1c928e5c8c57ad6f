"""The same text scored on 1, 3, 16 … tracks side by side: nats must agree, and what the speed is.

    python benchmarks/batching.py MODEL DATA [--split test] [--tokens N]

MODEL is a folder made by `lightrnn train`, DATA one made by `lightrnn prepare`. One thread.
"""

import argparse
import time

import numpy as np

from lightrnn import Corpus, load_model
from lightrnn.inference.passes import stream_log_probs
from lightrnn.models.base import TorchReader
from lightrnn.runtime import use_threads

TRACKS = (1, 3, 16, 64, 500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--split", default="test")
    parser.add_argument("--tokens", type=int)
    arguments = parser.parse_args()
    use_threads(1)
    model, vocabulary = load_model(arguments.model)
    ids = Corpus.load(arguments.data).split(arguments.split)[: arguments.tokens]
    print(f"{len(ids):,} tokens\n| tracks | nats | relative to one track | words/s |\n|---|---|---|---|")
    single = 0.0
    for tracks in TRACKS:
        begin = time.perf_counter()
        nats = -float(stream_log_probs(TorchReader(model), ids, vocabulary.bos_id, tracks).sum(dtype=np.float64))
        seconds = time.perf_counter() - begin
        single = single or nats
        print(f"| {tracks} | {nats:.4f} | {nats / single - 1:+.1e} | {len(ids) / seconds:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
