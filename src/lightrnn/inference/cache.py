"""A text's own words come again: the continuous cache of Grave, Joulin and Usunier (2017), which needs no training.

Shapes: N tokens of a text, F features of a network, V vocabulary, M models of a mix, J values of the flatness.

A cache keeps the last SIZE words of the text, each with what a network scored it by, h_i (`features.py`). Where the
network stands at h_t, a word is as likely as the places at which it came before were like this one:

    P(w | text before) ∝ Σ_i 1(w_i = w) exp(θ h_t · h_i)          i = t-SIZE … t-1

The h have length 1 here, so that what counts is their angle and θ means the same for every network; as they are, which
is the paper's way, they serve less well (docs/trials.md). θ is the *flatness*: the smaller it is, the more all places
count alike. A cache is a language model, and worth something as a member of a mix with its network (`mixture.Mix`):
words that are not in a full one have probability 0.

A mix gives its cache one weight, found where the cache is full. One of ten words is worth less, about as much less as
log(1 + n / EARLY) is less than at n = SIZE (docs/trials.md); the rest of what it says, its network says for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import check_number, check_whole
from ..errors import LightRNNError
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids
from ..text.windows import sentence_bounds
from .features import Reading
from .lm import LM
from .network import NetworkLM, NetworkState

LARGEST = 100_000  # words of a cache
LOWEST, STEEPEST = 1e-6, 1e6
EARLY = 10  # words
BLOCK = 256  # tokens of a text that look into the cache together; words of a state's cache that are kept together
FLATNESS = 2.0**3.5  # unless it is tuned: in the middle of what was best, 5.7 to 32

Array = NDArray[np.float32]


@dataclass(frozen=True)
class CacheName:
    """A cache as it is named among the models of a mix: cache:SIZE, or cache:SIZE:FLATNESS."""

    size: int
    flatness: float | None = None  # None: to be found

    def __post_init__(self) -> None:
        check_whole("the size of a cache", self.size, most=LARGEST)
        if self.flatness is not None:
            check_number("the flatness of a cache", self.flatness, LOWEST, STEEPEST)

    @classmethod
    def parse(cls, name: str) -> "CacheName | None":
        """None: it is the name of something else."""
        kind, *numbers = name.split(":")
        if kind != "cache" or not 1 <= len(numbers) <= 2:
            return None
        try:
            return cls(int(numbers[0]), float(numbers[1]) if numbers[1:] else None)
        except ValueError:
            raise LightRNNError(f"a cache is named cache:SIZE or cache:SIZE:FLATNESS, got {name}") from None

    def __str__(self) -> str:
        return f"cache:{self.size}" + (f":{self.flatness:g}" if self.flatness else "")

    def of(self, network: NetworkLM) -> "CacheLM":
        return CacheLM(network, self.size, FLATNESS if self.flatness is None else self.flatness)


@dataclass(frozen=True, eq=False)
class Memory:
    """The last words of a text and the features before each, oldest first, in blocks that are never changed, so that
    states that grew from one another share them."""

    size: int
    features: tuple[Array, ...] = field(default=(), repr=False)  # (≤ BLOCK, F) each
    words: tuple[Ids, ...] = field(default=(), repr=False)  # (≤ BLOCK,) each

    def with_word(self, features: Array, word: int) -> "Memory":
        """One more word; blocks of which none is among the last `size` any more are left out."""
        old_features, old_words = list(self.features), list(self.words)
        one, at = np.array([word], np.int32), features[None]
        if old_words and len(old_words[-1]) < BLOCK:
            one, at = np.concatenate([old_words.pop(), one]), np.concatenate([old_features.pop(), at])
        kept = [*old_words, one]
        forgotten = sum(map(len, kept[1:])) >= self.size
        return Memory(self.size, (*old_features, at)[forgotten:], tuple(kept[forgotten:]))

    def __len__(self) -> int:
        return min(sum(map(len, self.words)), self.size)

    def weights(self, features: Array, flatness: float) -> tuple[Ids, Array]:
        """The words, and how much each of the places counts here; of all together 1. There must be one at least."""
        scores = flatness * (np.concatenate(self.features)[-self.size :] @ features)
        weights = np.exp(scores - scores.max())
        return np.concatenate(self.words)[-self.size :], weights / weights.sum()


@dataclass(frozen=True, eq=False)
class CacheState:
    """Where the network is, and what was read."""

    inner: NetworkState
    memory: Memory


class CacheLM(LM):
    """A network's cache. States are bounded: SIZE words with their features, and a block more at most."""

    def __init__(self, network: NetworkLM, size: int, flatness: float = FLATNESS) -> None:
        if not isinstance(network, NetworkLM):
            raise LightRNNError(f"a cache goes with a network, got {type(network).__name__}; give that itself")
        super().__init__(network.vocabulary)
        CacheName(size, flatness)  # refuses what cannot be
        self.network, self.size, self.flatness = network, size, flatness

    def begin_state(self) -> CacheState:
        return CacheState(self.network.begin_state(), Memory(self.size))

    def is_state(self, state: Any) -> bool:
        if not isinstance(state, CacheState) or not self.network.is_state(state.inner):
            return False
        known = all(int(words.max()) < len(self.vocabulary) for words in state.memory.words)
        return known and state.memory.size == self.size

    def stream_state(self) -> CacheState:
        return CacheState(self.network.stream_state(), Memory(self.size))

    def empty_state(self) -> CacheState:
        return CacheState(self.network.empty_state(), Memory(self.size))

    def read_word(self, state: CacheState, word: int) -> tuple[float, CacheState]:
        log_prob, inner = self.network.read_word(state.inner, word)
        features = self._direction(state)
        if features is None:
            return log_prob, CacheState(inner, state.memory)
        after = CacheState(inner, state.memory.with_word(features, word))
        if not len(state.memory):
            return log_prob, after
        words, weights = state.memory.weights(features, self.flatness)
        with np.errstate(divide="ignore"):
            recalled = np.log(weights[words == word].sum(dtype=np.float64))
        return float(self._together(recalled, log_prob, len(state.memory))), after

    def next_log_probs(self, state: CacheState) -> NDArray[np.float64]:
        features, count = self._direction(state), len(state.memory)
        if features is None or not count:
            return self.network.next_log_probs(state.inner)
        words, weights = state.memory.weights(features, self.flatness)
        with np.errstate(divide="ignore"):
            recalled = np.log(np.bincount(words, weights, minlength=len(self.vocabulary)))
        if count == self.size:
            return recalled
        return self._together(recalled, self.network.next_log_probs(state.inner), count)

    def _together(self, recalled: ArrayLike, own: ArrayLike, count: ArrayLike) -> NDArray[np.float64]:
        """What the cache says of some words, and its network in its place, where it holds `count` words."""
        trust = np.log1p(np.divide(count, EARLY)) / np.log1p(self.size / EARLY)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(recalled + np.log(trust), own + np.log(1 - trust)), np.float64)

    def _direction(self, state: CacheState) -> Array | None:
        features = self.network.state_features(state.inner)
        return None if features is None else directions(features)

    def token_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[np.float64]:
        reading = self.network.read(ids, convention, batch_size=batch_size, progress=progress)
        return self.recalled(reading, ids, [self.flatness], convention, progress)

    def recalled(
        self,
        reading: Reading,
        ids: Ids,
        flatnesses: Sequence[float],
        convention: Convention | None = None,
        progress: Progress = silent,
    ) -> NDArray[np.float64]:
        """(N, J): the tokens' natural-log probabilities for several flatnesses, where the network read them so. In the
        sentence convention every sentence has a cache of its own."""
        begins = np.zeros(len(ids), np.int64)
        if self.vocabulary.rules.read_as(convention) == "sentence":
            bounds = sentence_bounds(ids, self.vocabulary.eos_id)
            begins = np.repeat(bounds[:, 0], bounds[:, 1] - bounds[:, 0])
        here = np.arange(len(ids))
        first = np.maximum(begins, here - self.size)  # what each token sees of the text before it
        recalled = recall(directions(reading.features), np.asarray(ids), first, flatnesses, progress)
        own = reading.log_probs.sum(axis=1, dtype=np.float64)
        return self._together(recalled, own[:, None], (here - first)[:, None])

    @property
    def unigram(self) -> NDArray[np.float64]:
        return self.network.unigram


