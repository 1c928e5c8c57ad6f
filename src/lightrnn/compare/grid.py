"""A grid of corpora, models and seeds under one budget: what `lightrnn compare` runs, from a TOML file, checked.

    seeds = [1, 2]                 # 1 unless given; a network may have its own
    minutes = 15                   # or epochs: the budget of every network; a corpus may have its own
    mix = true                     # each network also mixed with the first n-gram model
    target = "HSM 200"             # whose best validation perplexity the others are timed to
    adapt = true                   # each network also learning from the test text as it reads it; a network may differ
    cache = 2000                   # and with a cache of so many words, with and without learning

    [shared]                       # fields of all networks
    recipe = "plain"

    [[corpus]]
    name = "ptb"
    folder = "ptb"                 # under LIGHTRNN_CORPORA, prepared with the preset; or data = "…", prepared already
    preset = "ptb"

    [[model]]
    name = "HSM 200"
    model = "hsm"                  # any field of a recipe
    on.ptb = { dropout = 0.5 }     # other ones on one of the corpora

    [[model]]
    name = "LightRNN, taught"
    teacher = "LightRNN"           # learns from another model of the grid, which stands before it

    [[model]]
    name = "KN-5"
    kind = "ngram"
    order = 5

An n-gram model draws no random numbers and has no budget: it has one run, of seed 0.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..border import shown
from ..config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, load_toml
from ..errors import LightRNNError
from ..inference.cache import LARGEST
from ..text.presets import find_preset
from ..training.fitting import check_rounds

NO_END = 1e5  # epochs, where minutes are the budget
RECIPE_FIELDS = {f.name: f for section in (ModelConfig, TrainingConfig, BootstrapConfig) for f in fields(section)}
NOT_A_MODELS = ("epochs", "minutes", "seed")
BESIDE: dict[str, type | None]  # what a network has beside a recipe
BESIDE = {"name": str, "kind": str, "seeds": list, "on": dict, "teacher": str, "adapt": bool}
NOUNS: dict[type, str] = {
    str: "a string that is not empty",
    bool: "true or false",
    int: "a whole number above 0",
    float: "a number above 0",
    list: "a list that is not empty",
    dict: "a table",
}

Facts = dict[str, Any]


@dataclass(frozen=True)
class Budget:
    """What every network of a corpus may use: epochs or minutes."""

    unit: str
    amount: float

    @property
    def fields(self) -> dict[str, float]:
        """As fields of a recipe."""
        return {"epochs": NO_END, "minutes": 0.0, self.unit: self.amount}

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit if self.amount != 1 else self.unit[:-1]}"


@dataclass(frozen=True)
class CorpusEntry:
    """A corpus of the grid: a prepared folder `data`, or text in `folder` under the folder of all corpora."""

    name: str
    budget: Budget
    data: Path | None = None
    folder: str | None = None
    preset: str | None = None


@dataclass(frozen=True)
class ModelEntry:
    """A model of the grid: a network by its recipe, or an n-gram model by its order."""

    name: str
    recipe: Recipe | None = None
    order: int = 0
    seeds: tuple[int, ...] = ()  # its own, where it has other ones than the grid
    on: Mapping[str, Recipe] = field(default_factory=dict, hash=False)  # by corpus, where it differs there
    teacher: str | None = None  # the name of the model that it learns from
    adapt: bool | None = None  # whether it also learns as it reads, where not as the grid says

    def recipe_on(self, corpus: str) -> Recipe | None:
        return self.on.get(corpus, self.recipe)


@dataclass(frozen=True)
class GridRun:
    """One corpus, model and seed."""

    corpus: CorpusEntry
    model: ModelEntry
    seed: int

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{slug(self.corpus.name)}--{slug(self.model.name)}--{self.seed}"

    @property
    def recipe(self) -> Recipe | None:
        recipe = self.model.recipe_on(self.corpus.name)
        return recipe.override({**self.corpus.budget.fields, "seed": self.seed}) if recipe else None

    @property
    def budget(self) -> Facts | None:
        return {self.corpus.budget.unit: self.corpus.budget.amount} if self.model.recipe else None


@dataclass(frozen=True)
class Grid:
    """What to run. mix: each network also mixed with the first n-gram model; target: whose perplexity is to reach;
    adapt, cache: what each is worth too when it learns as it reads, where a corpus is read as one stream, and with a
    cache of so many words."""

    name: str
    corpora: tuple[CorpusEntry, ...]
    models: tuple[ModelEntry, ...]
    seeds: tuple[int, ...]
    mix: bool = False
    target: str | None = None
    adapt: bool = False
    cache: int = 0

    def adapts(self, model: ModelEntry) -> bool:
        """Whether it is measured too what a model is worth when it learns as it reads."""
        return self.adapt if model.adapt is None else model.adapt

    @classmethod
    def load(cls, name: str, budget: Budget | None = None) -> "Grid":
        """A grid that ships with the package, by name, or a TOML file, by path; `budget` replaces its own."""
        base = Path(name).parent if name.endswith(".toml") else None
        return cls.from_dict(load_toml("grid", name), name, base, budget)

    @classmethod
    def from_dict(cls, values: Facts, name: str, base: Path | None = None, budget: Budget | None = None) -> "Grid":
        origin = f"the grid {name}"
        kinds = {"corpus": list, "model": list, "shared": dict, "seeds": list, "mix": bool, "target": str}
        kinds |= {"epochs": float, "minutes": float, "adapt": bool, "cache": int}
        _check_fields(values, kinds, origin)
        for needed in ("corpus", "model"):
            if needed not in values:
                raise LightRNNError(f"{origin} has no [[{needed}]]; add one")
        seeds = _seeds(values.get("seeds", [1]), origin)
        common = _budget(values, origin)
        corpora = tuple(
            _corpus(entry, _place(origin, "corpus", index, entry), base, common, budget)
            for index, entry in enumerate(values["corpus"], 1)
        )
        models = tuple(
            _model(entry, values.get("shared", {}), _place(origin, "model", index, entry))
            for index, entry in enumerate(values["model"], 1)
        )
        asked = {field: values[field] for field in ("mix", "target", "adapt", "cache") if field in values}
        grid = cls(name, corpora, models, seeds, **asked)
        grid._check(origin)
        return grid

    def _check(self, origin: str) -> None:
        for kind, entries in (("corpora", self.corpora), ("models", self.models)):
            taken: dict[str, str] = {}
            for entry in entries:
                if other := taken.get(slug(entry.name)):
                    raise LightRNNError(f"{origin}: the {kind} {other!r} and {entry.name!r} are too alike; rename one")
                taken[slug(entry.name)] = entry.name
        known = [corpus.name for corpus in self.corpora]
        for model in self.models:
            if unknown := [name for name in model.on if name not in known]:
                raise LightRNNError(
                    f"{origin}, model {model.name!r}: on names the corpora, {', '.join(known)}, got {unknown[0]!r}"
                )
        networks = [model.name for model in self.models if model.recipe]
        for model in self.models:
            before = networks[: networks.index(model.name)] if model.recipe else []
            if model.teacher is not None and model.teacher not in before:
                raise LightRNNError(
                    f"{origin}, model {model.name!r}: teacher must be the name of a network that stands before it, got "
                    f"{model.teacher!r}"
                )
        if self.cache > LARGEST:
            raise LightRNNError(f"{origin}: cache must be at most {LARGEST:,}, got {self.cache:,}")
        if self.mix and len(networks) == len(self.models):
            raise LightRNNError(f'{origin}: mix = true needs a model of kind = "ngram"; add one, or leave mix out')
        if self.target is not None and self.target not in networks:
            raise LightRNNError(
                f"{origin}: target must be the name of a network, one of {', '.join(networks)}, got {self.target!r}"
            )

    def teacher_of(self, run: GridRun) -> GridRun | None:
        """The run whose model a run learns from: of the same seed, where there is one."""
        if run.model.teacher is None:
            return None
        teacher = next(model for model in self.models if model.name == run.model.teacher)
        seeds = teacher.seeds or self.seeds
        return GridRun(run.corpus, teacher, run.seed if run.seed in seeds else seeds[0])

    def runs(self) -> list[GridRun]:
        """All there are: one seed of everything, then the next."""
        seeds = list(dict.fromkeys([*self.seeds, *(seed for model in self.models for seed in model.seeds)]))
        return [
            GridRun(corpus, model, seed if model.recipe else 0)
            for index, seed in enumerate(seeds)
            for corpus in self.corpora
            for model in self.models
            if (seed in (model.seeds or self.seeds) if model.recipe else index == 0)
        ]


def slug(name: str) -> str:
    """A name as a part of a file's name; never with two dashes in a row, which separate the parts."""
    return re.sub(r"[^\w.+]+", "-", name).strip("-.")


