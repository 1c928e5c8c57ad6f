"""Models that KenLM reads, ARPA and its binaries, through the optional `kenlm` package.

Shapes: B batch, T words, V vocabulary.
"""

import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import LightRNNError
from ..models.lightrnn import State
from ..text.vocabulary import Vocabulary
from .arpa import RULES, UNK, arpa_words
from .model import LN10, NEVER, extend_history, no_words

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
    """A LanguageModel in a file of KenLM's, scored word by word in Python: for small texts and for comparisons.

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
            self.model = kenlm.Model(str(path), config)
        except OSError as error:
            raise LightRNNError(f"KenLM cannot read {path}: {error}; give an ARPA or a KenLM binary file") from None
        self.new_state = kenlm.State
        self.vocabulary = vocabulary
        self.names = arpa_words(vocabulary)

    @property
    def order(self) -> int:
        return int(self.model.order)

    @property
    def unigram(self) -> NDArray[np.float64]:
        """(V,): natural-log probabilities without any context."""
        return LN10 * np.array([self._step(self._read([]), word)[0] for word in range(len(self.vocabulary))])

    def initial_state(self, batch_size: int) -> State:
        return no_words(self.order, batch_size)

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """See LanguageModel; one part."""
        history, after = extend_history(self.order, words, state)
        scored = words.shape[1] - 1
        scores = []
        for row in history.tolist():
            context = self._read(row[: len(row) - scored])
            for word in row[len(row) - scored :]:
                score, context = self._step(context, word)
                scores.append(score)
        return torch.tensor(scores, dtype=torch.float64, device=words.device).view(len(words), scored, 1) * LN10, after

    def next_log_probs(self, last_word: int, state: State) -> Tensor:
        """(V,): the natural-log probability of every word after last_word; `state` is that before it."""
        context = self._read([*state[0][:, 0, 0].tolist(), last_word])
        scores = [self._step(context, word)[0] for word in range(len(self.vocabulary))]
        return torch.tensor(scores, dtype=torch.float64) * LN10

    def _read(self, words: list[int]) -> Any:
        """KenLM's state after some words, -1 being none."""
        context = self.new_state()
        self.model.NullContextWrite(context)
        for word in words:
            if word >= 0:
                _, context = self._step(context, word)
        return context

    def _step(self, context: Any, word: int) -> tuple[float, Any]:
        """The log10 probability of a word, and KenLM's state after it."""
        after = self.new_state()
        score = self.model.BaseScore(context, self.names[word], after)
        if word == self.vocabulary.eos_id:
            self.model.BeginSentenceWrite(after)
        elif word == self.vocabulary.bos_id:
            self.model.BeginSentenceWrite(after)
            score = NEVER
        return score, after


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
