"""A vocabulary as a few bytes a word: words in the order of their UTF-8 bytes, each told by what it does not share with
the one before, and their counts. docs/packed-format.md.

Shapes: V words.

Ids are not stored: words are numbered by falling count, those of equal count by their bytes. That is the order of a
vocabulary that was packed; `Vocabulary` of a model folder numbers equal counts as they were first seen.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import eq
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ..container import damaged, pack_varints, unpack_varints
from ..errors import LightRNNError
from .rules import TextRules
from .vocabulary import Vocabulary

LONGEST_SHARED = 31  # bytes that a word takes over from the one before, at most
WHITE = b"\t\n\v\f\r "
END = ord("\n")
MOST_SEEN = 2**40  # times that a word was; sums over eight million words are exact


def pack_words(words: list[bytes]) -> bytes:
    """Words in byte order: a byte a word for what it shares with the one before, varints for the lengths of the rest,
    then the rests."""
    shared = [0, *(_common(one, other) for one, other in pairwise(words))]
    rests = [word[length:] for word, length in zip(words, shared, strict=True)]
    lengths = np.array([len(rest) for rest in rests], np.int64)
    return bytes(shared) + pack_varints(lengths) + b"".join(rests)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two words begin with alike."""
    most = min(len(one), len(other), LONGEST_SHARED)
    if one[:most] == other[:most]:
        return most
    return next(place for place in range(most) if one[place] != other[place])


class WordsInOrder(Sequence[str]):
    """Words in the order of their bytes, which is that of their characters too, each made when it is asked for."""

    def __init__(self, lines: bytes, begins: NDArray[np.int64]) -> None:
        """lines: all words in UTF-8, a line end after each; begins: [V], where."""
        self._lines, self._begins = lines, begins

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        begin = int(self._begins[place])
        return self._lines[begin : self._lines.index(b"\n", begin)].decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines.decode().split("\n")[:-1])


class WordsById(Sequence[str]):
    """The same words by their ids: order[V] has their places."""

    def __init__(self, in_order: WordsInOrder, order: NDArray[np.int64]) -> None:
        self._in_order, self._order = in_order, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, word: int) -> str: ...
    @overload
    def __getitem__(self, word: slice) -> list[str]: ...
    def __getitem__(self, word: int | slice) -> str | list[str]:
        if isinstance(word, slice):
            return [self[one] for one in range(*word.indices(len(self)))]
        return self._in_order[int(self._order[word])]

    def __iter__(self) -> Iterator[str]:
        listed = list(self._in_order)
        return (listed[place] for place in self._order.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]


def unpack_words(data: bytes, count: int, origin: str) -> WordsInOrder:
    """What was packed; refused where words are not in order, each after the one before."""
    if len(data) < count:
        raise damaged(origin, "it has fewer words than it says")
    shared = np.frombuffer(data, np.uint8, count).astype(np.int64)
    lengths, used = unpack_varints(data[count:], count, origin)
    rests = np.frombuffer(data, np.uint8, offset=count + used)
    if lengths.max(initial=0) > len(rests) or lengths.sum() != len(rests) or lengths.min(initial=1) < 1:
        raise damaged(origin, "its words have not the length that they should have")
    totals = shared + lengths
    if shared[:1].any() or shared.max(initial=0) > LONGEST_SHARED or (shared[1:] > totals[:-1]).any():
        raise damaged(origin, "a word shares more with the one before than there is")
    if np.isin(rests, np.frombuffer(WHITE, np.uint8)).any():
        raise damaged(origin, "it has a word with white space in it")
    lines, begins = _lines(shared, totals, rests)
    _check_order(shared, totals, lines, begins, origin)
    whole = lines.tobytes()
    try:
        whole.decode()
    except UnicodeDecodeError:
        raise damaged(origin, "its words are not UTF-8") from None
    return WordsInOrder(whole, begins)


