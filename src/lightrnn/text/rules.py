"""Text: from bytes to words, by rules that are stored with every data folder and model.

Words are separated by ASCII white space, as in KenLM; every line, empty ones included, ends in one end-of-sentence
word. The same rules apply when a model scores text later.
"""

import unicodedata
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from ..border import check, maybe, record, text, true_or_false
from ..errors import LightRNNError
from ..files import read_blocks

Normalize = Literal["none", "nfc", "nfkc"]
Convention = Literal["stream", "sentence"]
Errors = Literal["strict", "replace"]


@dataclass(frozen=True)
class TextRules:
    """How text becomes words, and how its perplexity is counted.

    normalize: Unicode normalisation; lowercase: fold case; both are applied before the split into words.
    eos ends every line, unk stands for words outside the vocabulary, bos is the context of a sentence's first word:
    a word of its own (One Billion Words' <S>) or None, where the end of the sentence before serves.
    convention: "stream" carries the state across sentences, "sentence" starts each one afresh; eos is counted in
    both, bos in neither.
    """

    normalize: Normalize = "nfc"
    lowercase: bool = False
    eos: str = "</s>"
    unk: str = "<unk>"
    bos: str | None = None
    convention: Convention = "stream"

    def __post_init__(self) -> None:
        for name, choices in (("normalize", get_args(Normalize)), ("convention", get_args(Convention))):
            value = getattr(self, name)
            if value not in choices:
                raise LightRNNError(f"{name} (--{name}) must be one of {', '.join(choices)}, got {value!r}")
        specials = [word for word in (self.eos, self.unk, self.bos) if word is not None]
        if len(set(specials)) < len(specials) or any(len(word.split()) != 1 for word in specials):
            raise LightRNNError(f"eos, unk and bos must be different words without spaces, got {specials}")

    @property
    def specials(self) -> list[str]:
        """The words that every vocabulary under these rules holds."""
        return [self.eos, self.unk] + ([self.bos] if self.bos is not None else [])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str) -> "TextRules":
        check(values, WRITTEN, origin, "restore it or make it again")
        try:
            return cls(**values)
        except TypeError as error:
            raise LightRNNError(
                f"{origin} has an unknown text rule: {error}; was this written by a newer lightrnn?"
            ) from None
        except LightRNNError as error:
            raise LightRNNError(f"{origin}: {error}") from None

    def clean(self, text: str) -> str:
        """Normalise and fold case."""
        if self.normalize != "none" and not text.isascii():
            text = unicodedata.normalize(cast(Literal["NFC", "NFKC"], self.normalize.upper()), text)
        return text.lower() if self.lowercase else text

    def split(self, text: str) -> list[str]:
        """The words of one piece of text, without sentence ends."""
        return [word.decode() for word in self.clean(text).encode().split()]


WRITTEN = record({}, {"lowercase": true_or_false(), "eos": text(), "unk": text(), "bos": maybe(text())})


def line_blocks(source: str, errors: Errors = "strict") -> Iterator[list[str]]:
    """The lines of a file without their newlines, as many at a time as are there: a pipe's are not waited for.

    Bytes that are not UTF-8 are an error, after the lines before them were given, or become U+FFFD ("replace").
    """
    number = 1  # of the next line
    begun: list[bytes] = []  # pieces of a line whose end is not there yet
    for block in read_blocks(source):
        whole, newline, rest = block.rpartition(b"\n")
        if newline:
            lines = b"".join([*begun, whole]).split(b"\n")
            yield from _decoded(lines, source, number, errors)
            number += len(lines)
            begun = []
        if rest:
            begun.append(rest)
    if begun:
        yield from _decoded([b"".join(begun)], source, number, errors)


def _decoded(lines: list[bytes], source: str, number: int, errors: Errors) -> Iterator[list[str]]:
    decoded: list[str] = []
    if number == 1:
        lines[0] = lines[0].removeprefix(BOM_UTF8)
    for offset, line in enumerate(lines):
        try:
            decoded.append(line.decode("utf-8", errors))
        except UnicodeDecodeError as error:
            yield decoded
            raise LightRNNError(
                f"{source} line {number + offset} is not UTF-8: byte 0x{line[error.start]:02x}; "
                "convert it first, for instance with iconv, or use --errors replace"
            ) from None
    yield decoded


def word_blocks(source: str, rules: TextRules) -> Iterator[list[bytes]]:
    """The words of a file as UTF-8 bytes, eos after each line, in lists of some 200,000 words.

    Memory is bounded by the block, however long the file or its lines. A last line without a newline is closed too.
    """
    line_end = f" {rules.eos} ".encode()
    offset = 0  # of `rest` in the file
    rest = b""
    last = b"\n"
    for block in read_blocks(source):
        data = rest + (block.removeprefix(BOM_UTF8) if offset == 0 and not rest else block)
        cut = max(data.rfind(b"\n"), data.rfind(b" ")) + 1
        whole, rest = data[:cut], data[cut:]
        yield _words(whole, rules, line_end, source, offset)
        offset += len(whole)
        last = data[-1:]
    if last != b"\n":
        yield _words(rest + b"\n", rules, line_end, source, offset)


def _words(data: bytes, rules: TextRules, line_end: bytes, source: str, offset: int) -> list[bytes]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LightRNNError(
            f"{source} is not UTF-8: byte 0x{data[error.start]:02x} at offset {offset + error.start:,}; "
            "convert it first, for instance with iconv"
        ) from None
    cleaned = rules.clean(text)
    if cleaned is not text:
        data = cleaned.encode()
    return data.replace(b"\n", line_end).split()
