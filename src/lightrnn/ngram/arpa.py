"""ARPA files, the n-gram models of SRILM, KenLM and all others, in and out.

A file announces how many n-grams there are of each order, then lists them, one a line: log10 probability, words,
log10 back-off. It is parsed in blocks of a megabyte by array operations; Python sees no single line, but for errors.
"""

import gzip
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..files import read_blocks
from ..outputs import replace_output
from ..text.reading import LONGEST
from ..text.rules import TextRules
from ..text.vocabulary import Vocabulary
from .model import NEVER, Floats, Level, NGram, Places, find, start_and_size

RULES = TextRules(normalize="none", eos="</s>", unk="<unk>", bos="<s>", convention="sentence")
EOS, UNK, BOS = RULES.specials
UNLISTED = -100.0  # log10 probability of the unknown word where a file has none, as in KenLM
CHUNK = 1 << 18  # n-grams written at once
SPACE = np.isin(np.arange(256), list(b" \t\n\r\v\f"))


def arpa_words(vocabulary: Vocabulary) -> list[str]:
    """The words by id, <s> included, as ARPA files and KenLM spell them: </s>, <unk>, <s> for eos, unk, bos."""
    start, size = start_and_size(vocabulary)
    names = [*vocabulary.words, *[""] * (size - len(vocabulary))]
    names[vocabulary.eos_id], names[vocabulary.unk_id], names[start] = RULES.specials
    for special in RULES.specials:
        if names.count(special) > 1:
            raise LightRNNError(
                f"the vocabulary has an ordinary word {special!r}, which means something else in ARPA files; "
                "replace it in the text and prepare it again"
            )
    return names


def write_arpa(model: NGram, path: str | Path, *, force: bool = False) -> None:
    """An ARPA file, gzipped if its name ends in .gz; it appears when it is complete, or not at all.

    If there is a file already, `force` replaces it.
    The vocabulary's eos, unk and bos are written as </s>, <unk> and <s>, whatever they are called in it.
    """
    names = np.array(arpa_words(model.vocabulary), dtype=object)
    with ExitStack() as stack:
        stage = stack.enter_context(replace_output(path, "file", force=force, option="path"))
        file: IO[bytes] = stack.enter_context(stage.open("wb"))
        if Path(path).suffix == ".gz":
            file = cast(IO[bytes], stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0)))
        header = "".join(f"ngram {n}={count}\n" for n, count in enumerate(model.counts, 1))
        file.write(f"\\data\\\n{header}".encode())
        for n in range(1, model.order + 1):
            file.write(f"\n\\{n}-grams:\n".encode())
            count = model.counts[n - 1]
            for begin in range(0, count, CHUNK):
                file.write(_lines(model, n, begin, min(begin + CHUNK, count), names).encode())
        file.write(b"\n\\end\\\n")


def _lines(model: NGram, n: int, begin: int, end: int, names: NDArray[Any]) -> str:
    """The lines of some n-grams of order n."""
    level = model.levels[n - 1]
    words = map(" ".join, zip(*(names[column].tolist() for column in model.words_of(n, begin, end)), strict=True))
    scores = level.log10_probs[begin:end].tolist()
    if n == model.order:
        return "".join([f"{p:.8g}\t{w}\n" for p, w in zip(scores, words, strict=True)])
    backoffs = level.log10_backoffs[begin:end].tolist()
    return "".join([f"{p:.8g}\t{w}\t{b:.8g}\n" for p, w, b in zip(scores, words, backoffs, strict=True)])


