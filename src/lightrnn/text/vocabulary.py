"""The vocabulary: words, their counts in the training text, their ids."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..files import Sources, expand
from .reading import line_blocks, word_blocks
from .rules import TextRules

FEW = 32  # words that are looked up one by one rather than in a dictionary of all
NOTABLE = 0.05  # share of unknown words in a text above which a person should be told
PUNCTUATION = ".,;:!?…()[]\"'“”„«»‚‘’"  # what stands at the ends of words that were not set apart from it


class Vocabulary:
    """V words in a fixed order; a word's id is its place. counts are its occurrences in the training text."""

    def __init__(self, words: Sequence[str], counts: NDArray[np.int64], rules: TextRules) -> None:
        self.words: Sequence[str] = words
        self.counts = counts
        self.rules = rules
        if len(self.words) < 2 or len(self.words) == len(rules.specials):
            raise LightRNNError(
                f"a vocabulary needs at least one word besides {' and '.join(rules.specials)}, "
                f"got {len(self.words)} in all; give more text or lower --min-count"
            )
        self._looked_up = 0
        self._refuse_twice()
        missing = [word for word in rules.specials if word not in self]
        if missing:
            raise LightRNNError(f"the vocabulary lacks {missing[0]!r}; add it as a line of its own")
        self._was_asked = False
        self.eos_id, self.unk_id = self.find(rules.eos), self.find(rules.unk)
        self.bos_id = self.find(rules.bos) if rules.bos is not None else self.eos_id

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self):,} words>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.find(word) >= 0

    def find(self, word: str) -> int:
        """The id of a word, -1 if it is not there. Who asks often gets a dictionary of all."""
        if self._looked_up >= FEW:
            return self.ids.get(word, -1)
        self._looked_up += 1
        hashes, order = self._by_hash
        same = slice(*(int(np.searchsorted(hashes, hash(word), side)) for side in ("left", "right")))
        return next((int(index) for index in order[same] if self.words[index] == word), -1)

    def _refuse_twice(self) -> None:
        hashes, _ = self._by_hash
        if (hashes[1:] == hashes[:-1]).any() and len(set(self.words)) < len(self.words):
            seen: set[str] = set()
            twice = next(word for word in self.words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
            raise LightRNNError(f"the vocabulary lists {twice!r} twice; keep one of them")

    @cached_property
    def _by_hash(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[V], [V]: the hashes of all words in order, and the ids: an eighth of what a dictionary takes."""
        hashes = np.fromiter(map(hash, self.words), np.int64, len(self.words))
        order = np.argsort(hashes)
        return hashes[order], order

    @cached_property
    def ids(self) -> dict[str, int]:
        return dict(zip(self.words, range(len(self.words)), strict=True))

    @cached_property
    def _ids_of_bytes(self) -> dict[bytes, int]:
        return {word.encode(): index for index, word in enumerate(self.words)}

    @cached_property
    def alphabet(self) -> list[str]:
        """The characters of all words, in order."""
        return sorted(set().union(*self.words))

    @property
    def _sorted(self) -> tuple[Sequence[str], NDArray[np.int64]]:
        """The words in order, and their ids."""
        return self._made_order

    @cached_property
    def _made_order(self) -> tuple[list[str], NDArray[np.int64]]:
        order = sorted(range(len(self.words)), key=self.words.__getitem__)
        return [self.words[word] for word in order], np.array(order)

    def begin_with(self, prefix: str) -> NDArray[np.bool_]:
        """[V]: which words begin so. The first time all words are looked at; who asks again gets an index of them."""
        if not self._was_asked:
            self._was_asked = True
            return np.fromiter((word.startswith(prefix) for word in self.words), bool, len(self.words))
        words, ids = self._sorted
        found = np.zeros(len(words), bool)
        begin = bisect_left(words, prefix)
        end = bisect_right(words, prefix, lo=begin, key=lambda word: word[: len(prefix)])
        found[ids[begin:end]] = True
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256 of words and text rules: two vocabularies with one digest make the same ids of any text."""
        rules = self.rules.to_dict() | {"convention": None}
        return hashlib.sha256("\n".join([*self.words, repr(sorted(rules.items()))]).encode()).hexdigest()

    @property
    def never_saw_unknown(self) -> bool:
        """Whether the training text had no unknown word, so that a network cannot know what to make of one."""
        return bool(self.counts.sum() > 0 and self.counts[self.unk_id] == 0)

    @property
    def fingerprint(self) -> str:
        """The digest, with the counts."""
        return hashlib.sha256(self.digest.encode() + self.counts.tobytes()).hexdigest()

    def encode(self, words: Iterable[str]) -> NDArray[np.int32]:
        """Ids of words that are cleaned already; unknown ones become unk."""
        listed = words if isinstance(words, Sequence) else list(words)
        find = self.find if len(listed) <= FEW else lambda word: self.ids.get(word, -1)
        ids = np.fromiter(map(find, listed), np.int32, len(listed))
        ids[ids < 0] = self.unk_id
        return ids

    def encode_bytes(self, words: list[bytes]) -> NDArray[np.int32]:
        get, unk = self._ids_of_bytes.get, self.unk_id
        return np.fromiter((get(word, unk) for word in words), np.int32, len(words))

    def encode_files(self, sources: Sources, unknown: "Unknown | None" = None) -> NDArray[np.int32]:
        """The token stream of text files under this vocabulary's rules, eos after each line.

        Words that are not in the vocabulary are added to `unknown`, if given.
        """
        blocks = [np.zeros(0, np.int32)]
        for words in chain.from_iterable(word_blocks(source, self.rules) for source in expand(sources)):
            blocks.append(self.encode_bytes(words))
            if unknown is not None:
                unknown.add(words, blocks[-1])
        return np.concatenate(blocks)

    def with_words(self, words: Sequence[str], counts: NDArray[np.int64]) -> "Vocabulary":
        """The same with more words, which have the ids after its own."""
        return Vocabulary([*self.words, *words], np.concatenate([self.counts, counts]), self.rules)

    def write(self, file: IO[bytes]) -> None:
        """One line a word: the word, a tab, its count."""
        counts = map(int, self.counts)
        file.writelines(f"{word}\t{count}\n".encode() for word, count in zip(self.words, counts, strict=True))

    @classmethod
    def parse(cls, data: bytes, name: str, rules: TextRules) -> "Vocabulary":
        """What `write` wrote; `name` is for the errors."""
        if (written := _written_words(data)) is not None:
            return cls(*written, rules)
        try:
            lines = data.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise LightRNNError(f"{name} is not UTF-8 at offset {error.start:,}") from None
        return cls(*_parse_words(lines, name), rules)

    @classmethod
    def read(cls, path: str | Path, rules: TextRules) -> "Vocabulary":
        """A list of words given by a person, one a line, optionally followed by a tab and a count (else 0).

        Words that the rules would change are refused, missing specials added.
        """
        words, counts = _parse_words(chain.from_iterable(line_blocks(path)), str(path))
        for number, word in enumerate(words, 1):
            if word not in rules.specials and rules.clean(word) != word:
                raise LightRNNError(
                    f"{path} line {number}: text never holds {word!r} under --normalize {rules.normalize}"
                    f"{' --lowercase' * rules.lowercase}, it would be {rules.clean(word)!r}; clean the list first"
                )
        listed = set(words)
        added = [word for word in rules.specials if word not in listed]
        return cls([*words, *added], np.concatenate([counts, np.zeros(len(added), np.int64)]), rules)


@dataclass
class Unknown:
    """What a vocabulary does not know of a text: counts of its tokens, sentence ends left out, that grow as it is read.

    An unk that the text itself has is not counted: whoever put it there knew.
    """

    vocabulary: Vocabulary
    tokens: int = 0
    unknown: int = 0
    known_in_lower_case: int = 0  # of the unknown ones, those that would be known …
    known_without_punctuation: int = 0  # … at their ends

    def add(self, words: Sequence[str] | Sequence[bytes], ids: NDArray[np.int32]) -> None:
        """Some words and their ids; where there is a sentence end after the words, its id may be there alone."""
        self.tokens += int((ids != self.vocabulary.eos_id).sum())
        for place in np.flatnonzero(ids == self.vocabulary.unk_id).tolist():
            given = words[place]
            word = given.decode() if isinstance(given, bytes) else given
            if word != self.vocabulary.rules.unk:
                self.unknown += 1
                self.known_in_lower_case += word.lower() in self.vocabulary
                bare = word.strip(PUNCTUATION)
                self.known_without_punctuation += bare != word and bare in self.vocabulary

    @property
    def is_notable(self) -> bool:
        """Whether a person should be told."""
        return self.unknown > NOTABLE * self.tokens

    @property
    def is_capitals(self) -> bool:
        """Whether lower case would make most of them known."""
        return 2 * self.known_in_lower_case > self.unknown

    @property
    def is_punctuation(self) -> bool:
        """Whether most of them would be known if punctuation were set apart."""
        return 2 * self.known_without_punctuation > self.unknown


def _written_words(data: bytes) -> tuple[list[str], NDArray[np.int64]] | None:
    """Lines of word, tab, count, all at once; None where something else is there, for `_parse_words` to tell of."""
    characters = np.frombuffer(data, np.uint8)
    tabs, ends = np.flatnonzero(characters == ord("\t")), np.flatnonzero(characters == ord("\n"))
    begins = np.concatenate([[0], ends[:-1] + 1])
    white = sum(map(data.count, (b" ", b"\r", b"\v", b"\f")))
    if white or not len(tabs) == len(ends) > 0 or ends[-1] != len(data) - 1 or not (begins < tabs).all():
        return None
    digits = ends - tabs - 1
    if digits.min() < 1 or digits.max() > 18:
        return None
    counts = np.zeros(len(tabs), np.int64)
    is_word = np.ones(len(data), bool)
    is_word[tabs] = False
    for place in range(1, digits.max() + 1):
        there = np.flatnonzero(digits >= place)
        figures = characters[tabs[there] + place].astype(np.int64) - ord("0")
        if figures.min() < 0 or figures.max() > 9:
            return None
        counts[there] = 10 * counts[there] + figures
        is_word[tabs[there] + place] = False
    try:
        return characters[is_word].tobytes().decode()[:-1].split("\n"), counts
    except UnicodeDecodeError:
        return None


def _parse_words(lines: Iterable[str], name: str) -> tuple[list[str], NDArray[np.int64]]:
    words: list[str] = []
    counts: list[int] = []
    for number, line in enumerate(lines, 1):
        word, _, count = line.removesuffix("\r").partition("\t")
        if word.encode().split() != [word.encode()] or not (count == "" or (count.isdecimal() and len(count) < 19)):
            raise LightRNNError(f"{name} line {number}: expected a word, or word-tab-count, got {line[:60]!r}")
        words.append(word)
        counts.append(int(count or 0))
    if not words:
        raise LightRNNError(f"{name} line 1: expected a word, or word-tab-count, got the end of the file")
    return words, np.array(counts, dtype=np.int64)


def frequency_ranks(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[V]: each word's number when they are sorted by falling count."""
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return ranks
