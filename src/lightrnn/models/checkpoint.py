"""Models and training states written to a model folder, and PyTorch models made of what is there: see folder.py."""

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..border import parse_json
from ..config import ModelConfig
from ..errors import LightRNNError
from ..files import atomic_file, sha256, write_json
from ..outputs import sweep
from ..table.word_table import WordTable
from ..text.vocabulary import Vocabulary
from .base import RecurrentModel
from .folder import (
    CONFIG,
    MODEL_FORMAT,
    TABLE,
    TRAINING,
    VOCABULARY,
    WEIGHTS,
    check_table,
    checked_weights,
    load_weights,
    not_described,
    read_config,
)
from .kind import build
from .lightrnn import LightRNN
from .tensors import check_like, read_arrays


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


def load_model(folder: str | Path, device: torch.device | str = "cpu") -> tuple[RecurrentModel, Vocabulary]:
    """The trained model of whatever kind, ready to score (dropout off), and its vocabulary.

    Use it for the PyTorch module itself: to train it further (`train(init=…)`) or to look into it. To ask a model for
    scores or words, use `load`.
    """
    config, vocabulary, weights, table = load_weights(Path(folder))
    try:
        model = model_of(config, vocabulary, weights, table)
    except LightRNNError as error:
        raise not_described(Path(folder), error) from None
    return model.to(device).eval(), vocabulary


def rebuild(
    config: ModelConfig, vocabulary: Vocabulary, weights: Mapping[str, Tensor], shape: list[int] | None, seed: int = 0
) -> RecurrentModel:
    """The model that has these weights, which were read from a file; shape: of its table, if it has one."""
    arrays = {name: tensor.numpy() for name, tensor in weights.items()}
    return model_of(config, vocabulary, arrays, checked_weights(config, vocabulary, arrays, shape), seed)


def model_of(
    config: ModelConfig,
    vocabulary: Vocabulary,
    weights: Mapping[str, NDArray[Any]],
    table: WordTable | None,
    seed: int = 0,
) -> RecurrentModel:
    """The PyTorch model of weights and a table that `checked_weights` let pass; the arrays stay as they are."""
    model = build(config, vocabulary, table, seed)
    check_like(weights, model.state_dict())
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model


def load_lightrnn(folder: str | Path, device: torch.device | str = "cpu") -> tuple[LightRNN, Vocabulary]:
    """The same where only a model with a word table will do."""
    check_table(Path(folder))
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
        flat = tensor.detach().cpu().contiguous().view(-1)
        hashed.update(name.encode())
        if len(flat):
            hashed.update(flat.view(torch.uint8).numpy().data)
    return hashed.hexdigest()


def load_training(folder: Path) -> tuple[dict[str, Tensor], Any]:
    """What `save_training` was given: whole, but not yet known to make sense."""
    path = folder / TRAINING
    if not path.is_file():
        raise LightRNNError(f"{folder} has no {TRAINING} to resume from; start a new run without --resume")
    try:
        arrays, metadata = read_arrays(path.read_bytes())
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        facts = metadata.get("facts", "")
        if _digest(tensors, facts) != metadata.get("sha256"):
            raise LightRNNError("its digest is wrong")
    except LightRNNError as error:
        raise LightRNNError(f"{path} is damaged ({error}); {_go_on_from(folder)}") from None
    return tensors, parse_json(facts, f"{path}, its facts,", _go_on_from(folder))


def _go_on_from(folder: Path) -> str:
    return f"the model itself may still be good: go on from it with --init {folder}"
