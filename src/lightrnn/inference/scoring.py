"""Score text line by line, and write it as KenLM's `query`, SRILM's `ngram -ppl -debug 2` or Kaldi would, or as a table
or JSON.

Shapes: n tokens of a line, its words and the end of the sentence.

Natural logs inside; every format says its base. Lines come and go in blocks that are bounded in lines and words, so
memory does not grow with the text. A line's words are shown as the rules of the vocabulary leave them. A literal
</s> inside a line ends a sentence there, a literal <unk> is an unknown word.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log, nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..ngram.model import LN10
from ..runtime import BATCH_SIZE
from ..text.rules import Convention, check_convention
from ..text.spelling import Ids
from .lm import LM

BLOCK_LINES, BLOCK_WORDS = 4096, 1 << 16  # of a block; a longer line is a block of its own
LOG_BASES = {"10": LN10, "e": 1.0, "2": log(2.0)}  # in nats

FormatName = Literal["kenlm", "srilm", "kaldi", "tsv", "jsonl"]


@dataclass(frozen=True)
class UnknownWords:
    """What an unknown word adds to the sums: the model's log-probability of the unknown word and a penalty in nats, or,
    with `skip`, nothing."""

    skip: bool = False
    penalty: float = 0.0

    @classmethod
    def parse(cls, text: str, unit: float) -> "UnknownWords":
        """From score, skip or penalty=X, X in units of so many nats."""
        kind, _, value = text.partition("=")
        if text in {"score", "skip"}:
            return cls(skip=text == "skip")
        try:
            penalty = float(value) if kind == "penalty" else nan
        except ValueError:
            penalty = nan
        if not isfinite(penalty):
            raise LightRNNError(f"--unk must be score, skip or penalty=X with a number X, got {text!r}")
        return cls(penalty=penalty * unit)

    def apply(self, log_probs: NDArray[np.float64], unknown: NDArray[np.bool_]) -> NDArray[np.float64]:
        """What each token adds to the sums, in nats: log_probs (n,) with those of unknown words changed."""
        return np.where(unknown, 0.0 if self.skip else log_probs + self.penalty, log_probs)


@dataclass(frozen=True)
class ScoredLine:
    """A line: its words, and for these and the end of the sentence, (n,) each: ids, log-probabilities in nats, lengths
    of the matched n-grams, which are unknown words and which count in the sums; name: of a line of Kaldi's."""

    words: list[str]
    ids: Ids
    log_probs: NDArray[np.float64]
    orders: NDArray[np.int64]
    unknown: NDArray[np.bool_]
    counted: NDArray[np.bool_]
    name: str = ""

    @property
    def total(self) -> float:
        """Nats of what counts."""
        return float(self.log_probs[self.counted].sum())

    @property
    def unknown_words(self) -> int:
        return int(self.unknown.sum())


def perplexity(log_prob: float, tokens: int) -> float:
    """exp(-nats / tokens), nan without any."""
    if tokens == 0:
        return nan
    nats = -log_prob / tokens
    return exp(nats) if nats < 700 else inf


def score_lines(
    lm: LM,
    blocks: Iterable[Sequence[str]],
    convention: Convention = "sentence",
    *,
    unknown_words: UnknownWords | None = None,
    batch_size: int = BATCH_SIZE,
) -> Iterator[list[ScoredLine]]:
    """Score lines as they come, in order. Every block given is scored before the next one is asked for.

    sentence: each line by itself, batch_size of them side by side. stream: one pass over all lines, the state carried;
    the sum of all lines is that of LM.evaluate.
    """
    check_convention(convention)
    rule = unknown_words or UnknownWords()
    vocabulary = lm.vocabulary
    state = lm.stream_state()
    for lines in _bounded(blocks, lm):
        encoded = [np.append(vocabulary.encode(words), np.int32(vocabulary.eos_id)) for words in lines]
        ids = np.concatenate(encoded)
        if convention == "stream":
            log_probs, state = lm.read_words(state, ids)
        else:
            log_probs = lm.token_log_probs(ids, "sentence", batch_size=batch_size).sum(axis=1, dtype=np.float64)
        yield scored_lines(lm, lines, encoded, log_probs, rule)


