"""Models for the decoders of speech recognisers: `from lightrnn import decoders`.

`FlashlightLM` is a language model as flashlight-text wants it (package `flashlight-text`, extra `flashlight`),
`PyctcdecodeLM` one as pyctcdecode does, of which nothing is imported. Both take whatever `lightrnn.load` gives.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_several
from ..errors import LightRNNError
from ..ngram.model import LN10
from .lm import LM

try:
    from flashlight.lib.text.decoder import LM as FlashlightBase
    from flashlight.lib.text.decoder import LMState
except ImportError:
    FlashlightBase, LMState = object, None

USUAL_LENGTH = 6  # characters of a word, beyond which pyctcdecode punishes unknown ones in proportion


class Dictionary(Protocol):
    """What is asked of flashlight-text's Dictionary."""

    def index_size(self) -> int: ...
    def get_entry(self, index: int, /) -> str: ...


class _Reached:
    """What a hypothesis has come to: log10 P of its last word, and the model's state after it, which is made when the
    hypothesis is first gone on from, as few ever are."""

    def __init__(self, lm: LM, log10: float, make_state: Callable[[], Any]) -> None:
        self.lm, self.log10, self._make_state = lm, log10, make_state

    @cached_property
    def state(self) -> Any:
        return self._make_state()

    @cached_property
    def _continuations(self) -> Callable[[int], tuple[float, Any]]:
        return self.lm.continuations(self.state)

    def after(self, word: int) -> "_Reached":
        """The same with one more word."""
        log_prob, state = self._continuations(word)
        return _Reached(self.lm, log_prob / LN10, lambda: state)


class _Start(_Reached):
    """The start of an utterance. While a decoder builds its trie it asks for every word of the lexicon here: one
    distribution has them all."""

    @cached_property
    def _log10s(self) -> NDArray[np.float64]:
        return self.lm.next_log_probs(self.state) / LN10  # (V,)

    def after(self, word: int) -> _Reached:
        return _Reached(self.lm, float(self._log10s[word]), lambda: self.lm.read_word(self.state, word)[1])


class FlashlightLM(FlashlightBase):  # type: ignore[misc]
    """A model for the decoders of flashlight-text; scores are log10, as those of its KenLM, so that weights carry over.

    words: the decoder's words by index, a list or its Dictionary; those that the model does not know are the unknown
    word to it. An object serves one decoder at a time: what was scored since the last `start` is kept, so that nothing
    is computed twice, and let go by the next. So a model may learn between utterances (`lm.adapt`, `lm.reset`); after
    `lm.add_words` an object is to be made anew.
    """

    def __init__(self, lm: LM, words: "Sequence[str] | Dictionary") -> None:
        if LMState is None:
            raise LightRNNError("flashlight-text is not installed; install it with: pip install 'lightrnn[flashlight]'")
        super().__init__()
        _check_model(lm)
        if isinstance(words, str):
            check_several("words", words)
        if not isinstance(words, Sequence):
            words = [words.get_entry(index) for index in range(words.index_size())]
        self.lm = lm
        self._ids: list[int] = lm.vocabulary.encode(map(lm.vocabulary.rules.clean, words)).tolist()
        self._begin: Callable[[], Any] = lm.begin_state
        self._reached: dict[Any, _Reached] = {}

    def follow(self, context: str | Any) -> None:
        """Let utterances start after a context (words or a state) from now on, in place of a sentence's start: what was
        said before, say, its sentence ends included."""
        self._begin = lambda: self.lm.state(context)

    def start(self, start_with_nothing: bool) -> Any:
        """The decoder's state before any word: at the start of an utterance, or without any context."""
        root = LMState()
        self._reached = {root: _Start(self.lm, 0.0, self.lm.empty_state if start_with_nothing else self._begin)}
        return root

    def score(self, state: Any, token_index: int) -> tuple[Any, float]:
        """The decoder's state after a word, by its index there, and log10 P of the word."""
        return self._child(state, token_index, self._ids[token_index])

    def finish(self, state: Any) -> tuple[Any, float]:
        """The same for the end of the sentence."""
        return self._child(state, -1, self.lm.vocabulary.eos_id)

    def _child(self, state: Any, index: int, word: int) -> tuple[Any, float]:
        child = state.child(index)
        reached = self._reached.get(child)
        if reached is None:
            if state not in self._reached:
                raise LightRNNError("this state is of an utterance that has ended; go on from one of the last start()")
            reached = self._reached[child] = self._reached[state].after(word)
        return child, reached.log10


def _check_model(lm: object) -> None:
    if not isinstance(lm, LM):
        raise LightRNNError(f"a decoder needs a model that lightrnn.load gives, got {type(lm).__name__}")


class PyctcdecodeLM:
    """A model for pyctcdecode's `BeamSearchDecoderCTC(alphabet, language_model)`, in the shape of its LanguageModel.

    A word adds alpha · ln P(word) + beta to a hypothesis; one that the model does not know, or the beginning of one,
    unk_score_offset besides. score_boundary: utterances are sentences, whose start is known and whose end is scored.
    All four may be set at any time, as attributes or by `reset_params`, which the decoder calls.
    """

    def __init__(
        self,
        lm: LM,
        alpha: float = 0.5,
        beta: float = 1.5,
        unk_score_offset: float = -10.0,
        score_boundary: bool = True,
    ) -> None:
        _check_model(lm)
        self.lm = lm
        self.alpha = alpha
        self.beta = beta
        self.unk_score_offset = unk_score_offset
        self.score_boundary = score_boundary

    @property
    def order(self) -> int:
        """How many words a score depends on at most, by which a decoder may take hypotheses together."""
        return self.lm.order

    def reset_params(self, **params: Any) -> None:
        """Set some of alpha, beta, unk_score_offset and score_boundary anew."""
        unknown = params.keys() - {"alpha", "beta", "unk_score_offset", "score_boundary"}
        if unknown:
            raise LightRNNError(f"alpha, beta, unk_score_offset and score_boundary can be set, got {min(unknown)!r}")
        for name, value in params.items():
            setattr(self, name, value)

    def get_start_state(self) -> Any:
        return self.lm.begin_state() if self.score_boundary else self.lm.empty_state()

    def score_partial_token(self, partial_token: str) -> float:
        """What the beginning of a word adds: nothing if some known word begins so."""
        rules = self.lm.vocabulary.rules
        if self.lm.vocabulary.begin_with(rules.clean(partial_token)).any():
            return 0.0
        return self.unk_score_offset * max(1.0, len(partial_token) / USUAL_LENGTH)

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        """What a word adds, and the model's state after it; of the last word the end of the sentence too."""
        rules = self.lm.vocabulary.rules
        known = rules.word(word) in self.lm  # of an utterance without a word the decoder asks for an empty one
        log10, state = self.lm.score_word(prev_state, word if known else rules.unk)
        if not known:
            log10 += self.unk_score_offset
        if is_last_word and self.score_boundary:
            log10 += self.lm.score_word(state, self.lm.vocabulary.rules.eos)[0]
        return self.alpha * log10 * LN10 + self.beta, state
