"""Settings: one frozen dataclass a stage, each field documented and checked here and nowhere else.

The same declaration makes the recipe file's keys, the command line's options and the errors.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import Field, asdict, dataclass, field, fields, replace
from importlib import resources
from importlib.resources.abc import Traversable
from math import inf, isfinite
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from .border import check_nesting, shown
from .errors import LightRNNError
from .registry import CELLS, KINDS, REFINEMENTS, SOLVERS


def setting(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Iterable[str] = (),
    or_word: str = "",
) -> Any:
    """A documented, checked field; or_word: what it may be besides a number."""
    rules = {"least": least, "most": most, "choices": choices, "or_word": or_word}
    return field(default=default, metadata={"about": about, **rules})


RENAMED = {"check_every": "validate_every"}  # fields that version 0.1.0 called otherwise


def option_name(field_name: str) -> str:
    return "--" + field_name.replace("_", "-")


@dataclass(frozen=True)
class Settings:
    """Base of the settings: checks every field on construction."""

    section: ClassVar[str]

    def __post_init__(self) -> None:
        for declared in fields(self):
            object.__setattr__(self, declared.name, _checked(declared, getattr(self, declared.name)))

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str) -> Self:
        known = [declared.name for declared in fields(cls)]
        values = {RENAMED.get(name, name): value for name, value in values.items()}
        for name in values:
            if name not in known:
                raise LightRNNError(
                    f"{origin} has an unknown field {name!r} in [{cls.section}]; known are {', '.join(known)}"
                )
        try:
            return cls(**values)
        except LightRNNError as error:
            raise LightRNNError(f"{origin}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def field_choices(declared: "Field[Any]") -> list[str]:
    """What a field may be, where that is one of some names; those of a registry as they are known now."""
    return list(declared.metadata["choices"])


def _checked(declared: "Field[Any]", value: Any) -> Any:
    """The value, an int made float where a float is declared; raises an error that names field, rule, value, option."""
    limits, kind = declared.metadata, cast(type, type(declared.default))
    least, most = limits["least"], limits["most"]
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 2**1000 else inf
    if choices := field_choices(declared):
        rule, right = f"one of {', '.join(choices)}", value in choices
    else:
        bounds = [f"{word} {limit:,}" for word, limit in (("at least", least), ("at most", most)) if limit is not None]
        noun = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[kind]
        rule = f"{noun} {' and '.join(bounds)}".strip()
        if word := limits["or_word"]:
            rule = f"{word} or {rule}"
        right = (bool(word) and value == word) or (
            type(value) is kind
            and (kind is not float or isfinite(cast(float, value)))
            and (least is None or value >= least)
            and (most is None or value <= most)
        )
    if not right:
        raise LightRNNError(f"{declared.name} ({option_name(declared.name)}) must be {rule}, got {shown(value)}")
    return value


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The network. With n = embedding_size and m = hidden_size in the paper's letters."""

    section = "model"

    model: str = setting(
        "lightrnn",
        "LightRNN, or an opponent: full softmax; hierarchical softmax (hsm), with character input (chsm); BlackOut "
        "sampling; adaptive softmax",
        choices=KINDS,
    )
    cell: str = setting("lstm", "recurrent cell f of equation (1)", choices=CELLS)
    layers: int = setting(1, "recurrent layers", least=1, most=64)
    hidden_size: int = setting(200, "units of a recurrent layer (the paper's m)", least=1, most=65536)
    embedding_size: int = setting(
        0,
        "size of the input vectors (the paper's n), and of tied ones, to which the state is projected; 0: the hidden "
        "size",
        least=0,
        most=65536,
    )
    components: int = setting(2, "components of the word table: 2 for rows and columns", least=2, most=8)
    alone: int | str = setting(
        0,
        "words, the most frequent ones, that stand alone in a row of their own and take one recurrent step; auto: by "
        "their counts; 0: the paper's table",
        least=0,
        most=2**31 - 1,
        or_word="auto",
    )
    head: int = setting(
        0,
        "of the words alone, so many are scored at every word, and with them the chance of all other rows, which are "
        "scored only where one of them comes: faster; 0: all rows in one softmax",
        least=0,
        most=2**31 - 1,
    )
    rows: int | str = setting(
        0,
        "most rows for the words that share them; 0: about the root of their number, the smallest model; more, of "
        "fewer words: a bigger and better one; auto: four times the root",
        least=0,
        most=10**7,
        or_word="auto",
    )
    tied: bool = setting(False, "input and output vectors are the same numbers")
    output_bias: bool = setting(True, "a bias for every row and column score; opponents always have biases")
    word_bias: bool = setting(
        False,
        "a bias for every word that shares, in the place of those of columns: one number a word, so that words of a "
        "row may differ in how often they come",
    )
    classes: str = setting(
        "random",
        "classes of the hierarchical softmax, all of one size: random; of like frequency; the rows of a bigram start",
        choices=("random", "frequency", "bigram"),
    )
    blackout_samples: int = setting(500, "words that BlackOut draws for a mini-batch", least=1, most=10**6)
    blackout_alpha: float = setting(0.4, "BlackOut draws words by their frequency to this power", least=0.0, most=1.0)
    dropout: float = setting(0.0, "dropout on the non-recurrent connections", least=0.0, most=0.95)

    @property
    def input_size(self) -> int:
        """Of the vectors that go into the recurrence."""
        return KINDS[self.model].input_size or self.embedding_size or self.hidden_size

    @property
    def input_dropout(self) -> float:
        """Between these vectors and the recurrence."""
        return self.dropout if KINDS[self.model].input_dropout else 0.0


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """The optimisation. The loss is summed over a window's words and averaged over the batch, as in Zaremba et al."""

    section = "training"

    optimizer: str = setting("adam", "optimiser", choices=("sgd", "adam"))
    learning_rate: float = setting(2e-3, "learning rate at the start", least=1e-8, most=100.0)
    schedule: str = setting(
        "cosine",
        "how the rate falls: never; to zero along a cosine over the budget; halved when validation stops improving; "
        "never, but the model is the mean of the weights on the way, of which later ones count more",
        choices=("constant", "cosine", "halve", "average"),
    )
    clip_norm: float = setting(5.0, "gradients are scaled down to this norm", least=1e-6, most=1e6)
    weight_init: float = setting(0.1, "weights start uniform in ± this", least=1e-6, most=10.0)
    batch_size: int = setting(20, "tracks (or sentences) trained on side by side", least=1, most=65536)
    window: int = setting(35, "words of truncated back-propagation through time", least=1, most=65536)
    epochs: float = setting(10.0, "budget: passes over the training text", least=0.001, most=1e5)
    minutes: float = setting(0.0, "budget: minutes, the making of tables counted; 0: no limit", least=0.0, most=1e7)
    validate_every: int = setting(0, "mini-batches between validations; 0: once an epoch", least=0, most=10**9)
    patience: int = setting(0, "stop after this many validations without improvement; 0: never", least=0, most=10**6)
    least_gain: float = setting(
        0.0,
        "a validation that lowers the best perplexity by less than this share is none to --patience and --schedule "
        "halve; the best model is kept in any case",
        least=0.0,
        most=0.5,
    )
    dropout_from: float = setting(
        0.0,
        "epochs before dropout begins: what is read for the first time cannot be known by heart",
        least=0.0,
        most=1e5,
    )
    unk_rate: float = setting(
        0.0,
        "where the text has no unknown words, words seen once are read as unknown so often, so that the model learns "
        "where new ones come",
        least=0.0,
        most=1.0,
    )
    teacher_share: float = setting(
        0.5,
        "with a teacher: its part in the loss of what it teaches, the rest being the text's; 0: as without",
        least=0.0,
        most=1.0,
    )
    local_steps: int = setting(
        1,
        "with several processes: mini-batches between two exchanges, in which each trains by itself, and after which "
        "weights are averaged, for slow networks; 1: gradients are added up at every mini-batch",
        least=1,
        most=10**6,
    )
    exchange: str = setting(
        "float32",
        "with several processes: what gradients are sent in; bfloat16 is half the bytes, for slow networks, and rounds "
        "gradients to two or three digits",
        choices=("float32", "bfloat16"),
    )
    precision: str = setting(
        "float32",
        "what training multiplies in; bfloat16 is faster where the GPU or the processor has it (AVX-512 BF16, AMX) and "
        "costs nothing that shows; auto: bfloat16 there, float32 elsewhere. Weights, validation and use are float32",
        choices=("auto", "float32", "bfloat16"),
    )
    seed: int = setting(1, "seed of the table, the weights and dropout", least=0, most=2**31 - 1)


