"""Text as people really give it: marks, tabs, bombs, bytes that are no text, words that a model does not know."""

import gzip
import io
import lzma
import sys
import unicodedata
from codecs import BOM_UTF8
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import printed, run_apart
from lightrnn import files
from lightrnn.errors import LightRNNError
from lightrnn.files import read_blocks
from lightrnn.text import reading
from lightrnn.text.reading import line_blocks, text_pieces, word_blocks
from lightrnn.text.rules import TextRules
from oracle import plain_words

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
TEXT = "the cat sat\nthe dog\tsat  down\r\n\nthe end"


def words_of(path: Path | str, rules: TextRules | None = None) -> list[bytes]:
    return [word for block in word_blocks(path, rules or TextRules()) for word in block]


def lines_of(path: Path | str) -> list[str]:
    return [line for block in line_blocks(path) for line in block]


# --- one reader


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab \n\t\v\r\u00a0é\ufeff", max_size=60), st.integers(1, 9), st.sampled_from(["line", "word"]))
def test_pieces_are_whole_and_make_up_the_text(text: str, size: int, unit: reading.Unit) -> None:
    data = text.encode()
    blocks = [data[i : i + size] for i in range(0, len(data), size)]
    pieces = list(text_pieces(blocks, "it", unit))
    assert "".join(piece for _, piece in pieces) == text.removeprefix("\ufeff")
    assert all(raw.decode() == piece for raw, piece in pieces)
    assert all(piece[-1:] in ("", *("\n" if unit == "line" else " \n\t\v\r")) for _, piece in pieces[:-1])


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_mark_is_no_part_of_the_first_word_or_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", size)
    path = tmp_path / "text"
    path.write_bytes(BOM_UTF8 + b"one two\n" + BOM_UTF8 + b"three\n")
    assert words_of(path) == [b"one", b"two", b"</s>", BOM_UTF8 + b"three", b"</s>"]
    assert lines_of(path) == ["one two", "\ufeffthree"]
    path.write_bytes(BOM_UTF8)
    assert words_of(path) == lines_of(path) == []
    path.write_bytes(BOM_UTF8 + b"ab \xff")
    for read in (words_of, lines_of):
        with pytest.raises(LightRNNError, match=r"text is not UTF-8: byte 0xff at offset 6; convert it first"):
            read(path)


@pytest.mark.parametrize("space", ["\t", "\v", "\f", "\r", "\r\n"])
def test_any_white_space_is_a_place_to_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: str) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 1000)
    monkeypatch.setitem(reading.LONGEST, "word", 1000)
    (tmp_path / "text").write_text(space.join(["word"] * 5000), encoding="utf-8", newline="")
    pieces = [data for data, _ in text_pieces(read_blocks(tmp_path / "text"), "text", "word")]
    assert max(map(len, pieces)) < 1010  # a block and at most a word more
    assert words_of(tmp_path / "text").count(b"word") == 5000


# --- bombs


@pytest.mark.parametrize("unit", ["line", "word"])
def test_the_longest_line_and_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: reading.Unit) -> None:
    """Exactly: what is allowed does not depend on where the blocks of a file end."""
    monkeypatch.setitem(reading.LONGEST, unit, 100)
    read = words_of if unit == "word" else lines_of
    path = tmp_path / "text"
    for block in (7, 30, 100):
        monkeypatch.setattr(files, "BLOCK_BYTES", block)
        for before in (0, 1, 50, 99):
            for end in (b"", b"\n"):
                path.write_bytes(b"b" * before + b"\n" + b"a" * 100 + end)
                assert read(path)
                path.write_bytes(b"b" * before + b"\n" + b"a" * 101 + end)
                with pytest.raises(LightRNNError, match=f"a {unit} of more than 100 bytes at offset {before + 1};"):
                    read(path)


MEMORY = """
import resource, sys
from lightrnn.errors import LightRNNError
from lightrnn.text.reading import line_blocks, word_blocks
from lightrnn.text.rules import TextRules
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for block in line_blocks(sys.argv[2]) if sys.argv[1] == "line" else word_blocks(sys.argv[2], TextRules()): pass
except LightRNNError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("unit", ["line", "word"])
def test_a_bomb_is_refused_before_it_is_unfolded(tmp_path: Path, unit: str) -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    packed = [compressor.compress(bytes(1 << 22)) for _ in range(100)]
    (tmp_path / "bomb.zst").write_bytes(b"".join([*packed, compressor.flush()]))
    assert (tmp_path / "bomb.zst").stat().st_size < 50_000
    refusal, megabytes = printed(run_apart(unit, tmp_path / "bomb.zst", script=MEMORY)).splitlines()
    assert f"has a {unit} of more than {reading.LONGEST[unit]:,} bytes at offset 0; give text," in refusal
    assert int(megabytes) < 100  # of the 400 that it unfolds to


def test_texts_of_all_kinds_read_alike(tmp_path: Path) -> None:
    data = BOM_UTF8 + "Été \u00a0\n\nB\tc".encode()
    rules = TextRules(lowercase=True)
    for suffix, compress in PACK.items():
        (tmp_path / f"t{suffix}").write_bytes(compress(data))
        assert lines_of(tmp_path / f"t{suffix}") == ["Été \u00a0", "", "B\tc"]
        found = b" ".join(words_of(tmp_path / f"t{suffix}", rules)).decode()
        assert found == "été \u00a0 </s> </s> b c </s>"


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab \n\t\u00a0é\u2028", max_size=80), st.integers(1, 9))
def test_blocks_cut_anywhere_give_the_same_words(data: str, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK_BYTES", block)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
        words = [w.decode() for b in word_blocks("-", TextRules()) for w in b]
    expected = plain_words(unicodedata.normalize("NFC", data)) if data else []
    assert words == expected


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_read_the_same(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.txt{suffix}"
    path.write_bytes(PACK[suffix](TEXT.encode()))
    assert [word.decode() for word in words_of(str(path))] == plain_words(TEXT)
