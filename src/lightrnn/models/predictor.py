"""What comes next after a state: a word's probability, all words', the likeliest ones, a draw. Without PyTorch.

Shapes: V vocabulary, K components, n_s values of component s, P prefixes (the first s components of a place), H hidden.

A `state` is what `log_probs` leaves behind: all codes of the words before were fed but the last word's last one. So
every question begins by feeding that code, which gives the row softmax.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..table.word_table import WordTable
from ..text.spelling import Ids
from .cells import Array
from .code_network import CodeNetwork, Numbers
from .likeliest import Likeliest, draw_from
from .reader import Arrays, Reader

FIRST_CHUNK, LAST_CHUNK = 16, 256  # rows opened together by the search


class Predictor(Protocol):
    """A trained network made ready to answer what comes next, one state at a time or, word by word, many side by side.

    A `state` is what `log_probs` leaves behind: the last word is not fed yet, or not all of it.
    """

    start: Arrays  # the state before anything was read

    @property
    def reader(self) -> Reader:
        """The same network over whole texts."""
        ...

    def fresh_state(self, word: int) -> Arrays:
        """The state at which `word` is the last word and the first that was read."""
        ...

    def word(self, last_word: int, state: Arrays, word: int) -> tuple[float, Arrays]:
        """The natural-log probability of a word, and the state after it."""
        ...

    def words(self, last_words: Ids, state: Arrays, words: Ids) -> tuple[NDArray[np.float64], Arrays]:
        """The same for B words after as many last words and a state of B tracks, side by side: (B,) and the state."""
        ...

    def features(self, last_word: int, state: Arrays) -> Array:
        """(F,): what the next word is scored by, as RecurrentModel.features has it."""
        ...

    def continuations(self, last_word: int, state: Arrays) -> Callable[[int], tuple[float, Arrays]]:
        """`word` after one state as a function of the word; what words have in common is computed once."""
        ...

    def all_words(self, last_word: int, state: Arrays) -> NDArray[np.float64]:
        """(V,): the natural-log probability of every word; exp of it sums to 1."""
        ...

    def likeliest(
        self, last_word: int, state: Arrays, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> Likeliest:
        """The `count` most probable words, exactly; of those in allowed[V], if given."""
        ...

    def draw(self, last_word: int, state: Arrays, temperature: float, random: np.random.Generator) -> int:
        """A random word; at temperature 0 the likeliest (of a LightRNN, the likeliest row's likeliest column)."""
        ...


class CodePredictor:
    """A LightRNN made ready to answer, from its weights and its table."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, NDArray[Any]], table: WordTable) -> None:
        """weights: as LightRNN.state_dict names them."""
        self.reader = CodeNetwork(config, weights, table)
        self._table, self._steps = table, self.reader.steps
        self.start = self._steps.start

    def _codes(self, word: int) -> Numbers:
        """The codes of a word, numbers of input vectors."""
        codes: Numbers = self._table.spelling.codes[word]  # type: ignore[index]
        return codes[codes >= 0]

    @cached_property
    def _word_of_place(self) -> Numbers:
        return self._table.words

    def fresh_state(self, word: int) -> Arrays:
        """All codes of the word but the last are read, from nothing."""
        state = self._steps.start
        for code in self._codes(word)[:-1]:
            _, state = self._steps(code[None], state)
        return state

    def word(self, last_word: int, state: Arrays, word: int) -> tuple[float, Arrays]:
        """A step and a softmax for each of its codes."""
        codes, place = self._codes(word), self._table.codes[word]
        feeds = [self._codes(last_word)[-1], *codes[:-1]]
        total = 0.0
        for s, feed in enumerate(feeds):
            outputs, state = self._steps(feed[None], state)
            total += float(self._picked(s, outputs, place[None], codes[None])[0])
        return total, state

    def words(self, last_words: Ids, state: Arrays, words: Ids) -> tuple[NDArray[np.float64], Arrays]:
        """One batched step a component, for the words that have it."""
        spelling = self._table.spelling.codes
        assert spelling is not None
        codes, places = spelling[words], self._table.codes[words]  # (B, K) each
        outputs, state = self._steps(
            spelling[last_words].max(axis=1), state
        )  # a word's last code has its highest number
        total = self._picked(0, outputs, places, codes).astype(np.float64)
        sharing = np.flatnonzero(codes[:, 1] >= 0)
        if len(sharing) == 0:
            return total, state
        codes, places, inner = codes[sharing], places[sharing], tuple(array[:, sharing] for array in state)
        for s in range(1, self._table.components):
            outputs, inner = self._steps(codes[:, s - 1], inner)
            total[sharing] += self._picked(s, outputs, places, codes)
        for array, after in zip(state, inner, strict=True):
            array[:, sharing] = after
        return total, state

    def continuations(self, last_word: int, state: Arrays) -> Callable[[int], tuple[float, Arrays]]:
        """One step for all rows, and one for every row (prefix) that a word is asked for of."""
        opened: dict[tuple[int, ...], tuple[list[float], Arrays]] = {}

        def open_prefix(codes: Numbers, place: Numbers) -> tuple[list[float], Arrays]:
            """The log-probabilities of the values after the first codes of a word, and the state after these."""
            key = tuple(codes.tolist())
            if key not in opened:
                before = open_prefix(codes[:-1], place[:-1])[1] if key else state
                feed = codes[-1:] if key else self._codes(last_word)[-1:]
                outputs, after = self._steps(feed, before)
                opened[key] = self._log_probs(len(key), outputs, place[None])[0].tolist(), after
            return opened[key]

        def of(word: int) -> tuple[float, Arrays]:
            codes, place = self._codes(word), self._table.codes[word]
            total, after = 0.0, state
            for s, value in enumerate(place[: len(codes)].tolist()):
                log_probs, after = open_prefix(codes[:s], place[:s])
                total += log_probs[value]
            return total, after

        return of

    def _picked(self, component: int, hidden: Array, places: Numbers, codes: Numbers) -> Array:
        """(P,): the log-probabilities of a component of words, hidden (P, H), given by places and by codes (P, K)."""
        features = self.reader.project(hidden)
        return self.reader.picked(component, features, places[:, component], codes[:, :component])

    def features(self, last_word: int, state: Arrays) -> Array:
        """The state after the last word, projected where the model does so."""
        outputs, _ = self._steps(self._codes(last_word)[-1:], state)
        found: Array = self.reader.project(outputs)[0]
        return found

    def all_words(self, last_word: int, state: Arrays) -> NDArray[np.float64]:
        """One batched step a component."""
        alone, prefixes = self._rows(last_word, state)
        for s in range(1, self._table.components):
            prefixes = self._open(s, prefixes)
        return np.concatenate([alone, prefixes.log_probs])[self._table.places].astype(np.float64)

    def likeliest(
        self, last_word: int, state: Arrays, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> Likeliest:
        """A word is never likelier than its row: P(w) = P_r(row) · P_c(column | row) ≤ P_r(row), and one that stands
        alone is as likely as its row. So shared rows are opened in falling order of P_r, and no more once P_r is not
        above the least of the best words found. The same for K > 2, one component after the other.
        """
        count = min(count, len(self._table))
        masks = self._allowed_prefixes(allowed)
        best, prefixes = self._rows(last_word, state)
        if allowed is not None:
            best[~allowed[self._word_of_place[: len(best)]]] = -np.inf
        best_places = _top(best, count)
        best, opened = best[best_places], 0

        def search(s: int, prefixes: "_Prefixes") -> None:
            """Open prefixes with s components, likeliest first."""
            nonlocal best_places, best, opened
            if masks is not None:
                prefixes.log_probs[~masks[s - 1][prefixes.places]] = -np.inf
            if s == self._table.components:
                found = np.concatenate([best, prefixes.log_probs])
                top = _top(found, count)
                best_places = np.concatenate([best_places, prefixes.places + self._table.alone])[top]
                best = found[top]
                return
            order = np.argsort(-prefixes.log_probs, kind="stable")
            begin, chunk = 0, FIRST_CHUNK
            while begin < len(order):
                some = order[begin : begin + chunk]
                if len(best) == count:
                    some = some[prefixes.log_probs[some] > best[-1]]
                    if len(some) == 0:
                        return
                opened += len(some)
                search(s + 1, self._open(s, prefixes.select(some)))
                begin, chunk = begin + chunk, min(2 * chunk, LAST_CHUNK)

        search(1, prefixes)
        some = best > -np.inf
        return Likeliest(self._word_of_place[best_places[some]], best[some].astype(np.float64), opened)

    def draw(self, last_word: int, state: Arrays, temperature: float, random: np.random.Generator) -> int:
        """One draw a component, no distribution over words. Temperature 0 takes the likeliest each time, the paper's
        greedy row, then column."""
        feed = self._codes(last_word)[-1]
        place: list[int] = []
        for s in range(self._table.components):
            outputs, state = self._steps(feed[None], state)
            scores = self._log_probs(s, outputs, np.array([place], np.int64))[0]  # (n_s,)
            place.append(draw_from(scores, temperature, random))
            if place[0] < self._table.alone:
                return int(self._word_of_place[place[0]])
            feed = np.int64(self.reader.offsets[s] + place[-1])
        shared = self._table.shared.shape
        number = np.ravel_multi_index([place[0] - self._table.alone, *place[1:]], shared)
        return int(self._word_of_place[self._table.alone + number])

    def _log_probs(self, component: int, hidden: Array, prefix: Numbers) -> Array:
        """hidden (P, H), prefix (P, component) → (P, n_component)."""
        return self.reader.log_probs(component, self.reader.project(hidden), prefix)

    def _rows(self, last_word: int, state: Arrays) -> tuple[Array, "_Prefixes"]:
        """The log-probabilities of the words that stand alone, row by row, and of the rows that are shared."""
        outputs, after = self._steps(self._codes(last_word)[-1:], state)  # (1, H)
        log_probs = self._log_probs(0, outputs, np.zeros((1, 0), np.int64))[0]  # (n_1,)
        alone = self._table.alone
        rows = np.arange(alone, len(log_probs))
        return log_probs[:alone], _Prefixes(rows - alone, log_probs[alone:], rows, after, np.zeros(len(rows), np.int64))

    def _open(self, s: int, prefixes: "_Prefixes") -> "_Prefixes":
        """All extensions of some prefixes with s components by component s, those that exist, in order."""
        table = self._table.shared
        state, shape, places = prefixes.state, table.shape, prefixes.places
        if len(places) == 0:
            return prefixes
        if state[0].shape[1] > 1:
            state = tuple(array[:, prefixes.tracks] for array in state)
        outputs, after = self._steps(prefixes.feed, state)  # (P, H)
        digits = [places // prod(shape[i + 1 : s]) % shape[i] for i in range(s)]
        codes = np.stack([digits[0] + self._table.alone, *digits[1:]], axis=1)  # (P, s)
        log_probs = self._log_probs(s, outputs, codes) + prefixes.log_probs[:, None]  # (P, n_s)
        values = np.arange(shape[s])
        extended = _Prefixes(
            (places[:, None] * shape[s] + values).ravel(),
            log_probs.ravel(),
            np.tile(values + self.reader.offsets[s], len(places)),
            after,
            np.repeat(np.arange(len(places)), shape[s]),
        )
        existing = -(-len(table) // prod(shape[s + 1 :]))
        if table.is_full or extended.places.max() < existing:
            return extended
        return extended.select(np.flatnonzero(extended.places < existing))

    def _allowed_prefixes(self, allowed: NDArray[np.bool_] | None) -> list[NDArray[np.bool_]] | None:
        """For every component s, whether a prefix with s+1 components, on the table that is shared, leads to an allowed
        word."""
        if allowed is None:
            return None
        table = self._table.shared
        places = np.flatnonzero(allowed[self._word_of_place[self._table.alone :]])
        masks = []
        for s in range(table.components):
            below = max(prod(table.shape[s + 1 :]), 1)
            mask = np.zeros(-(-len(table) // below), bool)
            mask[places // below] = True
            masks.append(mask)
        return masks


def _top(values: Array, count: int) -> Numbers:
    """The places of the `count` largest, largest first."""
    if len(values) > count:
        some = np.argpartition(-values, count - 1)[:count]
        return some[np.argsort(-values[some], kind="stable")]
    return np.argsort(-values, kind="stable")


@dataclass(frozen=True)
class _Prefixes:
    """P first parts of places: their numbers in lexicographic order, log-probabilities, the code to feed next, and
    after which track of `state` (a single one serves all)."""

    places: Numbers
    log_probs: Array
    feed: Numbers
    state: Arrays
    tracks: Numbers

    def select(self, some: Numbers) -> "_Prefixes":
        return _Prefixes(self.places[some], self.log_probs[some], self.feed[some], self.state, self.tracks[some])
