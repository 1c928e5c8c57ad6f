"""Re-rank n-best lists, what a recogniser or translator thought likeliest, with a language model.

    total = score_weight · score + lm_weight · log10 P(words and sentence end) + word_penalty · words

Three layouts, a hypothesis a line. srilm, SRILM's third: acoustic score, LM score, number of words, the words; a file
is one list. tsv: id, score, text with tabs between; a list is the consecutive lines of one id. nemo, NeMo's beams: text
and score with a tab between; a list has a fixed number of lines.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any, Literal

import numpy as np

from ..errors import LightRNNError
from ..ngram.model import LN10
from ..runtime import BATCH_SIZE
from ..text.rules import Convention, check_convention
from ..text.spelling import Ids
from .lm import LM
from .scoring import BLOCK_WORDS, UnknownWords

Layout = Literal["srilm", "tsv", "nemo"]
MARKERS = frozenset({"<s>", "</s>"})
WANTED = {
    "srilm": "acoustic score, LM score, number of words, words",
    "tsv": "id, score and text with tabs between",
    "nemo": "text and score with a tab between",
}


@dataclass(frozen=True)
class Weights:
    score: float = 1.0
    lm: float = 1.0
    word_penalty: float = 0.0


@dataclass(frozen=True)
class Hypothesis:
    """A line of a list: `fields` as they were in the file, the last one being the text; sentence: what is scored."""

    layout: Layout
    fields: tuple[str, ...]
    score: float
    sentence: str

    @property
    def words(self) -> int:
        return len(self.sentence.encode().split())


@dataclass(frozen=True)
class Ranked:
    """A hypothesis with the language model's log10 and the total."""

    hypothesis: Hypothesis
    log10: float
    total: float


def detect_layout(line: str) -> Layout:
    """Two tabs make a tsv line, one makes one of NeMo's."""
    layouts: dict[int, Layout] = {2: "tsv", 1: "nemo"}
    return layouts.get(line.count("\t"), "srilm")


