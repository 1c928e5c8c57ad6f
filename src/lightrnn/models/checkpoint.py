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
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

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

MODEL_FORMAT = 1
CONFIG, VOCABULARY, TABLE, WEIGHTS = "config.json", "vocab.tsv", "table.tsv", "weights.safetensors"
TRAINING, METRICS = "training.safetensors", "metrics.jsonl"


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
    config = read_json(folder / CONFIG)
    if (
        config.get("kind") not in KINDS
        or not isinstance(config.get("format"), int)
        or any(
            not isinstance(config.get(key), kind)
            for key, kind in (
                ("files", dict),
                ("model", dict),
                ("rules", dict),
                ("vocabulary_size", int),
                *([("table_shape", list)] if KINDS[config["kind"]].has_table else []),
            )
        )
        or config["model"].get("model", ModelConfig.model) != config["kind"]
    ):
        raise LightRNNError(f"{folder / CONFIG} does not describe a lightrnn model; restore it or train again")
    if config["format"] > MODEL_FORMAT:
        raise LightRNNError(
            f"{folder} was written by a newer lightrnn (model format {config['format']}, this one reads up to "
            f"{MODEL_FORMAT}); upgrade lightrnn"
        )
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
    rules = TextRules.from_dict(read_config(folder)["rules"])
    return Vocabulary.parse(_read_committed(folder, VOCABULARY), str(folder / VOCABULARY), rules)


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
    table = None
    weights = safetensors.torch.load(_read_committed(folder, WEIGHTS))
    try:
        if kind_of(settings).has_table:
            _read_committed(folder, TABLE)
            table = WordTable(weights["codes"].numpy().astype("int64"), tuple(config["table_shape"]))
        model = build(settings, vocabulary, table, seed=0)
        model.load_state_dict(weights)
    except (KeyError, RuntimeError):
        raise LightRNNError(f"{folder / CONFIG} does not describe the weights beside it; restore it") from None
    return model.to(device).eval(), vocabulary


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


def load_training(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = folder / TRAINING
    if not path.is_file():
        raise LightRNNError(f"{folder} has no {TRAINING} to resume from; start a new run without --resume")
    try:
        data = path.read_bytes()  # safe_open would refuse a path that is not UTF-8
        tensors = safetensors.torch.load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        if _digest(tensors, metadata["facts"]) != metadata["sha256"]:
            raise ValueError("its digest is wrong")
        return tensors, json.loads(metadata["facts"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise LightRNNError(
            f"{path} is damaged ({error}); the model itself may still be good: go on from it with --init {folder}"
        ) from None
