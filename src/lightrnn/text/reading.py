"""Text from files and pipes: decoded in one place, in pieces that never cut a line or a word in two.

Every reader of text is built on `text_pieces`. A byte-order mark at the start is left out; what is not UTF-8 is refused
by its offset in the (decompressed) file; and so is a line or a word that does not end within a stated length: memory is
bounded, whatever a file holds or unfolds to.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from ..container import MAGIC
from ..errors import LightRNNError
from ..files import read_blocks
from .rules import TextRules

Unit = Literal["line", "word"]
Errors = Literal["strict", "replace"]

LONGEST: dict[Unit, int] = {"line": 1 << 24, "word": 1 << 20}  # bytes, no fewer than a block has
_END: dict[Unit, bytes] = {"line": rb"\n", "word": rb"[ \t\n\r\v\f]"}
CONVERT = "convert it first, for instance with iconv"


def text_pieces(
    blocks: Iterable[bytes],
    name: str,
    unit: Unit,
    errors: Errors = "strict",
    remedy: str = CONVERT,
    offset: int = 0,
) -> Iterator[tuple[bytes, str]]:
    """Pieces of many whole lines, or of whole words with the white space between: as bytes, and decoded.

    offset: of the first block in the file.

    What is there is given at once: a pipe is not waited for, except for the end of a line or word. Bytes that are not
    UTF-8 are an error, after the lines before them were given, or become U+FFFD ("replace").
    """
    name = "standard input" if name == "-" else name
    begun: list[bytes] = []  # pieces of a line or word whose end is not there yet; `offset` is theirs
    size = 0  # of these
    for block in blocks:
        if size + len(block) > LONGEST[unit]:
            end = re.search(_END[unit], block)
            if size + (end.start() if end else len(block)) > LONGEST[unit]:
                raise LightRNNError(
                    f"{name} has a {unit} of more than {LONGEST[unit]:,} bytes at offset {offset:,}; "
                    f"give text, with {'a line for each sentence' if unit == 'line' else 'white space between words'}"
                )
        rest = _unfinished(block, unit)
        if len(rest) < len(block):
            piece = b"".join([*begun, block[: len(block) - len(rest)]])
            yield from _decoded(piece, name, offset, errors, remedy)
            offset += len(piece)
            begun, size = [], 0
        if rest:
            begun.append(rest)
            size += len(rest)
    if begun:
        yield from _decoded(b"".join(begun), name, offset, errors, remedy)


def _unfinished(block: bytes, unit: Unit) -> bytes:
    """What comes after the last end of a line or word."""
    if unit == "line":
        return block.rsplit(b"\n", 1)[-1]
    return b"" if block[-1:].isspace() else block.rsplit(None, 1)[-1]


def _decoded(data: bytes, name: str, offset: int, errors: Errors, remedy: str) -> Iterator[tuple[bytes, str]]:
    if offset == 0:
        if data.startswith(MAGIC):
            raise LightRNNError(f"{name} is a packed file of lightrnn, where text is needed; give a text file")
        data, offset = data.removeprefix(BOM_UTF8), len(BOM_UTF8) * data.startswith(BOM_UTF8)
    try:
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        before = data[: data.rfind(b"\n", 0, error.start) + 1]
        yield before, before.decode()
        raise LightRNNError(
            f"{name} is not UTF-8: byte 0x{data[error.start]:02x} at offset {offset + error.start:,}; {remedy}"
        ) from None
    yield data, text


def line_blocks(source: str | Path, errors: Errors = "strict", remedy: str = CONVERT) -> Iterator[list[str]]:
    """The lines of a file without their newlines, as many at a time as are there: a pipe's are not waited for."""
    for _, text in text_pieces(read_blocks(source), str(source), "line", errors, remedy):
        if text:
            yield text.removesuffix("\n").split("\n")


def word_blocks(source: str | Path, rules: TextRules, begin: int = 0, end: int | None = None) -> Iterator[list[bytes]]:
    """The words of a file as UTF-8 bytes, eos after each line, in lists of some 200,000 words.

    Memory is bounded by the block, however long the file or its lines. A last line without a newline is closed too.
    begin, end: those of some whole lines only, of a plain file.
    """
    line_end = f" {rules.eos} ".encode()
    last = b"\n"
    for data, text in text_pieces(read_blocks(source, begin, end), str(source), "word", offset=begin):
        folded = rules.fold(text)
        yield (data if folded is text else folded.encode()).replace(b"\n", line_end).split()
        last = data[-1:] or last
    if last != b"\n":
        yield [rules.eos.encode()]
