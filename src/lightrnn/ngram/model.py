"""N-gram back-off models as sorted arrays.

Shapes: B batch, T words, N tokens, V vocabulary, N_n n-grams of order n.

    log P(w | c) = log p(c w)                  where the n-gram c w is listed
                 = log b(c) + log P(w | c')    else, c' being c without its first word; b(c) = 1 if c is not listed

The n-grams of order n are one sorted array of keys, (place of the first n-1 words at order n-1) · size + last word. The
place of the n-gram that ends at t is found from the place of the (n-1)-gram that ends at t-1, so a whole text takes
one binary search an order. All logarithms here are to base 10, as in ARPA files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary

Floats = NDArray[np.float64]
Places = NDArray[np.int64]  # of n-grams at their order; -1: not there

LN10 = log(10)
NEVER = -99.0  # log10 probability of what is never predicted, and the floor of every other figure
CHUNK = 1 << 20  # tokens scored at once


class BackoffModel(Protocol):
    """What is asked of an n-gram model, wherever its n-grams are kept; states are values of its own kind."""

    vocabulary: Vocabulary

    @property
    def order(self) -> int:
        """Words in the longest n-grams."""
        ...

    def start_state(self, of_sentence: bool) -> Any:
        """The state after the start of a sentence, or after nothing."""
        ...

    def read(self, state: Any, ids: Ids) -> tuple[Floats, Any]:
        """(N,): the log10 probabilities of words in a row from a state on, and the state after them."""
        ...

    def distribution(self, state: Any) -> Floats:
        """(V,): the log10 probability of every word as the next one."""
        ...

    def score_tokens(self, ids: Ids) -> tuple[Floats, NDArray[np.int64]]:
        """The log10 probability of every token of a stream, and the order of the n-gram it was found in.

        The first token follows a sentence start; every line ends in eos, which is scored too. This is what KenLM's
        full_scores gives sentence by sentence.
        """
        ...


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: keys (N_n,) ascending, log10 probabilities, log10 back-offs (none at the highest)."""

    keys: Places
    log10_probs: Floats
    log10_backoffs: Floats


class NGram:
    """An n-gram model over a vocabulary; a BackoffModel whose states are the last order-1 words, oldest first.

    levels[n-1] holds order n; at order 1 the key of a word is its id. Where the vocabulary has no word for the
    sentence start, <s> is one id past the last. discounts: D1, D2, D3+ by order where Kneser-Ney estimated them.

    A sentence never sees the one before: a context word that is eos or bos acts as <s>, and nothing before it counts.
    So the figures are the same in the stream and in the sentence convention.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        levels: Sequence[Level],
        discounts: Sequence[tuple[float, float, float]] | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.levels = list(levels)
        self.discounts = discounts
        self.start, self.size = start_and_size(vocabulary)

    @property
    def order(self) -> int:
        return len(self.levels)

    @property
    def counts(self) -> list[int]:
        """How many n-grams there are of each order; <s> is one of the unigrams."""
        return [len(level.keys) for level in self.levels]

    def start_state(self, of_sentence: bool) -> tuple[int, ...]:
        return (self.vocabulary.bos_id,) if of_sentence else ()

    def read(self, state: tuple[int, ...], ids: Ids) -> tuple[Floats, tuple[int, ...]]:
        words = [*state, *np.asarray(ids).tolist()]
        scores, _ = self._scores(np.array([words], np.int64))
        return scores[0, len(state) :], tuple(words[max(len(words) - self.order + 1, 0) :])

    def distribution(self, state: tuple[int, ...]) -> Floats:
        scores = self.levels[0].log10_probs[: len(self.vocabulary)].copy()
        for below, level, contexts, _ in self._walk(np.array([[*state, self.vocabulary.eos_id]], np.int64)):
            context = int(contexts[0, -1])
            if context >= 0:
                scores += below.log10_backoffs[context]
                begin, end = np.searchsorted(level.keys, [context * self.size, (context + 1) * self.size])
                scores[level.keys[begin:end] - context * self.size] = level.log10_probs[begin:end]
        return scores

    def score_tokens(self, ids: Ids) -> tuple[Floats, NDArray[np.int64]]:
        stream = np.concatenate([[self.vocabulary.bos_id], ids]).astype(np.int64)
        scores, orders = np.empty(len(ids)), np.empty(len(ids), np.int64)
        for begin in range(0, len(ids), CHUNK):
            end = min(begin + CHUNK, len(ids))
            first = max(0, begin + 2 - self.order)  # of the stream: the first word that the token at `begin` can see
            piece, matched = self._scores(stream[None, first : end + 1])
            scores[begin:end], orders[begin:end] = piece[0, begin - end :], matched[0, begin - end :]
        return scores, orders

    def _scores(self, words: Places) -> tuple[Floats, NDArray[np.int64]]:
        """(B, T): the log10 probability of every word after those before it in its row, and the order it came from."""
        scores = self.levels[0].log10_probs[words]
        orders = np.ones(words.shape, np.int64)
        for n, (below, level, contexts, found) in enumerate(self._walk(words), 2):
            known = contexts >= 0
            scores[known] += below.log10_backoffs[contexts[known]]
            listed = found >= 0
            scores[listed] = level.log10_probs[found[listed]]
            orders[listed] = n
        return scores, orders

    def _walk(self, words: Places) -> Iterator[tuple[Level, Level, Places, Places]]:
        """For n = 2, 3, …: levels n-1 and n, the places (B, T) of the n-1 words before each word and of the n-gram."""
        bounds = (words == self.vocabulary.eos_id) | (words == self.vocabulary.bos_id)
        ending = np.where(bounds, self.start, words)  # the (n-1)-gram that ends in each word
        for below, level in zip(self.levels, self.levels[1:], strict=False):
            contexts = np.full_like(ending, -1)
            contexts[:, 1:] = ending[:, :-1]
            found = find(level.keys, contexts * self.size + words)
            yield below, level, contexts, found
            ending = np.where(bounds, -1, found)

    def words_of(self, order: int, begin: int, end: int) -> list[Places]:
        """The n-grams begin … end-1 of an order: one array of words for each of their places."""
        columns = []
        index = np.arange(begin, end)
        for level in reversed(self.levels[1:order]):
            index, last = np.divmod(level.keys[index], self.size)
            columns.append(last)
        return [index, *reversed(columns)]


def start_and_size(vocabulary: Vocabulary) -> tuple[int, int]:
    """The id of <s>, and how many ids there are with it."""
    has_start = vocabulary.rules.bos is not None
    return (vocabulary.bos_id if has_start else len(vocabulary)), len(vocabulary) + (not has_start)


def find(keys: Places, sought: Places) -> Places:
    """The place of every sought key among ascending ones, -1 where it is not there."""
    if len(keys) == 0:
        return np.full_like(sought, -1)
    places = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    return np.where(keys[places] == sought, places, -1)