def scored_lines(
    lm: LM, lines: list[list[str]], encoded: list[Ids], log_probs: NDArray[np.float64], rule: UnknownWords
) -> list[ScoredLine]:
    """Lines with the log-probabilities of all their tokens, (N,)."""
    ids = np.concatenate(encoded)
    unknown = ids == lm.vocabulary.unk_id
    penalised = np.where(unknown, log_probs + rule.penalty, log_probs)
    columns = (ids, penalised, lm.orders(ids), unknown, ~(unknown & rule.skip))
    ends = np.cumsum([len(line) for line in encoded])[:-1]
    return [
        ScoredLine(words, *parts)
        for words, *parts in zip(lines, *(np.split(column, ends) for column in columns), strict=True)
    ]


def _bounded(blocks: Iterable[Sequence[str]], lm: LM) -> Iterator[list[list[str]]]:
    """The words of lines, never more in one list than BLOCK_LINES lines and BLOCK_WORDS words, or one longer line."""
    for block in blocks:
        lines: list[list[str]] = []
        size = 0
        for line in block:
            words = lm.vocabulary.rules.split(line)
            if lines and (len(lines) == BLOCK_LINES or size + len(words) > BLOCK_WORDS):
                yield lines
                lines, size = [], 0
            lines.append(words)
            size += len(words)
        if lines:
            yield lines


class Format(ABC):
    """Scored lines as text. Sums over all lines are kept for the summary at the end."""

    def __init__(self, unit: float = LN10) -> None:
        self.unit = unit

    @abstractmethod
    def line(self, scored: ScoredLine) -> str:
        """What is written for a line, newline included."""

    def summary(self, name: str) -> str:
        """What is written at the end of the text called `name`."""
        return ""


class TSV(Format):
    """log-probability, tokens (words and end), unknown words, perplexity; one line a line."""

    def line(self, scored: ScoredLine) -> str:
        value = perplexity(scored.total, int(scored.counted.sum()))
        return f"{scored.total / self.unit:.8g}\t{len(scored.ids)}\t{scored.unknown_words}\t{value:.8g}\n"


class JSONLines(Format):
    """The same as an object, with the words and their log-probabilities; null for those that do not count."""

    def line(self, scored: ScoredLine) -> str:
        values = zip((scored.log_probs / self.unit).tolist(), scored.counted.tolist(), strict=True)
        facts = {
            "log_prob": _finite(scored.total / self.unit),
            "tokens": len(scored.ids),
            "unknown": scored.unknown_words,
            "perplexity": _finite(perplexity(scored.total, int(scored.counted.sum()))),
            "words": [*scored.words, "</s>"],
            "log_probs": [_finite(value) if counted else None for value, counted in values],
            "is_unknown": scored.unknown.tolist(),
        }
        return json.dumps(facts, ensure_ascii=False) + "\n"


class Kaldi(Format):
    """Kaldi's steps/pytorchnn/compute_sentence_scores.py: the name, then -ln P of each word and of the end, a space
    after each; 0 for those that do not count, so that every arc of a lattice still has its figure."""

    def line(self, scored: ScoredLine) -> str:
        costs = np.where(scored.counted, 0.0 - scored.log_probs, 0.0)
        return f"{scored.name} {''.join(f'{cost:.4f} ' for cost in costs.tolist())}\n"


class KenLM(Format):
    """KenLM's query: word=id order log10 for each word, then the total; four lines at the end.

    id is 0 for the unknown word and else the word's place among the others in the vocabulary, from 1 on: for an ARPA
    file in the file's order, <s> included, as it is there. Sums and figures are in single precision, as they are there.
    """

    def __init__(self, unknown_id: int) -> None:
        super().__init__()
        self._unknown_id = unknown_id
        self._total = self._unknown_total = 0.0
        self._tokens = self._unknown = 0

    def line(self, scored: ScoredLine) -> str:
        log10 = (scored.log_probs / LN10).astype(np.float32)
        total = np.add.accumulate(log10)[-1]
        self._total += float(total)
        self._unknown_total += float(log10[scored.unknown].sum(dtype=np.float64))
        self._tokens += len(scored.ids)
        self._unknown += scored.unknown_words
        ids = np.where(scored.unknown, 0, scored.ids + (scored.ids < self._unknown_id)).tolist()
        columns = (ids, scored.orders.tolist(), map(_shortest, log10))
        tokens = [
            f"{word}={index} {order} {figure}\t"
            for word, index, order, figure in zip([*scored.words, "</s>"], *columns, strict=True)
        ]
        return f"{''.join(tokens)}Total: {_shortest(total)} OOV: {scored.unknown_words}\n"

    def summary(self, name: str) -> str:
        known = _perplexity10(self._total - self._unknown_total, self._tokens - self._unknown)
        return (
            f"Perplexity including OOVs:\t{_shortest(_perplexity10(self._total, self._tokens))}\n"
            f"Perplexity excluding OOVs:\t{_shortest(known)}\n"
            f"OOVs:\t{self._unknown}\n"
            f"Tokens:\t{self._tokens}\n"
        )


