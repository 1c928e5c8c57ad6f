"""A drop-in for KenLM's Python module: `from lightrnn import kenlm` in place of `import kenlm`.

`Model` takes whatever `lightrnn.load` takes: a LightRNN, a packed file, an n-gram file, KenLM's own among them, a mix.
Names, arguments, log base (10) and conventions are KenLM's, docstrings of its methods too; what differs is told here.

- A network depends on all words before, so its `order` is sys.maxsize, and the n-gram length of every word is 1.
- Sentences are cleaned by the rules of the model's text (lower case, say) before they are split.
- <s>, </s> and <unk> name the start and the end of a sentence and the unknown word, whatever the model calls them. <s>
  is never predicted, whatever its file says: log10 P = -99.
- After </s> an n-gram model knows nothing, as KenLM; a network goes on with the text that it has read.
"""

import os
from collections.abc import Iterator
from copy import copy
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import lru_cache, total_ordering
from typing import Any, NamedTuple

import numpy as np

from ..errors import LightRNNError
from ..ngram.arpa import BOS, EOS, UNK
from ..ngram.model import LN10, NEVER
from .loading import load

REMEMBERED = 1 << 16  # words whose ids are at hand


class FullScoreReturn(NamedTuple):
    """What is known of one word: log10 probability, length of the n-gram it comes from, whether it is unknown."""

    log_prob: float
    ngram_length: int
    oov: bool


@total_ordering
class State:
    """What was read so far; made empty, and written by a Model. Comparable, hashable, and copied by copy.copy.

    Two states of one model are equal only if everything goes on alike after them.
    """

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: Any = None  # of the model, None: nothing was written here

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and bool(_key(self._value) == _key(other._value))

    def __lt__(self, other: "State") -> bool:
        return bool(_key(self._value) < _key(other._value))

    def __hash__(self) -> int:
        return hash(_key(self._value))

    def __copy__(self) -> "State":
        other = State()
        other._value = self._value
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "State":
        return copy(self)


def _key(value: Any) -> Any:
    """A model's state as something that can be compared and hashed."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if is_dataclass(value):
        return tuple(_key(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    return -1 if value is None else value


class LoadMethod(IntEnum):
    """Ways of KenLM to read a binary; here there is one, and all are taken."""

    LAZY = 0
    POPULATE_OR_LAZY = 1
    POPULATE_OR_READ = 2
    READ = 3
    PARALLEL_READ = 4


class ARPALoadComplain(IntEnum):
    """When KenLM complains about ARPA files; here it is never done, and all are taken."""

    ALL = 0
    EXPENSIVE = 1
    NONE = 2


class Config:
    """Settings of KenLM's loading: taken, so that programs go on working, and without effect."""

    def __init__(self) -> None:
        self.load_method: int = LoadMethod.POPULATE_OR_READ
        self.show_progress = True
        self.arpa_complain: int = ARPALoadComplain.ALL


class Model:
    """A language model, asked as KenLM's Model is."""

    def __init__(self, path: str | bytes | os.PathLike[str], config: Config | None = None) -> None:
        """Load the model at a path; OSError where that cannot be done, as in KenLM."""
        self.path: bytes = os.path.abspath(os.fsencode(path))  # noqa: PTH100 - bytes, which pathlib has not
        try:
            self._lm = load(os.fsdecode(self.path))
        except LightRNNError as error:
            raise OSError(f"Cannot read model '{os.fsdecode(path)}' ({error})") from error
        rules = self._lm.vocabulary.rules
        self._id = lru_cache(REMEMBERED)(self._find)
        self._names = {EOS: rules.eos, UNK: rules.unk} | ({BOS: rules.bos} if rules.bos else {})

    @property
    def order(self) -> int:
        """Words in the longest n-grams; sys.maxsize where all words before count."""
        return self._lm.order

    def score(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> float:
        """log10 P(sentence </s> | <s>); bos=False: not conditioned on the start; eos=False: without the end.

        Never include <s> in the string. Good: score("this is a sentence ."), score("a fragment", bos=False, eos=False).
        """
        state = self._start(bos)
        return sum(self.BaseScore(state, word, state) for word in self._split(sentence, eos))

    def perplexity(self, sentence: str | bytes) -> float:
        """Of one full sentence, its end included. Do not include <s> or </s>."""
        return float(10.0 ** (-self.score(sentence) / len(self._split(sentence, eos=True))))

    def full_scores(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> Iterator[FullScoreReturn]:
        """(log10 probability, n-gram length, unknown?) of each word, and of </s> if eos."""
        state = self._start(bos)
        for word in self._split(sentence, eos):
            yield self.BaseFullScore(state, word, state)

    def _start(self, bos: bool) -> State:
        """A state of its own, after the start of a sentence or after nothing."""
        state = State()
        (self.BeginSentenceWrite if bos else self.NullContextWrite)(state)
        return state

    def _split(self, sentence: str | bytes, eos: bool) -> list[str]:
        """The words of a sentence, and its end if eos."""
        return [*self._lm.vocabulary.rules.split(_text(sentence)), *([EOS] if eos else [])]

    def BeginSentenceWrite(self, state: State) -> None:
        """Change the given state to one after the start of a sentence."""
        state._value = self._lm.begin_state()

    def NullContextWrite(self, state: State) -> None:
        """Change the given state to one after nothing."""
        state._value = self._lm.empty_state()

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:
        """log10 P(word | in_state); out_state becomes the state after it, and may be in_state itself."""
        if self._is_start(word):
            self.BeginSentenceWrite(out_state)
            return NEVER
        number = self._id(word)
        log_prob, out_state._value = self._lm.read_word(self._before(in_state), number)
        if self._lm.has_orders and number == self._lm.vocabulary.eos_id:
            self.NullContextWrite(out_state)
        return log_prob / LN10

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScoreReturn:
        """As BaseScore, with the length of the n-gram it comes from and whether the word is unknown."""
        length = 1 if self._is_start(word) else self._lm.order_after(self._before(in_state), self._id(word))
        return FullScoreReturn(self.BaseScore(in_state, word, out_state), length, word not in self)

    def _before(self, state: State) -> Any:
        """What a state holds; one that was never written is that after nothing."""
        return self._lm.empty_state() if state._value is None else state._value

    def _find(self, word: str) -> int:
        """The id of a word, of the unknown one where it is unknown."""
        vocabulary = self._lm.vocabulary
        found = vocabulary.find(vocabulary.rules.word(self._names.get(word, word)))
        return vocabulary.unk_id if found < 0 else found

    def _is_start(self, word: str) -> bool:
        """Whether a word is <s>; where a model has no word for it, KenLM's name is as good."""
        bos = self._lm.vocabulary.rules.bos
        return self._names.get(word, word) == bos or (bos is None and word == BOS)

    def __contains__(self, word: str | bytes) -> bool:
        """Whether the model knows a word; the unknown word itself it does not know."""
        name = _text(word)
        return self._is_start(name) or self._id(name) != self._lm.vocabulary.unk_id

    def __repr__(self) -> str:
        return f"<Model from {os.path.basename(os.fsdecode(self.path))}>"  # noqa: PTH119 - as above

    def __reduce__(self) -> tuple[type["Model"], tuple[bytes]]:
        return Model, (self.path,)


class LanguageModel(Model):
    """The name of old; use Model."""


def _text(data: str | bytes) -> str:
    """Text, or the bytes of it in UTF-8."""
    if isinstance(data, bytes):
        return data.decode(errors="surrogateescape")
    if isinstance(data, str):
        return data
    raise TypeError(f"Cannot convert {type(data)} to string")