def directions(features: Array) -> Array:
    """(…, F) at length 1."""
    lengths = np.linalg.norm(features, axis=-1, keepdims=True)
    return np.asarray(features / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)


def recall(
    features: Array, ids: Ids, first: NDArray[np.int64], flatnesses: Sequence[float], progress: Progress = silent
) -> NDArray[np.float64]:
    """(N, J): the natural-log probability of each token by its cache, which holds the tokens from `first` (N,) up to
    the one before it, for several flatnesses; -inf where it is not in there.

    `first` never falls. Tokens are taken BLOCK at a time, whose h_t · h_i are one matrix product.
    """
    found = np.full((len(ids), len(flatnesses)), -np.inf)
    for begin in range(0, len(ids), BLOCK):
        end, low = min(begin + BLOCK, len(ids)), int(first[begin])
        here, places = np.arange(begin, end)[:, None], np.arange(low, end)
        scores = features[begin:end] @ features[low:end].T  # (BLOCK, places)
        scores[(places >= here) | (places < first[begin:end, None])] = -np.inf
        scores -= np.maximum(scores.max(axis=1, keepdims=True), np.finfo(np.float32).min)
        again = ids[begin:end, None] == ids[low:end]
        for column, flatness in enumerate(flatnesses):
            weights = np.exp(np.float32(flatness) * scores)
            same, all_places = (w.sum(axis=1, dtype=np.float64) for w in (np.where(again, weights, 0), weights))
            with np.errstate(divide="ignore"):
                found[begin:end, column] = np.log(same) - np.log(np.maximum(all_places, 1e-300))
        progress("recalling", end, len(ids))
    return found
