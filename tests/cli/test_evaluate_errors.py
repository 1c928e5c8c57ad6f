"""Damaged models and texts that do not fit them, for evaluate and for the commands that read a model like it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import SMALL, Call, Refusal, World, flip_bit, set_fields
from lightrnn.models.folder import read_config
from lightrnn.registry import KINDS

# --- damaged models


@pytest.mark.parametrize("name", ["table.tsv", "vocab.tsv", "weights.safetensors"])
def test_file_of_another_model(refuse: Refusal, world: World, model: Path, name: str) -> None:
    shutil.copy(world.other_model / name, model / name)
    message = refuse("evaluate", model, world.data)
    assert f"{model / name} is damaged or belongs to another model" in message


@pytest.mark.parametrize("name", ["config.json", "table.tsv", "vocab.tsv", "weights.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated"])
def test_damaged_model(refuse: Refusal, world: World, model: Path, name: str, damage: str) -> None:
    content = (model / name).read_bytes()
    (model / name).unlink()
    if damage != "missing":
        (model / name).write_bytes(b"" if damage == "empty" else content[: len(content) // 2])
    assert name in refuse("evaluate", model, world.data)
    assert name in refuse("train", world.data, "--init", model, "-o", "out", *SMALL)


@pytest.mark.parametrize("place", [0.02, 0.5, 0.99])
def test_weights_with_a_flipped_bit(refuse: Refusal, world: World, model: Path, place: float) -> None:
    weights = model / "weights.safetensors"
    flip_bit(weights, int(place * weights.stat().st_size))
    assert "weights.safetensors is damaged" in refuse("evaluate", model, world.data)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": None},
        {"format": None},
        {"format": "1"},
        {"files": None},
        {"files": []},
        {"model": None},
        {"model": 5},
        {"model": {"hidden_size": 9}},
        {"model": {"hidden_size": -9}},
        {"model": {"width": 9}},
        {"rules": None},
        {"rules": {"stemming": True}},
        {"table_shape": None},
        {"table_shape": [4, 4]},
        {"table_shape": "6x6"},
    ],
    ids=str,
)
def test_config_that_was_edited(refuse: Refusal, world: World, model: Path, changes: dict[str, Any]) -> None:
    set_fields(model / "config.json", **changes)
    refuse("evaluate", model, world.data)


def test_model_of_a_newer_version(refuse: Refusal, world: World, model: Path) -> None:
    set_fields(model / "config.json", format=99)
    for arguments in (
        ("evaluate", model, world.data),
        ("info", model),
        ("train", world.data, "--init", model, "-o", "out", *SMALL),
        ("train", world.data, "--resume", "-o", model),
    ):
        message = refuse(*arguments)
        assert "newer lightrnn (model format 99" in message
        assert "upgrade" in message


def test_folder_that_is_no_model(refuse: Refusal, world: World) -> None:
    assert "is not a model folder" in refuse("evaluate", world.data, world.valid)
    assert "does not exist" in refuse("evaluate", world.root / "nowhere", world.valid)
    for folder, told in ((world.data, "is not a model folder"), (world.root / "nowhere", "does not exist")):
        assert told in refuse("info", folder)
        assert told in refuse("train", world.data, "--init", folder, "-o", "out", *SMALL)


@pytest.mark.parametrize("kind", ["full", "lightrnn", "blackout"])
def test_a_config_of_another_kind(refuse: Refusal, world: World, tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(world.opponent, tmp_path / "model"))
    set_fields(folder / "config.json", kind=kind)
    assert "config.json" in refuse("evaluate", folder, world.valid)
    settings = read_config(world.opponent)["model"] | {"model": kind}
    shape = {"table_shape": [6, 6]} if kind == "lightrnn" else {}
    set_fields(folder / "config.json", model=settings, **shape)
    assert re.search(r"config.json|table.tsv", refuse("evaluate", folder, world.valid))


def test_an_opponent_is_evaluated_and_measured(call: Call, world: World) -> None:
    facts = json.loads(call("evaluate", world.opponent, world.data, "--json").out)
    assert set(facts["parts"]) == {"class", "word"}
    assert sum(facts["parts"].values()) == pytest.approx(facts["nats"])
    sizes = json.loads(call("info", world.opponent, "--json").out)
    assert (sizes["model"], sizes["table_shape"]) == ("hsm", None)
    header = 8 + int.from_bytes((world.opponent / "weights.safetensors").read_bytes()[:8], "little")
    stored = (world.opponent / "weights.safetensors").stat().st_size - header
    assert stored == 4 * (sum(sizes["parameters"].values()) + sizes["vocabulary_size"])  # and each word's place
    for kind in KINDS:
        told = json.loads(call("info", "--vocab-size", "5000", "--model", kind, "--json").out)
        assert told["model"] == kind


# --- texts


def test_evaluate_data_of_another_vocabulary(refuse: Refusal, world: World) -> None:
    assert "another vocabulary" in refuse("evaluate", world.model, world.other_data)


@pytest.mark.parametrize("convention", ["stream", "sentence"])
def test_evaluate_an_empty_text(refuse: Refusal, world: World, convention: str) -> None:
    assert f"{world.empty} is empty" in refuse("evaluate", world.model, world.empty, "--convention", convention)


def test_evaluate_unknown_choices(refuse: Refusal, world: World) -> None:
    assert "--convention must be" in refuse("evaluate", world.model, world.data, "--convention", "paragraph")
    assert "no dev split" in refuse("evaluate", world.model, world.data, "--split", "dev")
    assert "no test split" in refuse("evaluate", world.other_model, world.other_data)


@pytest.mark.parametrize("device", ["nonsense", "", "cuda:99", "gpu", "meta", "cpu:x"])
def test_device_that_is_none(refuse: Refusal, world: World, device: str) -> None:
    assert "--device" in refuse("evaluate", world.model, world.data, "--device", device)
    assert "--device" in refuse("train", world.data, "-o", "out", "--device", device, *SMALL)