def _place(origin: str, kind: str, index: int, entry: Any) -> str:
    """Where in the grid an entry stands, for errors."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return f"{origin}, {kind} {name!r}" if isinstance(name, str) else f"{origin}, [[{kind}]] number {index}"


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Errors inside say where in the grid they are."""
    try:
        yield
    except LightRNNError as error:
        raise LightRNNError(f"{where}: {error}") from None


def _check_fields(values: Any, kinds: Mapping[str, type | None], where: str) -> None:
    """Every field known and of its kind (None: checked elsewhere); numbers are above 0."""
    if not isinstance(values, dict):
        raise LightRNNError(f"{where} must be {NOUNS[dict]}, got {shown(values)}")
    for name, value in values.items():
        if name not in kinds:
            raise LightRNNError(f"{where} has an unknown field {name!r}; known are {', '.join(kinds)}")
        kind = kinds[name]
        if kind is None:
            continue
        right = type(value) is kind or (kind is float and type(value) is int)
        if kind in (int, float):
            right = right and 0 < value < 1e15
        elif kind in (str, list):
            right = right and len(value) > 0
        if not right:
            raise LightRNNError(f"{where}: {name} must be {NOUNS[kind]}, got {shown(value)}")


def _budget(values: Facts, where: str) -> Budget | None:
    given = [unit for unit in ("epochs", "minutes") if unit in values]
    if len(given) > 1:
        raise LightRNNError(f"{where} has both epochs and minutes; a budget is one of them")
    return checked_budget(given[0], values[given[0]], where) if given else None


