"""Models that KenLM reads, ARPA and its binaries, through the optional `kenlm` package.

Shapes: N tokens, V vocabulary.
"""

import os
import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from .arpa import RULES, UNK, arpa_words
from .model import NEVER, Floats

MAGIC = b"mmap lm http://kheafield.com/code"
HAS_WORDS, UNIGRAMS = 100, 108  # where in the header: whether the words are listed at the end, the count of 1-grams


def is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def binary_vocabulary(path: Path) -> Vocabulary | None:
    """The words of a KenLM binary, which end the file, <unk> first, each with a NUL; None where they were left out."""
    size = path.stat().st_size
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        if size > UNIGRAMS + 8 and not data[HAS_WORDS]:
            return None
        words = _last_words(data, *struct.unpack_from("<Q", data, UNIGRAMS)) if size > UNIGRAMS + 8 else []
    try:
        names = [word.decode() for word in words]
        return Vocabulary(names, np.zeros(len(names), np.int64), RULES)
    except (UnicodeDecodeError, LightRNNError) as error:
        raise LightRNNError(f"{path} is a damaged KenLM binary ({error}); build it again") from None


def _last_words(data: mmap, unigrams: int) -> list[bytes]:
    """The last strings of a file, <unk> among the unigrams or before them."""
    first = f"{UNK}\0".encode()
    start = data.rfind(first)
    while start >= 0:
        *words, rest = data[start:].split(b"\0")
        if len(words) - 1 > unigrams or rest:
            break
        if len(words) >= unigrams:
            return words
        start = data.rfind(first, 0, start)
    return []


class KenLM:
    """A BackoffModel in a file of KenLM's, scored word by word in Python: for small texts and for comparisons.

    The vocabulary is given: KenLM's module does not list its words. Those that the file does not know get the
    probability of its <unk>, each of them the whole. Sentence bounds cut the context, as in NGram.
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
            scores[place], _, state = self.step(state, word)
        return scores, state

    def distribution(self, state: Any) -> Floats:
        return np.array([self.step(state, word)[0] for word in range(len(self.vocabulary))])

    def score_tokens(self, ids: Ids) -> tuple[Floats, NDArray[np.int64]]:
        scores, orders = np.empty(len(ids)), np.empty(len(ids), np.int64)
        state = self.start_state(of_sentence=True)
        for place, word in enumerate(np.asarray(ids).tolist()):
            scores[place], orders[place], state = self.step(state, word)
        return scores, orders

    def step(self, state: Any, word: int) -> tuple[float, int, Any]:
        after = self.new_state()
        found = self.model.BaseFullScore(state, self.names[word], after)
        score = found.log_prob
        if word in (self.vocabulary.eos_id, self.vocabulary.bos_id):
            self.model.BeginSentenceWrite(after)
            score = found.log_prob if word == self.vocabulary.eos_id else NEVER
        return score, found.ngram_length, after


def load_binary(path: Path, vocabulary: Vocabulary | None = None) -> KenLM:
    """A KenLM binary with the words it lists, or with those given where it was built without."""
    listed = binary_vocabulary(path)
    if listed is None and vocabulary is None:
        raise LightRNNError(
            f"{path} was built without its words (build_binary -v); use its ARPA file, or the binary in a mix "
            "after a model that has a vocabulary"
        )
    words = listed or vocabulary
    assert words is not None
    lm = KenLM(path, words)
    if listed is not None and not all(word in lm.model for word in listed.words if word != UNK):
        raise LightRNNError(f"{path} is a damaged KenLM binary: it lists words that it does not know; build it again")
    return lm
