"""Words written as codes: what a network reads and predicts, one recurrent step a code.

Shapes: V vocabulary, K most codes of a word, N words of a text, M codes of it, P parts of a log-probability.

For a LightRNN a text is one stream of codes, and so it is cut and carried by codes, not by words. A network with a
vector a word reads the words themselves: one code each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Codes = NDArray[np.int64]
BLOCK = 128  # words of a stream whose codes are counted together


@dataclass(frozen=True)
class Spelling:
    """codes: int (V, K), the codes of each word in order, -1 beyond its last one; None: a word's id is its only code.

    Codes below `begins` are the first of a word, and no others are.
    """

    codes: Codes | None = None
    begins: int = 0

    @property
    def most(self) -> int:
        """K."""
        return 1 if self.codes is None else self.codes.shape[1]

    @cached_property
    def lengths(self) -> Codes | None:
        """(V,): how many codes each word has."""
        return None if self.codes is None else (self.codes >= 0).sum(axis=1)

    @cached_property
    def each(self) -> int:
        """How many codes a word has where all have as many, else 1."""
        return self.most if self.lengths is None or (self.lengths == self.most).all() else 1

    @cached_property
    def owners(self) -> "Spelling":
        """Every word written as its id, as often as it has codes: tells whose a code is."""
        if self.codes is None:
            return self
        return Spelling(np.where(self.codes >= 0, np.arange(len(self.codes))[:, None], -1), self.begins)

    def spell(self, words: Ids) -> Codes:
        """Words (N,) → their codes (M,), one after the other."""
        if self.codes is None:
            return np.asarray(words, np.int64)
        codes = self.codes[words]
        return codes[codes >= 0]

    def stream(self, ids: Ids) -> "CodeStream":
        return CodeStream(ids, self)

    def ends(self, ids: Ids) -> Codes:
        """(N+1,): how many codes the first 0, 1, … N words of a text have."""
        lengths = np.ones(len(ids), np.int64) if self.lengths is None else self.lengths[ids]
        return np.concatenate([[0], np.cumsum(lengths)])

    def context(self, word: int) -> Codes:
        """(K,): the codes of a word that stands before all others, -1 in front where it has fewer."""
        codes = self.spell(np.array([word], np.int32))
        return np.concatenate([np.full(self.most - len(codes), -1, np.int64), codes])

    def starts_word(self, codes: Codes) -> NDArray[np.bool_]:
        return np.ones(codes.shape, bool) if self.codes is None else codes < self.begins

    def by_word(self, parts: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
        """What was found for every code, (M, P), put together by words: (N, P), of several codes (N, K)."""
        if self.codes is None:
            return parts
        codes = self.codes[ids]
        found = np.zeros(codes.shape, np.float32)
        found[codes >= 0] = parts[:, 0]
        return found


class CodeStream:
    """The codes of a text, made where they are asked for: `len` and slices."""

    def __init__(self, ids: Ids, spelling: Spelling) -> None:
        self._ids, self._spelling = ids, spelling
        if spelling.lengths is not None:
            chunk = BLOCK << 12
            sums = [np.zeros(1, np.int64)]
            for begin in range(0, len(ids), chunk):
                lengths = spelling.lengths[ids[begin : begin + chunk]]
                sums.append(np.add.reduceat(lengths, np.arange(0, len(lengths), BLOCK)))
            self._before = np.cumsum(np.concatenate(sums))  # codes before each block, and in all

    def __len__(self) -> int:
        return len(self._ids) if self._spelling.codes is None else int(self._before[-1])

    def __getitem__(self, span: slice) -> Codes:
        """Codes start … stop-1."""
        begin, stop, _ = span.indices(len(self))
        if self._spelling.codes is None or begin >= stop:
            return np.asarray(self._ids[begin : max(stop, begin)], np.int64)
        first = int(np.searchsorted(self._before, begin, side="right")) - 1
        last = int(np.searchsorted(self._before, stop))
        codes = self._spelling.spell(self._ids[first * BLOCK : last * BLOCK])
        return codes[begin - self._before[first] : stop - self._before[first]]

    def piece(self, front: Codes, begin: int, stop: int) -> Codes:
        """Codes begin … stop-1 with as many before them as `front` has, which is what stands before the text."""
        before = begin - len(front)
        return self[before:stop] if before >= 0 else np.concatenate([front[begin:], self[0:stop]])

    def share(self, words: int) -> int:
        """How many codes so many words have on average, rounded down but at least 1; exact where all have as many."""
        return max(words * len(self) // max(len(self._ids), 1), 1)
