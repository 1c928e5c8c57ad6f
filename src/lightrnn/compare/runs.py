"""The runs of a grid, one at a time: each a JSON file when it is finished, a model folder until then.

RESULTS/runs/ holds one small file for each finished run, written last and at once: a run is there with all its facts
or it is not done. WORK/ holds the prepared corpora and the model folders, from which unfinished runs go on. An n-gram
model is estimated again when a mix needs it, which takes no longer than reading it from a file.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..border import check, digest, list_of, maybe, number, one_field, record, shown, text, whole
from ..config import Recipe
from ..container import write_parts
from ..errors import LightRNNError
from ..files import read_json, write_json
from ..inference.evaluation import perplexity_of
from ..inference.lm import LM, NGramLM
from ..inference.mixture import mixed, tune
from ..inference.network import NetworkLM
from ..inference.while_reading import while_reading
from ..models.base import RecurrentModel
from ..models.checkpoint import load_model
from ..models.folder import CONFIG, TRAINING, VOCABULARY, read_config
from ..models.kind import kind_of
from ..ngram.kneser_ney import estimate
from ..ngram.packed import packed_bytes
from ..outputs import locked, settle, sweep
from ..packed.model import Network, write
from ..packed.weights import pack_weights
from ..runtime import Progress, choose_device, silent, threads
from ..text.corpus import SPLITS, Corpus, is_data_folder, prepare
from ..text.presets import find_preset, find_splits
from ..text.vocabulary import Vocabulary
from ..text.word_list import pack_vocabulary
from ..training import bootstrap
from ..training.fitting import fitted
from ..training.run import load_run, read_metrics
from ..training.teaching import Teacher
from .grid import Budget, CorpusEntry, Grid, GridRun, slug

RUN_FORMAT = 1
SECONDS, PERPLEXITY = number(least=0, most=1e12), number(least=0)
FACTS = record(  # of a finished run
    {
        **dict.fromkeys(("corpus", "model", "data", "date"), text()),
        **dict.fromkeys(("seed", "train_tokens", "vocabulary_size", "parameters"), whole()),
        "recipe": record({}, {"order": whole(1, 99)}),
        "budget": maybe(one_field({"epochs": number(least=0), "minutes": number(least=0)})),
        "valid": PERPLEXITY,
        "test": PERPLEXITY,
        "mix": maybe(record({"with": text(), "weight": number(least=0, most=1), "test": PERPLEXITY})),
        "bytes": record(dict.fromkeys(("weights", "table", "vocabulary"), whole()), {"packed": whole()}),
        "words_per_second": number(least=0),
        **dict.fromkeys(("training_seconds", "start_table_seconds", "refinement_seconds"), SECONDS),
        "refinement_share": number(least=0, most=1),
        "curve": list_of(
            record({"seconds": SECONDS, "words": whole(), "epoch": number(least=0), "perplexity": PERPLEXITY})
        ),
        "machine": record({"cpu": text(), "threads": whole(1), "device": text(), "torch": text()}),
    },
    {
        "sha256": digest(),
        "alone": whole(),
        "teacher": text(),
        "while_reading": record({}, dict.fromkeys(("adapted", "with_cache", "adapted_with_cache"), PERPLEXITY)),
    },
)

Facts = dict[str, Any]
LogProbs = NDArray[np.float64]  # (N,) of the tokens of a text


@dataclass(frozen=True)
class _Estimated:
    """An n-gram model, once it has scored the held-out texts."""

    valid: LogProbs
    test: LogProbs
    ngrams: int
    bytes: int
    packed: int  # bytes of its file
    seconds: float


class Comparison:
    """A grid with its results. A run is done by `open`, then `train` if it is a network, then `finish`."""

    def __init__(
        self, grid: Grid, results: Path, work: Path, *, corpora: Path | None = None, device: torch.device | None = None
    ) -> None:
        """corpora: the folder of all corpora. Refuses results of the same names with other settings."""
        self.grid = grid
        self.results = results
        old = results / "cells"  # what version 0.1.0 called its runs
        self.files = old if old.is_dir() and not (results / "runs").exists() else results / "runs"
        self.work = work
        self.corpora = corpora
        self.device = device or choose_device()
        self._opened: dict[str, Corpus] = {}
        self._estimated: dict[tuple[str, int], _Estimated] = {}
        for facts in self._all_facts():
            self._check_same(facts)

    def finished(self) -> list[Facts]:
        """The facts of the finished runs of this grid, in its order."""
        return [read_run(self._file(run), run) for run in self.grid.runs() if self._file(run).exists()]

    def missing(self) -> list[GridRun]:
        return [run for run in self.grid.runs() if not self._file(run).exists()]

    def claimed(self, run: GridRun) -> AbstractContextManager[None]:
        """Nobody else makes the run during the block; outputs.InUse if somebody does already."""
        return locked(self.results / run.name)

    def check_corpora(self, runs: list[GridRun]) -> None:
        """Fail now rather than after hours where a corpus cannot be found."""
        for entry in {run.corpus.name: run.corpus for run in runs}.values():
            if is_data_folder(self._data(entry)):
                self.open(entry)
            else:
                self._text(entry)

    def open(self, entry: CorpusEntry, progress: Progress = silent) -> Corpus:
        """The corpus, prepared if need be; it must be the one that its finished runs were trained on."""
        if entry.name not in self._opened:
            folder = self._data(entry)
            if not is_data_folder(folder):
                text = self._text(entry)
                with locked(folder, wait=True):  # another process may be preparing it
                    if not is_data_folder(folder):
                        prepare(text, folder, preset=entry.preset, progress=progress)
            corpus = Corpus.load(folder)
            for split in SPLITS:
                corpus.split(split)
            for facts in self.finished():
                if facts["corpus"] == entry.name and not corpus.has_digest(facts["data"], *SPLITS):
                    raise LightRNNError(
                        f"{folder} is not the data that the finished runs of {entry.name} in {self.results} were "
                        "made on; put that back, or use another -o"
                    )
            self._opened[entry.name] = corpus
        return self._opened[entry.name]

    def train(
        self,
        run: GridRun,
        report: bootstrap.Report = lambda run, event: None,
        progress: Progress = silent,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> bootstrap.Outcome:
        """Train the network of a run, or go on where it was stopped."""
        assert run.recipe is not None
        corpus, folder = self.open(run.corpus), self.work / run.name
        recipe = fitted(run.recipe, corpus)
        settle(folder)
        if (folder / TRAINING).exists():
            trained = read_config(folder)["training"]
            begun = Recipe.from_dict(
                {name: trained[name] for name in recipe.to_dict() if name in trained}, str(folder / CONFIG)
            )
            if difference := _difference(begun, recipe):
                raise LightRNNError(
                    f"{folder} was begun with {difference}; give that again, or remove the folder to start afresh"
                )
            return bootstrap.resume(
                corpus, folder, {}, device=self.device, report=report, progress=progress, should_stop=should_stop
            )
        return bootstrap.train(
            corpus,
            recipe,
            folder,
            teacher=self._teacher(run),
            force=True,
            device=self.device,
            report=report,
            progress=progress,
            should_stop=should_stop,
        )

    def _teacher(self, run: GridRun) -> Teacher | None:
        teaching = self.grid.teacher_of(run)
        if teaching is None:
            return None
        folder = self.work / teaching.name
        if teaching in self.missing() or not folder.exists():
            raise LightRNNError(
                f"its teacher, {teaching.model.name}, has no trained model in {self.work}; run it first"
                + (f" (once {self._file(teaching)} is removed)" if self._file(teaching).exists() else "")
            )
        return Teacher.load(folder)

    def finish(self, run: GridRun, progress: Progress = silent) -> Facts:
        """Score the held-out texts and write the run's file."""
        corpus = self.open(run.corpus, progress)
        measured = self._network(run, corpus, progress) if run.recipe else self._ngram(run, corpus, progress)
        facts = {
            "format": RUN_FORMAT,
            "corpus": run.corpus.name,
            "model": run.model.name,
            "seed": run.seed,
            "recipe": run.recipe.to_dict() if run.recipe else {"order": run.model.order},
            "budget": run.budget,
            "data": corpus.digest(*SPLITS),
            "train_tokens": len(corpus.split("train")),
            "vocabulary_size": len(corpus.vocabulary),
            **measured,
            **({"teacher": run.model.teacher} if run.model.teacher else {}),
            "machine": machine(self.device),
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        self._file(run).parent.mkdir(parents=True, exist_ok=True)
        sweep(self._file(run).parent, self._file(run).name)
        write_json(self._file(run), facts | {"sha256": _digest_of(facts)})
        return facts

    def _network(self, run: GridRun, corpus: Corpus, progress: Progress) -> Facts:
        folder = self.work / run.name
        _, trained, _ = load_run(folder)
        lines = read_metrics(folder)
        model, vocabulary = load_model(folder, self.device)
        lm = NetworkLM(model, vocabulary)
        test = _log_probs(lm, corpus, "test", progress)
        mix = None
        if self.grid.mix:
            kneser_ney = next(entry for entry in self.grid.models if entry.recipe is None)
            ngram = self._estimate(run.corpus, kneser_ney.order, progress)
            weights = tune(np.stack([_log_probs(lm, corpus, "valid", progress), ngram.valid], axis=1))
            together = mixed(np.stack([test, ngram.test], axis=1), weights)
            mix = {"with": kneser_ney.name, "weight": weights[0], "test": perplexity_of(together)}
        seconds = trained["clock"]["training"]
        words = trained["words"] + trained["position"]["words"]
        before = trained["clock"]["start"]
        curve, refining = _curve(lines, before)
        parameters = dict(model.named_parameters())
        beside = [tensor for name, tensor in model.state_dict().items() if name not in parameters]
        sizes = {
            "weights": sum(p.nbytes for p in parameters.values()),
            "table": sum(tensor.nbytes for tensor in beside),
            "vocabulary": (folder / VOCABULARY).stat().st_size,
        }
        return {
            "valid": trained["best_perplexity"],
            "test": perplexity_of(test),
            "mix": mix,
            "while_reading": self._while_reading(lm, corpus, progress),
            "parameters": sum(p.numel() for p in parameters.values()),
            "alone": model.config.alone,
            "bytes": sizes | {"packed": _packed(folder, model, vocabulary, beside)},
            "words_per_second": words / seconds,
            "training_seconds": seconds,
            "start_table_seconds": before,
            "refinement_seconds": refining,
            "refinement_share": refining / (before + seconds + refining),
            "curve": curve,
        }

    def _while_reading(self, lm: NetworkLM, corpus: Corpus, progress: Progress) -> dict[str, float]:
        """Test perplexities of the network as it learns on the way and has a cache, as far as the grid asks for them.
        Learning reads a text as a stream."""
        grid, convention = self.grid, corpus.vocabulary.rules.convention
        ways: list[dict[str, float] | None] = [None] if grid.cache else []
        if grid.adapt and convention == "stream":
            ways.append({})
        valid, test = corpus.split("valid"), corpus.split("test")
        return {
            worth.name: worth.result.perplexity
            for learning in ways
            for worth in while_reading(
                lm, test, convention, learning=learning, cache=grid.cache, held_out=valid, progress=progress
            )
        }

    def _ngram(self, run: GridRun, corpus: Corpus, progress: Progress) -> Facts:
        """The same facts of an n-gram model; its parameters are its n-grams."""
        estimated = self._estimate(run.corpus, run.model.order, progress)
        return {
            "valid": perplexity_of(estimated.valid),
            "test": perplexity_of(estimated.test),
            "mix": None,
            "parameters": estimated.ngrams,
            "bytes": {
                "weights": estimated.bytes,
                "table": 0,
                "vocabulary": (corpus.path / "vocab.tsv").stat().st_size,
                "packed": estimated.packed,
            },
            "words_per_second": len(corpus.split("train")) / estimated.seconds,
            "training_seconds": estimated.seconds,
            "start_table_seconds": 0.0,
            "refinement_seconds": 0.0,
            "refinement_share": 0.0,
            "curve": [],
        }

    def _estimate(self, entry: CorpusEntry, order: int, progress: Progress) -> _Estimated:
        if (entry.name, order) not in self._estimated:
            corpus, begin = self.open(entry, progress), time.perf_counter()
            model = estimate(corpus.split("train"), corpus.vocabulary, order, corpus.watching(progress))
            seconds = time.perf_counter() - begin
            lm = NGramLM(model)
            valid, test = (_log_probs(lm, corpus, split, progress) for split in ("valid", "test"))
            size = sum(
                array.nbytes
                for level in model.levels
                for array in (level.keys, level.log10_probs, level.log10_backoffs)
            )
            packed = len(packed_bytes(model))
            self._estimated[entry.name, order] = _Estimated(valid, test, sum(model.counts), size, packed, seconds)
        return self._estimated[entry.name, order]

    def _file(self, run: GridRun) -> Path:
        return self.files / f"{run.name}.json"

    def _all_facts(self) -> list[Facts]:
        return [read_run(path) for path in sorted(self.files.glob("*.json"))]

    def _check_same(self, facts: Facts) -> None:
        """Refuse to set results beside others of another budget, or of another model by the same name."""
        named = f"{self.files} has a run of {facts['corpus']}, {facts['model']}"
        corpus = next((entry for entry in self.grid.corpora if entry.name == facts["corpus"]), None)
        model = next((entry for entry in self.grid.models if entry.name == facts["model"]), None)
        if corpus is not None and facts["budget"] is not None:
            then = Budget(*next(iter(facts["budget"].items())))
            if then != corpus.budget:
                raise LightRNNError(
                    f"{named}, with a budget of {then}, and the budget now is {corpus.budget}; "
                    f"give --{then.unit} {then.amount:g}, or use another -o"
                )
        if corpus is None or model is None:
            return
        if model.recipe is None or "order" in facts["recipe"]:
            now = {"order": model.order} if model.recipe is None else {}
            difference = "" if facts["recipe"] == now else f"settings {facts['recipe']}"
        else:
            recipe = GridRun(corpus, model, facts["seed"]).recipe
            assert recipe is not None
            difference = _difference(Recipe.from_dict(facts["recipe"], str(self.results)), recipe)
            if not difference and facts.get("teacher") != model.teacher:
                difference = f"{facts.get('teacher') or 'nobody'} for its teacher"
        if difference:
            raise LightRNNError(f"{named}, run with {difference}; rename the model, or use another -o")

    def _data(self, entry: CorpusEntry) -> Path:
        return entry.data or self.work / "data" / slug(entry.name)

    def _text(self, entry: CorpusEntry) -> Path:
        """The folder of a corpus's text, which must hold all splits."""
        if entry.data is not None:
            raise LightRNNError(
                f"{entry.data}, the data of the corpus {entry.name!r}, is no folder of lightrnn prepare; "
                "make it with that, or name a folder of text and a preset"
            )
        if self.corpora is None:
            raise LightRNNError(
                f"the corpus {entry.name!r} is to be found in your folder of corpora; set LIGHTRNN_CORPORA to its path"
            )
        folder = self.corpora / str(entry.folder)
        layout = find_preset(entry.preset).layout
        splits = find_splits(folder, layout)
        if splits is None or not all(splits):
            raise LightRNNError(
                f"{folder}, the corpus {entry.name!r}, has no train, valid and test text "
                f"(looked for {', '.join(layout)}); put them there"
            )
        return folder


def read_run(path: Path, run: GridRun | None = None) -> Facts:
    """The facts of a finished run; `run`: that which it must be. Files of before the digests have none."""
    facts = read_json(path)
    if facts.get("format") != RUN_FORMAT:
        raise LightRNNError(
            f"{path} is not a run that this lightrnn can read (format {shown(facts.get('format'))}, not "
            f"{RUN_FORMAT}); use another -o, or the lightrnn that wrote it"
        )
    remedy = "restore it, or remove it and run the command again"
    check(facts, FACTS, str(path), remedy)
    if facts.pop("sha256", _digest_of(facts)) != _digest_of(facts):
        raise LightRNNError(f"{path} is damaged: its digest is another; {remedy}")
    if "order" not in facts["recipe"]:
        Recipe.from_dict(facts["recipe"], str(path))
    named = (facts["corpus"], facts["model"], facts["seed"])
    if run is not None and named != (run.corpus.name, run.model.name, run.seed):
        raise LightRNNError(f"{path} is the run of {named[0]}, {named[1]}, seed {named[2]}; {remedy}")
    return facts


def _digest_of(facts: Facts) -> str:
    """SHA-256 of a run's facts, but for the digest itself."""
    told = {name: value for name, value in facts.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def machine(device: torch.device) -> Facts:
    """What figures of time depend on."""
    name = platform.processor() or platform.machine()
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    return {
        "cpu": name,
        "threads": threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
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


def _curve(lines: list[Facts], before: float) -> tuple[list[Facts], float]:
    """The validations, their seconds with the making of all tables so far, and the seconds of the refinements."""
    curve, refining = [], 0.0
    for line in lines:
        refining += line.get("refinement_seconds", 0.0)
        if "valid_perplexity" in line:
            point = {name: line[name] for name in ("words", "epoch")}
            curve.append(
                {"seconds": before + refining + line["seconds"], **point, "perplexity": line["valid_perplexity"]}
            )
    return curve, refining


def _difference(then: Recipe, now: Recipe) -> str:
    """The first field in which two recipes differ, told by its old and its new value; seeds aside."""
    old, new = (replace(r, training=replace(r.training, seed=0)).to_dict() for r in (then, now))
    for section, values in old.items():
        for name, value in values.items():
            if value != new[section][name]:
                return f"{name} = {value}, which is {new[section][name]} now"
    return ""
