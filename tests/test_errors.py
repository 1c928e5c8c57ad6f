"""Bad input, through the command line: one sentence, exit code 2, and nothing half-written anywhere."""

import gzip
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import zstandard

from conftest import made_up_text
from lightrnn.cli import main
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, option_name
from lightrnn.models.checkpoint import load_model, load_training, save_model
from lightrnn.models.folder import read_config
from lightrnn.models.lightrnn import LightRNN
from lightrnn.registry import KINDS
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.training import bootstrap

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
SMALL = (
    "--hidden-size",
    "8",
    "--batch-size",
    "4",
    "--window",
    "10",
    "--epochs",
    "1",
    "--threads",
    "1",
    "--refine",
    "none",
)
MIB = 1 << 20
PAGE = 4096


class Result(NamedTuple):
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class World:
    """Texts, data folders and trained models that every test shares and none may change."""

    root: Path
    train: Path
    valid: Path
    other: Path
    empty: Path
    data: Path
    model: Path
    other_data: Path
    other_model: Path
    opponent: Path


Command = Callable[..., Result]
Refusal = Callable[..., str]


def train_model(corpus: Corpus, folder: Path, kind: str = "lightrnn") -> None:
    settings = TrainingConfig(epochs=1, batch_size=4, window=10)
    recipe = Recipe(ModelConfig(model=kind, hidden_size=8), settings, BootstrapConfig(refine="none"))
    bootstrap.train(corpus, recipe, folder, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    made = World(root, *(root / field.name for field in fields(World)[1:]))
    made.train.write_text(made_up_text(600, 30, seed=1), encoding="utf-8")
    made.valid.write_text(made_up_text(200, 30, seed=2), encoding="utf-8")
    made.other.write_text(made_up_text(600, 40, seed=3).replace("w", "v"), encoding="utf-8")
    made.empty.touch()
    texts = {"valid": [str(made.valid)], "test": [str(made.valid)]}
    train_model(prepare([str(made.train)], made.data, **texts), made.model)
    train_model(prepare([str(made.other)], made.other_data), made.other_model)
    train_model(Corpus.load(made.data), made.opponent, "hsm")
    return made


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, hidden or not: the bytes of each file, None for a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def assert_one_sentence(stderr: str) -> None:
    lines = [line for line in stderr.splitlines() if line.strip()]
    assert len(lines) == 1, stderr
    assert re.match(r"error: \S.{10,}", lines[0]), stderr


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.name.endswith((".tmp", ".old"))]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The program in this process; an exception that is not an exit fails the test, as a traceback would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("_TYPER_FORCE_DISABLE_TERMINAL", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["lightrnn", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())
        assert stopped.value.code is None or isinstance(stopped.value.code, int)
        return Result(stopped.value.code or 0, out, err)

    return call


@pytest.fixture
def refuse(command: Command, world: World, tmp_path: Path) -> Refusal:
    """A command that must fail with one sentence, which is returned, and leave every file as it was."""

    def call(*arguments: object) -> str:
        before = snapshot(world.root), snapshot(tmp_path)
        result = command(*arguments)
        assert result.code == 2, result
        assert_one_sentence(result.err)
        assert (snapshot(world.root), snapshot(tmp_path)) == before
        return result.err

    return call


@pytest.fixture
def model(world: World, tmp_path: Path) -> Path:
    """A copy of the model, to damage."""
    return Path(shutil.copytree(world.model, tmp_path / "model"))


@pytest.fixture
def data(world: World, tmp_path: Path) -> Path:
    """A copy of the data folder, to damage."""
    return Path(shutil.copytree(world.data, tmp_path / "data"))


def program(*arguments: object, before: str = "") -> Result:
    """The program in a process of its own, after some Python that sets limits."""
    run = "os.execv(sys.executable, [sys.executable, '-m', 'lightrnn', *sys.argv[1:]])"
    done = subprocess.run(
        [sys.executable, "-c", f"import os, resource, sys\n{before}\n{run}", *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def limit(kind: str, size: int) -> str:
    return f"resource.setrlimit(resource.{kind}, ({size}, {size}))"


def edit_json(path: Path, **changes: Any) -> None:
    """Replace some keys; None removes one."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}), encoding="utf-8")


# --- prepare: the text


def test_real_process_ends_with_code_2_and_exactly_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"a b\nc \xff d\n")
    result = program("prepare", text, "-o", tmp_path / "out")
    assert result.code == 2
    assert result.out == ""
    assert (
        result.err == f"error: {text} is not UTF-8: byte 0xff at offset 6; convert it first, for instance with iconv\n"
    )
    assert snapshot(tmp_path) == {"text.txt": text.read_bytes()}


@pytest.mark.parametrize("arguments", [("prepare",), ("train", *SMALL), ("evaluate",)])
def test_missing_text(refuse: Refusal, world: World, arguments: tuple[str, ...]) -> None:
    where = (world.model,) if arguments == ("evaluate",) else ("-o", "out")
    assert "nowhere.txt does not exist" in refuse(*arguments, *where, "nowhere.txt")


@pytest.mark.parametrize("option", ["--valid", "--test"])
def test_missing_held_out_text(refuse: Refusal, world: World, option: str) -> None:
    assert "nowhere.txt does not exist" in refuse("prepare", world.train, option, "nowhere.txt", "-o", "out")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\n" * 50, "at least one word"),
        (b" \t \r\n \n" * 50, "at least one word"),
        (b"one line of words only\n", "--valid"),
        (b"one line of words without an end", "--valid"),
        (b"long line " * 100 + b"\nlast\n", "--valid"),
        (b"</s> <unk>\n" * 50, "at least one word"),
    ],
    ids=["empty", "newline", "blank-lines", "spaces", "one-line", "no-newline", "one-long-line", "only-specials"],
)
@pytest.mark.parametrize("arguments", [("prepare",), ("train", *SMALL)], ids=["prepare", "train"])
def test_text_with_nothing_to_learn(
    refuse: Refusal, tmp_path: Path, arguments: tuple[str, ...], content: bytes, message: str
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    assert message in refuse(*arguments, "text.txt", "-o", "out")


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"a \xfe\n", "- is not UTF-8: byte 0xfe at offset 2;")]
)
def test_bad_standard_input(refuse: Refusal, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert message in refuse("prepare", "-", "-o", "out")


@pytest.mark.parametrize(("option", "name"), [("--valid", "validation"), ("--test", "test")])
def test_empty_held_out_text(refuse: Refusal, world: World, option: str, name: str) -> None:
    assert f"the {name} text {world.empty} is empty" in refuse("prepare", world.train, option, world.empty, "-o", "out")


def test_train_with_empty_validation_text(refuse: Refusal, world: World) -> None:
    assert "validation text" in refuse("train", world.train, "--valid", world.empty, "-o", "out", *SMALL)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lambda text: lzma.compress(text, preset=0),
    ".zst": lambda text: zstandard.ZstdCompressor().compress(text),
    "two.gz": lambda text: gzip.compress(text[:10]) + gzip.compress(text[10:]),
    "two.xz": lambda text: lzma.compress(text[:10], preset=0) + lzma.compress(text[10:], preset=0),
    "two.zst": lambda text: b"".join(map(zstandard.ZstdCompressor().compress, (text[:10], text[10:]))),
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("offset", [0, 17, MIB - 1, MIB, 2 * MIB + 12_345])
def test_offset_of_the_first_byte_that_is_not_utf8(refuse: Refusal, tmp_path: Path, suffix: str, offset: int) -> None:
    name = f"text.{suffix}" if suffix else "text"
    text = bytearray("voilà des mots\n".encode() * (offset // 16 + 30))
    start = text.rfind(b"\n", 0, offset) + 1  # a line of its own, so that the byte alone is wrong
    text[start : start + 48] = b"x" * 47 + b"\n"
    text[offset] = 0x9F
    (tmp_path / name).write_bytes(COMPRESS[suffix](bytes(text)))
    assert f"{name} is not UTF-8: byte 0x9f at offset {offset:,};" in refuse("prepare", name, "-o", "out")


@pytest.mark.parametrize("space", [b" ", b"\n", b"x"])
def test_offset_of_a_character_cut_off_by_the_end(refuse: Refusal, tmp_path: Path, space: bytes) -> None:
    (tmp_path / "text.txt").write_bytes(b"a b\n" * 300_000 + space + "é".encode()[:1])
    assert "byte 0xc3 at offset 1,200,001;" in refuse("prepare", "text.txt", "-o", "out")


@pytest.mark.parametrize("option", ["--valid", "--test"])
def test_held_out_text_that_is_not_utf8(refuse: Refusal, world: World, tmp_path: Path, option: str) -> None:
    (tmp_path / "latin.txt").write_bytes("déjà vu\n".encode("latin-1"))
    assert "latin.txt is not UTF-8: byte 0xe9 at offset 1;" in refuse(
        "prepare", world.train, option, "latin.txt", "-o", "out"
    )


def test_evaluated_text_that_is_not_utf8(refuse: Refusal, world: World, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"w1 w2\n" * 200_000 + "déjà vu\n".encode("latin-1"))
    assert "latin.txt is not UTF-8: byte 0xe9 at offset 1,200,001;" in refuse("evaluate", world.model, "latin.txt")


def test_text_from_utf16(refuse: Refusal, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("some words\n" * 20, encoding="utf-16")
    assert "offset 0;" in refuse("prepare", "text.txt", "-o", "out")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize(
    "arguments", [("prepare", "-o", "out"), ("train", "-o", "out", *SMALL)], ids=["prepare", "train"]
)
@pytest.mark.parametrize("missing", [1, 12, 500])
def test_truncated_compressed_text(
    refuse: Refusal, tmp_path: Path, suffix: str, arguments: tuple[str, ...], missing: int
) -> None:
    whole = COMPRESS[suffix](made_up_text(5000, 400, seed=5).encode())
    (tmp_path / f"text{suffix}").write_bytes(whole[:-missing])
    assert f"text{suffix} is not a complete {suffix} file" in refuse(*arguments, f"text{suffix}")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_text_that_is_not_compressed_as_its_name_says(
    refuse: Refusal, world: World, tmp_path: Path, suffix: str
) -> None:
    shutil.copy(world.train, tmp_path / f"text{suffix}")
    assert f"text{suffix} is not a complete {suffix} file" in refuse("prepare", f"text{suffix}", "-o", "out")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_compressed_text_with_a_flipped_bit(refuse: Refusal, tmp_path: Path, suffix: str) -> None:
    content = bytearray(COMPRESS[suffix](made_up_text(5000, 400, seed=5).encode()))
    content[len(content) // 2] ^= 1
    (tmp_path / f"text{suffix}").write_bytes(content)
    assert f"text{suffix} is not" in refuse("prepare", f"text{suffix}", "-o", "out")


@pytest.mark.parametrize("arguments", [("prepare", "-o", "out"), ("train", "-o", "out", *SMALL), ("evaluate", "MODEL")])
def test_folder_without_text(refuse: Refusal, world: World, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").write_text("about", encoding="utf-8")
    named = [world.model if argument == "MODEL" else argument for argument in arguments]
    assert "folder is a folder without text files" in refuse(*named, "folder")


def test_folder_that_is_not_laid_out_as_the_preset_says(refuse: Refusal, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "text.txt").write_text("a b\n", encoding="utf-8")
    assert "--preset billionw" in refuse("prepare", "folder", "--preset", "billionw", "-o", "out")


def test_folder_with_a_test_but_no_validation_text(refuse: Refusal, world: World, tmp_path: Path) -> None:
    for split in ("train", "test"):
        shutil.copy(world.train, tmp_path / f"{split}.txt")
    assert "--valid" in refuse("prepare", tmp_path, "-o", "out")


def test_file_name_that_is_not_utf8_is_no_reason_to_crash(command: Command, world: World, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    shutil.copy(world.train, tmp_path / name)
    result = command("prepare", name, "-o", "out")
    assert result.code in (0, 2)
    assert (tmp_path / "out" / "data.json").exists() == (result.code == 0)
    assert not leftovers(tmp_path)


# --- prepare: the vocabulary


def test_vocabulary_without_words(refuse: Refusal, world: World, tmp_path: Path) -> None:
    assert "lower --min-count" in refuse("prepare", world.train, "--min-count", "100000", "-o", "out")
    (tmp_path / "words").write_text("</s>\n", encoding="utf-8")
    assert "at least one word" in refuse("prepare", world.train, "--vocab", "words", "-o", "out")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "words line 1"),
        (b"one\ntwo words\n", "words line 2: expected a word"),
        (b"one\n\nthree\n", "words line 2"),
        (b"one\t1\ntwo\tmany\n", "words line 2"),
        (b"one\t1\ntwo\t-2\n", "words line 2"),
        (b"one\t1\ntwo\t99999999999999999999\n", "words line 2"),
        (b"one\t1\t2\n", "words line 1"),
        (b"one\ntwo\none\n", "'one' twice"),
        (b"one\ntwo\n\xff\n", "not UTF-8: byte 0xff at offset 8;"),
    ],
    ids=["empty", "two-words", "blank-line", "no-count", "negative", "huge", "three-columns", "duplicate", "not-utf8"],
)
def test_bad_word_list(refuse: Refusal, world: World, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "words").write_bytes(content)
    assert message in refuse("prepare", world.train, "--vocab", "words", "-o", "out")


def test_missing_word_list(refuse: Refusal, world: World) -> None:
    assert "nowhere.tsv" in refuse("prepare", world.train, "--vocab", "nowhere.tsv", "-o", "out")


@pytest.mark.parametrize("option", ["--min-count", "--max-words"])
def test_word_list_and_a_cut_off(refuse: Refusal, world: World, option: str) -> None:
    words = world.data / "vocab.tsv"
    assert option in refuse("prepare", world.train, "--vocab", words, option, "5", "-o", "out")


def test_unknown_preset(refuse: Refusal, world: World) -> None:
    message = refuse("prepare", world.train, "--preset", "klingon", "-o", "out")
    assert "'klingon'" in message
    assert "billionw" in message


# --- the recipe


def test_unknown_recipe(refuse: Refusal, world: World) -> None:
    message = refuse("train", world.data, "--recipe", "huge", "-o", "out")
    assert "'huge'" in message
    assert "paper-aclw" in message


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (b"[model]\nhiden_size = 8\n", "'hiden_size'"),
        (b"[modell]\nhidden_size = 8\n", "'modell'"),
        (b"hidden_size = 8\n", "'hidden_size'"),
        (b"[model]\nhidden_size = '8'\n", "--hidden-size"),
        (b"[model]\nhidden_size = 8.0\n", "--hidden-size"),
        (b"[model]\nhidden_size = true\n", "--hidden-size"),
        (b"[model]\noutput_bias = 1\n", "--output-bias"),
        (b"[model]\ncell = ['lstm']\n", "--cell"),
        (b"[training]\nlearning_rate = nan\n", "--learning-rate"),
        (b"[training]\nlearning_rate = 1" + b"0" * 400 + b"\n", "--learning-rate"),
        (b"[model\n", "not valid TOML"),
        (b"[model]\nlayers = 1\nlayers = 2\n", "not valid TOML"),
        (b"# \xff\n", "mine.toml"),
    ],
    ids=lambda value: value[:30].decode(errors="replace") if isinstance(value, bytes) else None,
)
def test_bad_recipe(refuse: Refusal, world: World, tmp_path: Path, toml: bytes, message: str) -> None:
    (tmp_path / "mine.toml").write_bytes(toml)
    assert message in refuse("train", world.data, "--recipe", "mine.toml", "-o", "out")


def test_missing_recipe_file(refuse: Refusal, world: World) -> None:
    assert "nowhere.toml" in refuse("train", world.data, "--recipe", "nowhere.toml", "-o", "out")


# --- the output folder


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
@pytest.mark.parametrize("arguments", [("prepare", "train"), ("train", "data", *SMALL)], ids=["prepare", "train"])
@pytest.mark.parametrize("content", ["notes.txt", "config.json", "data.json"])
def test_output_folder_of_someone_else(
    refuse: Refusal, world: World, tmp_path: Path, arguments: tuple[str, ...], force: tuple[str, ...], content: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / content).write_text('{"mine": true}', encoding="utf-8")
    name, source, *options = arguments
    assert "out" in refuse(name, world.root / source, "-o", "out", *options, *force)


@pytest.mark.parametrize("arguments", [("prepare", "train"), ("train", "data", *SMALL)], ids=["prepare", "train"])
def test_output_that_is_a_file(refuse: Refusal, world: World, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    name, source, *options = arguments
    assert "out exists" in refuse(name, world.root / source, "-o", "out", "--force", *options)


def test_output_below_a_file(command: Command, world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for arguments in (("prepare", world.train), ("train", world.train, *SMALL), ("train", world.data, *SMALL)):
        result = command(*arguments, "-o", "file/out")
        assert result.code == 2
        assert re.match(r"error: .*file.*: Not a directory", result.err.splitlines()[-1]), result
        assert snapshot(tmp_path) == {"file": b"mine"}


def test_output_folder_of_ours_needs_force(refuse: Refusal, world: World, data: Path, model: Path) -> None:
    assert "--force" in refuse("prepare", world.train, "-o", data)
    assert "--force" in refuse("train", world.data, "-o", model, *SMALL)


def test_demo_does_not_offer_an_option_that_it_lacks(refuse: Refusal, data: Path) -> None:
    message = refuse("demo", "-o", data.parent)
    assert f"{data} exists" in message
    assert "--force" not in message


def test_preparing_into_the_current_folder_is_no_reason_to_crash(
    command: Command, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    result = command("prepare", world.train, "-o", ".")
    assert result.code in (0, 2)
    assert (here / "data.json").exists() == (result.code == 0)
    assert not leftovers(tmp_path)


def test_force_does_not_replace_what_it_reads(refuse: Refusal, world: World, model: Path) -> None:
    for inputs in (
        (world.data, "--init", model),
        (world.data, "--table", model / "table.tsv"),
        (model / "vocab.tsv",),
    ):
        message = refuse("train", *inputs, "-o", model, "--force", *SMALL)
        assert f"{inputs[-1]} is in the folder that --force would replace; choose another -o" in message


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
    content = bytearray((model / "weights.safetensors").read_bytes())
    content[int(place * len(content))] ^= 4
    (model / "weights.safetensors").write_bytes(content)
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
    edit_json(model / "config.json", **changes)
    refuse("evaluate", model, world.data)


@pytest.mark.parametrize("content", ["[]", "null", "{}", '{"kind": "other", "format": 1, "files": {}}'])
@pytest.mark.parametrize("arguments", [("evaluate", "model", "test.txt"), ("info", "model")], ids=["evaluate", "info"])
def test_config_of_something_else(refuse: Refusal, model: Path, arguments: tuple[str, ...], content: str) -> None:
    (model / "config.json").write_text(content, encoding="utf-8")
    assert "config.json" in refuse(*arguments)


@pytest.mark.parametrize("key", ["model", "vocabulary_size", "table_shape"])
def test_info_on_a_config_that_lacks_something(refuse: Refusal, model: Path, key: str) -> None:
    edit_json(model / "config.json", **{key: None})
    assert "config.json" in refuse("info", model)


def test_model_of_a_newer_version(refuse: Refusal, world: World, model: Path) -> None:
    edit_json(model / "config.json", format=99)
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
    for folder in (world.data, world.root / "nowhere"):
        assert "is not a model folder" in refuse("info", folder)
        assert "is not a model folder" in refuse("train", world.data, "--init", folder, "-o", "out", *SMALL)


# --- damaged data folders


def test_data_of_a_newer_version(refuse: Refusal, world: World, data: Path) -> None:
    edit_json(data / "data.json", format=99)
    for arguments in (("train", data, "-o", "out", *SMALL), ("evaluate", world.model, data)):
        message = refuse(*arguments)
        assert "newer lightrnn (data format 99" in message
        assert "upgrade" in message


@pytest.mark.parametrize("name", ["data.json", "vocab.tsv", "train.npy", "valid.npy"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_damaged_data(refuse: Refusal, data: Path, name: str, damage: str) -> None:
    content = (data / name).read_bytes()
    (data / name).write_bytes({"empty": b"", "truncated": content[: len(content) // 2], "garbage": b"?\n" * 99}[damage])
    assert name in refuse("train", data, "-o", "out", *SMALL)


@pytest.mark.parametrize("name", ["vocab.tsv", "train.npy", "valid.npy"])
def test_data_that_lacks_a_file_or_has_that_of_another(refuse: Refusal, world: World, data: Path, name: str) -> None:
    shutil.copy(world.other_data / name, data / name)
    assert name in refuse("train", data, "-o", "out", *SMALL)
    (data / name).unlink()
    assert name in refuse("train", data, "-o", "out", *SMALL)


def test_data_with_ids_outside_the_vocabulary(refuse: Refusal, data: Path) -> None:
    np.save(data / "train.npy", np.load(data / "train.npy") + np.int32(1000))
    assert "train.npy" in refuse("train", data, "-o", "out", *SMALL)


@pytest.mark.parametrize(
    "changes",
    [{"format": None}, {"format": "1"}, {"rules": None}, {"vocabulary_digest": None}, {"splits": None}, {"splits": {}}],
    ids=str,
)
def test_data_json_that_was_edited(refuse: Refusal, data: Path, changes: dict[str, Any]) -> None:
    edit_json(data / "data.json", **changes)
    assert str(data) in refuse("train", data, "-o", "out", *SMALL)


# --- train --table, --init, --resume


def _swap_place(lines: list[str]) -> list[str]:
    word = lines[2].split("\t")[0]
    return [*lines[:2], "\t".join([word, *lines[3].split("\t")[1:]]), *lines[3:]]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda lines: [], "mine.tsv is no word table"),
        (lambda lines: ["# something else", *lines[1:]], "mine.tsv is no word table"),
        (lambda lines: lines[1:], "mine.tsv is no word table"),
        (lambda lines: [lines[0].replace("x", "by"), *lines[1:]], "mine.tsv line 1"),
        (lambda lines: ["# lightrnn table, shape 60x60", *lines[1:]], "shape"),
        (lambda lines: ["# lightrnn table, shape -6x-6", *lines[1:]], "shape"),
        (lambda lines: ["# lightrnn table, shape 6x6x6", *lines[1:]], "mine.tsv line 3"),
        (_swap_place, "bijection"),
        (lambda lines: lines[:-1], "mine.tsv has no place for"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0\t0", *lines[2:]], "mine.tsv line"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t-1\t0", *lines[3:]], "mine.tsv line 3"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0", *lines[3:]], "mine.tsv line 3"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0\t6", *lines[3:]], "outside"),
        (lambda lines: [*lines[:2], lines[2].split("\t")[0] + "\t0\t" + "9" * 30, *lines[3:]], "999"),
        (lambda lines: [*lines, "stranger\t0\t0"], "'stranger' is not in the vocabulary"),
    ],
    ids=[
        "empty",
        "header",
        "no-header",
        "shape",
        "too-large",
        "negative-shape",
        "three-components",
        "one-place-twice",
        "missing-word",
        "word-in-two-places",
        "negative",
        "short-line",
        "outside",
        "huge",
        "stranger",
    ],
)
def test_bad_table(
    refuse: Refusal, world: World, tmp_path: Path, edit: Callable[[list[str]], list[str]], message: str
) -> None:
    lines = (world.model / "table.tsv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "mine.tsv").write_text("\n".join(edit(lines)) + "\n", encoding="utf-8")
    assert message in refuse("train", world.data, "--table", "mine.tsv", "-o", "out", *SMALL)


def test_table_of_another_vocabulary(refuse: Refusal, world: World) -> None:
    table = world.other_model / "table.tsv"
    message = refuse("train", world.data, "--table", table, "-o", "out", *SMALL)
    assert f"{table} line" in message
    assert "is not in the vocabulary" in message


def test_missing_table(refuse: Refusal, world: World) -> None:
    assert "nowhere.tsv" in refuse("train", world.data, "--table", "nowhere.tsv", "-o", "out", *SMALL)


@pytest.mark.parametrize("option", ["--components", "--rows"])
def test_table_of_another_shape(refuse: Refusal, world: World, option: str) -> None:
    message = refuse("train", world.data, "--table", world.model / "table.tsv", option, "3", "-o", "out", *SMALL)
    assert f"{option} cannot differ from --table's" in message


def test_table_and_init(refuse: Refusal, world: World) -> None:
    table = world.model / "table.tsv"
    message = refuse("train", world.data, "--table", table, "--init", world.model, "-o", "out", *SMALL)
    assert "--table and --init" in message


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--hidden-size", "16"),
        ("--layers", "2"),
        ("--cell", "gru"),
        ("--components", "3"),
        ("--rows", "3"),
        ("--embedding-size", "4"),
        ("--no-output-bias", None),
    ],
)
def test_init_with_another_shape(refuse: Refusal, world: World, option: str, value: str | None) -> None:
    given = [option, value] if value else [option]
    message = refuse("train", world.data, "--init", world.model, "-o", "out", *given)
    assert f"{option.replace('--no-', '--')} cannot change with --init" in message


def test_init_and_data_of_another_vocabulary(refuse: Refusal, world: World) -> None:
    assert "another vocabulary" in refuse("train", world.other_data, "--init", world.model, "-o", "out", *SMALL)


def test_prepared_data_and_a_validation_text(refuse: Refusal, world: World) -> None:
    assert "--valid" in refuse("train", world.data, "--valid", world.valid, "-o", "out", *SMALL)


@pytest.mark.parametrize("out", ["nowhere", "empty-folder", "data"])
def test_resume_where_nothing_is(refuse: Refusal, world: World, data: Path, tmp_path: Path, out: str) -> None:
    (tmp_path / "empty-folder").mkdir()
    assert f"{out} is not a model folder" in refuse("train", world.data, "--resume", "-o", out)


def test_resume_without_a_training_state(refuse: Refusal, world: World, model: Path) -> None:
    (model / "training.safetensors").unlink()
    assert "training.safetensors" in refuse("train", world.data, "--resume", "-o", model)


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.999])
def test_resume_from_a_truncated_training_state(refuse: Refusal, world: World, model: Path, keep: float) -> None:
    content = (model / "training.safetensors").read_bytes()
    (model / "training.safetensors").write_bytes(content[: int(keep * len(content))])
    message = refuse("train", world.data, "--resume", "--epochs", "2", "-o", model)
    assert "training.safetensors is damaged" in message
    assert f"--init {model}" in message


@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_resume_from_a_training_state_with_a_flipped_bit(
    refuse: Refusal, world: World, model: Path, place: float
) -> None:
    content = bytearray((model / "training.safetensors").read_bytes())
    content[int(place * len(content))] ^= 4
    (model / "training.safetensors").write_bytes(content)
    assert "training.safetensors" in refuse("train", world.data, "--resume", "--epochs", "2", "-o", model)


def test_resume_with_a_foreign_training_state(refuse: Refusal, world: World, model: Path) -> None:
    for source in (world.model / "weights.safetensors", world.other_model / "training.safetensors"):
        shutil.copy(source, model / "training.safetensors")
        refuse("train", world.data, "--resume", "--epochs", "2", "-o", model)


def test_resume_with_other_data(refuse: Refusal, world: World, model: Path) -> None:
    message = refuse("train", world.other_data, "--resume", "--epochs", "2", "-o", model)
    assert f"{world.other_data} is not the data" in message


def test_resume_with_text_that_was_never_prepared(refuse: Refusal, world: World, model: Path) -> None:
    refuse("train", world.train, "--resume", "--epochs", "2", "-o", model)


def test_resume_with_other_words_of_the_same_ids(refuse: Refusal, world: World, model: Path, tmp_path: Path) -> None:
    for name in ("train", "valid"):
        renamed = (world.root / name).read_text(encoding="utf-8").replace("w", "v")
        (tmp_path / name).write_text(renamed, encoding="utf-8")
    prepare([str(tmp_path / "train")], tmp_path / "renamed", valid=[str(tmp_path / "valid")])
    assert (tmp_path / "renamed" / "train.npy").read_bytes() == (world.data / "train.npy").read_bytes()
    assert "is not the data" in refuse("train", "renamed", "--resume", "--epochs", "2", "-o", model)


def test_resume_a_run_from_text_with_other_data(command: Command, refuse: Refusal, world: World) -> None:
    assert command("train", world.train, "-o", "model", *SMALL).code == 0
    assert "is not the data" in refuse("train", world.other_data, "--resume", "--epochs", "2", "-o", "model")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--hidden-size", "16"),
        ("--cell", "gru"),
        ("--learning-rate", "0.5"),
        ("--batch-size", "5"),
        ("--seed", "7"),
        ("--dropout", "0.5"),
    ],
)
def test_resume_with_a_changed_field(refuse: Refusal, world: World, model: Path, option: str, value: str) -> None:
    message = refuse("train", world.data, "--resume", "-o", model, "--epochs", "2", option, value)
    assert "cannot change on --resume" in message
    assert option in message


@pytest.mark.parametrize(
    ("options", "with_what"),
    [
        (("--rounds", "3"), "--refine none"),
        (("--round-share", "0.3"), "--refine none"),
        (("--solver", "half"), "--refine none"),
        (("--refine", "cluster", "--solver", "half"), "--refine cluster"),
        (("--start", "random", "--start-vectors"), "--start random"),
        (("--cell", "gru", "--forget-bias", "0"), "--cell gru"),
        (("--init", "MODEL", "--start", "random"), "--init"),
        (("--init", "MODEL", "--forget-bias", "2"), "--init"),
        (("--init", "MODEL", "--weight-init", "0.2"), "--init"),
    ],
)
def test_options_that_would_change_nothing(
    refuse: Refusal, world: World, model: Path, options: tuple[str, ...], with_what: str
) -> None:
    given = [str(model) if option == "MODEL" else option for option in options]
    message = refuse("train", world.data, "-o", "out", *given)
    assert f"changes nothing with {with_what}; leave it out" in message


# --- models without a table

MEANT_FOR = {
    field.name: kinds
    for section in (ModelConfig, BootstrapConfig)
    for field in fields(section)
    if (kinds := [kind for kind in KINDS if field.name in KINDS[kind].settings])
}
VALUES = {"components": 3, "classes": "frequency", "start": "random", "refine": "none", "rounds": 2, "round_share": 0.1}
SWITCHES = ("output_bias", "start_vectors")
VALUES |= {
    "embedding_size": 9,
    "rows": 9,
    "forget_bias": 0.5,
    "solver": "half",
    "blackout_samples": 9,
    "blackout_alpha": 0.5,
}


@pytest.mark.parametrize("name", MEANT_FOR)
def test_fields_that_mean_nothing_to_the_model(refuse: Refusal, world: World, name: str) -> None:
    option = (f"--no-{option_name(name)[2:]}",) if name in SWITCHES else (option_name(name), VALUES[name])
    for kind in sorted(set(KINDS) - set(MEANT_FOR[name])):
        message = refuse("train", world.data, "-o", "out", "--model", kind, *option)
        assert f"{option_name(name)} is for --model {' and '.join(MEANT_FOR[name])}, got it with" in message
    message = refuse("train", world.data, "-o", "out", "--model", "no-such", *option)
    assert message.startswith("error: model (--model) must be one of lightrnn, full, hsm")


def test_commands_that_need_a_table(refuse: Refusal, world: World) -> None:
    for command in (
        ("table", world.opponent),
        ("reallocate", world.opponent, world.data, "-o", "out"),
    ):
        assert "is a model of kind hsm, which has no word table" in refuse(*command)
    table = world.model / "table.tsv"
    message = refuse("train", world.data, "-o", "out", "--table", table, "--model", "full", "--epochs", "1")
    assert "--table is for --model lightrnn" in message
    assert "--refine is for" in refuse(
        "train", world.data, "-o", "out", "--init", world.opponent, "--refine", "cluster", "--model", "hsm"
    )
    assert "--refine is for" in refuse(
        "train", world.data, "-o", "out", "--init", world.opponent, "--refine", "cluster"
    )


def test_the_kind_stays_when_training_goes_on(refuse: Refusal, world: World) -> None:
    message = refuse("train", world.data, "-o", "out", "--init", world.opponent, "--model", "full")
    assert "--model cannot change with --init: the model has hsm" in message
    assert "--model cannot change on --resume" in refuse(
        "train", world.data, "-o", world.opponent, "--resume", "--model", "full"
    )


@pytest.mark.parametrize("kind", ["full", "lightrnn", "blackout"])
def test_a_config_of_another_kind(refuse: Refusal, world: World, tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(world.opponent, tmp_path / "model"))
    edit_json(folder / "config.json", kind=kind)
    assert "config.json" in refuse("evaluate", folder, world.valid)
    settings = read_config(world.opponent)["model"] | {"model": kind}
    shape = {"table_shape": [6, 6]} if kind == "lightrnn" else {}
    edit_json(folder / "config.json", model=settings, **shape)
    assert re.search(r"config.json|table.tsv", refuse("evaluate", folder, world.valid))


def test_an_opponent_is_evaluated_and_measured(command: Command, world: World) -> None:
    facts = json.loads(command("evaluate", world.opponent, world.data, "--json").out)
    assert set(facts["parts"]) == {"class", "word"}
    assert sum(facts["parts"].values()) == pytest.approx(facts["nats"])
    sizes = json.loads(command("info", world.opponent, "--json").out)
    assert (sizes["model"], sizes["table_shape"]) == ("hsm", None)
    header = 8 + int.from_bytes((world.opponent / "weights.safetensors").read_bytes()[:8], "little")
    stored = (world.opponent / "weights.safetensors").stat().st_size - header
    assert stored == 4 * (sum(sizes["parameters"].values()) + sizes["vocabulary_size"])  # and each word's place
    for kind in KINDS:
        told = json.loads(command("info", "--vocab-size", "5000", "--model", kind, "--json").out)
        assert told["model"] == kind


# --- evaluate


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


# --- options out of their range

TRAIN, PREPARE, EVALUATE, INFO, DEMO = "train", "prepare", "evaluate", "info", "demo"
OUT_OF_RANGE = [
    *((TRAIN, "--hidden-size", value) for value in ("-3", "0", "65537", "1e9", "8.5", "many", "9" * 400, "")),
    *((TRAIN, "--layers", value) for value in ("0", "-1", "65")),
    *((TRAIN, "--embedding-size", value) for value in ("-1", "65537")),
    *((TRAIN, "--components", value) for value in ("1", "0", "-2", "9")),
    *((TRAIN, "--cell", value) for value in ("foo", "", "LSTM")),
    *((TRAIN, "--dropout", value) for value in ("1.5", "1", "-0.1", "nan", "inf", "half")),
    *((TRAIN, "--optimizer", value) for value in ("foo", "")),
    (TRAIN, "--schedule", "foo"),
    *((TRAIN, "--learning-rate", value) for value in ("-1", "0", "inf", "nan", "101", "1e999")),
    *((TRAIN, "--clip-norm", value) for value in ("0", "-5", "nan", "inf")),
    *((TRAIN, "--weight-init", value) for value in ("0", "-1", "11", "nan")),
    *((TRAIN, "--batch-size", value) for value in ("0", "-20", "65537")),
    *((TRAIN, "--window", value) for value in ("0", "-1", "65537")),
    *((TRAIN, "--epochs", value) for value in ("0", "-1", "1000000", "nan")),
    *((TRAIN, "--minutes", value) for value in ("-1", "nan", "inf")),
    *((TRAIN, "--validate-every", value) for value in ("-1", "x")),
    (TRAIN, "--patience", "-1"),
    *((TRAIN, "--seed", value) for value in ("-1", "2147483648", "x")),
    *((TRAIN, "--threads", value) for value in ("-1", "5000", "all")),
    *((PREPARE, "--min-count", value) for value in ("0", "-1", "two")),
    *((PREPARE, "--max-words", value) for value in ("1", "2", "0", "-1")),
    *((PREPARE, "--normalize", value) for value in ("foo", "NFC")),
    *((PREPARE, "--convention", value) for value in ("foo", "")),
    *((EVALUATE, "--batch-size", value) for value in ("0", "-1", "65537")),
    *((EVALUATE, "--threads", value) for value in ("-1", "5000")),
    *((EVALUATE, "--convention", value) for value in ("foo", "")),
    *((INFO, "--vocab-size", value) for value in ("0", "1", "-5", "x")),
    *((INFO, "--hidden-size", value) for value in ("0", "-3")),
    *((DEMO, "--minutes", value) for value in ("0", "-1", "nan")),
    *((DEMO, "--threads", value) for value in ("-1",)),
]


@pytest.mark.parametrize(("name", "option", "value"), OUT_OF_RANGE)
def test_option_out_of_range(
    command: Command, world: World, tmp_path: Path, name: str, option: str, value: str
) -> None:
    arguments = {
        TRAIN: [world.train, "-o", "out"],
        PREPARE: [world.train, "-o", "out"],
        EVALUATE: [world.model, world.data],
        INFO: [] if option == "--vocab-size" else ["--vocab-size", "100"],
        DEMO: ["-o", "out"],
    }[name]
    result = command(name, *arguments, option, value)
    assert result.code == 2, result
    assert re.search(rf"{option}\b", result.err), result.err
    assert result.out == ""
    assert_one_sentence(result.err)
    assert snapshot(tmp_path) == {}


def test_resume_checks_options_too(refuse: Refusal, world: World, model: Path) -> None:
    for option, value in (("--epochs", "0"), ("--minutes", "-1"), ("--patience", "-1")):
        assert option in refuse("train", world.data, "--resume", "-o", model, option, value)


@pytest.mark.parametrize("arguments", [(), ("MODEL", "--vocab-size", "100"), ("MODEL", "--hidden-size", "8")])
def test_info_wants_one_thing(refuse: Refusal, world: World, arguments: tuple[str, ...]) -> None:
    assert "--vocab-size" in refuse("info", *(world.model if a == "MODEL" else a for a in arguments))


@pytest.mark.skipif(
    sys.platform != "linux" or torch.cuda.is_available(), reason="limits the address space, of which CUDA takes much"
)
def test_network_too_large_for_the_memory(world: World, tmp_path: Path) -> None:
    before = limit("RLIMIT_AS", 8 << 30)
    result = program("train", world.train, "-o", tmp_path / "out", "--hidden-size", 65536, before=before)
    assert result.code == 2, result
    assert result.err.splitlines()[-1].startswith("error: out of memory; lower"), result
    assert "Traceback" not in result.err
    assert snapshot(tmp_path) == {}


# --- full disks


def test_prepare_when_files_cannot_grow(world: World, tmp_path: Path) -> None:
    result = program("prepare", world.train, "-o", tmp_path / "out", before=limit("RLIMIT_FSIZE", 1024))
    assert result.code == 2, result
    assert_one_sentence(result.err)
    assert "File too large" in result.err
    assert snapshot(tmp_path) == {}


def test_resume_when_files_cannot_grow(command: Command, world: World, model: Path) -> None:
    before = snapshot(model)
    size = (model / "training.safetensors").stat().st_size - 1000
    arguments = ("train", world.data, "-o", model, "--resume", "--epochs", "3")
    result = program(*arguments, before=limit("RLIMIT_FSIZE", size))
    assert result.code == 2, result
    assert result.err.splitlines()[-1].startswith("error: "), result
    assert "File too large" in result.err
    assert "Traceback" not in result.err
    assert not leftovers(model)
    after = snapshot(model)
    assert {name: after.get(name) for name in before} == before
    assert command("evaluate", model, world.data).code == 0
    assert command(*arguments).code == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a tiny disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tiny disk: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def leave_free(disk: Path, pages: int) -> None:
    """Fill the disk up to some free pages."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    state = os.statvfs(disk)
    filler.write_bytes(bytes(state.f_bavail * state.f_frsize - pages * PAGE))
    assert os.statvfs(disk).f_bavail * state.f_frsize == pages * PAGE


def test_full_disk_in_a_real_process(world: World, disk: Path) -> None:
    leave_free(disk, 2)
    before = snapshot(disk)
    result = program("prepare", world.train, "-o", disk / "out")
    assert result.code == 2, result
    assert_one_sentence(result.err)
    assert "No space left on device" in result.err
    assert snapshot(disk) == before


def test_preparing_on_disks_of_every_size(command: Command, world: World, disk: Path) -> None:
    shutil.copytree(world.other_data, disk / "data")
    arguments = ("prepare", world.train, "--valid", world.valid, "--test", world.valid, "-o", disk / "data", "--force")
    for pages in range(40):
        leave_free(disk, pages)
        before = snapshot(disk)
        result = command(*arguments)
        if result.code == 0:
            break
        assert result.code == 2
        assert_one_sentence(result.err)
        assert "No space left on device" in result.err
        assert snapshot(disk) == before
    assert 1 < pages < 39
    assert Corpus.load(disk / "data").info == Corpus.load(world.data).info
    assert {path.name for path in disk.iterdir()} == {"data", "filler"}


def assert_disk_was_full(result: Result) -> None:
    assert result.code == 2, result
    assert re.match("error: .*No space left on device", result.err.splitlines()[-1]), result
    assert "Traceback" not in result.err


@pytest.mark.parametrize("source", ["train", "data"])
@pytest.mark.parametrize("existing", [False, True], ids=["new-folder", "empty-folder"])
def test_starting_on_disks_of_every_size(
    command: Command, world: World, disk: Path, source: str, existing: bool
) -> None:
    folder = disk / "model"
    for pages in range(80):
        shutil.rmtree(folder, ignore_errors=True)
        if existing:
            folder.mkdir()
        leave_free(disk, pages)
        before = snapshot(disk)
        result = command("train", world.root / source, "-o", folder, *SMALL)
        if result.code == 0:
            break
        assert_disk_was_full(result)
        assert not leftovers(disk)
        if snapshot(disk) != before:  # it got as far as a whole model
            assert command("evaluate", folder, world.valid).code == 0
    assert 1 < pages < 79


def test_resuming_on_disks_of_every_size(command: Command, world: World, disk: Path) -> None:
    folder, filler = disk / "model", disk / "filler"
    arguments = ("train", world.data, "-o", folder, "--resume", "--epochs", "3")
    results = set()
    for pages in range(80):
        shutil.rmtree(folder, ignore_errors=True)
        filler.unlink(missing_ok=True)
        shutil.copytree(world.model, folder)
        leave_free(disk, pages)
        result = command(*arguments)
        if result.code != 0:
            assert_disk_was_full(result)
            assert not leftovers(folder)
            assert command("evaluate", folder, world.data).code == 0
            filler.unlink()
            assert command(*arguments).code == 0
        results.add((folder / "weights.safetensors").read_bytes())
        if result.code == 0:
            break
    assert 1 < pages < 79
    assert len(results) == 1  # a full disk on the way changes nothing in the end
    assert results != {(world.model / "weights.safetensors").read_bytes()}


# --- losses that are not finite


def make_bomb(folder: Path, text: str, valid: str) -> tuple[Path, Path]:
    """Data, and a model for it; see `explosive`."""
    (folder / "text").write_text(text, encoding="utf-8")
    (folder / "valid").write_text(valid, encoding="utf-8")
    (folder / "words").write_text("</s>\na\nb\nc\nd\ne\n<unk>\nboom\n", encoding="utf-8")
    corpus = prepare(
        [str(folder / "text")], folder / "data", valid=[str(folder / "valid")], vocabulary=folder / "words"
    )
    assert not any(facts["unknown"] for facts in corpus.info["splits"].values())
    torch.manual_seed(1)
    model = LightRNN(ModelConfig(hidden_size=8), WordTable.from_places(np.arange(8), (3, 3)))
    save_model(folder / "bomb", model, corpus.vocabulary, {})
    return folder / "data", folder / "bomb"


@pytest.fixture
def explosive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models give finite figures until the word "boom", the last of eight, is read."""
    calm = LightRNN.log_probs

    def log_probs(self: LightRNN, words: torch.Tensor, state: Any = None) -> Any:
        parts, after = calm(self, words, state)
        return parts.masked_fill((words[:, :-1] == 7)[..., None], torch.nan), after

    monkeypatch.setattr(LightRNN, "log_probs", log_probs)


CALM = "a b c\nd e\n" * 30
BOMB_OPTIONS = ("--epochs", "2", "--batch-size", "1", "--window", "20", "--validate-every", "1", "--threads", "1")


@pytest.mark.usefixtures("explosive")
def test_loss_that_is_not_finite(command: Command, tmp_path: Path) -> None:
    data, bomb = make_bomb(tmp_path, text=CALM + "boom a\n", valid=CALM)
    before = snapshot(bomb)
    result = command("train", data, "--init", bomb, "-o", "out", *BOMB_OPTIONS)
    assert result.code == 2, result
    *_, last = result.err.splitlines()
    assert re.match(r"error: the loss became (nan|inf) .* at mini-batch \d+ .*--learning-rate", last), result.err
    assert snapshot(bomb) == before
    assert not leftovers(tmp_path)
    out = tmp_path / "out"
    best = read_config(out)["training"]
    assert best["steps"] > 1
    assert isfinite(best["valid_perplexity"])
    evaluated = command("evaluate", out, tmp_path / "valid", "--json")
    assert json.loads(evaluated.out)["perplexity"] == pytest.approx(best["valid_perplexity"])
    _, facts = load_training(out)
    assert facts["position"]["best_perplexity"] == best["valid_perplexity"]


@pytest.mark.usefixtures("explosive")
def test_validation_that_is_not_finite(command: Command, tmp_path: Path) -> None:
    data, bomb = make_bomb(tmp_path, text=CALM, valid=CALM + "boom a\n")
    result = command("train", data, "--init", bomb, "-o", "out", *BOMB_OPTIONS)
    assert result.code == 2, result
    *_, last = result.err.splitlines()
    assert re.match(r"error: .*valid", last), result.err
    assert "nan" in last
    assert read_config(tmp_path / "out")["training"]["valid_perplexity"] is None
    load_model(tmp_path / "out")