def read_lists(
    lines: Iterable[str], layout: Layout | None, name: str, beams: int | None = None
) -> Iterator[list[Hypothesis]]:
    """The lists of a file called `name`; without a layout, the first line shows it. beams: lines of one of NeMo's."""

    def parsed() -> Iterator[tuple[str | int | None, Hypothesis]]:
        """Hypotheses, and what tells the list of each from the one before."""
        chosen = layout
        for number, line in enumerate(lines):
            chosen = chosen or detect_layout(line)
            if chosen == "nemo" and beams is None:
                raise LightRNNError(
                    f"{name} holds text and score, as NeMo's beams; say by --beams how many lines each has"
                )
            try:
                hypothesis = PARSERS[chosen](line)
            except ValueError:
                raise LightRNNError(
                    f"{name} line {number + 1}: expected {WANTED[chosen]}, got {line[:60]!r}; "
                    "correct it or choose another --layout"
                ) from None
            yield {"srilm": None, "tsv": hypothesis.fields[0], "nemo": number // (beams or 1)}[chosen], hypothesis

    for _, group in groupby(parsed(), key=lambda pair: pair[0]):
        listed = [hypothesis for _, hypothesis in group]
        if listed[0].layout == "nemo" and len(listed) != beams:
            raise LightRNNError(
                f"{name} ends after {len(listed)} lines of a list, and --beams {beams} was given; correct it"
            )
        yield listed


def _parse_srilm(line: str) -> Hypothesis:
    acoustic, lm, count, *words = (word.decode() for word in line.encode().split())
    if int(count) < 0:
        raise ValueError
    _number(lm)
    sentence = " ".join(word for word in words if word not in MARKERS)
    return Hypothesis("srilm", (acoustic, lm, count, " ".join(words)), _number(acoustic), sentence)


def _parse_tsv(line: str) -> Hypothesis:
    name, score, text = line.removesuffix("\r").split("\t", 2)
    return Hypothesis("tsv", (name, score, text), _number(score), text)


def _parse_nemo(line: str) -> Hypothesis:
    text, score = line.removesuffix("\r").rsplit("\t", 1)
    return Hypothesis("nemo", (score, text), _number(score), text)


PARSERS = {"srilm": _parse_srilm, "tsv": _parse_tsv, "nemo": _parse_nemo}


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError
    return value


def rescore(
    lm: LM,
    lists: Iterable[list[Hypothesis]],
    weights: Weights | None = None,
    convention: Convention = "sentence",
    *,
    unknown_words: UnknownWords | None = None,
    batch_size: int = BATCH_SIZE,
) -> Iterator[list[Ranked]]:
    """Each list, best first; equals stay in their order.

    sentence: each hypothesis by itself; those of a block of lists are scored together. stream: the best hypothesis of a
    list is the context of the next one, whose hypotheses are scored side by side.
    """
    check_convention(convention)
    rule = unknown_words or UnknownWords()
    if convention == "stream":
        yield from _rescore_stream(lm, lists, weights or Weights(), rule)
        return
    for block in _blocks(lists):
        encoded = [_encoded(lm, hypothesis) for listed in block for hypothesis in listed]
        ids = np.concatenate(encoded)
        log_probs = lm.token_log_probs(ids, "sentence", batch_size=batch_size).sum(axis=1, dtype=np.float64)
        starts = np.concatenate([[0], np.cumsum([len(hypothesis) for hypothesis in encoded])[:-1]])
        counted = rule.apply(log_probs, ids == lm.vocabulary.unk_id)
        sums = iter(np.add.reduceat(counted, starts).tolist())
        for listed in block:
            yield _ranked(listed, [next(sums) for _ in listed], weights or Weights())


def _rescore_stream(
    lm: LM, lists: Iterable[list[Hypothesis]], weights: Weights, rule: UnknownWords
) -> Iterator[list[Ranked]]:
    state: Any = lm.stream_state()
    for listed in lists:
        encoded = [_encoded(lm, hypothesis) for hypothesis in listed]
        log_probs, states = lm.read_sentences(state, encoded)
        unk = lm.vocabulary.unk_id
        sums = [float(rule.apply(p, ids == unk).sum()) for p, ids in zip(log_probs, encoded, strict=True)]
        ranked = _ranked(listed, sums, weights)
        state = states[next(i for i, hypothesis in enumerate(listed) if hypothesis is ranked[0].hypothesis)]
        yield ranked


def _encoded(lm: LM, hypothesis: Hypothesis) -> Ids:
    words = lm.vocabulary.encode(lm.vocabulary.rules.split(hypothesis.sentence))
    return np.append(words, np.int32(lm.vocabulary.eos_id))


def _ranked(listed: list[Hypothesis], log_probs: list[float], weights: Weights) -> list[Ranked]:
    """A list by its totals; log_probs in nats."""
    ranked = []
    for hypothesis, log_prob in zip(listed, log_probs, strict=True):
        log10 = log_prob / LN10
        of_lm = weights.lm * log10 if weights.lm else 0.0  # -inf may be log10
        total = weights.score * hypothesis.score + of_lm + weights.word_penalty * hypothesis.words
        ranked.append(Ranked(hypothesis, log10, total))
    return sorted(ranked, key=lambda r: -r.total)


def _blocks(lists: Iterable[list[Hypothesis]]) -> Iterator[list[list[Hypothesis]]]:
    """Lists together up to some BLOCK_WORDS words, at least one."""
    block: list[list[Hypothesis]] = []
    size = 0
    for listed in lists:
        block.append(listed)
        size += sum(hypothesis.words + 1 for hypothesis in listed)
        if size >= BLOCK_WORDS:
            yield block
            block, size = [], 0
    if block:
        yield block


def ranked_line(ranked: Ranked) -> str:
    """A hypothesis in its layout, newline included: the LM score replaced (srilm), or the score by the total."""
    fields = ranked.hypothesis.fields
    if ranked.hypothesis.layout == "tsv":
        return f"{fields[0]}\t{ranked.total:.8g}\t{fields[2]}\n"
    if ranked.hypothesis.layout == "nemo":
        return f"{fields[1]}\t{ranked.total:.8g}\n"
    acoustic, _, count, words = fields
    return f"{acoustic} {ranked.log10:.8g} {count} {words}".rstrip() + "\n"


def best_line(ranked: list[Ranked]) -> str:
    """The best hypothesis of a list, newline included: its words, and in a tsv list its id before them."""
    best = ranked[0].hypothesis
    return f"{best.fields[0]}\t{best.fields[2]}\n" if best.layout == "tsv" else f"{best.sentence}\n"
