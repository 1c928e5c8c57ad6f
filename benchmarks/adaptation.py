"""What a cache and dynamic evaluation are worth: test perplexities of trained models beside each other, line by line.

    python benchmarks/adaptation.py MODEL DATA [--tokens 60000] [--cache 500 2000] [--rates]

Settings of the cache are found on the validation text. Those of the adaptation are the package's own; --rates tries
others on the validation text. --tokens takes so many from the beginning of both texts.
"""

import argparse
import time

import lightrnn
from lightrnn.inference.cache import CacheLM
from lightrnn.inference.evaluation import perplexity_of
from lightrnn.inference.features import Reading
from lightrnn.inference.network import DECAY, RATE, NetworkLM
from lightrnn.inference.tuning import CachedReading
from lightrnn.runtime import use_threads
from lightrnn.text.spelling import Ids


def adapted(lm: NetworkLM, ids: Ids, rate: float = RATE, decay: float = DECAY) -> Reading:
    try:
        return lm.read_adapting(ids, rate, decay)
    finally:
        lm.reset()


def tell(what: str, perplexity: float, start: float) -> None:
    print(f"{what:44} {perplexity:7.2f}   {time.process_time() - start:5.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--tokens", type=int, default=10**9)
    parser.add_argument("--cache", type=int, nargs="*", default=[500, 2000])
    parser.add_argument("--rates", action="store_true")
    asked = parser.parse_args()
    use_threads(1)
    lm, corpus = lightrnn.load(asked.model), lightrnn.Corpus.load(asked.data)
    assert isinstance(lm, NetworkLM)
    valid, test = (corpus.split(name)[: asked.tokens] for name in ("valid", "test"))
    print(f"{asked.model}: {len(test):,} tokens of test, tuned on {len(valid):,} of valid; seconds of one core")
    if asked.rates:
        for rate in (RATE / 2, RATE, 2 * RATE):
            for decay in (DECAY / 3, DECAY, 3 * DECAY):
                start = time.process_time()
                found = adapted(lm, valid, rate, decay).log_probs.sum(axis=1, dtype="float64")
                tell(f"valid, adapted, rate {rate:g}, decay {decay:g}", perplexity_of(found), start)
    for name, read in (("static", lm.read), ("adapted", lambda ids: adapted(lm, ids))):
        start = time.process_time()
        reading = read(test)
        tell(name, perplexity_of(reading.log_probs.sum(axis=1, dtype="float64")), start)
        held_out = read(valid)
        for size in asked.cache:
            start = time.process_time()
            cached = CachedReading.tuned(CacheLM(lm, size), held_out, valid, "stream")
            found = cached.log_probs(reading, test, "stream")[:, 0]
            settings = f"weight {cached.weight:.2f}, flatness {cached.cache.flatness:.3g}"
            tell(f"{name}, cache of {size:,} ({settings})", perplexity_of(found), start)


if __name__ == "__main__":
    main()
