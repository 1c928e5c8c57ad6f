"""The word table: every word's place, as an array of codes.

Shapes: V vocabulary, K components; codes[V, K], shape = (n_1 … n_K). For K = 2 the components are row and column.

The places that exist are the first V of the n_1 × … × n_K in lexicographic order, so for K = 2 only the last row
can be short. A table is a bijection between words and existing places. Written out: component s of a place is free up
to n_s - 1, except where components 1 … s-1 equal those of the last place; there it ends at that place's component s.

N words may stand alone, each in a row of its own: rows 0 … N-1, with no further component (-1). What was said above
then holds for the other words, which share the rows from N on; their table, counted from row N, is `shared`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat
from math import prod
from numbers import Integral
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LightRNNError
from ..runtime import Progress, silent
from ..text.spelling import Spelling
from ..text.vocabulary import Vocabulary, frequency_ranks
from .numbers import counts_of, matrix_of, whole_numbers
from .shapes import component_names, table_shape, words_alone

HEADER = "# lightrnn table, shape "
COMPONENTS = (2, 8)  # least and most


def _alone(counts: NDArray[np.int64] | None, setting: int | str) -> NDArray[np.int64]:
    """The same of what somebody gave, who may not know counts."""
    if counts is None:
        if setting != 0:
            raise LightRNNError(f"alone={setting!r} needs counts, by which words stand alone; give counts")
        return np.zeros(0, np.int64)
    if setting != "auto" and not (isinstance(setting, Integral) and 0 <= setting <= len(counts)):
        raise LightRNNError(f"alone must be a number of words from 0 to {len(counts):,} or 'auto', got {setting!r}")
    return words_alone(counts, setting)


def _shape(size: int, components: int, rows: int | str) -> tuple[int, ...]:
    """The shape for so many words of what somebody gave."""
    least, most = COMPONENTS
    if not (isinstance(components, Integral) and least <= components <= most):
        raise LightRNNError(f"components must be a whole number from {least} to {most}, got {components!r}")
    if not (isinstance(rows, str) or (isinstance(rows, Integral) and rows >= 0)):
        raise LightRNNError(f"rows must be a number of rows, 0 for the most even table, or 'auto', got {rows!r}")
    return table_shape(size, components, rows)


def _codes(places: NDArray[np.int64], shape: tuple[int, ...], alone: int) -> NDArray[np.int64]:
    """The codes (P, K) of places, given by their numbers (P,)."""
    codes = np.full((len(places), len(shape)), -1, np.int64)
    codes[:, 0] = places
    sharing = places >= alone
    if sharing.any():
        shared = (shape[0] - alone, *shape[1:])
        codes[sharing] = np.stack(np.unravel_index(places[sharing] - alone, shared), axis=1)
        codes[sharing, 0] += alone
    return codes


def _fits(size: int, shape: tuple[int, ...], alone: int) -> bool:
    """Whether a shape is one for so many words."""
    sharing, rows, rest = size - alone, shape[0] - alone, shape[1:]
    if sharing <= 0:
        return sharing == rows == 0 and not any(rest)
    sides = all(1 <= side <= sharing for side in (rows, *rest)) and prod(rest) * rows < 2**62
    return sides and prod(rest) * (rows - 1) < sharing <= prod(rest) * rows


def _unfit(size: int, shape: tuple[int, ...], alone: int) -> LightRNNError:
    words = f"{size:,} words" + (f", {alone:,} of them alone" if alone else "")
    return LightRNNError(f"a table of shape {shape} cannot be for {words}: they must fill all but the end of it")


@dataclass(frozen=True)
class WordTable:
    """codes: int64[V, K], the place of each word, -1 after the row of one that stands alone; shape: the number of
    values of each component.

    What was known of the words when it was made, for layers to start from, is no part of the table and not written with
    it: counts[V], and of each component vectors[n_s, d], whose sum over a word's codes stands for the word.
    """

    codes: NDArray[np.int64]
    shape: tuple[int, ...]
    counts: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    vectors: tuple[NDArray[np.float32], ...] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        size, components = self.codes.shape
        if components != len(self.shape):
            raise LightRNNError(f"a table of shape {self.shape} needs {len(self.shape)} codes a word, got {components}")
        if not _fits(size, self.shape, self.alone):
            raise _unfit(size, self.shape, self.alone)
        inside = (self.codes >= self._first) & (self.codes < np.array(self.shape))
        alone = (self.codes[:, 0] >= 0) & (self.codes[:, 0] < self.alone) & (self.codes[:, 1:] == -1).all(axis=1)
        wrong = ~np.where(self.codes[:, 1] < 0, alone, inside.all(axis=1))
        if wrong.any():
            word = int(np.flatnonzero(wrong)[0])
            raise LightRNNError(f"word {word} has place {self.codes[word].tolist()}, outside a {self.shape} table")
        counts = np.bincount(np.minimum(self.places, size), minlength=size)[:size]
        if (counts != 1).any():
            empty = _codes(np.flatnonzero(counts != 1)[:1], self.shape, self.alone)[0]
            raise LightRNNError(
                f"the table is no bijection: place {tuple(code for code in empty.tolist() if code >= 0)} holds "
                f"{counts[counts != 1][0]} words, and each of the first {size:,} places must hold one"
            )

    @classmethod
    def from_places(cls, places: NDArray[np.int64], shape: tuple[int, ...], alone: int = 0) -> "WordTable":
        """The table that puts word w into place number places[w] of the lexicographic order."""
        if not _fits(len(places), shape, alone):
            raise _unfit(len(places), shape, alone)
        if not ((places >= 0) & (places < len(places))).all():
            raise LightRNNError(f"a table of {len(places):,} words has places 0 to {len(places) - 1:,}, got another")
        return cls(_codes(places, shape, alone), shape)

    @classmethod
    def random(
        cls,
        vocabulary_size: int,
        components: int = 2,
        rows: int | str = 0,
        *,
        seed: int = 0,
        alone: NDArray[np.int64] | int | str = 0,
        counts: ArrayLike | None = None,
    ) -> "WordTable":
        """The paper's start: words allocated to places at random; but for those that stand alone, if any: these ids, or
        by counts (V,) as `words_alone` has it."""
        found = None if counts is None else counts_of(counts, vocabulary_size)
        if not isinstance(alone, np.ndarray):
            alone = _alone(found, alone)
        places = np.random.default_rng(seed).permutation(vocabulary_size - len(alone))
        shared = cls.from_places(places, _shape(vocabulary_size - len(alone), components, rows))
        return replace(cls.with_alone(alone, shared), counts=found)

    @classmethod
    def from_counts(
        cls, counts: ArrayLike, *, components: int = 2, rows: int | str = 0, alone: int | str = 0
    ) -> "WordTable":
        """Words in order of falling counts (V,): words that are as frequent share a row. `alone`: see `words_alone`."""
        found = counts_of(counts)
        first = _alone(found, alone)
        ranks = frequency_ranks(np.delete(found, first))
        shared = cls.from_places(ranks, _shape(len(ranks), components, rows))
        return replace(cls.with_alone(first, shared), counts=found)

    @classmethod
    def from_bigrams(
        cls,
        ids: ArrayLike,
        size: int | None = None,
        *,
        words: Sequence[str] | None = None,
        components: int = 2,
        rows: int | str = 0,
        alone: int | str = "auto",
        seed: int = 0,
        progress: Progress = silent,
    ) -> "WordTable":
        """Words that stand next to the same words share rows and columns: of any text of ids (N,), 0 … size-1.

        Given how the words are spelled, rare ones go with those that end alike. `alone`: see `words_alone`.
        """
        from .bigrams import bigram_vectors

        text = np.asarray(whole_numbers("ids", ids, size), np.int32)
        counts = np.bincount(text, minlength=size or 0)
        if words is not None and len(words) != len(counts):
            raise LightRNNError(f"words must be as many as there are ids, {len(counts):,}, got {len(words):,}")
        vectors = bigram_vectors(text, counts, words=words, seed=seed, progress=progress)
        return cls.from_embeddings(
            vectors, counts, components=components, rows=rows, alone=alone, seed=seed, progress=progress
        )

    @classmethod
    def from_embeddings(
        cls,
        matrix: ArrayLike,
        counts: ArrayLike | None = None,
        *,
        components: int = 2,
        rows: int | str = 0,
        alone: int | str = 0,
        seed: int = 0,
        progress: Progress = silent,
    ) -> "WordTable":
        """A balanced clustering of any vectors of words (V, d), such as a trained embedding or output matrix.

        Words weigh the root of their counts (V,), without counts all the same. `alone`: see `words_alone`.
        """
        vectors = matrix_of(matrix)
        found = None if counts is None else counts_of(counts, len(vectors))
        first = _alone(found, alone)
        shape = _shape(len(vectors) - len(first), components, rows)
        weights = np.ones(len(vectors), np.int64) if found is None else found
        return replace(cls.clustered(vectors, weights, first, shape, seed=seed, progress=progress), counts=found)

    @classmethod
    def clustered(
        cls,
        vectors: NDArray[np.float32],
        counts: NDArray[np.int64],
        alone: NDArray[np.int64],
        shape: tuple[int, ...],
        *,
        way: str = "auto",
        seed: int,
        progress: Progress = silent,
    ) -> "WordTable":
        """Some words alone, and a balanced clustering of the vectors (V, d) of the others into a table of this shape,
        each counting by the root of its count (V,); way: see `clustering.cluster`. The vectors are used up: there may
        be no room for a second matrix of them."""
        from .clustering import cluster, refuse_clustering_beyond_memory, root_counts
        from .means import move_up

        sharing = np.setdiff1d(np.arange(len(vectors)), alone)
        refuse_clustering_beyond_memory(len(sharing), shape, way)
        weights, of_alone = root_counts(counts)[sharing], vectors[alone]
        shared = move_up(vectors, sharing)
        found = cluster(shared, weights, shape, way=way, seed=seed, in_place=True, progress=progress)
        first, *others = found.vectors
        known = (np.concatenate([of_alone, first]), *others)
        return replace(cls.with_alone(alone, cls(found.codes, shape)), vectors=known)

    @classmethod
    def with_alone(cls, alone: NDArray[np.int64], shared: "WordTable") -> "WordTable":
        """Some words in rows of their own, in this order, and all others, in order, on a table that they share."""
        size = len(alone) + len(shared)
        codes = np.full((size, shared.components), -1, np.int64)
        codes[alone, 0] = np.arange(len(alone))
        sharing = np.setdiff1d(np.arange(size), alone)
        codes[sharing] = shared.codes
        codes[sharing, 0] += len(alone)
        return cls(codes, (len(alone) + shared.shape[0], *shared.shape[1:]))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def components(self) -> int:
        return len(self.shape)

    @cached_property
    def alone(self) -> int:
        """N: how many words stand alone, in rows 0 … N-1."""
        return int((self.codes[:, 1] < 0).sum())

    @cached_property
    def sharing(self) -> NDArray[np.int64]:
        """(V-N,): the words that share rows."""
        return np.flatnonzero(self.codes[:, 1] >= 0)

    @cached_property
    def shared(self) -> "WordTable":
        """The table of the words that share, which are numbered as in `sharing`."""
        if not self.alone:
            return self
        shape = (self.shape[0] - self.alone, *self.shape[1:])
        return WordTable(self.codes[self.sharing] - self._first, shape)

    def vectors_for(
        self, words: NDArray[np.float32], weights: NDArray[np.float32], *, sweeps: int = 0
    ) -> tuple[NDArray[np.float32], ...]:
        """Of each component, (n_s, d): vectors whose sum over a word's codes stands for that of the word, words (V, d),
        each counting with its weight (V,) > 0; see `clustering.table_vectors`. A word that stands alone keeps its own.
        """
        from .clustering import table_vectors

        alone, sharing = words[self.words[: self.alone]], self.sharing
        if not len(sharing):
            return (alone, *(words[:0] for _ in self.shape[1:]))
        shared = self.shared
        first, *others = table_vectors(words[sharing], weights[sharing], shared.codes, shared.shape, sweeps=sweeps)
        return (np.concatenate([alone, first]), *others)

    def with_shared(self, shared: "WordTable") -> "WordTable":
        """The words that share on another table; those that stand alone as they are."""
        codes = self.codes.copy()
        codes[self.sharing] = shared.codes + self._first
        return WordTable(codes, self.shape)

    @property
    def _first(self) -> NDArray[np.int64]:
        """(K,): the codes of the first place that words share."""
        return np.array([self.alone, *(0 for _ in self.shape[1:])])

    @property
    def is_full(self) -> bool:
        """Whether every place of its shape exists, so that no softmax needs a mask."""
        return prod(self.shape[1:]) * (self.shape[0] - self.alone) == len(self) - self.alone

    @cached_property
    def spelling(self) -> Spelling:
        """What a LightRNN reads: the components of all words numbered through, those of the first component first."""
        offsets = np.cumsum([0, *self.shape[:-1]])
        return Spelling(np.where(self.codes >= 0, self.codes + offsets, -1), self.shape[0])

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """[V]: the number of each word's place in lexicographic order, rows of single words first."""
        radix = np.array([prod(self.shape[s + 1 :]) for s in range(self.components)])
        shared = (self.codes - self._first) @ radix + self.alone
        return np.asarray(np.where(self.codes[:, 1] < 0, self.codes[:, 0], shared), np.int64)

    def prefix_numbers(self, prefix: NDArray[np.int64]) -> NDArray[np.int64]:
        """(P,): the codes before the last component of shared places, (P, K-1), as numbers in lexicographic order."""
        radix = np.array([prod(self.shape[s + 1 : -1]) for s in range(self.components - 1)])
        return np.asarray((prefix - self._first[:-1]) @ radix, np.int64)

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """[V]: the word in each place, the inverse of `places`."""
        words = np.empty(len(self), np.int64)
        words[self.places] = np.arange(len(self))
        return words

    def words_of(self, spelled: NDArray[np.int64]) -> NDArray[np.int64]:
        """(P,): the words of which the last codes, as `spelling` numbers them, are the last of (P, K); what is before
        the code of a word that stands alone is none of its own."""
        radix = [prod(self.shape[s + 1 :]) for s in range(self.components)]
        offsets = np.cumsum([0, *self.shape[:-1]])
        shared = (spelled - offsets - self._first) @ np.array(radix) + self.alone
        return self.words[np.where(spelled[:, -1] < self.alone, spelled[:, -1], shared)]

    @cached_property
    def last_place(self) -> tuple[int, ...]:
        """The codes of the last place that exists."""
        return tuple(int(code) for code in _codes(np.array([len(self) - 1]), self.shape, self.alone)[0])

    def write(self, file: IO[bytes], vocabulary: Vocabulary) -> None:
        """Text to read and edit: the shape, a heading, then word, tab, codes, in vocabulary order.

        A word that stands alone has its row and no more.
        """
        shape = HEADER + "x".join(map(str, self.shape)) + (f", {self.alone} alone" if self.alone else "")
        heading = "\t".join(("word", *component_names(self.components)))
        file.write(f"{shape}\n{heading}\n".encode())
        codes = (place.tolist() for place in self.codes)
        file.writelines(
            ("\t".join((word, *(str(code) for code in place if code >= 0))) + "\n").encode()
            for word, place in zip(vocabulary.words, codes, strict=True)
        )

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.shape).encode() + self.codes.tobytes()).hexdigest()

    @classmethod
    def read(cls, path: str | Path, vocabulary: Vocabulary) -> "WordTable":
        """A table file for this vocabulary; its lines may be in any order."""
        try:
            return cls.parse(Path(path).read_bytes(), str(path), vocabulary)
        except OSError as error:
            reason = error.strerror or str(error)
            raise LightRNNError(f"cannot read the table {path}: {reason}; give a table.tsv of a model") from None

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
            sides, _, alone = lines[0].removeprefix(HEADER).removesuffix(" alone").partition(", ")
            shape = tuple(int(n) for n in sides.split("x"))
            lengths = {len(shape), 1} if int(alone or 0) else {len(shape)}
            if not COMPONENTS[0] <= len(shape) <= COMPONENTS[1]:
                raise ValueError
        except ValueError:
            raise LightRNNError(f"{path} line 1: cannot read a shape such as 100x100 from {lines[0][:60]!r}") from None
        codes = np.full((len(vocabulary), len(shape)), -1, np.int64)
        expected = chain(enumerate(vocabulary.words), repeat((-1, None)))  # lines are in this order as a rule
        for number, (line, (next_one, there)) in enumerate(zip(lines[2:], expected, strict=False), 3):
            word, *place = line.split("\t")
            index = next_one if word == there else vocabulary.find(word)
            if index < 0:
                raise LightRNNError(
                    f"{path} line {number}: {word!r} is not in the vocabulary; is it another model's table?"
                )
            if len(place) not in lengths or not all(code.isdecimal() and len(code) < 19 for code in place):
                raise LightRNNError(
                    f"{path} line {number}: expected a word and {' or '.join(map(str, sorted(lengths)))} numbers, got "
                    f"{line[:60]!r}"
                )
            if codes[index, 0] >= 0:
                raise LightRNNError(f"{path} line {number}: {word!r} has a place already; keep one of them")
            codes[index, : len(place)] = [int(code) for code in place]
        missing = np.flatnonzero(codes[:, 0] < 0)
        if missing.size:
            raise LightRNNError(
                f"{path} has no place for {vocabulary.words[missing[0]]!r}; is it another model's table?"
            )
        if (found := int((codes[:, 1] < 0).sum())) != int(alone or 0):
            raise LightRNNError(f"{path} has {found:,} words that stand alone where its first line says {alone or 0}")
        return cls(codes, shape)
