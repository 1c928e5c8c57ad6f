"""Bad text and bad word lists, for prepare and for the commands that prepare on the way."""

import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from helpers import SMALL, Call, Refusal, World, hidden, made_up_text, run_apart, snapshot

MIB = 1 << 20


# --- the text


def test_real_process_ends_with_code_2_and_exactly_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"a b\nc \xff d\n")
    result = run_apart("prepare", text, "-o", tmp_path / "out")
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
    ("content", "message"), [(b"", "is empty"), (b"a \xfe\n", "standard input is not UTF-8: byte 0xfe at offset 2;")]
)
def test_bad_standard_input(refuse: Refusal, content: bytes, message: str) -> None:
    assert message in refuse("prepare", "-", "-o", "out", stdin=content)


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


def test_file_name_that_is_not_utf8_is_no_reason_to_crash(call: Call, world: World, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    shutil.copy(world.train, tmp_path / name)
    result = call("prepare", name, "-o", "out")
    assert result.code in (0, 2)
    assert (tmp_path / "out" / "data.json").exists() == (result.code == 0)
    assert not hidden(tmp_path)


# --- the vocabulary


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
