"""Models that KenLM reads, ARPA and its binaries, through the optional `kenlm` package.

Shapes: N tokens, V vocabulary.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..text.vocabulary import Vocabulary
from ..text.windows import Ids
from .arpa import arpa_words
from .model import NEVER, Floats


class KenLM:
    """A BackoffModel in a file of KenLM's, scored word by word in Python: for small texts and for comparisons.

    KenLM does not list its words, so the vocabulary is given; words that the file does not know get the probability of
    its <unk>, each of them the whole. Sentence bounds cut the context, as in NGram.
    """

    def __init__(self, path: Path, vocabulary: Vocabulary) -> None:
        try:
            import kenlm
        except ImportError:
            raise LightRNNError(
                f'the kenlm package, which reads {path}, is not installed; install it: pip install "lightrnn[kenlm]"'
            ) from None
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        try:
            self.model = kenlm.Model(os.fsencode(path), config)
        except OSError as error:
            raise LightRNNError(f"KenLM cannot read {path}: {error}; give an ARPA or a KenLM binary file") from None
        self.new_state = kenlm.State
        self.vocabulary = vocabulary
        self.names = arpa_words(vocabulary)

    @property
    def order(self) -> int:
        return int(self.model.order)

    def start_state(self, of_sentence: bool) -> Any:
        state = self.new_state()
        (self.model.BeginSentenceWrite if of_sentence else self.model.NullContextWrite)(state)
        return state

    def read(self, state: Any, ids: Ids) -> tuple[Floats, Any]:
        scores = np.empty(len(ids))
        for place, word in enumerate(np.asarray(ids).tolist()):
            scores[place], _, state = self._step(state, word)
        return scores, state

    def distribution(self, state: Any) -> Floats:
        return np.array([self._step(state, word)[0] for word in range(len(self.vocabulary))])

    def score_tokens(self, ids: Ids) -> tuple[Floats, NDArray[np.int64]]:
        scores, orders = np.empty(len(ids)), np.empty(len(ids), np.int64)
        state = self.start_state(of_sentence=True)
        for place, word in enumerate(np.asarray(ids).tolist()):
            scores[place], orders[place], state = self._step(state, word)
        return scores, orders

    def _step(self, state: Any, word: int) -> tuple[float, int, Any]:
        """The log10 probability of a word, the order of the n-gram it was found in, and KenLM's state after it."""
        after = self.new_state()
        found = self.model.BaseFullScore(state, self.names[word], after)
        score = found.log_prob
        if word in (self.vocabulary.eos_id, self.vocabulary.bos_id):
            self.model.BeginSentenceWrite(after)
            score = found.log_prob if word == self.vocabulary.eos_id else NEVER
        return score, found.ngram_length, after