def read_arpa(path: Path) -> NGram:
    """The model of an ARPA file (.gz, .xz, .zst or plain), whatever program wrote it.

    Its vocabulary is in the file's order, with RULES and without counts. As in KenLM, <UNK> is <unk>, and a file that
    has neither gives unknown words a log10 probability of -100. <s> is never predicted, whatever the file says.
    """
    reader = _Reader(path)
    for number, piece in _pieces(path):
        if reader.read(number, piece):
            return reader.model()
    raise LightRNNError(f"{path} ends without \\end\\; it is not a whole ARPA file, fetch or make it again")


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines with the number of the first: runs of them, but those that begin with a backslash one by one."""
    number, rest = 1, b""
    for block in read_blocks(path):
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            if len(rest) > LONGEST["line"]:
                raise LightRNNError(
                    f"{path}, line {number:,} has more than {LONGEST['line']:,} bytes; it is no ARPA file"
                )
            continue
        whole, rest = rest + block[:cut], block[cut:]
        has_heading = whole.startswith(b"\\") or b"\n\\" in whole
        for piece in re.split(rb"(?m)^(\\.*\n)", whole) if has_heading else [whole]:
            if piece:
                yield number, piece
            number += piece.count(b"\n")
    if rest:
        yield number, rest + b"\n"


class _Reader:
    """What was read so far: the announced counts, the finished levels, the pieces of the section at hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.order = -1  # -1 before \data\, 0 within it, n within the n-grams
        self.announced: list[int] = []
        self.levels: list[Level] = []
        self.words: list[str] = []
        self.ids: dict[bytes, int] = {}
        self.section: list[tuple[NDArray[np.int64], Places, Floats, Floats]] = []

    def read(self, number: int, piece: bytes) -> bool:
        """Take in the next piece; True at the end of the model."""
        if piece.startswith(b"\\"):
            if self.order == 0 and not self.announced:
                self._fail(number, "\\data\\ announces no n-grams")
            if self.order > 0:
                self._finish_section(number)
            self.order += 1
            expected = self._heading()
            if piece.strip() != expected.encode():
                self._fail(number, f"expected {expected}, got {_shown(piece)}")
            return expected == "\\end\\"
        if self.order > 0:
            self._read_ngrams(number, piece)
        elif self.order == 0:
            self._read_announcement(number, piece)
        elif piece.startswith(b"mmap lm http://kheafield.com/code"):
            raise LightRNNError(f"{self.path} is a KenLM binary and no ARPA file; load it as lightrnn.load does")
        elif text := piece.lstrip():
            blank = piece[: -len(text)].count(b"\n")
            self._fail(number + blank, f"expected \\data\\, got {_shown(text)}")
        return False

    def _heading(self) -> str:
        if self.order == 0:
            return "\\data\\"
        return f"\\{self.order}-grams:" if self.order <= len(self.announced) else "\\end\\"

    def _fail(self, number: int | np.int64, what: str) -> NoReturn:
        raise LightRNNError(f"{self.path} line {number:,}: {what}; it is not a sound ARPA file, fetch or make it again")

    def _read_announcement(self, number: int, piece: bytes) -> None:
        for offset, line in enumerate(piece.split(b"\n")):
            if not line.strip():
                continue
            match = re.fullmatch(rb"ngram\s+(\d{1,4})\s*=\s*(\d{1,15})\s*", line)
            if not match or int(match[1]) != len(self.announced) + 1:
                self._fail(number + offset, f"expected ngram {len(self.announced) + 1}=COUNT, got {_shown(line)}")
            self.announced.append(int(match[2]))

    def _read_ngrams(self, number: int, piece: bytes) -> None:
        """Parse the lines of a piece into words, probabilities and back-offs."""
        characters = np.frombuffer(piece, np.uint8)
        space = SPACE[characters]
        begins = ~space
        begins[1:] &= space[:-1]
        ends = np.flatnonzero(characters == ord("\n"))
        fields = np.diff(np.cumsum(begins)[ends], prepend=0)
        lines = np.flatnonzero(fields)  # those that are not blank
        fields = fields[lines]
        lines += number
        n = self.order
        for line in np.flatnonzero((fields != n + 1) & (fields != n + 2))[:1]:
            what = f"a log10 probability, {n} word{'s' * (n > 1)} and perhaps a back-off"
            self._fail(lines[line], f"expected {what}, got fields: {fields[line]}")
        tokens = np.array(piece.split(), dtype=object)
        first = np.cumsum(fields) - fields
        probabilities = self._numbers(tokens[first], lines, "log10 probability")
        backoffs = np.zeros(len(lines))
        has_backoff = fields == n + 2
        backoffs[has_backoff] = self._numbers(tokens[first[has_backoff] + n + 1], lines[has_backoff], "log10 back-off")
        for line in np.flatnonzero(probabilities > 0)[:1]:
            self._fail(lines[line], f"a log10 probability is never positive, got {probabilities[line]:g}")
        words = tokens[first[:, None] + np.arange(1, n + 1)]
        if n == 1:
            self._add_words(words[:, 0].tolist(), lines)
        try:
            ids = np.fromiter(map(self.ids.__getitem__, words.ravel().tolist()), np.int64, words.size)
        except KeyError as error:
            line = next(line for line, row in zip(lines, words.tolist(), strict=True) if error.args[0] in row)
            self._fail(line, f"{_shown(error.args[0])} is not among the 1-grams")
        self.section.append((lines, self._keys(ids.reshape(words.shape), lines), probabilities, backoffs))

    def _keys(self, ids: NDArray[np.int64], lines: NDArray[np.int64]) -> Places:
        """The keys of n-grams (N, n), found from the first word on."""
        keys: Places = ids[:, 0]
        for k in range(1, ids.shape[1]):
            if k > 1:
                keys = find(self.levels[k - 1].keys, keys)
                for line in np.flatnonzero(keys < 0)[:1]:
                    context = " ".join(self.words[i] for i in ids[line, :k])
                    self._fail(lines[line], f"its context {context!r} is not among the {k}-grams")
            keys = keys * len(self.words) + ids[:, k]
        return keys

    def _numbers(self, tokens: NDArray[Any], lines: NDArray[np.int64], what: str) -> Floats:
        try:
            numbers = np.fromiter(map(float, tokens.tolist()), np.float64, len(tokens))
        except ValueError:
            numbers = np.array([_float(token) for token in tokens])
        for line in np.flatnonzero(np.isnan(numbers) | (numbers == np.inf))[:1]:
            self._fail(lines[line], f"expected a {what}, got {_shown(tokens[line])}")
        return numbers

    def _add_words(self, words: list[bytes], lines: NDArray[np.int64]) -> None:
        for line, word in zip(lines, words, strict=True):
            name = UNK if word == b"<UNK>" else word.decode("utf-8", "replace")
            if name.encode() != word != b"<UNK>":
                self._fail(line, f"{_shown(word)} is not UTF-8")
            if name.encode() in self.ids:
                self._fail(line, f"{name!r} is listed twice")
            self.ids[name.encode()] = self.ids[word] = len(self.words)
            self.words.append(name)

    def _finish_section(self, number: int) -> None:
        """Turn the n-grams read into a level, sorted by key."""
        n = self.order
        nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        lines, keys, probabilities, backoffs = map(np.concatenate, zip(nothing, *self.section, strict=True))
        self.section = []
        if len(lines) != self.announced[n - 1]:
            self._fail(number, f"\\data\\ announces {self.announced[n - 1]:,} {n}-grams, here are {len(lines):,}")
        if n == 1:
            for word in (EOS, BOS):
                if word not in self.words:
                    self._fail(number, f"{word} is not among the 1-grams")
            probabilities[self.words.index(BOS)] = NEVER
            if UNK not in self.words:
                self.words.append(UNK)
                keys, probabilities, backoffs = (
                    np.append(a, b) for a, b in ((keys, len(keys)), (probabilities, UNLISTED), (backoffs, 0.0))
                )
        elif np.any(keys[1:] <= keys[:-1]):
            by_key = np.argsort(keys, kind="stable")
            keys = keys[by_key]
            for place in np.flatnonzero(keys[1:] == keys[:-1])[:1]:
                self._fail(lines[by_key[place + 1]], "this n-gram is listed twice")
            probabilities, backoffs = probabilities[by_key], backoffs[by_key]
        self.levels.append(Level(keys, probabilities, np.zeros(0) if n == len(self.announced) else backoffs))

    def model(self) -> NGram:
        vocabulary = Vocabulary(self.words, np.zeros(len(self.words), np.int64), RULES)
        return NGram(vocabulary, self.levels)


def _float(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return np.nan


def _shown(data: bytes) -> str:
    """The first line of something, short enough for an error."""
    return repr(data.split(b"\n")[0].strip()[:60].decode("utf-8", "replace"))
