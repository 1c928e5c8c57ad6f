"""A trained model on disk: one folder, no pickles, whole at every moment.

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
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

import safetensors.torch
import torch
from torch import Tensor

from ..border import check, digest, list_of, maybe, number, one_of, parse_json, record, text, whole
from ..config import ModelConfig
from ..errors import LightRNNError
from ..files import atomic_file, read_json, sha256, write_json
from ..outputs import settle, sweep
from ..registry import KINDS
from ..table.word_table import WordTable
from ..text.rules import TextRules
from ..text.vocabulary import Vocabulary
from .base import RecurrentModel
from .kind import build, kind_of
from .lightrnn import LightRNN
from .tensors import check_finite, check_like, check_permutation, read_tensors

MODEL_FORMAT = 1
CONFIG, VOCABULARY, TABLE, WEIGHTS = "config.json", "vocab.tsv", "table.tsv", "weights.safetensors"
TRAINING, METRICS = "training.safetensors", "metrics.jsonl"

DIMENSIONS = list_of(whole(1, 10**9), least=2, most=8)  # of a table
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


def save_model(folder: Path, model: RecurrentModel, vocabulary: Vocabulary, training: dict[str, Any]) -> None:
    """Write or replace the model in `folder`; `training` says how it was made, for people and `lightrnn info`."""
    folder.mkdir(parents=True, exist_ok=True)
    previous = finish_commit(folder)
    contents: dict[str, tuple[str, Callable[[IO[bytes]], Any]]] = {  # what it depends on, and how to write it
        VOCABULARY: (vocabulary.fingerprint, vocabulary.write),
        WEIGHTS: ("", lambda file: file.write(_serialise(model.state_dict()))),
    }
    if (table := model.table) is not None:
        contents[TABLE] = (vocabulary.digest + table.digest, lambda file: table.write(file, vocabulary))
    files, sources, staged = {}, {}, []
    for name, (source, write) in contents.items():
        sources[name] = source
        if source and source == previous.get("sources", {}).get(name):
            files[name] = previous["files"][name]
            continue
        buffer = io.BytesIO()
        write(buffer)
        files[name] = hashlib.sha256(buffer.getbuffer()).hexdigest()
        with atomic_file(folder / f"{name}.new") as file:
            file.write(buffer.getbuffer())
        staged.append(name)
    config = {
        "format": MODEL_FORMAT,
        "kind": model.config.model,
        "model": model.config.to_dict(),
        "vocabulary_size": len(vocabulary),
        **({"table_shape": list(table.shape)} if table is not None else {}),
        "rules": vocabulary.rules.to_dict(),
        "training": training,
        "files": files,
        "sources": sources,
    }
    write_json(folder / CONFIG, config)
    for name in staged:
        (folder / f"{name}.new").replace(folder / name)


def finish_commit(folder: Path) -> dict[str, Any]:
    """Before writing: what a kill left unfinished or lying about is put right. What was committed, {} if nothing."""
    sweep(folder)
    if not (folder / CONFIG).exists():
        return {}
    config = read_config(folder)
    for name in (VOCABULARY, TABLE, WEIGHTS):
        fresh = folder / f"{name}.new"
        if fresh.exists() and sha256(fresh) == config["files"].get(name):
            fresh.replace(folder / name)
        fresh.unlink(missing_ok=True)
    return config


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder, checked to be one that this version can read."""
    settle(folder)
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


def load_vocabulary(folder: Path) -> Vocabulary:
    config = read_config(folder)
    rules = TextRules.from_dict(config["rules"], str(folder / CONFIG))
    vocabulary = Vocabulary.parse(_read_committed(folder, VOCABULARY), str(folder / VOCABULARY), rules)
    if len(vocabulary) != config["vocabulary_size"]:
        raise LightRNNError(
            f"{folder / VOCABULARY} has {len(vocabulary):,} words where {CONFIG} says {config['vocabulary_size']:,}; "
            "restore it from a copy or train again"
        )
    return vocabulary


def check_table(folder: Path) -> None:
    """Refuse a model without a word table."""
    if not KINDS[kind := read_config(folder)["kind"]].has_table:
        raise LightRNNError(f"{folder} is a model of kind {kind}, which has no word table; give a LightRNN")


