"""One kind of thing in the place of another: a folder for a text, a pipe for a file, a file for a folder."""

import json
import os
from pathlib import Path

import pytest

from helpers import SMALL, Call, Refusal, World, run_apart


@pytest.mark.parametrize("out", ["-", "/dev/null", "pipe"])
def test_outputs_that_are_no_files(refuse: Refusal, world: World, tmp_path: Path, out: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in (("vectors", world.model), ("prepare", world.train)):
        told = refuse(*command, "-o", out, "--force")
        assert f"{out} is a pipe or a device" in told


def test_standard_output_that_is_a_pipe(world: World, tmp_path: Path) -> None:
    result = run_apart("vectors", str(world.model), "-o", "/dev/stdout", folder=tmp_path)
    assert result.code == 2
    assert "/dev/stdout is a pipe or a device" in result.err


def test_inputs_that_are_no_files(refuse: Refusal, world: World, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in (("prepare", "pipe", "-o", "out"), ("evaluate", world.model, "pipe")):
        assert "pipe is a pipe or a device, which is read once only; give it on stdin, as -" in refuse(*command)


def test_folders_in_the_place_of_text(refuse: Refusal, world: World) -> None:
    model, data = world.model, world.data
    for folder, kind in ((model, "model"), (data, "data")):
        told = f"{folder} is a {kind} folder, where text is needed; give the text"
        assert told in refuse("prepare", folder, "-o", "out")
        assert told in refuse("evaluate", model, folder, world.train)
    assert "where text is needed" in refuse("train", model, "-o", "out", *SMALL)
    assert "where text is needed" in refuse("evaluate", model, model)
    told = f"{model.parent} is a folder, where a file is needed; give a file in it"
    assert told in refuse("score", model, model.parent)


def test_packed_files_in_the_place_of_text(refuse: Refusal, call: Call, world: World) -> None:
    assert call("pack", world.model, "-o", "words.lightrnn").code == 0
    for command in (("evaluate", world.model), ("score", world.model), ("prepare", world.train, "--valid")):
        end = ("-o", "out") if command[0] == "prepare" else ()
        told = "words.lightrnn is a packed file of lightrnn, where text is needed; give a text file"
        assert told in refuse(*command, "words.lightrnn", *end)


def test_files_in_the_place_of_folders(refuse: Refusal, call: Call, world: World, tmp_path: Path) -> None:
    for command in (("pack", world.model, "-o", "words.lightrnn"), ("ngram", world.data, "-o", "kn.lightrnn")):
        assert call(*command).code == 0
    told = "words.lightrnn is a file, where a model folder is needed"
    assert told in refuse("train", world.train, "--init", "words.lightrnn", "-o", "out", *SMALL)
    assert told in refuse("reallocate", "words.lightrnn", world.data, "-o", "out")
    assert "kn.lightrnn is an n-gram model, where a LightRNN is needed" in refuse(
        "pack", "kn.lightrnn", "-o", "x.lightrnn"
    )


def test_folders_that_are_replaced_as_a_whole_are_no_place_for_others(
    refuse: Refusal, world: World, data: Path, model: Path
) -> None:
    assert f"{model} is a model folder of lightrnn; choose another -o" in refuse("demo", "-o", model)
    assert f"{data} is a data folder of lightrnn" in refuse("compare", "main", "-o", data, "--tables-only")


def test_options_that_would_change_nothing(refuse: Refusal, world: World) -> None:
    moved = ("reallocate", world.model, world.data, "-o", "moved")
    assert "--solver changes nothing with --refine cluster" in refuse(*moved, "--refine", "cluster", "--solver", "half")
    assert "--clustering changes nothing with --refine matching" in refuse(*moved, "--clustering", "bisection")
    assert "--split is for a folder" in refuse("evaluate", world.model, world.train, "--split", "valid")


def test_who_asks_for_epochs_gets_them(call: Call, world: World, tmp_path: Path) -> None:
    """The default recipe has minutes, which end a run that was given none."""
    small = ("--hidden-size", "8", "--threads", "1")
    for name, options, minutes in (("a", (), 0.0), ("b", ("--minutes", "3"), 3.0)):
        assert call("train", world.data, "-o", name, "--epochs", "1", *small, *options).code == 0
        trained = json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8"))["training"]
        assert trained["training"]["minutes"] == minutes
    assert call("train", world.data, "-o", "c", "--minutes", "0.001", *small).code == 0
    result = call("train", world.data, "-o", "c", "--resume", "--epochs", "1", *small[2:])
    assert result.code == 0
    assert "the epochs are done" in result.err


def test_a_package_that_is_missing_is_no_damage(world: World, tmp_path: Path) -> None:
    script = "import sys\nsys.modules['safetensors'] = None\nfrom lightrnn.cli import main\nmain()\n"
    result = run_apart("next", str(world.model), "w1", script=script, folder=tmp_path)
    assert result.code == 2
    assert "this needs safetensors, which is not installed" in result.err
    assert "damaged" not in result.err


def test_which_files_a_split_has_is_told(call: Call, world: World) -> None:
    result = call("prepare", world.train, "--valid", world.valid, world.other, "-o", "out")
    assert f"train: {world.train.name}, {world.other.name}" in result.err