def _lines(
    shared: NDArray[np.int64], totals: NDArray[np.int64], rests: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All words with a line end after each, and (V,): where each begins. The rests are put in their places, then each
    place at the front of the words is filled from the last word before that has it in its own rest."""
    begins = np.cumsum(totals + 1) - totals - 1
    lines = np.full(int((totals + 1).sum()), END, np.uint8)
    lengths = totals - shared
    moved = begins + shared - (np.cumsum(lengths) - lengths)  # of each rest, from where it lies in the file
    lines[np.arange(len(rests)) + np.repeat(moved, lengths)] = rests
    words = np.flatnonzero(shared)
    place = 0
    while len(words):  # those that share this place with the one before
        follows = np.diff(words, prepend=-1) == 1
        owners = np.maximum.accumulate(np.where(follows, 0, words - 1))
        lines[begins[words] + place] = lines[begins[owners] + place]
        place += 1
        words = words[shared[words] > place]
    return lines, begins


def _check_order(
    shared: NDArray[np.int64],
    totals: NDArray[np.int64],
    lines: NDArray[np.uint8],
    begins: NDArray[np.int64],
    origin: str,
) -> None:
    """Each word is greater than the one before, and shares with it as much as it can."""
    longer = np.flatnonzero(totals[:-1] > shared[1:]) + 1  # the word before does not end where they part
    one, other = (lines[begins[words] + shared[longer]] for words in (longer - 1, longer))
    unclear = (one == other) & (shared[longer] == LONGEST_SHARED)
    if ((one >= other) & ~unclear).any():
        raise damaged(origin, "its words are not in order")
    for word in longer[unclear].tolist():
        before, this = (lines[begins[w] : begins[w] + totals[w]].tobytes() for w in (word - 1, word))
        if before >= this:
            raise damaged(origin, "its words are not in order")


def packed_order(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """[V]: the ids of the words in byte order."""
    encoded = [word.encode() for word in vocabulary.words]
    return np.array(sorted(range(len(encoded)), key=encoded.__getitem__), np.int64)


def packed_ids(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[V]: the words, by their numbers in byte order, as ids number them: by falling count."""
    return np.argsort(-counts, kind="stable").astype(np.int64)


def pack_vocabulary(vocabulary: Vocabulary) -> dict[str, bytes]:
    """Parts "words" and "counts"."""
    order = packed_order(vocabulary)
    return {
        "words": pack_words([vocabulary.words[word].encode() for word in order.tolist()]),
        "counts": pack_varints(vocabulary.counts[order]),
    }


def unpack_vocabulary(
    parts: Mapping[str, bytes], size: int, rules: TextRules, origin: str
) -> tuple[Vocabulary, NDArray[np.int64]]:
    """The vocabulary, and [V]: the number in byte order of the word with each id."""
    words = unpack_words(parts["words"], size, origin)
    counts, used = unpack_varints(parts["counts"], size, origin)
    if used != len(parts["counts"]):
        raise damaged(origin, "something follows its counts")
    if counts.max(initial=0) > MOST_SEEN:
        raise damaged(origin, "a word in it was seen more often than can be")
    order = packed_ids(counts)
    try:
        return SortedVocabulary(words, order, counts[order], rules), order
    except LightRNNError as error:
        raise damaged(origin, str(error)) from None


class SortedVocabulary(Vocabulary):
    """A vocabulary whose words are known in order, so that few of them are found without a dictionary of all."""

    def __init__(
        self, in_order: WordsInOrder, order: NDArray[np.int64], counts: NDArray[np.int64], rules: TextRules
    ) -> None:
        """order: [V], the place of the word with each id."""
        ids = np.empty_like(order)
        ids[order] = np.arange(len(order))
        self._in_order = in_order, ids
        super().__init__(WordsById(in_order, order), counts, rules)
        self._was_asked = True  # so that words are looked for in order

    def _refuse_twice(self) -> None:
        """Words in order, each greater than the one before, are there once."""

    @property
    def _sorted(self) -> tuple[Sequence[str], NDArray[np.int64]]:
        return self._in_order

    def find(self, word: str) -> int:
        in_order, ids = self._sorted
        place = bisect_left(in_order, word)
        return int(ids[place]) if place < len(ids) and in_order[place] == word else -1