def checked_budget(unit: str, amount: float, where: str) -> Budget:
    """A budget within what a recipe allows."""
    limits = RECIPE_FIELDS[unit].metadata
    if not (amount > 0 and limits["least"] <= amount <= limits["most"]):
        rule = f"above 0, at least {limits['least']:g} and at most {limits['most']:g}"
        raise LightRNNError(f"{where}: {unit} must be {rule}, got {amount!r}")
    return Budget(unit, float(amount))


def _seeds(values: list[Any], where: str) -> tuple[int, ...]:
    most = RECIPE_FIELDS["seed"].metadata["most"]
    if any(type(seed) is not int or not 0 <= seed <= most for seed in values) or len(set(values)) < len(values):
        raise LightRNNError(f"{where}: seeds must be different whole numbers from 0 to {most}, got {shown(values)}")
    return tuple(values)


def _name(entry: Facts, where: str) -> str:
    name = entry.get("name", "")
    if not slug(name) or not name.isprintable():
        raise LightRNNError(f"{where} needs a name with letters or figures in it, got {shown(name)}")
    return str(name)


def _corpus(entry: Any, where: str, base: Path | None, common: Budget | None, forced: Budget | None) -> CorpusEntry:
    texts = ("name", "data", "folder", "preset")
    _check_fields(entry, dict.fromkeys(texts, str) | {"epochs": float, "minutes": float}, where)
    if ("data" in entry) == ("folder" in entry):
        raise LightRNNError(f"{where} needs either data (made by lightrnn prepare) or folder (in LIGHTRNN_CORPORA)")
    if "data" in entry and "preset" in entry:
        raise LightRNNError(f"{where}: preset goes with folder; data is prepared already")
    if "preset" in entry:
        with _told(where):
            find_preset(entry["preset"])
    budget = forced or _budget(entry, where) or common
    if budget is None:
        raise LightRNNError(f"{where} has no budget; give epochs or minutes, here or for the whole grid")
    data = (base or Path()) / entry["data"] if "data" in entry else None
    return CorpusEntry(_name(entry, where), budget, data, entry.get("folder"), entry.get("preset"))


def _model(entry: Any, shared: Facts, where: str) -> ModelEntry:
    if isinstance(entry, dict) and entry.get("kind") == "ngram":
        _check_fields(entry, {"name": str, "kind": str, "order": int}, where)
        if entry.get("order", 5) > 99:
            raise LightRNNError(f"{where}: order must be at most 99, got {entry['order']}")
        return ModelEntry(_name(entry, where), order=entry.get("order", 5))
    _check_settings(shared, {}, f"{where}, [shared]")
    _check_settings(entry, BESIDE, where)
    if entry.get("kind", "network") != "network":
        raise LightRNNError(f"{where}: kind must be network or ngram, got {shown(entry['kind'])}")
    overrides = shared | {name: value for name, value in entry.items() if name not in BESIDE}
    if "teacher_share" in overrides and "teacher" not in entry:
        raise LightRNNError(f"{where}: teacher_share changes nothing without a teacher; leave it out, or name one")
    recipe = _recipe(overrides, where)
    on = {}
    for corpus, others in entry.get("on", {}).items():
        place = f"{where}, on {corpus!r}"
        _check_settings(others, {}, place)
        on[corpus] = _recipe(overrides | others, place)
    seeds = _seeds(entry.get("seeds", []), where)
    beside = {name: entry[name] for name in ("teacher", "adapt") if name in entry}
    return ModelEntry(_name(entry, where), recipe, seeds=seeds, on=on, **beside)


def _check_settings(values: Any, beside: dict[str, type | None], where: str) -> None:
    """Fields of a recipe, and others beside them."""
    if isinstance(values, dict) and (misplaced := [name for name in NOT_A_MODELS if name in values]):
        raise LightRNNError(f"{where}: {misplaced[0]} is the whole grid's, so that all models get the same")
    settings = {"recipe": str} | dict.fromkeys((name for name in RECIPE_FIELDS if name not in NOT_A_MODELS), None)
    _check_fields(values, beside | settings, where)


def _recipe(overrides: Facts, where: str) -> Recipe:
    with _told(where):
        fields_given = {name: value for name, value in overrides.items() if name != "recipe"}
        recipe = Recipe.load(overrides.get("recipe", "small")).override(fields_given)
        check_rounds(recipe)
    return recipe
