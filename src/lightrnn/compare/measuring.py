"""What is measured of a trained network and of an n-gram model, as facts of a run."""

import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..container import write_parts
from ..errors import Diverged, LightRNNError
from ..inference.evaluation import perplexity_of
from ..inference.lm import LM
from ..inference.mixture import mixed, tune
from ..inference.network import NetworkLM
from ..inference.ngrams import NGramLM
from ..inference.while_reading import while_reading
from ..models.base import RecurrentModel
from ..models.checkpoint import load_model
from ..models.folder import METRICS, VOCABULARY
from ..models.kind import kind_of
from ..ngram.kneser_ney import estimate
from ..ngram.packed import packed_bytes
from ..packed.model import Network, write
from ..packed.weights import pack_weights
from ..runtime import Progress, multiplies_bfloat16, threads
from ..text.corpus import Corpus
from ..text.vocabulary import Vocabulary
from ..text.word_list import pack_vocabulary
from ..training.run import load_run, read_metrics
from .run_files import Facts

LogProbs = NDArray[np.float64]  # (N,) of the tokens of a text


@dataclass(frozen=True)
class Estimated:
    """An n-gram model, once it has scored the held-out texts."""

    name: str
    valid: LogProbs
    test: LogProbs
    ngrams: int
    bytes: int
    packed: int  # bytes of its file
    seconds: float


def estimated(name: str, corpus: Corpus, order: int, progress: Progress) -> Estimated:
    """A Kneser-Ney model of a corpus."""
    begin = time.perf_counter()
    model = estimate(corpus.split("train"), corpus.vocabulary, order, corpus.watching(progress))
    seconds = time.perf_counter() - begin
    lm = NGramLM(model)
    valid, test = (_log_probs(lm, corpus, split, progress) for split in ("valid", "test"))
    size = sum(
        array.nbytes for level in model.levels for array in (level.keys, level.log10_probs, level.log10_backoffs)
    )
    return Estimated(name, valid, test, sum(model.counts), size, len(packed_bytes(model)), seconds)


def ngram_facts(ngram: Estimated, corpus: Corpus) -> Facts:
    """Those of a network, of an n-gram model; its parameters are its n-grams."""
    return {
        "valid": perplexity_of(ngram.valid),
        "test": perplexity_of(ngram.test),
        "mix": None,
        "parameters": ngram.ngrams,
        "bytes": {
            "weights": ngram.bytes,
            "table": 0,
            "vocabulary": (corpus.path / "vocab.tsv").stat().st_size,
            "packed": ngram.packed,
        },
        "words_per_second": len(corpus.split("train")) / ngram.seconds,
        "training_seconds": ngram.seconds,
        "start_table_seconds": 0.0,
        "refinement_seconds": 0.0,
        "refinement_share": 0.0,
        "curve": [],
    }


def network_facts(
    folder: Path,
    corpus: Corpus,
    *,
    mix_with: Estimated | None,
    cache: int,
    adapt: bool,
    device: torch.device,
    progress: Progress,
) -> Facts:
    """Of the network that was trained in `folder`; mix_with, cache, adapt: what else it is to be measured with."""
    _, trained, _ = load_run(folder)
    model, vocabulary = load_model(folder, device)
    lm = NetworkLM(model, vocabulary)
    test = _log_probs(lm, corpus, "test", progress)
    mix = None
    if mix_with is not None:
        weights = tune(np.stack([_log_probs(lm, corpus, "valid", progress), mix_with.valid], axis=1))
        together = mixed(np.stack([test, mix_with.test], axis=1), weights)
        mix = {"with": mix_with.name, "weight": weights[0], "test": perplexity_of(together)}
    seconds = trained["clock"]["training"]
    words = trained["words"] + trained["position"]["words"]
    before = trained["clock"]["start"]
    curve, refining = _curve(read_metrics(folder), before), trained["clock"]["refinement"]
    if not curve:
        raise LightRNNError(f"{folder / METRICS} holds no validation any more; remove the folder to run it again")
    parameters = dict(model.named_parameters())
    beside = [tensor for name, tensor in model.state_dict().items() if name not in parameters]
    return {
        "valid": trained["best_perplexity"],
        "test": perplexity_of(test),
        "mix": mix,
        "while_reading": _while_reading(lm, corpus, cache, adapt, progress),
        "parameters": sum(p.numel() for p in parameters.values()),
        "alone": model.config.alone,
        "bytes": {
            "weights": sum(p.nbytes for p in parameters.values()),
            "table": sum(tensor.nbytes for tensor in beside),
            "vocabulary": (folder / VOCABULARY).stat().st_size,
            "packed": _packed(folder, model, vocabulary, beside),
        },
        "words_per_second": words / seconds,
        "training_seconds": seconds,
        "start_table_seconds": before,
        "refinement_seconds": refining,
        "refinement_share": refining / (before + seconds + refining),
        "curve": curve,
    }


def _while_reading(lm: NetworkLM, corpus: Corpus, cache: int, adapt: bool, progress: Progress) -> dict[str, float]:
    """Test perplexities of a network with a cache of so many words (0: none), and as it learns on the way, which reads
    a text as a stream; without those of a way in which it loses its course."""
    convention = corpus.vocabulary.rules.convention
    ways: list[dict[str, float] | None] = [None] if cache else []
    if adapt and convention == "stream":
        ways.append({})
    valid, test = corpus.split("valid"), corpus.split("test")
    found = {}
    for learning in ways:
        with suppress(Diverged):
            for worth in while_reading(
                lm, test, convention, learning=learning, cache=cache, held_out=valid, progress=progress
            ):
                found[worth.name] = worth.result.perplexity
    return found


def machine(device: torch.device) -> Facts:
    """What figures of time depend on; precision: what `--precision auto` stands for."""
    name = platform.processor() or platform.machine()
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    return {
        "cpu": name,
        "threads": threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "precision": "bfloat16" if multiplies_bfloat16(device) else "float32",
        "torch": torch.__version__,
    }


def _packed(folder: Path, model: RecurrentModel, vocabulary: Vocabulary, beside: list[torch.Tensor]) -> int:
    """The bytes of one file with all of a model, its weights in int8; of an opponent, which has no such file, of the
    same parts."""
    if kind_of(model.config).predictor is not None:
        return len(write(Network.load(folder)))
    weights = {name: parameter.detach().cpu().numpy() for name, parameter in model.named_parameters()}
    stored = b"".join(tensor.cpu().numpy().tobytes() for tensor in beside)
    parts = pack_vocabulary(vocabulary) | {"table": stored, "weights": pack_weights(weights, "int8")[1]}
    return len(write_parts(parts))


def _log_probs(lm: LM, corpus: Corpus, split: str, progress: Progress) -> LogProbs:
    """(N,): natural logs of the tokens of a split, in the corpus's convention."""
    parts = lm.token_log_probs(corpus.split(split), progress=corpus.watching(progress))
    return np.asarray(parts.sum(axis=1, dtype=np.float64), np.float64)


def _curve(lines: list[Facts], before: float) -> list[Facts]:
    """The validations, their seconds with the making of all tables so far."""
    curve, refining = [], 0.0
    for line in lines:
        refining += line.get("refinement_seconds", 0.0)
        if "valid_perplexity" in line:
            point = {name: line[name] for name in ("words", "epoch")}
            curve.append(
                {"seconds": before + refining + line["seconds"], **point, "perplexity": line["valid_perplexity"]}
            )
    return curve
