"""Outputs of prepare, train and demo that cannot be written, or must not be."""

import re
from pathlib import Path

import pytest

from helpers import SMALL, Call, Refusal, World, hidden, refused, snapshot


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
@pytest.mark.parametrize("arguments", [("prepare", "train"), ("train", "data", *SMALL)], ids=["prepare", "train"])
@pytest.mark.parametrize("content", ["notes.txt", "config.json", "data.json"])
def test_output_folder_of_someone_else(
    refuse: Refusal, world: World, tmp_path: Path, arguments: tuple[str, ...], force: tuple[str, ...], content: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / content).write_text('{"notes": true}', encoding="utf-8")
    name, source, *options = arguments
    assert "out" in refuse(name, world.root / source, "-o", "out", *options, *force)


@pytest.mark.parametrize("arguments", [("prepare", "train"), ("train", "data", *SMALL)], ids=["prepare", "train"])
def test_output_that_is_a_file(refuse: Refusal, world: World, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "out").write_text("notes", encoding="utf-8")
    name, source, *options = arguments
    assert "out exists" in refuse(name, world.root / source, "-o", "out", "--force", *options)


def test_output_below_a_file(call: Call, world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("notes", encoding="utf-8")
    for arguments in (("prepare", world.train), ("train", world.train, *SMALL), ("train", world.data, *SMALL)):
        told = refused(call(*arguments, "-o", "file/out"), notes=True)
        assert re.match(r"error: .*file.*: Not a directory", told)
        assert snapshot(tmp_path) == {"file": b"notes"}


def test_output_folder_of_ours_needs_force(refuse: Refusal, world: World, data: Path, model: Path) -> None:
    assert "--force" in refuse("prepare", world.train, "-o", data)
    assert "--force" in refuse("train", world.data, "-o", model, *SMALL)


def test_demo_does_not_offer_an_option_that_it_lacks(refuse: Refusal, data: Path) -> None:
    message = refuse("demo", "-o", data.parent)
    assert f"{data} exists" in message
    assert "--force" not in message


def test_preparing_into_the_current_folder_is_no_reason_to_crash(
    call: Call, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    result = call("prepare", world.train, "-o", ".")
    assert result.code in (0, 2)
    assert (here / "data.json").exists() == (result.code == 0)
    assert not hidden(tmp_path)


def test_force_does_not_replace_what_it_reads(refuse: Refusal, world: World, model: Path) -> None:
    for inputs in (
        (world.data, "--init", model),
        (world.data, "--table", model / "table.tsv"),
        (model / "vocab.tsv",),
    ):
        message = refuse("train", *inputs, "-o", model, "--force", *SMALL)
        assert f"{inputs[-1]} is in the folder that would be replaced; choose another -o" in message


@pytest.mark.parametrize("text", ["empty", "latin.txt"])
def test_force_keeps_the_old_folder_until_the_new_one_is_whole(
    refuse: Refusal, world: World, data: Path, model: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "latin.txt").write_bytes(b"w1 w2\n" * 10 + b"\xe9\n")
    bad = world.empty if text == "empty" else text
    refuse("prepare", bad, "-o", data, "--force")
    refuse("prepare", world.train, "--valid", bad, "-o", data, "--force")
    refuse("train", bad, "-o", model, "--force", *SMALL)
    refuse("train", world.train, "--valid", bad, "-o", model, "--force", *SMALL)


@pytest.mark.parametrize("out", ["new", "empty-folder", "model"])
def test_failing_after_the_text_was_prepared_leaves_no_data_behind(
    refuse: Refusal, world: World, tmp_path: Path, model: Path, out: str
) -> None:
    (tmp_path / "empty-folder").mkdir()
    table = world.other_model / "table.tsv"
    assert "table.tsv" in refuse("train", world.train, "-o", out, "--force", "--table", table, *SMALL)