def load_table(folder: Path, vocabulary: Vocabulary) -> WordTable:
    check_table(folder)
    return WordTable.parse(_read_committed(folder, TABLE), str(folder / TABLE), vocabulary)


def load_model(folder: Path, device: torch.device | str = "cpu") -> tuple[RecurrentModel, Vocabulary]:
    """The trained model of whatever kind, ready to score (dropout off), and its vocabulary."""
    config = read_config(folder)
    vocabulary = load_vocabulary(folder)
    settings = ModelConfig.from_dict(config["model"], str(folder / CONFIG))
    if kind_of(settings).has_table:
        _read_committed(folder, TABLE)
    data = _read_committed(folder, WEIGHTS)
    try:
        weights, _ = read_tensors(data)
    except LightRNNError as error:
        raise LightRNNError(f"{folder / WEIGHTS} is damaged ({error}); restore it or train again") from None
    try:
        model = rebuild(settings, vocabulary, weights, config.get("table_shape"))
    except LightRNNError as error:
        raise LightRNNError(
            f"{folder / CONFIG} does not describe the weights beside it ({error}); restore both or train again"
        ) from None
    return model.to(device).eval(), vocabulary


def rebuild(
    config: ModelConfig, vocabulary: Vocabulary, weights: Mapping[str, Tensor], shape: list[int] | None, seed: int = 0
) -> RecurrentModel:
    """The model that has these weights, which were read from a file; shape: of its table, if it has one.

    Nothing that the settings ask for is allocated before the weights are known to have those sizes.
    """
    table = None
    if kind_of(config).has_table:
        codes = weights.get("codes")
        if codes is None or shape is None or codes.dtype != torch.int32 or codes.shape != (len(vocabulary), len(shape)):
            raise LightRNNError(f"codes must be whole numbers, {len(shape or [])} for each of the words")
        if config.components != len(shape):
            raise LightRNNError(f"the table has {len(shape)} components, and the settings say {config.components}")
        table = WordTable(codes.numpy().astype("int64"), tuple(shape))
    with torch.device("meta"):
        expected = build(config, vocabulary, table, seed).state_dict()
    check_like(weights, expected)
    check_finite(weights)
    for name, tensor in weights.items():
        if not tensor.is_floating_point() and name != "codes":
            check_permutation(name, tensor)
    model = build(config, vocabulary, table, seed)
    model.load_state_dict(weights)
    return model


def load_lightrnn(folder: Path, device: torch.device | str = "cpu") -> tuple[LightRNN, Vocabulary]:
    """The same where only a model with a word table will do."""
    check_table(folder)
    model, vocabulary = load_model(folder, device)
    return cast(LightRNN, model), vocabulary


def _serialise(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    return safetensors.torch.save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, metadata)


def save_training(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace training.safetensors; `facts` (JSON) goes into the same file, so the two cannot disagree."""
    with atomic_file(folder / TRAINING) as file:
        text = json.dumps(facts)
        file.write(_serialise(tensors, {"facts": text, "sha256": _digest(tensors, text)}))


def _digest(tensors: dict[str, Tensor], facts: str) -> str:
    hashed = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        hashed.update(name.encode() + tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def load_training(folder: Path) -> tuple[dict[str, Tensor], Any]:
    """What `save_training` was given: whole, but not yet known to make sense."""
    path = folder / TRAINING
    if not path.is_file():
        raise LightRNNError(f"{folder} has no {TRAINING} to resume from; start a new run without --resume")
    try:
        tensors, metadata = read_tensors(path.read_bytes())
        facts = metadata.get("facts", "")
        if _digest(tensors, facts) != metadata.get("sha256"):
            raise LightRNNError("its digest is wrong")
    except LightRNNError as error:
        raise LightRNNError(f"{path} is damaged ({error}); {_go_on_from(folder)}") from None
    return tensors, parse_json(facts, f"{path}, its facts,", _go_on_from(folder))


def _go_on_from(folder: Path) -> str:
    return f"the model itself may still be good: go on from it with --init {folder}"
