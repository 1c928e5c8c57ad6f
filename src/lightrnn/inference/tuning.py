"""How flat a cache should be: what is best beside the other models of a mix on a held-out text.

Shapes: N tokens, M models.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..runtime import Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids
from .cache import CacheLM
from .evaluation import perplexity_of
from .features import Reading
from .mixture import Mix, mixed, tune

FLATNESSES = [2.0 ** (step / 2) for step in range(13)]  # what is tried, 1 to 64


class TunedCache(NamedTuple):
    """A cache with its flatness, what it gives the tokens of the text that it was found on, (N,), and the weights of
    the other models and it there."""

    cache: CacheLM
    log_probs: NDArray[np.float64]
    weights: list[float]


def tuned_cache(
    cache: CacheLM,
    reading: Reading,
    ids: Ids,
    others: NDArray[np.float64],
    convention: Convention | None = None,
    progress: Progress = silent,
) -> TunedCache:
    """With the flatness at which a mix with other models is best on a held-out text.

    reading: the text as the cache's network reads it; others (N, M): its natural-log probabilities by the other models.
    """
    best, lowest = None, np.inf
    recalled = cache.recalled(reading, ids, FLATNESSES, convention, progress)
    for flatness, column in zip(FLATNESSES, recalled.T, strict=True):
        columns = np.column_stack([others, column])
        weights = tune(columns)
        perplexity = perplexity_of(mixed(columns, weights))
        if best is None or perplexity < lowest:
            best, lowest = TunedCache(CacheLM(cache.network, cache.size, flatness), column, weights), perplexity
    assert best is not None
    return best


@dataclass(frozen=True)
class CachedReading:
    """A network's reading of a text, static or adapted, mixed with a cache of its features."""

    cache: CacheLM
    weight: float  # of the cache

    @classmethod
    def tuned(
        cls, cache: CacheLM, held_out: Reading, ids: Ids, convention: Convention, progress: Progress = silent
    ) -> "CachedReading":
        """With the flatness and the weight that are best on a held-out text."""
        others = held_out.log_probs.sum(axis=1, keepdims=True, dtype=np.float64)
        found = tuned_cache(cache, held_out, ids, others, convention, progress)
        return cls(found.cache, found.weights[-1])

    def log_probs(
        self, reading: Reading, ids: Ids, convention: Convention, progress: Progress = silent
    ) -> NDArray[np.float64]:
        """(N, 1): the natural logs of a text's tokens."""
        recalled = self.cache.recalled(reading, ids, [self.cache.flatness], convention, progress)
        columns = np.column_stack([reading.log_probs.sum(axis=1, dtype=np.float64), recalled])
        return mixed(columns, [1 - self.weight, self.weight])[:, None]


def tuned_mix(
    mix: Mix, loose: Collection[int], ids: Ids, progress: Progress = silent
) -> tuple[Mix, NDArray[np.float64]]:
    """The mix with the weights that are best on a held-out text, and for the members in `loose`, which are caches, the
    best flatness; and (N, M), the tokens' natural-log probabilities by each of its members."""
    columns, readings = mix.read_members(ids, progress=progress)
    models = [m for m, member in enumerate(mix.members) if not isinstance(member, CacheLM)]
    members = list(mix.members)
    for m in loose:
        cache, (words, shares) = members[m], mix.translated(m, ids)
        assert isinstance(cache, CacheLM)
        members[m], log_probs, _ = tuned_cache(cache, readings[cache.network], words, columns[:, models])
        columns[:, m] = log_probs + shares
    return Mix(members, tune(columns)), columns