def _perplexity10(log10: float, tokens: int) -> np.float64:
    """10^(-log10 / tokens), nan without any."""
    with np.errstate(over="ignore"):
        return np.power(10.0, -np.float64(log10) / tokens) if tokens else np.float64(nan)


def _shortest(value: np.floating[Any]) -> str:
    """As KenLM writes numbers: with the fewest digits that only this value has in its precision."""
    if np.isnan(value):
        return "NaN"
    if value == 0 or 1e-6 <= abs(value) < 1e21 or np.isinf(value):
        return np.format_float_positional(value, trim="-")
    return np.format_float_scientific(value, trim="-", exp_digits=1).replace("+", "")


@dataclass
class _Sums:
    """What SRILM counts: sentences, words (unknown ones too), unknown words, words of probability 0, and log10."""

    sentences: int = 0
    words: int = 0
    unknown: int = 0
    zeros: int = 0
    log10: float = 0.0

    def __iadd__(self, other: "_Sums") -> "_Sums":
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    def __str__(self) -> str:
        words = self.words - self.unknown - self.zeros
        values = [
            f"{perplexity(self.log10 * LN10, tokens):.8g}" if tokens > 0 else "undefined"
            for tokens in (words + self.sentences, words)
        ]
        return (
            f"{self.sentences} sentences, {self.words} words, {self.unknown} OOVs\n"
            f"{self.zeros} zeroprobs, logprob= {self.log10:.8g} ppl= {values[0]} ppl1= {values[1]}\n"
        )


class SRILM(Format):
    """SRILM's ngram -ppl -debug 2: the sentence, a line for each word, sums; at the end the sums of the file.

    Unknown words are left out of the sums, and lines without words altogether. The order of a model without n-grams is
    the number of words since the start of the line, with <s> and the word itself.
    """

    def __init__(self, has_orders: bool) -> None:
        super().__init__()
        self._has_orders = has_orders
        self._sums = _Sums()

    def line(self, scored: ScoredLine) -> str:
        if not scored.words:
            return ""
        shown = [" ".join(scored.words) + "\n"]
        sums = _Sums(sentences=1, words=len(scored.words), unknown=scored.unknown_words)
        context = "<s> )"
        orders = scored.orders.tolist() if self._has_orders else range(2, len(scored.ids) + 2)
        columns = (scored.unknown.tolist(), orders, (scored.log_probs / LN10).tolist())
        for written, unknown, order, log10 in zip([*scored.words, "</s>"], *columns, strict=True):
            word, figures = written, f"[{order}gram] {10**log10:.7g} [ {log10:.7g} ]"
            if unknown:
                word, figures = "<unk>", "[OOV] 0 [ -inf ]"
            elif log10 == -inf:
                sums.zeros += 1
            else:
                sums.log10 += log10
            shown.append(f"\tp( {word} | {context} \t= {figures}\n")
            context = f"{word} ...)"
        self._sums += sums
        return f"{''.join(shown)}{sums}\n"

    def summary(self, name: str) -> str:
        return f"file {name}: {self._sums}"


def make_format(name: FormatName, lm: LM, log_base: str | None = None) -> Format:
    """log_base: 10 unless given; that of programs which have but one cannot be changed."""
    fixed = {"kenlm": "10", "srilm": "10", "kaldi": "e"}
    if log_base is not None and log_base != fixed.get(name, log_base):
        raise LightRNNError(
            f"--format {name} has base {fixed[name]} always, got --log-base {log_base}; use tsv or jsonl"
        )
    if name == "kenlm":
        return KenLM(lm.vocabulary.unk_id)
    if name == "srilm":
        return SRILM(lm.has_orders)
    if name == "kaldi":
        return Kaldi()
    return (TSV if name == "tsv" else JSONLines)(LOG_BASES[log_base or "10"])


def _finite(value: float) -> float | None:
    """JSON has no infinities."""
    return round(value, 7) if isfinite(value) else None
