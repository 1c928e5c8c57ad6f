"""The runs of a grid, one at a time: each a JSON file when it is finished, a model folder until then.

RESULTS/runs/ holds one small file for each finished run, written last and at once: a run is there with all its facts
or it is not done. WORK/ holds the prepared corpora and the model folders, from which unfinished runs go on. An n-gram
model is estimated again when a mix needs it, which takes no longer than reading it from a file.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import torch

from ..config import Recipe
from ..errors import LightRNNError
from ..models.folder import CONFIG, TRAINING, read_config
from ..outputs import locked, settle
from ..runtime import Progress, choose_device, silent
from ..text.corpus import SPLITS, Corpus, is_data_folder, prepare
from ..text.presets import find_preset, find_splits
from ..training import bootstrap
from ..training.fitting import fitted
from ..training.run import load_run
from ..training.teaching import Teacher
from .grid import Budget, CorpusEntry, Grid, GridRun, ModelEntry, slug
from .measuring import Estimated, estimated, machine, network_facts, ngram_facts
from .run_files import Facts, read_run, write_run


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
        self._ngrams: dict[tuple[str, str], Estimated] = {}
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
            teaching, taught = self.grid.teacher_of(run), load_run(folder)[1].get("teacher")
            difference = _difference(begun, recipe)
            if (teaching.name if teaching else None) != (Path(taught["path"]).name if taught else None):
                difference = f"{Path(taught['path']).name if taught else 'nobody'} for its teacher"
            if difference:
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
            with self.claimed(teaching):
                pass  # nobody is training it
            raise LightRNNError(
                f"its teacher, {teaching.model.name}, has no trained model in {self.work}; run it first"
                + (f" (once {self._file(teaching)} is removed)" if self._file(teaching).exists() else "")
            )
        return Teacher.load(folder)

    def finish(self, run: GridRun, progress: Progress = silent) -> Facts:
        """Score the held-out texts and write the run's file."""
        corpus = self.open(run.corpus, progress)
        facts = {
            "corpus": run.corpus.name,
            "model": run.model.name,
            "seed": run.seed,
            "recipe": run.recipe.to_dict() if run.recipe else {"order": run.model.order},
            "budget": run.budget,
            "data": corpus.digest(*SPLITS),
            "train_tokens": len(corpus.split("train")),
            "vocabulary_size": len(corpus.vocabulary),
            **self._measured(run, corpus, progress),
            **({"teacher": run.model.teacher} if run.model.teacher else {}),
            **({"cache": self.grid.cache, "adapt": self.grid.adapts(run.model)} if run.recipe else {}),
            "machine": machine(self.device),
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        write_run(self._file(run), facts)
        return facts

    def _measured(self, run: GridRun, corpus: Corpus, progress: Progress) -> Facts:
        if run.recipe is None:
            return ngram_facts(self._estimated(run.corpus, run.model, progress), corpus)
        mix_with = None
        if self.grid.mix:
            kneser_ney = next(entry for entry in self.grid.models if entry.recipe is None)
            mix_with = self._estimated(run.corpus, kneser_ney, progress)
        return network_facts(
            self.work / run.name,
            corpus,
            mix_with=mix_with,
            cache=self.grid.cache,
            adapt=self.grid.adapts(run.model),
            device=self.device,
            progress=progress,
        )

    def _estimated(self, entry: CorpusEntry, model: ModelEntry, progress: Progress) -> Estimated:
        if (entry.name, model.name) not in self._ngrams:
            found = estimated(model.name, self.open(entry, progress), model.order, progress)
            self._ngrams[entry.name, model.name] = found
        return self._ngrams[entry.name, model.name]

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
            if not difference and facts.get("cache", self.grid.cache) != self.grid.cache:
                difference = f"cache = {facts['cache']}, which is {self.grid.cache} now"
            if not difference and facts.get("adapt", self.grid.adapts(model)) != self.grid.adapts(model):
                difference = f"adapt = {str(facts['adapt']).lower()}, which is another now"
            if not difference and (facts["mix"] is not None) != self.grid.mix:
                difference = "mix = true" if facts["mix"] else "mix = false"
                difference += ", which is another now"
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


def _difference(then: Recipe, now: Recipe) -> str:
    """The first field in which two recipes differ, told by its old and its new value; seeds aside."""
    old, new = (replace(r, training=replace(r.training, seed=0)).to_dict() for r in (then, now))
    for section, values in old.items():
        for name, value in values.items():
            if value != new[section][name]:
                return f"{name} = {value}, which is {new[section][name]} now"
    return ""
