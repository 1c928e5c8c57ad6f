"""What training in bfloat16 brings (`--precision`), on this machine: words/s beside float32's, for LightRNN and others.

    python benchmarks/precision.py [--budget 5] [--threads 1]
    python benchmarks/precision.py --data DATA --epochs 2 [--threads 1]

Over 33,278 words, one LSTM layer, batch 20, Adam; both precisions take turns, float32 before and after, medians and
their ratio. With --data: validation perplexities of a LightRNN of one million parameters after each epoch, in both.
Processors without instructions for it (AVX-512 BF16, AMX) are slower in bfloat16: `--precision auto` asks them.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

from lightrnn.config import Recipe
from lightrnn.runtime import keep_memory, multiplies_bfloat16, use_threads
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.trainer import Validated
from throughput import made_up_words, seconds_a_word, trainer_of, windows

WORDS = 33_278  # of WikiText-2
TIED: dict[str, Any] = {"alone": 8900, "head": 1500, "tied": True, "rows": "auto", "word_bias": True, "window": 42}
MODELS: dict[str, dict[str, Any]] = {
    "LightRNN 200": TIED | {"hidden_size": 200, "embedding_size": 64},
    "LightRNN 600": TIED | {"hidden_size": 600, "embedding_size": 128},
    "HSM 200": {"model": "hsm"},
    "Adaptive 400": {"model": "adaptive", "hidden_size": 400, "embedding_size": 200, "tied": True},
    "Full 400": {"model": "full", "hidden_size": 400, "embedding_size": 200, "tied": True},
    "BlackOut 400": {"model": "blackout", "hidden_size": 400, "embedding_size": 200, "blackout_samples": 2000},
}
PRECISIONS = ("float32", "bfloat16")


def speeds(budget: float) -> None:
    vocabulary = made_up_words(WORDS)
    for name, fields in MODELS.items():
        trainers = {precision: trainer_of(vocabulary, fields | {"precision": precision}) for precision in PRECISIONS}
        found: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
        for precision in (*PRECISIONS, *PRECISIONS, "float32"):
            trainer = trainers[precision]
            found[precision].append(1 / seconds_a_word(trainer.train_step, windows(trainer), budget))
        single, half = (statistics.median(found[precision]) for precision in PRECISIONS)
        print(f"{name:13} {single:7,.0f} words/s, in bfloat16 {half:7,.0f}: {half / single:.2f} times", flush=True)


def perplexities(data: Path, epochs: float) -> None:
    corpus = Corpus.load(data)
    fields = TIED | {"hidden_size": 256, "embedding_size": 64, "learning_rate": 0.006, "schedule": "average"}
    for precision in PRECISIONS:
        seen: list[str] = []

        def note(run: object, event: object, seen: list[str] = seen) -> None:
            if isinstance(event, Validated):
                seen.append(f"{event.validation.perplexity:.2f}")

        recipe = Recipe().override(fields | {"epochs": epochs, "precision": precision})
        with tempfile.TemporaryDirectory() as folder:
            bootstrap.train(corpus, recipe, Path(folder) / "model", device=torch.device("cpu"), report=note)
        print(f"{precision:9} {'  '.join(seen)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each timing")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--data", type=Path, help="made by lightrnn prepare: perplexities in place of speeds")
    parser.add_argument("--epochs", type=float, default=2.0)
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    keep_memory()
    print("this processor", "has" if multiplies_bfloat16(torch.device("cpu")) else "lacks", "products of bfloat16")
    if arguments.data:
        perplexities(arguments.data, arguments.epochs)
    else:
        speeds(arguments.budget)


if __name__ == "__main__":
    main()
