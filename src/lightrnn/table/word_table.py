"""The word table: every word's place, as an array of codes.

Shapes: V vocabulary, K components; codes[V, K], shape = (n_1 … n_K). For K = 2 the components are row and column.

The places that exist are the first V of the n_1 × … × n_K in lexicographic order, so for K = 2 only the last row
can be short. A table is a bijection between words and existing places. Written out: component s of a place is free up
to n_s - 1, except where components 1 … s-1 equal those of the last place; there it ends at that place's component s.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..text.vocabulary import Vocabulary

HEADER = "# lightrnn table, shape "
COMPONENTS = (2, 8)  # least and most


def table_shape(vocabulary_size: int, components: int = 2, rows: int = 0) -> tuple[int, ...]:
    """The most even (n_1 … n_K) with room for V words: n_K = ceil(V^(1/K)), the rest the same way for ceil(V / n_K).

    For K = 2 that is C = ceil(√V) columns and R = ceil(V / C) rows. With `rows`, n_1 is that many, or as many fewer as
    leave the others unchanged: C = ceil(V / rows), R = ceil(V / C).
    """
    if rows:
        rest = table_shape(-(-vocabulary_size // rows), components - 1)
        return (-(-vocabulary_size // prod(rest)), *rest)
    if components == 1:
        return (vocabulary_size,)
    side = max(round(vocabulary_size ** (1 / components)) - 1, 1)
    while side**components < vocabulary_size:
        side += 1
    return (*table_shape(-(-vocabulary_size // side), components - 1), side)


def component_names(components: int) -> tuple[str, ...]:
    """What people call the components: row and column, or component 1 … K."""
    return ("row", "column") if components == 2 else tuple(f"component{s}" for s in range(1, components + 1))


@dataclass(frozen=True)
class WordTable:
    """codes: int64[V, K], the place of each word; shape: the number of values of each component."""

    codes: NDArray[np.int64]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        size, components = self.codes.shape
        if components != len(self.shape):
            raise LightRNNError(f"a table of shape {self.shape} needs {len(self.shape)} codes a word, got {components}")
        sides = all(1 <= side <= size for side in self.shape) and prod(self.shape) < 2**62
        if not sides or not prod(self.shape[1:]) * (self.shape[0] - 1) < size <= prod(self.shape):
            raise LightRNNError(
                f"a table of shape {self.shape} cannot be for {size:,} words: they must fill all but the end of it"
            )
        outside = ((self.codes < 0) | (self.codes >= np.array(self.shape))).any(axis=1)
        if outside.any():
            word = int(np.flatnonzero(outside)[0])
            raise LightRNNError(f"word {word} has place {self.codes[word].tolist()}, outside a {self.shape} table")
        counts = np.bincount(np.minimum(self.places, size), minlength=size)[:size]
        if (counts != 1).any():
            empty = np.unravel_index(int(np.flatnonzero(counts != 1)[0]), self.shape)
            raise LightRNNError(
                f"the table is no bijection: place {tuple(map(int, empty))} holds "
                f"{counts[counts != 1][0]} words, and each of the first {size:,} places must hold one"
            )

    @classmethod
    def from_places(cls, places: NDArray[np.int64], shape: tuple[int, ...]) -> "WordTable":
        """The table that puts word w into place number places[w] of the lexicographic order."""
        return cls(np.stack(np.unravel_index(places, shape), axis=1).astype(np.int64), shape)

    @classmethod
    def random(cls, vocabulary_size: int, components: int = 2, rows: int = 0, *, seed: int) -> "WordTable":
        """The paper's start: words allocated to places at random."""
        places = np.random.default_rng(seed).permutation(vocabulary_size)
        return cls.from_places(places, table_shape(vocabulary_size, components, rows))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def components(self) -> int:
        return len(self.shape)

    @property
    def is_full(self) -> bool:
        """Whether every place of its shape exists, so that no softmax needs a mask."""
        return prod(self.shape) == len(self)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """[V]: the number of each word's place in lexicographic order."""
        radix = np.array([prod(self.shape[s + 1 :]) for s in range(self.components)])
        return np.asarray(self.codes @ radix, np.int64)

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """[V]: the word in each place, the inverse of `places`."""
        return np.argsort(self.places).astype(np.int64)

    @property
    def last_place(self) -> tuple[int, ...]:
        """The codes of the last place that exists."""
        return tuple(int(code) for code in np.unravel_index(len(self) - 1, self.shape))

    def write(self, file: IO[bytes], vocabulary: Vocabulary) -> None:
        """Text to read and edit: the shape, a heading, then word, tab, codes, in vocabulary order."""
        lines = [
            HEADER + "x".join(map(str, self.shape)),
            "\t".join(("word", *component_names(self.components))),
        ]
        lines += ["\t".join((w, *map(str, c))) for w, c in zip(vocabulary.words, self.codes.tolist(), strict=True)]
        file.write(("\n".join(lines) + "\n").encode())

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.shape).encode() + self.codes.tobytes()).hexdigest()

    @classmethod
    def read(cls, path: str | Path, vocabulary: Vocabulary) -> "WordTable":
        """A table file for this vocabulary; its lines may be in any order."""
        try:
            return cls.parse(Path(path).read_bytes(), str(path), vocabulary)
        except OSError as error:
            raise LightRNNError(f"cannot read the table {path}: {error.strerror or error}") from None

    @classmethod
    def parse(cls, data: bytes, path: str, vocabulary: Vocabulary) -> "WordTable":
        """The same from the file's contents; `path` is for the errors."""
        try:
            lines = data.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise LightRNNError(f"the table {path} is not UTF-8 at offset {error.start:,}") from None
        if not lines[0].startswith(HEADER):
            raise LightRNNError(f"{path} is no word table: its first line must begin {HEADER.strip()!r}")
        try:
            shape = tuple(int(n) for n in lines[0].removeprefix(HEADER).split("x"))
            if not COMPONENTS[0] <= len(shape) <= COMPONENTS[1]:
                raise ValueError
        except ValueError:
            raise LightRNNError(f"{path} line 1: cannot read a shape such as 100x100 from {lines[0][:60]!r}") from None
        codes = np.full((len(vocabulary), len(shape)), -1, np.int64)
        for number, line in enumerate(lines[2:], 3):
            word, *place = line.split("\t")
            if word not in vocabulary:
                raise LightRNNError(
                    f"{path} line {number}: {word!r} is not in the vocabulary; is it another model's table?"
                )
            if len(place) != len(shape) or not all(code.isdecimal() and len(code) < 19 for code in place):
                raise LightRNNError(
                    f"{path} line {number}: expected a word and {len(shape)} numbers, got {line[:60]!r}"
                )
            if codes[vocabulary.ids[word], 0] >= 0:
                raise LightRNNError(f"{path} line {number}: {word!r} has a place already; keep one of them")
            codes[vocabulary.ids[word]] = [int(code) for code in place]
        missing = np.flatnonzero(codes[:, 0] < 0)
        if missing.size:
            raise LightRNNError(
                f"{path} has no place for {vocabulary.words[missing[0]]!r}; is it another model's table?"
            )
        return cls(codes, shape)