@dataclass(frozen=True)
class BootstrapConfig(Settings):
    """The learning of the table: where it and the weights start, and how and how often it is refined."""

    section = "bootstrap"

    start: str = setting(
        "bigram",
        "first table: random, or clustered by neighbouring words",
        choices=("random", "bigram"),
    )
    start_vectors: bool = setting(
        True,
        "the words' neighbours and frequencies also give the first vectors and biases, those of --table and of a "
        "restart after --refine cluster too; without, or with --start random, they are random and zero",
    )
    bigram_vectors: bool = setting(
        False,
        "an opponent's vectors and biases start where its words' neighbours and frequencies say, as LightRNN's do",
    )
    forget_bias: float = setting(
        1.0,
        "an LSTM's forget gates start with this bias, since a LightRNN forgets once a component; opponents' with 0",
        least=-10.0,
        most=10.0,
    )
    refine: str = setting(
        "none",
        "what happens between rounds: nothing; the paper's matching; clustering of the words' mean hidden states",
        choices=REFINEMENTS,
    )
    rounds: int = setting(1, "refinements of the table", least=0, most=1000)
    round_share: float = setting(0.2, "share of the budget that is trained before each refinement", least=0.0, most=1.0)
    solver: str = setting("block", "solver of the matching", choices=SOLVERS)
    clustering: str = setting(
        "auto",
        "how words are clustered, in a bigram start and by --refine cluster: by transport, with a matrix of all words "
        "and rows; by bisection, with a few numbers a word; auto: by transport where its matrix is small",
        choices=("auto", "transport", "bisection"),
    )
    sample: int = setting(
        0,
        "words of the text that --refine cluster reads, in stretches from all over it; words that are not among them "
        "are taken for what their row is; 0: all of it",
        least=0,
        most=2**62,
    )

    @property
    def uses_start_vectors(self) -> bool:
        """Whether vectors and biases begin where the words' neighbours and frequencies say."""
        return self.start_vectors and self.start == "bigram"

    @property
    def refinements(self) -> int:
        """How many refinements there will be."""
        return 0 if self.refine == "none" else self.rounds


