"""A vocabulary as a few bytes a word: words in the order of their UTF-8 bytes, each told by what it does not share with
the one before, and their counts. docs/packed-format.md.

Ids are not stored: words are numbered by falling count, those of equal count by their bytes. That is the order of a
vocabulary that was packed; `Vocabulary` of a model folder numbers equal counts as they were first seen.
"""

from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from ..container import damaged, pack_varints, unpack_varints
from ..errors import LightRNNError
from .rules import TextRules
from .vocabulary import Vocabulary

LONGEST_SHARED = 255  # bytes that a word takes over from the one before, at most


def pack_words(words: list[bytes]) -> bytes:
    """Words in byte order: a byte a word for what it shares with the one before, varints for the lengths of the rest,
    then the rests."""
    shared = [0, *(_common(one, other) for one, other in pairwise(words))]
    rests = [word[length:] for word, length in zip(words, shared, strict=True)]
    lengths = np.array([len(rest) for rest in rests], np.int64)
    return bytes(shared) + pack_varints(lengths) + b"".join(rests)


def unpack_words(data: bytes, count: int, origin: str) -> list[bytes]:
    """The same back; refused where they are not in order, each after the one before."""
    shared = data[:count]
    if len(shared) < count:
        raise damaged(origin, "it has fewer words than it says")
    lengths, used = unpack_varints(data[count:], count, origin)
    begin = count + used
    if lengths.sum() != len(data) - begin:
        raise damaged(origin, "its words have not the length that they should have")
    word, words = b"", []
    ends = accumulate(lengths.tolist(), initial=begin)
    for length, (start, end) in zip(shared, pairwise(ends), strict=True):
        before, word = word, word[:length] + data[start:end]
        if length > len(before) or word <= before:
            raise damaged(origin, "its words are not in order")
        words.append(word)
    return words


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two words begin with alike."""
    most = min(len(one), len(other), LONGEST_SHARED)
    if one[:most] == other[:most]:
        return most
    return next(place for place in range(most) if one[place] != other[place])


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
    parts: dict[str, bytes], size: int, rules: TextRules, origin: str
) -> tuple[Vocabulary, NDArray[np.int64]]:
    """The vocabulary, and [V]: the number in byte order of the word with each id."""
    encoded = unpack_words(parts["words"], size, origin)
    counts, used = unpack_varints(parts["counts"], size, origin)
    if used != len(parts["counts"]):
        raise damaged(origin, "something follows its counts")
    order = packed_ids(counts)
    try:
        words = [encoded[number].decode() for number in order.tolist()]
    except UnicodeDecodeError:
        raise damaged(origin, "its words are not UTF-8") from None
    if any(word.split() != [word] for word in encoded):
        raise damaged(origin, "it has a word with white space in it")
    try:
        return Vocabulary(words, counts[order], rules), order
    except LightRNNError as error:
        raise damaged(origin, str(error)) from None
