"""Text on its way to ids: segments, each a stretch of the text with numbers of its own for its words.

Who reads a stretch, this process or one beside it, numbers the words in order of appearance and leaves three files: the
numbers of the tokens, the words, how often each occurs. When the words of all stretches before are known, those of the
next one get the numbers that all share, which makes a fourth: shared numbers by own ones. So what is written does not
depend on where segments end or on who read them, and memory is bounded by the words: a segment's by SEGMENT_WORDS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..files import is_compressed
from .id_files import chunks_of
from .reading import LONGEST, word_blocks
from .rules import TextRules

SEGMENT_WORDS = 1 << 20  # different words from which on a segment ends with the block


class Tell(Protocol):
    """Called with how many words were read; and at the end of a piece with its bytes on disk and its words."""

    def __call__(self, words: int, done: int = 0, words_done: int = 0, /) -> None: ...


class Piece(NamedTuple):
    """A file or, of a plain one, the whole lines between two places; size: of what is on disk, in bytes."""

    file: str
    begin: int
    end: int | None
    size: int


def size_of(file: str) -> int:
    """Bytes on disk; 0 for a pipe."""
    return Path(file).stat().st_size if file != "-" and Path(file).is_file() else 0


def pieces_of(file: str, most: int) -> list[Piece]:
    """A file in pieces of about so many bytes that end where a line ends; one, if it is compressed or a pipe."""
    size = size_of(file)
    cuts = [0]
    if size > most and not is_compressed(file):
        with Path(file).open("rb") as opened:
            for place in range(most, size, most):
                if place > cuts[-1]:
                    opened.seek(place - 1)
                    line = opened.readline(LONGEST["line"])
                    if line.endswith(b"\n") and opened.tell() < size:
                        cuts.append(opened.tell())
    ends = [*cuts[1:], size]
    whole = len(cuts) == 1
    return [Piece(file, begin, None if whole else end, end - begin) for begin, end in zip(cuts, ends, strict=True)]


class WordNumbers(dict[bytes, int]):
    """A dict that numbers new words in order of appearance."""

    def __missing__(self, word: bytes) -> int:
        number = self[word] = len(self)
        return number

    def of(self, words: list[bytes]) -> NDArray[np.int32]:
        return np.fromiter(map(self.__getitem__, words), np.int32, len(words))


@dataclass(frozen=True)
class Segment:
    """So many tokens, in files STEM.ids (as in .npy files), STEM.words (a line each) and STEM.counts (int64)."""

    stem: str
    tokens: int

    def words(self) -> list[bytes]:
        return Path(f"{self.stem}.words").read_bytes().split(b"\n")

    def counts(self) -> NDArray[np.int64]:
        return np.frombuffer(Path(f"{self.stem}.counts").read_bytes(), np.int64)

    def ids(self, begin: int = 0, end: int | None = None) -> Iterator[NDArray[np.int32]]:
        """Its own numbers of tokens from `begin` to `end`, in chunks."""
        with Path(f"{self.stem}.ids").open("rb") as file:
            file.seek(4 * begin)
            yield from chunks_of(file, (self.tokens if end is None else end) - begin)

    def share(self, numbers: NDArray[np.int32]) -> None:
        """Keep the numbers that all segments share, by its own ones, in place of the words."""
        Path(f"{self.stem}.numbers").write_bytes(numbers.tobytes())  # tofile() does not tell that a disk is full
        for suffix in ("words", "counts"):
            Path(f"{self.stem}.{suffix}").unlink()

    def shared(self) -> NDArray[np.int32]:
        return np.frombuffer(Path(f"{self.stem}.numbers").read_bytes(), np.int32)

    def remove(self) -> None:
        for suffix in ("ids", "numbers"):
            Path(f"{self.stem}.{suffix}").unlink()


def write_segments(pieces: Sequence[Piece], rules: TextRules, stem: str, tell: Tell) -> Iterator[Segment]:
    """Read pieces into segments STEM-0, STEM-1 …, each given when its files are there."""
    blocks = _blocks(pieces, rules, tell)
    for number in count():
        seen, tokens, path = WordNumbers(), 0, f"{stem}-{number}"
        with Path(f"{path}.ids").open("wb") as file:
            for words in blocks:
                file.write(seen.of(words).astype("<i4", copy=False).tobytes())
                tokens += len(words)
                if len(seen) >= SEGMENT_WORDS:
                    break
        if not seen:
            Path(f"{path}.ids").unlink()
            return
        segment = Segment(path, tokens)
        counts = np.zeros(len(seen), np.int64)
        for chunk in segment.ids():
            counts += np.bincount(chunk, minlength=len(seen))
        Path(f"{path}.counts").write_bytes(counts.tobytes())
        Path(f"{path}.words").write_bytes(b"\n".join(seen))
        del seen
        yield segment


def _blocks(pieces: Sequence[Piece], rules: TextRules, tell: Tell) -> Iterator[list[bytes]]:
    for piece in pieces:
        read = 0
        for words in word_blocks(piece.file, rules, piece.begin, piece.end):
            yield words
            read += len(words)
            tell(len(words))
        tell(0, piece.size, read)


class NumberedText:
    """Segments in order, with shared numbers: a text to be looked into, and then taken from its beginning."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._taken = 0  # tokens of the first segment

    @property
    def tokens(self) -> int:
        return sum(segment.tokens for segment in self._segments) - self._taken

    def append(self, segment: Segment, numbers: NDArray[np.int32]) -> None:
        segment.share(numbers)
        self._segments.append(segment)

    def chunks(self, begin: int, end: int) -> Iterator[NDArray[np.int32]]:
        """The shared numbers of the tokens from `begin` to `end`."""
        place = -self._taken
        for segment in self._segments:
            first, last = max(begin - place, 0), min(end - place, segment.tokens)
            if first < last:
                numbers = segment.shared()
                yield from (numbers[chunk] for chunk in segment.ids(first, last))
            place += segment.tokens

    def take(self, tokens: int, final: NDArray[np.int32] | None = None) -> Iterator[NDArray[np.int32]]:
        """The next tokens, by `final` numbers of the shared ones if there are; segments go when they are taken."""
        while tokens > 0:
            segment = self._segments[0]
            end = min(self._taken + tokens, segment.tokens)
            numbers = segment.shared() if final is None else final[segment.shared()]
            yield from (numbers[chunk] for chunk in segment.ids(self._taken, end))
            tokens -= end - self._taken
            self._taken = end
            if end == segment.tokens:
                segment.remove()
                del self._segments[0]
                self._taken = 0


class WordCounts:
    """The words of a text, in order of appearance, and how often each was seen."""

    def __init__(self) -> None:
        self.numbers = WordNumbers()
        self._counts = np.zeros(0, np.int64)  # with room for words to come

    def add(self, words: list[bytes], counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Different words and how often each is there; returns their numbers."""
        numbers = self.numbers.of(words)
        if (missing := len(self.numbers) - len(self._counts)) > 0:
            room = max(missing, len(self._counts) // 4)
            self._counts = np.concatenate([self._counts, np.zeros(room, np.int64)])
        self._counts[numbers] += counts
        return numbers

    def counts(self) -> NDArray[np.int64]:
        return self._counts[: len(self.numbers)].copy()