@dataclass(frozen=True)
class Recipe:
    """Everything `lightrnn train` needs besides the text.

    A model without a table has nothing to refine and no words that stand alone, and forgets once a word; only some can
    tie their vectors.
    """

    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    bootstrap: BootstrapConfig = BootstrapConfig()

    def __post_init__(self) -> None:
        kind = KINDS[self.model.model]
        if not kind.has_table:
            object.__setattr__(self, "bootstrap", replace(self.bootstrap, refine="none", forget_bias=0.0))
            tied = self.model.tied and "tied" in kind.settings
            object.__setattr__(self, "model", replace(self.model, alone=0, tied=tied))

    @classmethod
    def load(cls, name: str) -> "Recipe":
        """A recipe that ships with the package, by name, or a TOML file, by path."""
        return cls.from_dict(load_toml("recipe", name), f"the recipe {name}")

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str) -> "Recipe":
        sections: list[type[Settings]] = [ModelConfig, TrainingConfig, BootstrapConfig]
        names = [section.section for section in sections]
        for name, section in values.items():
            if name not in names or not isinstance(section, dict):
                known = ", ".join(f"[{known}]" for known in names)
                homes = [section.section for section in sections if name in {field.name for field in fields(section)}]
                remedy = f"; put it under [{homes[0]}]" if homes else ""
                raise LightRNNError(f"{origin} has {name!r} where only the sections {known} belong{remedy}")
        return cls(*(section.from_dict(values.get(section.section, {}), origin) for section in sections))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        return {section.section: section.to_dict() for section in (self.model, self.training, self.bootstrap)}

    def with_budget(self, values: dict[str, Any]) -> "Recipe":
        """The recipe of a run that goes on: only what it may still use can change."""
        settled = {name: value for section in self.to_dict().values() for name, value in section.items()}
        changed = {name: value for name, value in values.items() if value != settled[name]}
        if frozen := set(changed) - {"epochs", "minutes", "patience"}:
            first = option_name(min(frozen))
            raise LightRNNError(f"{first} cannot change on --resume; only epochs, minutes and patience can")
        return self.override(changed)

    def override(self, values: dict[str, Any]) -> "Recipe":
        """The recipe with some fields replaced, whatever section they are in; each must mean something to the model."""
        model = values.get("model", self.model.model)
        for name in values if model in KINDS else ():
            kinds = [kind for kind in KINDS if name in KINDS[kind].settings]
            if kinds and model not in kinds:
                meant = " and ".join(kinds)
                raise LightRNNError(
                    f"{option_name(name)} is for --model {meant}, got it with --model {model}; leave it out"
                )

        def replaced(section: Settings) -> Settings:
            return replace(section, **{f.name: values[f.name] for f in fields(section) if f.name in values})

        return Recipe(*map(replaced, (self.model, self.training, self.bootstrap)))  # type: ignore[arg-type]


def recipe_names() -> list[str]:
    return shipped_names("recipe")


def shipped_names(kind: str) -> list[str]:
    """The recipes or grids that ship with the package."""
    files = _shipped(kind).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def _shipped(kind: str) -> Traversable:
    """Where the package keeps its recipes or grids."""
    return resources.files("lightrnn") / {"recipe": "recipes", "grid": "compare/grids"}[kind]


def load_toml(kind: str, name: str) -> dict[str, Any]:
    """A recipe or grid that ships with the package, by name, or a TOML file, by path."""
    path = Path(name)
    if path.suffix == ".toml":
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise LightRNNError(f"cannot read the {kind} {name}: {why}; give a file that can be read") from None
    elif name in (known := shipped_names(kind)):
        text = (_shipped(kind) / f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise LightRNNError(f"there is no {kind} {name!r}; known are {', '.join(known)}, or give a file.toml")
    try:
        values = tomllib.loads(text)
        check_nesting(values)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise LightRNNError(f"the {kind} {name} is not valid TOML: {reason}") from None
    return values
