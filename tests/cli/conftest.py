"""Fixtures for bad input: a world of sound folders, and commands that must leave everything as it was."""

import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from helpers import Call, Refusal, World, made_up_text, refused, snapshot, train_small
from lightrnn.text.corpus import Corpus, prepare


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    world = World(root, *(root / field.name for field in fields(World)[1:]))
    world.train.write_text(made_up_text(600, 30, seed=1), encoding="utf-8")
    world.valid.write_text(made_up_text(200, 30, seed=2), encoding="utf-8")
    world.other.write_text(made_up_text(600, 40, seed=3).replace("w", "v"), encoding="utf-8")
    world.empty.touch()
    train_small(prepare(world.train, world.data, valid=world.valid, test=world.valid), world.model)
    train_small(prepare(world.other, world.other_data), world.other_model)
    train_small(Corpus.load(world.data), world.opponent, model="hsm")
    return world


@pytest.fixture
def refuse(call: Call, world: World, tmp_path: Path) -> Refusal:
    """A command that must fail with one sentence, which is returned, and leave every file as it was."""

    def sentence(*arguments: object, stdin: bytes = b"") -> str:
        before = snapshot(world.root), snapshot(tmp_path)
        told = refused(call(*arguments, stdin=stdin))
        assert (snapshot(world.root), snapshot(tmp_path)) == before
        return told

    return sentence


@pytest.fixture
def model(world: World, tmp_path: Path) -> Path:
    """A copy of the model, to damage."""
    return Path(shutil.copytree(world.model, tmp_path / "model"))


@pytest.fixture
def data(world: World, tmp_path: Path) -> Path:
    """A copy of the data folder, to damage."""
    return Path(shutil.copytree(world.data, tmp_path / "data"))
