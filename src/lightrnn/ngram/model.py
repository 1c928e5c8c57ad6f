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
State = tuple[int, ...]  # of an NGram: places of 1-grams, 2-grams, …; -1: not there

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

    def step(self, state: Any, word: int) -> tuple[float, int, Any]:
        """The log10 probability of a word, the order of the n-gram it was found in, and the state after it."""
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

    def at(self, places: Places | NDArray[np.bool_], keys: Places) -> "Level":
        """The n-grams at some places, under other keys."""
        backoffs = self.log10_backoffs
        return Level(keys, self.log10_probs[places], backoffs[places] if len(backoffs) else backoffs)


class NGram:
    """An n-gram model over a vocabulary; a BackoffModel.

    A state is the places of the n-grams that end here, the shortest first, as far as what follows can depend on them:
    two contexts after which all goes alike have one state, as in KenLM.

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

    def start_state(self, of_sentence: bool) -> State:
        return self._lasting([self.start]) if of_sentence else ()

    def step(self, state: State, word: int) -> tuple[float, int, State]:
        score, order = float(self.levels[0].log10_probs[word]), 1
        ending = [word]
        for n, context in enumerate(state, 2):
            place = -1
            if context >= 0:
                below, level = self.levels[n - 2], self.levels[n - 1]
                score += float(below.log10_backoffs[context])
                key = context * self.size + word
                place = int(level.keys.searchsorted(key))
                if place < len(level.keys) and level.keys[place] == key:
                    score, order = float(level.log10_probs[place]), n
                else:
                    place = -1
            ending.append(place)
        is_bound = word in (self.vocabulary.eos_id, self.vocabulary.bos_id)
        return score, order, self.start_state(of_sentence=True) if is_bound else self._lasting(ending)

    def _lasting(self, places: list[int]) -> State:
        """Of the n-grams that end here, shortest first, those up to the last one that has a back-off or begins a longer
        n-gram: no later word can depend on the others."""
        kept = places[: self.order - 1]
        while kept:
            below, level, place = self.levels[len(kept) - 1], self.levels[len(kept)], kept[-1]
            if place >= 0 and (below.log10_backoffs[place] != 0 or self._begins(level, place)):
                break
            kept.pop()
        return tuple(kept)

    def _begins(self, level: Level, context: int) -> bool:
        """Whether n-grams of a level begin with a context."""
        first = int(level.keys.searchsorted(context * self.size))
        return first < len(level.keys) and int(level.keys[first]) < (context + 1) * self.size

    def read(self, state: State, ids: Ids) -> tuple[Floats, State]:
        words = np.asarray(ids).tolist()
        if len(words) > self.order:  # all at once, and the last ones again, for the state
            before = self._words(state)
            scores = self._scores(np.array([[*before, *words]], np.int64))[0][0, len(before) :]
            return scores, self.read((), words[-self.order :])[1]
        scores = np.empty(len(words))
        for place, word in enumerate(words):
            scores[place], _, state = self.step(state, word)
        return scores, state

    def _words(self, state: State) -> list[int]:
        """The words of the longest n-gram of a state."""
        return [int(column[0]) for column in self.words_of(len(state), state[-1], state[-1] + 1)] if state else []

    def distribution(self, state: State) -> Floats:
        scores = self.levels[0].log10_probs[: len(self.vocabulary)].copy()
        for below, level, context in zip(self.levels, self.levels[1:], state, strict=False):
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
