"""A trained model on disk: one folder, no pickles, whole at every moment. Read here without PyTorch.

    config.json           format, model settings, text rules, how it was trained, and the digest of each file below
    vocab.tsv             word, tab, count
    table.tsv             word, tab, row, tab, column (LightRNN only)
    weights.safetensors   the parameters and the table's codes, or a hierarchical softmax's classes
    training.safetensors  where training stands (optimiser, random state, carried state): only needed to go on
    metrics.jsonl         one line a validation

config.json is the commit: new files are first written as NAME.new, then config.json with their digests is renamed into
place, then they take their names. A reader takes whichever of NAME and NAME.new has the digest that config.json tells,
so a kill between any two of these steps leaves a model whose weights, table and vocabulary belong together.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..border import check, digest, list_of, maybe, number, one_of, record, text, whole
from ..config import ModelConfig
from ..errors import LightRNNError, MissingPackage
from ..files import read_json
from ..outputs import settle
from ..registry import KINDS
from ..table.word_table import WordTable
from ..text.rules import TextRules
from ..text.vocabulary import Vocabulary
from .kind import Size, kind_of
from .tensors import check_finite, check_permutation, read_arrays

MODEL_FORMAT = 2
CONFIG, VOCABULARY, TABLE, WEIGHTS = "config.json", "vocab.tsv", "table.tsv", "weights.safetensors"
TRAINING, METRICS = "training.safetensors", "metrics.jsonl"

DIMENSIONS = list_of(whole(0, 10**9), least=2, most=8)  # of a table
DESCRIPTION = record(
    {
        "model": record({}),
        "vocabulary_size": whole(2, 2**31),
        "rules": record({}),
        "files": record({VOCABULARY: digest(), WEIGHTS: digest()}, {TABLE: digest()}),
        "training": record(
            {}, {"valid_perplexity": maybe(number(least=0)), **dict.fromkeys(("round", "words", "steps"), whole())}
        ),
    },
    {"sources": record({}, dict.fromkeys((VOCABULARY, TABLE, WEIGHTS), text()))},
)
TABLE_DESCRIPTION = record({"table_shape": DIMENSIONS, "files": record({TABLE: digest()})})


def read_config(folder: str | Path) -> dict[str, Any]:
    """config.json of a model folder, checked to be one that this version can read."""
    folder = Path(folder)
    settle(folder)
    if folder.is_file():
        raise LightRNNError(
            f"{folder} is a file, where a model folder is needed; give one of lightrnn train (of a packed network "
            "lightrnn.load(FILE).save(FOLDER) makes one, in Python)"
        )
    if not folder.exists():
        raise LightRNNError(f"{folder} does not exist; give a folder that lightrnn train made")
    if not (folder / CONFIG).is_file():
        raise LightRNNError(f"{folder} is not a model folder (it has no {CONFIG}); make one with: lightrnn train")
    path, remedy = folder / CONFIG, "restore it or train again"
    config = read_json(path, record({"format": whole(1), "kind": one_of([*KINDS, "mix"])}), remedy)
    if config["kind"] == "mix":
        raise LightRNNError(f"{folder} is a mix, where a single model is needed; name one of its models")
    if config["format"] > MODEL_FORMAT:
        raise LightRNNError(
            f"{folder} was written by a newer lightrnn (model format {config['format']}, this one reads up to "
            f"{MODEL_FORMAT}); upgrade lightrnn"
        )
    check(config, DESCRIPTION, str(path), remedy)
    if KINDS[config["kind"]].has_table:
        check(config, TABLE_DESCRIPTION, str(path), remedy)
    if ModelConfig.from_dict(config["model"], str(path)).model != config["kind"]:
        raise LightRNNError(f"{path} describes a {config['kind']} by the settings of another model; {remedy}")
    return config


def _read_committed(folder: Path, name: str) -> bytes:
    """The contents that belong to config.json: of NAME, or of NAME.new if a kill came before its renaming."""
    candidates = folder / name, folder / f"{name}.new"
    looked_for: list[str | None] = []
    while looked_for.count(digest := read_config(folder)["files"].get(name)) < 3:  # a trainer may be saving just now
        looked_for.append(digest)
        for path in candidates:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                data = path.read_bytes()
                if hashlib.sha256(data).hexdigest() == digest:
                    return data
    if not any(path.is_file() for path in candidates):
        raise LightRNNError(f"{folder} has no {name}; restore it from a copy or train again")
    raise LightRNNError(
        f"{folder / name} is damaged or belongs to another model: it is not the file that {CONFIG} lists; "
        "restore it from a copy or train again"
    )


def load_vocabulary(folder: str | Path) -> Vocabulary:
    folder = Path(folder)
    config = read_config(folder)
    rules = TextRules.from_dict(config["rules"], str(folder / CONFIG))
    vocabulary = Vocabulary.parse(_read_committed(folder, VOCABULARY), str(folder / VOCABULARY), rules)
    if len(vocabulary) != config["vocabulary_size"]:
        raise LightRNNError(
            f"{folder / VOCABULARY} has {len(vocabulary):,} words where {CONFIG} says {config['vocabulary_size']:,}; "
            "restore it from a copy or train again"
        )
    return vocabulary


def check_table(folder: str | Path) -> None:
    """Refuse a model without a word table."""
    if not KINDS[kind := read_config(folder)["kind"]].has_table:
        raise LightRNNError(f"{folder} is a model of kind {kind}, which has no word table; give a LightRNN")


def load_table(folder: str | Path, vocabulary: Vocabulary) -> WordTable:
    folder = Path(folder)
    check_table(folder)
    return WordTable.parse(_read_committed(folder, TABLE), str(folder / TABLE), vocabulary)


def load_weights(folder: str | Path) -> tuple[ModelConfig, Vocabulary, dict[str, NDArray[Any]], WordTable | None]:
    """The settings, the vocabulary, the weights and the table, if the kind has one, of a trained model."""
    folder = Path(folder)
    config = read_config(folder)
    vocabulary = load_vocabulary(folder)
    settings = ModelConfig.from_dict(config["model"], str(folder / CONFIG))
    if kind_of(settings).has_table:
        _read_committed(folder, TABLE)
    data = _read_committed(folder, WEIGHTS)
    try:
        weights, _ = read_arrays(data)
    except MissingPackage:
        raise
    except LightRNNError as error:
        raise LightRNNError(f"{folder / WEIGHTS} is damaged ({error}); restore it or train again") from None
    try:
        table = checked_weights(settings, vocabulary, weights, config.get("table_shape"))
    except LightRNNError as error:
        raise not_described(folder, error) from None
    return settings, vocabulary, weights, table


def not_described(folder: Path, error: LightRNNError) -> LightRNNError:
    return LightRNNError(
        f"{folder / CONFIG} does not describe the weights beside it ({error}); restore both or train again"
    )


def checked_weights(
    config: ModelConfig, vocabulary: Vocabulary, weights: Mapping[str, NDArray[Any]], shape: list[int] | None
) -> WordTable | None:
    """The table of weights that were read from a file, if they have one; shape: what it must have.

    Refused are weights that are not finite, and fewer of them than the settings ask for, so that nothing is allocated
    for settings of another model. That every array has its shape is checked where the model or the predictor is made.
    """
    table = None
    if kind_of(config).has_table:
        codes = weights.get("codes")
        if (
            codes is None
            or shape is None
            or str(codes.dtype) != "int32"
            or codes.shape != (len(vocabulary), len(shape))
        ):
            raise LightRNNError(f"codes must be whole numbers, {len(shape or [])} for each of the words")
        if config.components != len(shape):
            raise LightRNNError(f"the table has {len(shape)} components, and the settings say {config.components}")
        table = WordTable(codes.astype("int64"), tuple(shape))
        if config.alone != table.alone:
            raise LightRNNError(f"in the table {table.alone:,} words stand alone, and the settings say {config.alone}")
    whole_size = Size(len(vocabulary), table.shape if table else None, len(vocabulary.alphabet))
    needed = sum(kind_of(config).parameters(config, whole_size).values())
    if needed > sum(array.size for array in weights.values()):
        raise LightRNNError(f"the settings ask for {needed:,} parameters, and there are fewer")
    check_finite(weights)
    for name in kind_of(config).permutations & weights.keys():
        check_permutation(name, weights[name])
    return table
