"""What a text is worth to a network that learns as it reads, or has a cache of what it has read: figures that stand
beside its plain perplexity, and are not to be compared with others' plain ones."""

from dataclasses import dataclass

from ..runtime import Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids
from .cache import CacheLM
from .evaluation import Evaluation, measure
from .features import Reading
from .lm import LM
from .network import NetworkLM
from .tuning import CachedReading


@dataclass(frozen=True)
class Worth:
    """A figure, what it is called, and the settings that were found for it."""

    name: str  # adapted, with_cache or adapted_with_cache
    result: Evaluation
    settings: dict[str, float]


def while_reading(
    lm: LM,
    ids: Ids,
    convention: Convention,
    *,
    learning: dict[str, float] | None = None,
    cache: int = 0,
    held_out: Ids | None = None,
    progress: Progress = silent,
) -> list[Worth]:
    """Of a model that learns by these settings (`rate`, `decay`; {}: its own; None: not at all), and of a network, the
    same with a cache of so many words, whose weight and flatness are those that are best on a held-out text."""

    def read(text: Ids) -> Reading:
        if learning is None:
            return lm.read(text, convention, progress=progress)
        try:
            return lm.read_adapting(text, **learning, progress=progress, features=cache > 0)
        finally:
            lm.reset()

    reading, found = read(ids), []
    if learning is not None:
        found.append(Worth("adapted", measure(lambda: reading.log_probs, ids, lm.vocabulary, convention), {}))
    if cache:
        assert held_out is not None
        assert isinstance(lm, NetworkLM)
        cached = CachedReading.tuned(CacheLM(lm, cache), read(held_out), held_out, convention, progress)
        result = measure(lambda: cached.log_probs(reading, ids, convention, progress), ids, lm.vocabulary, convention)
        settings = {"size": cache, "weight": cached.weight, "flatness": cached.cache.flatness}
        found.append(Worth("with_cache" if learning is None else "adapted_with_cache", result, settings))
    return found
