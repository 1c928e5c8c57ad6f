"""The vocabulary: words, their counts in the training text, their ids."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from .rules import TextRules, word_blocks


class Vocabulary:
    """V words in a fixed order; a word's id is its place. counts are its occurrences in the training text."""

    def __init__(self, words: Sequence[str], counts: NDArray[np.int64], rules: TextRules) -> None:
        self.words = list(words)
        self.counts = counts
        self.rules = rules
        if len(self.words) < 2 or len(self.words) == len(rules.specials):
            raise LightRNNError(
                f"a vocabulary needs at least one word besides {' and '.join(rules.specials)}, "
                f"got {len(self.words)} in all; give more text or lower --min-count"
            )
        if len(self.ids) != len(self.words):
            seen: set[str] = set()
            twice = next(word for word in self.words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
            raise LightRNNError(f"the vocabulary lists {twice!r} twice; keep one of them")
        missing = [word for word in rules.specials if word not in self.ids]
        if missing:
            raise LightRNNError(f"the vocabulary lacks {missing[0]!r}; add it as a line of its own")
        self.eos_id = self.ids[rules.eos]
        self.unk_id = self.ids[rules.unk]
        self.bos_id = self.ids[rules.bos] if rules.bos is not None else self.eos_id

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.ids

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}

    @cached_property
    def _ids_of_bytes(self) -> dict[bytes, int]:
        return {word.encode(): index for index, word in enumerate(self.words)}

    @cached_property
    def _sorted(self) -> tuple[list[str], NDArray[np.int64]]:
        """The words in order, and their ids."""
        order = sorted(range(len(self.words)), key=self.words.__getitem__)
        return [self.words[word] for word in order], np.array(order)

    def begin_with(self, prefix: str) -> NDArray[np.bool_]:
        """[V]: which words begin so."""
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
    def fingerprint(self) -> str:
        """The digest, with the counts."""
        return hashlib.sha256(self.digest.encode() + self.counts.tobytes()).hexdigest()

    def encode(self, words: Iterable[str]) -> NDArray[np.int32]:
        """Ids of words that are cleaned already; unknown ones become unk."""
        return np.array([self.ids.get(word, self.unk_id) for word in words], dtype=np.int32)

    def encode_bytes(self, words: list[bytes]) -> NDArray[np.int32]:
        get, unk = self._ids_of_bytes.get, self.unk_id
        return np.fromiter((get(word, unk) for word in words), np.int32, len(words))

    def encode_files(self, sources: Iterable[str]) -> NDArray[np.int32]:
        """The token stream of text files under this vocabulary's rules, eos after each line."""
        blocks = [self.encode_bytes(b) for source in sources for b in word_blocks(source, self.rules)]
        return np.concatenate(blocks) if blocks else np.zeros(0, np.int32)

    def write(self, file: IO[bytes]) -> None:
        """One line a word: the word, a tab, its count."""
        lines = (f"{word}\t{count}\n" for word, count in zip(self.words, self.counts.tolist(), strict=True))
        file.write("".join(lines).encode())

    @classmethod
    def parse(cls, data: bytes, name: str, rules: TextRules) -> "Vocabulary":
        """What `write` wrote, or any list of words, one a line, optionally followed by a tab and a count (else 0)."""
        words, counts = _parse_words(data, name)
        return cls(words, counts, rules)

    @classmethod
    def read(cls, path: Path, rules: TextRules) -> "Vocabulary":
        """A word list given by a person: words that the rules would change are refused, missing specials added."""
        try:
            words, counts = _parse_words(path.read_bytes(), str(path))
        except OSError as error:
            raise LightRNNError(f"cannot read the vocabulary {path}: {error.strerror or error}") from None
        for number, word in enumerate(words, 1):
            if word not in rules.specials and rules.clean(word) != word:
                raise LightRNNError(
                    f"{path} line {number}: text never holds {word!r} under --normalize {rules.normalize}"
                    f"{' --lowercase' * rules.lowercase}, it would be {rules.clean(word)!r}; clean the list first"
                )
        listed = set(words)
        added = [word for word in rules.specials if word not in listed]
        return cls([*words, *added], np.concatenate([counts, np.zeros(len(added), np.int64)]), rules)


def _parse_words(data: bytes, path: str) -> tuple[list[str], NDArray[np.int64]]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise LightRNNError(f"the vocabulary {path} is not UTF-8 at offset {error.start:,}") from None
    words: list[str] = []
    counts: list[int] = []
    for number, line in enumerate(text.replace("\r\n", "\n").removesuffix("\n").split("\n"), 1):
        word, _, count = line.partition("\t")
        if word.encode().split() != [word.encode()] or not (count == "" or (count.isdecimal() and len(count) < 19)):
            raise LightRNNError(f"{path} line {number}: expected a word, or word-tab-count, got {line[:60]!r}")
        words.append(word)
        counts.append(int(count or 0))
    return words, np.array(counts, dtype=np.int64)


def frequency_ranks(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """[V]: each word's number when they are sorted by falling count."""
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return ranks
