"""The cells of a grid, run one at a time: each a JSON file when it is finished, a model folder until then.

RESULTS/cells/ holds one small file for each finished cell, written last and at once: a cell is there with all its facts
or it is not done. WORK/ holds the prepared corpora and the model folders, from which unfinished cells go on. An n-gram
model is estimated again when a mix needs it, which takes no longer than reading it from a file.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..border import check, digest, list_of, maybe, number, one_field, record, shown, text, whole
from ..config import Recipe
from ..errors import LightRNNError
from ..files import read_json, write_json
from ..inference.evaluation import perplexity_of
from ..inference.lm import LM, SingleLM
from ..inference.mixture import mixed, tune
from ..models.checkpoint import CONFIG, TRAINING, VOCABULARY, load_model, read_config
from ..ngram.kneser_ney import estimate
from ..text.corpus import SPLITS, Corpus, Progress, prepare
from ..text.presets import Preset, find_preset, find_splits
from ..text.rules import TextRules
from ..training import bootstrap
from ..training.refinement import Tell
from .grid import Budget, Cell, CorpusEntry, Grid, slug

CELL_FORMAT = 1
SECONDS, PERPLEXITY = number(least=0, most=1e12), number(least=0)
FACTS = record(  # of a finished cell
    {
        **dict.fromkeys(("corpus", "model", "data", "date"), text()),
        **dict.fromkeys(("seed", "train_tokens", "vocabulary_size", "parameters"), whole()),
        "recipe": record({}, {"order": whole(1, 99)}),
        "budget": maybe(one_field({"epochs": number(least=0), "minutes": number(least=0)})),
        "valid": PERPLEXITY,
        "test": PERPLEXITY,
        "mix": maybe(record({"with": text(), "weight": number(least=0, most=1), "test": PERPLEXITY})),
        "bytes": record(dict.fromkeys(("weights", "table", "vocabulary"), whole())),
        "words_per_second": number(least=0),
        **dict.fromkeys(("training_seconds", "start_table_seconds", "refinement_seconds"), SECONDS),
        "refinement_share": number(least=0, most=1),
        "curve": list_of(
            record({"seconds": SECONDS, "words": whole(), "epoch": number(least=0), "perplexity": PERPLEXITY})
        ),
        "machine": record({"cpu": text(), "threads": whole(1), "device": text(), "torch": text()}),
    },
    {"sha256": digest()},
)

Facts = dict[str, Any]
LogProbs = NDArray[np.float64]  # (N,) of the tokens of a text


def _silent(_what: str, _amount: int) -> None:
    pass


@dataclass(frozen=True)
class _Estimated:
    """An n-gram model, once it has scored the held-out texts."""

    valid: LogProbs
    test: LogProbs
    ngrams: int
    bytes: int
    seconds: float


class Comparison:
    """A grid with its results. A cell is run by `open`, then `train` if it is a network, then `finish`."""

    def __init__(
        self, grid: Grid, results: Path, work: Path, *, corpora: Path | None = None, device: torch.device | None = None
    ) -> None:
        """corpora: the folder of all corpora. Refuses results of the same names with other settings."""
        self.grid = grid
        self.results = results
        self.work = work
        self.corpora = corpora
        self.device = device or bootstrap.choose_device()
        self._opened: dict[str, Corpus] = {}
        self._estimated: dict[tuple[str, int], _Estimated] = {}
        for facts in self._all_facts():
            self._check_same(facts)

    def finished(self) -> list[Facts]:
        """The facts of the finished cells of this grid, in its order."""
        cells = [cell for cell in self.grid.cells() if self._file(cell).exists()]
        return [read_cell(self._file(cell), cell) for cell in cells]

    def missing(self) -> list[Cell]:
        return [cell for cell in self.grid.cells() if not self._file(cell).exists()]

    def check_corpora(self, cells: list[Cell]) -> None:
        """Fail now rather than after hours where a corpus cannot be found."""
        for entry in {cell.corpus.name: cell.corpus for cell in cells}.values():
            if (self._data(entry) / "data.json").exists():
                self.open(entry)
            else:
                self._text(entry)

    def open(self, entry: CorpusEntry, progress: Progress = _silent) -> Corpus:
        """The corpus, prepared if need be; it must be the one that its finished cells were trained on."""
        if entry.name not in self._opened:
            folder = self._data(entry)
            if not (folder / "data.json").exists():
                preset, (train, valid, test) = self._text(entry)
                folder.parent.mkdir(parents=True, exist_ok=True)
                prepare(
                    train, folder, valid=valid, test=test, rules=preset.rules, min_count=preset.min_count,
                    progress=progress,
                )  # fmt: skip
            corpus = Corpus.load(folder)
            for split in SPLITS:
                corpus.split(split)
            for facts in self.finished():
                if facts["corpus"] == entry.name and facts["data"] != _digest(corpus):
                    raise LightRNNError(
                        f"{folder} is not the data that the finished cells of {entry.name} in {self.results} were run "
                        "on; put that back, or use another -o"
                    )
            self._opened[entry.name] = corpus
        return self._opened[entry.name]

    def train(
        self,
        cell: Cell,
        report: bootstrap.Report = lambda run, event: None,
        tell: Tell = lambda message: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> bootstrap.Outcome:
        """Train the network of a cell, or go on where it was stopped."""
        recipe, corpus, folder = cell.recipe, self.open(cell.corpus), self.work / cell.name
        assert recipe is not None
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
                corpus, folder, {}, device=self.device, report=report, tell=tell, should_stop=should_stop
            )
        folder.mkdir(parents=True, exist_ok=True)
        return bootstrap.train(
            corpus, recipe, folder, device=self.device, report=report, tell=tell, should_stop=should_stop
        )

    def finish(self, cell: Cell, progress: Progress = _silent) -> Facts:
        """Score the held-out texts and write the cell's file."""
        corpus = self.open(cell.corpus, progress)
        measured = self._network(cell, corpus, progress) if cell.recipe else self._ngram(cell, corpus, progress)
        facts = {
            "format": CELL_FORMAT,
            "corpus": cell.corpus.name,
            "model": cell.model.name,
            "seed": cell.seed,
            "recipe": cell.recipe.to_dict() if cell.recipe else {"order": cell.model.order},
            "budget": cell.budget,
            "data": _digest(corpus),
            "train_tokens": len(corpus.split("train")),
            "vocabulary_size": len(corpus.vocabulary),
            **measured,
            "machine": machine(self.device),
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        self._file(cell).parent.mkdir(parents=True, exist_ok=True)
        write_json(self._file(cell), facts | {"sha256": _digest_of(facts)})
        return facts

    def _network(self, cell: Cell, corpus: Corpus, progress: Progress) -> Facts:
        folder = self.work / cell.name
        _, trained, _ = bootstrap.load_run(folder)
        lines = bootstrap.read_metrics(folder)
        model, vocabulary = load_model(folder, self.device)
        lm = SingleLM(model, vocabulary)
        test = _log_probs(lm, corpus, "test", progress)
        mix = None
        if self.grid.mix:
            kneser_ney = next(entry for entry in self.grid.models if entry.recipe is None)
            ngram = self._estimate(cell.corpus, kneser_ney.order, progress)
            weights = tune(np.stack([_log_probs(lm, corpus, "valid", progress), ngram.valid], axis=1))
            together = mixed(np.stack([test, ngram.test], axis=1), weights)
            mix = {"with": kneser_ney.name, "weight": weights[0], "test": perplexity_of(together)}
        seconds = trained["seconds"] + trained["position"]["seconds"]
        words = trained["words"] + trained["position"]["words"]
        before = trained["start_seconds"]
        curve, refining = _curve(lines, before)
        parameters = dict(model.named_parameters())
        beside = [tensor for name, tensor in model.state_dict().items() if name not in parameters]
        return {
            "valid": trained["best_perplexity"],
            "test": perplexity_of(test),
            "mix": mix,
            "parameters": sum(p.numel() for p in parameters.values()),
            "bytes": {
                "weights": sum(p.nbytes for p in parameters.values()),
                "table": sum(tensor.nbytes for tensor in beside),
                "vocabulary": (folder / VOCABULARY).stat().st_size,
            },
            "words_per_second": words / seconds,
            "training_seconds": seconds,
            "start_table_seconds": before,
            "refinement_seconds": refining,
            "refinement_share": refining / (before + seconds + refining),
            "curve": curve,
        }

    def _ngram(self, cell: Cell, corpus: Corpus, progress: Progress) -> Facts:
        """The same facts of an n-gram model; its parameters are its n-grams."""
        made = self._estimate(cell.corpus, cell.model.order, progress)
        return {
            "valid": perplexity_of(made.valid),
            "test": perplexity_of(made.test),
            "mix": None,
            "parameters": made.ngrams,
            "bytes": {
                "weights": made.bytes,
                "table": 0,
                "vocabulary": (corpus.path / "vocab.tsv").stat().st_size,
            },
            "words_per_second": len(corpus.split("train")) / made.seconds,
            "training_seconds": made.seconds,
            "start_table_seconds": 0.0,
            "refinement_seconds": 0.0,
            "refinement_share": 0.0,
            "curve": [],
        }

    def _estimate(self, entry: CorpusEntry, order: int, progress: Progress) -> _Estimated:
        if (entry.name, order) not in self._estimated:
            corpus, begin = self.open(entry, progress), time.perf_counter()
            model = estimate(corpus.split("train"), corpus.vocabulary, order, progress)
            seconds = time.perf_counter() - begin
            lm = SingleLM(model, corpus.vocabulary)
            valid, test = (_log_probs(lm, corpus, split, progress) for split in ("valid", "test"))
            size = sum(
                array.nbytes
                for level in model.levels
                for array in (level.keys, level.log10_probs, level.log10_backoffs)
            )
            self._estimated[entry.name, order] = _Estimated(valid, test, sum(model.counts), size, seconds)
        return self._estimated[entry.name, order]

    def _file(self, cell: Cell) -> Path:
        return self.results / "cells" / f"{cell.name}.json"

    def _all_facts(self) -> list[Facts]:
        return [read_cell(path) for path in sorted((self.results / "cells").glob("*.json"))]

    def _check_same(self, facts: Facts) -> None:
        """Refuse to set results beside others of another budget, or of another model by the same name."""
        named = f"{self.results / 'cells'} has a cell of {facts['corpus']}, {facts['model']}"
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
            recipe = Cell(corpus, model, facts["seed"]).recipe
            assert recipe is not None
            difference = _difference(Recipe.from_dict(facts["recipe"], str(self.results)), recipe)
        if difference:
            raise LightRNNError(f"{named}, run with {difference}; rename the model, or use another -o")

    def _data(self, entry: CorpusEntry) -> Path:
        return entry.data or self.work / "data" / slug(entry.name)

    def _text(self, entry: CorpusEntry) -> tuple[Preset, tuple[list[str], ...]]:
        """How to prepare a corpus, and its files."""
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
        preset = find_preset(entry.preset) if entry.preset else Preset("", rules=TextRules())
        splits = find_splits(folder, preset.layout)
        if splits is None or not all(splits):
            raise LightRNNError(
                f"{folder}, the corpus {entry.name!r}, has no train, valid and test text "
                f"(looked for {', '.join(preset.layout)}); put them there"
            )
        return preset, splits


def read_cell(path: Path, cell: Cell | None = None) -> Facts:
    """The facts of a finished cell; `cell`: that which it must be. Files of before the digests have none."""
    facts = read_json(path)
    if facts.get("format") != CELL_FORMAT:
        raise LightRNNError(
            f"{path} is not a cell that this lightrnn can read (format {shown(facts.get('format'))}, not "
            f"{CELL_FORMAT}); use another -o, or the lightrnn that wrote it"
        )
    remedy = "restore it, or remove it and run the cell again"
    check(facts, FACTS, str(path), remedy)
    if facts.pop("sha256", _digest_of(facts)) != _digest_of(facts):
        raise LightRNNError(f"{path} is damaged: its digest is another; {remedy}")
    if "order" not in facts["recipe"]:
        Recipe.from_dict(facts["recipe"], str(path))
    named = (facts["corpus"], facts["model"], facts["seed"])
    if cell is not None and named != (cell.corpus.name, cell.model.name, cell.seed):
        raise LightRNNError(f"{path} is the cell of {named[0]}, {named[1]}, seed {named[2]}; {remedy}")
    return facts


def _digest_of(facts: Facts) -> str:
    """SHA-256 of a cell's facts, but for the digest itself."""
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
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
    }


def _log_probs(lm: LM, corpus: Corpus, split: str, progress: Progress) -> LogProbs:
    """(N,): natural logs of the tokens of a split, in the corpus's convention."""
    parts = lm.token_log_probs(corpus.split(split), progress=lambda tokens: progress(f"scoring {split}", tokens))
    return np.asarray(parts.sum(axis=1, dtype=np.float64), np.float64)


def _digest(corpus: Corpus) -> str:
    """Of everything that a cell's figures depend on; the convention is named where it is not the usual one."""
    convention = corpus.vocabulary.rules.convention
    parts = [corpus.vocabulary.digest, *(corpus.info["splits"][split]["sha256"] for split in SPLITS)]
    return " ".join(parts if convention == "stream" else [*parts, convention])


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
