"""Linear interpolation of language models, word by word, with weights found on held-out text.

Shapes: N tokens, M models, V words of the mix.

    P(w | context) = Σ_m weight_m · P_m(w | context)

Every model keeps its own vocabulary, its own start of a sentence and its own rule of context (an n-gram model sees one
sentence, a stream model all before). The mix has the vocabulary of its first model. A word of it that another model
does not know gets an equal share of that model's probability of the unknown word, so that nothing is counted twice: the
mix sums to at most 1, and to exactly 1 where the vocabularies agree.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_number, check_several
from ..errors import LightRNNError
from ..runtime import BATCH_SIZE, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from .cache import CacheLM
from .features import Reading
from .lm import LM
from .network import NetworkLM

ITERATIONS = 1000
TOLERANCE = 1e-9  # nats a token, below which the weights have settled


class Mix(LM):
    """A mix of models is a model: use it to add an n-gram model's memory to a network, with weights from `tune`."""

    def __init__(self, members: Sequence[LM], weights: Sequence[float]) -> None:
        check_members(members, weights)
        if strange := [member for member in members if not isinstance(member, LM)]:
            raise LightRNNError(f"a mix is of models that lightrnn.load gives, got {type(strange[0]).__name__}")
        super().__init__(members[0].vocabulary)
        total = sum(weights)
        self.members = list(members)
        self.weights = [weight / total for weight in weights]
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(self.weights)
        self._translations, self._shares = zip(
            *(translation(self.vocabulary, m.vocabulary) for m in members), strict=True
        )

    def make_ready(self) -> None:
        for member in self.members:
            member.make_ready()

    @property
    def unknown_words(self) -> list[int]:
        """How many words of the mix each model does not know, the unknown word itself left out."""
        return [
            int((ids == m.vocabulary.unk_id).sum()) - 1 for ids, m in zip(self._translations, self.members, strict=True)
        ]

    @property
    def convention(self) -> Convention:
        """Each model keeps its own; a stream, where that of any of them is."""
        return "stream" if any(member.convention == "stream" for member in self.members) else "sentence"

    @property
    def order(self) -> int:
        return max(member.order for member in self.members)

    def is_state(self, state: Any) -> bool:
        whole = isinstance(state, tuple) and len(state) == len(self.members)
        return whole and all(member.is_state(inner) for member, inner in zip(self.members, state, strict=True))

    def begin_state(self) -> Any:
        return tuple(member.begin_state() for member in self.members)

    def stream_state(self) -> Any:
        return tuple(member.stream_state() for member in self.members)

    def empty_state(self) -> Any:
        return tuple(member.empty_state() for member in self.members)

    def read_word(self, state: Any, word: int) -> tuple[float, Any]:
        log_probs, states = [], []
        for member, before, ids, shares in zip(self.members, state, self._translations, self._shares, strict=True):
            log_prob, after = member.read_word(before, int(ids[word]))
            log_probs.append(log_prob + shares[word])
            states.append(after)
        return float(logsumexp(log_probs + self._log_weights)), tuple(states)

    def read_words(self, state: Any, ids: Ids) -> tuple[NDArray[np.float64], Any]:
        columns, states = np.empty((len(ids), len(self.members))), []
        for m, (member, before) in enumerate(zip(self.members, state, strict=True)):
            log_probs, after = member.read_words(before, self._translations[m][ids])
            columns[:, m] = log_probs + self._shares[m][ids]
            states.append(after)
        return np.asarray(logsumexp(columns + self._log_weights, axis=1), np.float64), tuple(states)

    def read_each(self, states: Sequence[Any], ids: Ids) -> tuple[NDArray[np.float64], list[Any]]:
        columns, after = np.empty((len(ids), len(self.members))), []
        for m, member in enumerate(self.members):
            log_probs, states_after = member.read_each([state[m] for state in states], self._translations[m][ids])
            columns[:, m] = log_probs + self._shares[m][ids]
            after.append(states_after)
        return np.asarray(logsumexp(columns + self._log_weights, axis=1), np.float64), list(zip(*after, strict=True))

    def go_on(self, state: Any, word: int) -> Any:
        return tuple(
            member.go_on(before, int(ids[word]))
            for member, before, ids in zip(self.members, state, self._translations, strict=True)
        )

    def continuations(self, state: Any) -> Callable[[int], tuple[float, Any]]:
        members = [member.continuations(before) for member, before in zip(self.members, state, strict=True)]

        def of(word: int) -> tuple[float, Any]:
            found = [member(int(ids[word])) for member, ids in zip(members, self._translations, strict=True)]
            log_probs = [log_prob + shares[word] for (log_prob, _), shares in zip(found, self._shares, strict=True)]
            return float(logsumexp(log_probs + self._log_weights)), tuple(after for _, after in found)

        return of

    def next_log_probs(self, state: Any) -> NDArray[np.float64]:
        return self._mixed(
            [m.next_log_probs(s)[ids] for m, s, ids in zip(self.members, state, self._translations, strict=True)]
        )

    def token_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[np.float64]:
        columns = self.member_log_probs(ids, convention, batch_size=batch_size, progress=progress)
        return np.asarray(logsumexp(columns + self._log_weights, axis=1, keepdims=True), np.float64)

    def member_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[np.float64]:
        """(N, M): the natural-log probability that each model gives to each token."""
        return self.read_members(ids, convention, batch_size=batch_size, progress=progress)[0]

    def read_members(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> tuple[NDArray[np.float64], dict[LM, Reading]]:
        """The same, and the reading of each model; those of networks that a cache goes with have features."""
        remembered = self._remembered()

        def read(model: LM, words: Ids) -> Reading:
            if model in remembered:
                return model.read(words, convention, batch_size=batch_size, progress=progress)
            log_probs = model.token_log_probs(words, convention, batch_size=batch_size, progress=progress)
            return Reading(log_probs, np.empty((len(words), 0), np.float32))

        return self._together(ids, read, convention, progress)

    def _together(
        self, ids: Ids, read: Callable[[LM, Ids], Reading], convention: Convention | None, progress: Progress
    ) -> tuple[NDArray[np.float64], dict[LM, Reading]]:
        """The same, where a model and its cache read a text together."""
        columns, readings = np.empty((len(ids), len(self.members))), dict[LM, Reading]()
        for m, member in enumerate(self.members):
            words, shares = self.translated(m, ids)
            model = member.network if isinstance(member, CacheLM) else member
            if model not in readings:
                readings[model] = read(model, words)
            log_probs = readings[model].log_probs
            if isinstance(member, CacheLM):
                log_probs = member.recalled(readings[model], words, [member.flatness], convention, progress)
            columns[:, m] = log_probs.sum(axis=1, dtype=np.float64) + shares
        return columns, readings

    def _remembered(self) -> set[LM]:
        """The networks whose features a cache keeps."""
        return {member.network for member in self.members if isinstance(member, CacheLM)}

    @property
    def networks(self) -> list[NetworkLM]:
        return [network for member in self.members for network in member.networks]

    def read_adapting(
        self,
        ids: Ids,
        rate: float | None = None,
        decay: float | None = None,
        progress: Progress = silent,
        *,
        features: bool = True,
    ) -> Reading:
        """Networks learn, each by itself; a cache keeps what its network scored each word by at the time. Where one
        fails, all are what they were."""
        self._refuse_reading_twice()
        undo = [network.checkpoint() for network in self.networks]
        remembered = self._remembered()

        def read(model: LM, words: Ids) -> Reading:
            return model.read_adapting(words, rate, decay, progress, features=model in remembered)

        try:
            columns, _ = self._together(ids, read, "stream", progress)
        except BaseException:
            for put_back in undo:
                put_back()
            raise
        log_probs = logsumexp(columns + self._log_weights, axis=1, keepdims=True)
        return Reading(log_probs, np.empty((len(ids), 0), np.float32))

    def _refuse_reading_twice(self) -> None:
        """A network that has learned from a text must not score it once more, for itself or for a cache."""
        if len(set(self.networks)) < len(self.networks):
            raise LightRNNError("a mix learns with each network in it once, got one twice; load that twice")
        if any(isinstance(member, CacheLM) and member.network not in self.members for member in self.members):
            raise LightRNNError("a mix learns with caches beside their networks; make both members of the same mix")

    def translated(self, member: int, ids: Ids) -> tuple[Ids, NDArray[np.float64]]:
        """(N,): tokens of the mix as ids of one of its models, and the log of the share that each has of that word."""
        return self._translations[member][ids], self._shares[member][ids]

    @property
    def unigram(self) -> NDArray[np.float64]:
        return self._mixed([member.unigram[ids] for member, ids in zip(self.members, self._translations, strict=True)])

    def _mixed(self, columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        log_probs = np.stack([c + shares for c, shares in zip(columns, self._shares, strict=True)], axis=1)
        return np.asarray(logsumexp(log_probs + self._log_weights, axis=1), np.float64)


def check_members(members: Sequence[object], weights: Sequence[float]) -> None:
    """Of a mix: one at least, a weight for each, and not all of them 0."""
    for name, values in (("members", members), ("weights", weights)):
        check_several(name, values)
    for weight in weights:
        check_number("a weight", weight)
    if not members or len(weights) != len(members) or not 0 < sum(weights) < inf:
        raise LightRNNError(
            f"a mix needs as many weights as models, one at least, and not all 0, got {len(members)} models and the "
            f"weights {list(weights)}"
        )


def translation(mix: Vocabulary, member: Vocabulary) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """[V]: the member's id of each word of the mix, and the log of the share of its probability that the word gets."""
    if mix.digest == member.digest:
        return np.arange(len(mix), dtype=np.int32), np.zeros(len(mix))
    ids = member.encode(mix.words)
    ids[mix.eos_id] = member.eos_id
    ids[mix.unk_id] = member.unk_id
    if mix.rules.bos is not None:
        ids[mix.bos_id] = member.bos_id
    unknown = ids == member.unk_id
    shares = np.where(unknown, -np.log(unknown.sum()), 0.0)
    if mix.rules.bos is not None and member.rules.bos is None:
        shares[mix.bos_id] = -np.inf  # what stands for it is the end of a sentence, a word that is there already
    return ids, shares


def mixed(log_probs: NDArray[np.float64], weights: Sequence[float]) -> NDArray[np.float64]:
    """(N, M) of M models → (N,) of their mix; natural logs."""
    return np.asarray(logsumexp(log_probs, axis=1, b=weights), np.float64)


def tune(log_probs: NDArray[np.float64]) -> list[float]:
    """Weights that maximise the likelihood of held-out tokens, log_probs (N, M), by expectation-maximisation.

    Use it on what `Mix.member_log_probs` gives for a text that no member was trained on. Tokens that every model holds
    for impossible say nothing.
    """
    log_probs = log_probs[~np.isneginf(log_probs).all(axis=1)]
    if not len(log_probs):
        raise LightRNNError("there is nothing to tune on: no token of the text is possible for any model; give a text")
    weights = np.full(log_probs.shape[1], 1.0 / log_probs.shape[1])
    scaled = np.exp(log_probs - log_probs.max(axis=1, keepdims=True))  # (N, M): the scale of a token does not matter
    before = -np.inf
    for _ in range(ITERATIONS):
        joint = scaled * weights
        totals = joint.sum(axis=1)
        likelihood = float(np.log(totals).mean())
        if likelihood - before < TOLERANCE:
            break
        before = likelihood
        weights = (joint / totals[:, None]).mean(axis=0)
    return [float(weight) for weight in weights]


def logsumexp(
    values: NDArray[np.float64], axis: int | None = None, keepdims: bool = False, b: Sequence[float] = (1.0,)
) -> Any:
    """log Σ b · exp(values) over an axis, of all without one; the largest is taken out of the sum, so that what is
    small beside it counts."""
    array, weights = np.broadcast_arrays(np.asarray(values, np.float64), np.asarray(b, np.float64))
    array = np.where(weights == 0, -np.inf, array)
    largest = array.max(axis=axis, keepdims=True)
    is_largest = array == largest
    share = np.where(is_largest, weights, 0.0).sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(is_largest, 0.0, weights * np.exp(array - largest)).sum(axis=axis, keepdims=True)
        found = np.log1p(rest / share) + np.log(share) + largest
    found = np.where(np.isneginf(largest), -np.inf, found)
    return found if keepdims else found.squeeze(axis)
