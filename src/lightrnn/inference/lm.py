"""Use a model: probabilities of sentences and words, next words, text. Shaped like KenLM's Python module.

Shapes: V vocabulary, N tokens of a text, K parts of a log-probability.

What a person sees is in log10, as in KenLM and SRILM; natural logs are inside. A sentence is a string, split and
cleaned by the rules that the model was trained with. States are values: keep one, go on from it twice, go back to it.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_number, check_several, check_whole
from ..errors import LightRNNError
from ..models.likeliest import Likeliest, best_of, draw_from
from ..ngram.model import LN10
from ..packed.weights import Precision
from ..runtime import BATCH_SIZE, MOST_TRACKS, Progress, silent
from ..text.rules import Convention
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from .evaluation import Evaluation, measure
from .features import Reading
from .generate import sample

if TYPE_CHECKING:
    from .network import NetworkLM


class LM(ABC):
    """A language model with its vocabulary: what people ask of it, in terms of a few questions that a kind answers."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.vocabulary):,} words>"

    @abstractmethod
    def begin_state(self) -> Any:
        """At the start of a sentence, nothing before it."""

    @property
    def convention(self) -> Convention:
        """How it reads a text unless it is told."""
        return self.vocabulary.rules.convention

    def stream_state(self) -> Any:
        """At the start of a text that is read as one stream, as training reads it."""
        return self.begin_state()

    @abstractmethod
    def empty_state(self) -> Any:
        """Nothing known, not even that a sentence starts here: the next word has its `unigram` probability."""

    @abstractmethod
    def read_word(self, state: Any, word: int) -> tuple[float, Any]:
        """The natural-log probability of a word, by id, and the state after it."""

    def go_on(self, state: Any, word: int) -> Any:
        """The state after a word of a text; where each sentence stands by itself, one that ends is forgotten."""
        if word == self.vocabulary.eos_id and self.vocabulary.rules.convention == "sentence":
            return self.begin_state()
        return self.read_word(state, word)[1]

    def read_words(self, state: Any, ids: Ids) -> tuple[NDArray[np.float64], Any]:
        """(N,): the natural-log probabilities of words in a row from a state on, and the state after them."""
        log_probs = np.zeros(len(ids))
        for place, word in enumerate(ids.tolist()):
            log_probs[place], state = self.read_word(state, word)
        return log_probs, state

    def read_each(self, states: Sequence[Any], ids: Ids) -> tuple[NDArray[np.float64], list[Any]]:
        """(B,): the natural-log probability of a word after each of B states, and the states after them."""
        read = [self.read_word(state, word) for state, word in zip(states, ids.tolist(), strict=True)]
        return np.array([log_prob for log_prob, _ in read], np.float64), [after for _, after in read]

    def continuations(self, state: Any) -> Callable[[int], tuple[float, Any]]:
        """`read_word` after one state as a function of the word: for many words, whose common part is computed once."""
        return lambda word: self.read_word(state, word)

    def read_sentences(self, state: Any, sentences: Sequence[Ids]) -> tuple[list[NDArray[np.float64]], list[Any]]:
        """The natural-log probabilities of the words of each sentence, (n,), from one state on, and the state after it.

        All are read side by side, and what begins alike is read once: hypotheses of one utterance, say.
        """
        log_probs = [np.zeros(len(ids)) for ids in sentences]
        states = [state] * len(sentences)
        for place in range(max(map(len, sentences), default=0)):
            reading = [i for i, ids in enumerate(sentences) if place < len(ids)]
            pairs = [(id(states[i]), int(sentences[i][place])) for i in reading]
            firsts = dict(zip(reversed(pairs), reversed(reading), strict=True))  # of each pair, a sentence that has it
            before, words = [states[i] for i in firsts.values()], np.array([word for _, word in firsts], np.int32)
            read = dict(zip(firsts, zip(*self.read_each(before, words), strict=True), strict=True))
            for i, pair in zip(reading, pairs, strict=True):
                log_probs[i][place], states[i] = read[pair]
        return log_probs, states

    @abstractmethod
    def next_log_probs(self, state: Any) -> NDArray[np.float64]:
        """(V,): the natural-log probability of every word as the next one."""

    @abstractmethod
    def token_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[Any]:
        """(N, K): natural logs of all tokens of a text with eos after each line, in parts to be summed.

        The convention is the model's own unless one is named.
        """

    @property
    @abstractmethod
    def unigram(self) -> NDArray[np.float64]:
        """(V,): natural-log probabilities without any context."""

    def likeliest(self, state: Any, count: int, allowed: NDArray[np.bool_] | None = None) -> Likeliest:
        """The `count` likeliest next words, exactly; of those in allowed[V], if given."""
        return best_of(self.next_log_probs(state), count, allowed)

    def draw(self, state: Any, temperature: float, random: np.random.Generator) -> int:
        """A random next word."""
        return draw_from(self.next_log_probs(state), temperature, random)

    def orders(self, ids: Ids) -> NDArray[np.int64]:
        """(N,): the length of the n-gram that each token's probability comes from; 1 where there is none."""
        return np.ones(len(ids), np.int64)

    def order_after(self, state: Any, word: int) -> int:
        """The length of the n-gram that a word's probability comes from after a state; 1 where there is none."""
        return 1

    @property
    def order(self) -> int:
        """How many words a probability depends on at most, the word itself among them; sys.maxsize: all before it."""
        return sys.maxsize

    @property
    def part_names(self) -> tuple[str, ...]:
        """What the parts of `token_log_probs` are called."""
        return ("word",)

    @property
    def has_orders(self) -> bool:
        """Whether probabilities come from n-grams, so that `orders` says something."""
        return False

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(V, d): a vector for every word."""
        raise LightRNNError("this kind of model has no word vectors; use one made by lightrnn train")

    @property
    def networks(self) -> "list[NetworkLM]":
        """Those in it, which can learn from what they read."""
        return []

    def adapt(self, text: str | Ids, *, rate: float | None = None, decay: float | None = None) -> Evaluation:
        """Learn from a text, lines of sentences or ids, read as one stream: see adapting.py. Needs PyTorch.

        Returns what it was worth, each word scored before it was learned from. States from before go on to be of use.
        `reset` undoes it. rate: how far a step goes, 0.001 unless given, and less above 256 units; decay: how far back
        to what was trained, 0.003 unless given; both from 0 to 1. Of a mix, the networks learn, each by itself.
        """
        if not self.networks:
            raise LightRNNError("this model cannot learn from what it reads; use one of lightrnn train, or a mix of it")
        for name, value in (("rate", rate), ("decay", decay)):
            if value is not None:
                check_number(name, value, most=1)
        ids = self.read_text(text)

        def log_probs() -> NDArray[Any]:
            return self.read_adapting(ids, rate, decay, features=False).log_probs

        return measure(log_probs, ids, self.vocabulary, "stream")

    def reset(self) -> None:
        """Forget what `adapt` learned: the weights are again, bit for bit, what they were."""
        for network in self.networks:
            network.reset()

    def read(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> Reading:
        """What it gives the tokens of a text, and what it scores them by; of no width, where it is no network."""
        log_probs = self.token_log_probs(ids, convention, batch_size=batch_size, progress=progress)
        return Reading(log_probs, np.empty((len(ids), 0), np.float32))

    def read_adapting(
        self,
        ids: Ids,
        rate: float | None = None,
        decay: float | None = None,
        progress: Progress = silent,
        *,
        features: bool = True,
    ) -> Reading:
        """The same as one stream, learning on the way; what cannot learn only reads. Without `features` a network's
        reading, too, is of no width."""
        return self.read(ids, "stream", progress=progress)

    def add_words(
        self,
        words: Iterable[str] = (),
        *,
        text: str = "",
        counts: Sequence[int] | None = None,
        min_count: int = 1,
        progress: Progress = silent,
    ) -> list[str]:
        """Make words that it never saw words of its vocabulary: see NetworkLM.add_words."""
        raise LightRNNError("only a LightRNN takes in words, before it is mixed with others; give it them, and save it")

    def save(self, path: str | Path, *, precision: Precision | None = None, force: bool = False) -> None:
        """Write it as it is now: see NetworkLM.save."""
        raise LightRNNError("only a network can be saved; save that, and make a mix with it by lightrnn mix")

    def __contains__(self, word: str) -> bool:
        return isinstance(word, str) and word in self.vocabulary

    def score(self, sentence: str, bos: bool = True, eos: bool = True) -> float:
        """log10 P(sentence), as kenlm.Model.score.

        bos: the words follow the start of a sentence; False for a fragment, whose first word then has no context.
        eos: the end of the sentence counts too. Good: score("It was late ."). Bad: score("<s> It was late . </s>"),
        in which the markers are words of the text.
        """
        return sum(log10 for log10, _, _ in self.full_scores(sentence, bos, eos))

    def full_scores(self, sentence: str, bos: bool = True, eos: bool = True) -> Iterator[tuple[float, int, bool]]:
        """(log10, order, unknown?) of each word, and of the end if eos; order is the n-gram's length, 1 without any."""
        ids = self._ids(sentence, eos)
        unknown = ids == self.vocabulary.unk_id
        if len(ids) == 0:
            return
        if bos:
            values = self.token_log_probs(ids, "sentence").sum(axis=1, dtype=np.float64)
        else:
            values, _ = self.read_words(self.empty_state(), ids)
        orders = np.minimum(self.orders(ids), np.arange(1, len(ids) + 1) + bos)  # a fragment's n-grams lack the start
        for log_prob, order, is_unknown in zip(values, orders, unknown, strict=True):
            yield float(log_prob) / LN10, int(order), bool(is_unknown)

    def perplexity(self, sentence: str) -> float:
        """Of one sentence, its end included: 10^(-score / (words + 1))."""
        return exp(min(-self.score(sentence) * LN10 / len(self._ids(sentence, eos=True)), 700.0))

    def scores(
        self, sentences: Sequence[str], *, state: Any = None, batch_size: int = BATCH_SIZE
    ) -> NDArray[np.float64]:
        """log10 P of many sentences, ends included, side by side: each by itself, or each from a state on."""
        check_several("sentences", sentences)
        check_whole("batch_size", batch_size, most=MOST_TRACKS)
        encoded = [self._ids(sentence, eos=True) for sentence in sentences]
        if not encoded:
            return np.zeros(0)
        if state is not None:
            log_probs, _ = self.read_sentences(self.state(state), encoded)
            return np.array([values.sum() for values in log_probs]) / LN10
        values = self.token_log_probs(np.concatenate(encoded), "sentence", batch_size=batch_size)
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in encoded])[:-1]])
        return np.add.reduceat(values.sum(axis=1, dtype=np.float64), starts) / LN10

    def score_word(self, state: Any, word: str) -> tuple[float, Any]:
        """log10 P of one word after a state or a context in one string, and the state after it; eos ends a sentence."""
        id_of_word = int(self.vocabulary.encode([self._one_word(word)])[0])
        log_prob, after = self.read_word(self.state(state), id_of_word)
        return log_prob / LN10, after

    def advance(self, states: Sequence[Any], words: Sequence[str]) -> tuple[NDArray[np.float64], list[Any]]:
        """(B,): log10 P of a word after each of B states, the hypotheses of a decoder, and the states after them.

        The same as B times `score_word`, side by side: networks take one step for all of them.
        """
        check_several("words", words)
        if not isinstance(states, list | tuple) or self.is_state(states):
            raise LightRNNError(f"states must be a list, got {type(states).__name__}; put one state into a list")
        states, words = list(map(self.state, states)), list(words)
        if len(states) != len(words):
            raise LightRNNError(f"each state needs a word, got {len(states)} states and {len(words)} words")
        log_probs, after = self.read_each(states, self.vocabulary.encode(map(self._one_word, words)))
        return log_probs / LN10, after

    def _one_word(self, word: str) -> str:
        """A word that a program gave, folded as the rules say; refuses what no text holds as one, such as "it\\n"."""
        found = self.vocabulary.rules.word(word)
        if found.encode().split() != [found.encode()]:
            raise LightRNNError(f"a word is not empty and holds no white space, got {word[:60]!r}; give single words")
        return found

    def state(self, context: str | Any = "", after: Any = None) -> Any:
        """The state after some words of a sentence, which begins here or goes on after a state; a state is given back
        as it is."""
        if not isinstance(context, str):
            return self.checked(context)
        state = self.begin_state() if after is None else self.state(after)
        for word in self._ids(context, eos=False).tolist():
            _, state = self.read_word(state, word)
        return state

    def next_words(
        self, context: str | Any, k: int = 10, prefix: str = "", *, unk: bool = False
    ) -> list[tuple[str, float]]:
        """The k likeliest words after a context (words or a state), those that begin with `prefix`, and their
        probabilities; exact.

        The unknown word, which nobody can read, is left out unless asked for; its probability stays its own, so that
        those of the others are what they are.
        """
        check_whole("k", k, least=0)
        if not k:
            return []
        allowed = self.vocabulary.begin_with(self.vocabulary.rules.clean(prefix)) if prefix else None
        found = self.likeliest(self.state(context), k + (not unk), allowed)
        words, never = self.vocabulary.words, None if unk else self.vocabulary.unk_id
        pairs = zip(found.words.tolist(), found.log_probs.tolist(), strict=True)
        return [(words[w], exp(p)) for w, p in pairs if w != never][:k]

    def distribution(self, context: str | Any) -> NDArray[np.float64]:
        """(V,): the probability of every word of the vocabulary, by id, after a context."""
        return np.exp(self.next_log_probs(self.state(context)))

    def generate(
        self,
        prompt: str | Any = "",
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        unk: bool = False,
    ) -> Iterator[str]:
        """Words without end after a prompt (words or a state), ends of sentences among them: see generate.sample.

        The unknown word, which nobody can read, is left out unless asked for.
        """
        check_number("temperature", temperature)
        check_whole("top_k", top_k, least=0)
        check_number("top_p", top_p, most=1)
        if not top_p:
            raise LightRNNError(f"top_p must be a number above 0 and at most 1, got {top_p!r}")
        if seed is not None:
            check_whole("seed", seed, least=0)
        state, random = self.state(prompt), np.random.default_rng(seed)
        never = None if unk else self.vocabulary.unk_id
        drawn = sample(self, state, temperature=temperature, top_k=top_k, top_p=top_p, random=random, never=never)
        return (self.vocabulary.words[word] for word in drawn)

    def evaluate(
        self,
        text: str | Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> Evaluation:
        """Perplexity of a text, lines of sentences or ids, in the model's own convention unless another is named."""
        check_whole("batch_size", batch_size, most=MOST_TRACKS)
        ids = self.read_text(text)
        self.make_ready()
        return measure(
            lambda: self.token_log_probs(ids, convention, batch_size=batch_size, progress=progress),
            ids,
            self.vocabulary,
            convention or self.convention,
        )

    def make_ready(self) -> None:
        """Make now what the first question would make, so that it is not in what a text takes."""
        return

    def similar(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors point most nearly the same way from the mean, with the cosine of the angle; the
        unknown word left out."""
        check_whole("k", k, least=0)
        known = self.vocabulary.rules.word(word)
        if known not in self.vocabulary:
            raise LightRNNError(f"{word!r} is not in the vocabulary; ask for a word that is")
        index = self.vocabulary.find(known)
        cosines = self._directions @ self._directions[index]
        nearest = np.argsort(-cosines, kind="stable")
        others = nearest[(nearest != index) & (nearest != self.vocabulary.unk_id)][:k]
        return [(self.vocabulary.words[w], float(cosines[w])) for w in others]

    @cached_property
    def _directions(self) -> NDArray[np.float32]:
        """The vectors about their mean, frequent words counting more, at length 1."""
        centred = self.vectors - np.average(self.vectors, axis=0, weights=np.sqrt(self.vocabulary.counts + 1))
        return np.asarray(centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12), np.float32)

    def read_text(self, text: str | Ids) -> Ids:
        """Lines of sentences as ids, eos after each; ids are given back as they are."""
        if isinstance(text, str):
            return self.vocabulary.encode(self.vocabulary.rules.read(text))
        if not isinstance(text, np.ndarray):
            raise LightRNNError(f"text must be a string or an array of ids, got {type(text).__name__}; join its lines")
        size, is_ids = len(self.vocabulary), text.ndim == 1 and np.issubdtype(text.dtype, np.integer)
        if not is_ids or (len(text) and not 0 <= text.min() <= text.max() < size):
            raise LightRNNError(f"ids must be an array of whole numbers from 0 to {size - 1:,}; give words as a string")
        return text

    def is_state(self, state: Any) -> bool:
        """Whether it can be a state of this model."""
        return type(state) is type(self.begin_state())

    def checked(self, state: Any) -> Any:
        """A state that a program gave; refuses what is none of this model's."""
        if not self.is_state(state):
            raise LightRNNError(
                "a state of this model, as its state(words) gives it, or a context in one string is needed, got "
                f"{type(state).__name__}"
            )
        return state

    def _ids(self, sentence: str, eos: bool) -> NDArray[np.int32]:
        if not isinstance(sentence, str):
            raise LightRNNError(f"a sentence must be a string, got {type(sentence).__name__}; join its words by spaces")
        words = self.vocabulary.encode(self.vocabulary.rules.split(sentence))
        return np.append(words, np.int32(self.vocabulary.eos_id)) if eos else words
