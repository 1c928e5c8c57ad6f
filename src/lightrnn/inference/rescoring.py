"""Re-rank n-best lists, what a recogniser or translator thought likeliest, with a language model.

    total = score_weight · score + lm_weight · log10 P(words and sentence end) + word_penalty · words

Two layouts, a hypothesis a line. srilm, SRILM's third: acoustic score, LM score, number of words, the words; a file is
one list. tsv: id, score, text with tabs between; a list is the consecutive lines of one id.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Literal

from ..errors import LightRNNError
from ..runtime import BATCH_SIZE
from .lm import LM
from .scoring import BLOCK_WORDS

Layout = Literal["srilm", "tsv"]
MARKERS = frozenset({"<s>", "</s>"})


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
    """Two tabs make a tsv line."""
    return "tsv" if line.count("\t") == 2 else "srilm"


def read_lists(lines: Iterable[str], layout: Layout | None, name: str) -> Iterator[list[Hypothesis]]:
    """The lists of a file called `name`; without a layout, the first line shows it."""

    def parsed() -> Iterator[Hypothesis]:
        chosen = layout
        for number, line in enumerate(lines, 1):
            chosen = chosen or detect_layout(line)
            try:
                yield _parse_srilm(line) if chosen == "srilm" else _parse_tsv(line)
            except ValueError:
                wanted = (
                    "acoustic score, LM score, number of words, words"
                    if chosen == "srilm"
                    else "id, score and text with tabs between"
                )
                raise LightRNNError(
                    f"{name} line {number}: expected {wanted}, got {line[:60]!r}; correct it or choose another --layout"
                ) from None

    for _, group in groupby(parsed(), key=lambda h: h.fields[0] if h.layout == "tsv" else None):
        yield list(group)


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


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError
    return value


def rescore(
    lm: LM, lists: Iterable[list[Hypothesis]], weights: Weights | None = None, *, batch_size: int = BATCH_SIZE
) -> Iterator[list[Ranked]]:
    """Each list, best first; equals stay in their order. The hypotheses of a block of lists are scored together."""
    weights = weights or Weights()
    for block in _blocks(lists):
        sentences = [hypothesis.sentence for listed in block for hypothesis in listed]
        scores = iter(lm.scores(sentences, batch_size=batch_size).tolist())
        for listed in block:
            ranked = []
            for hypothesis in listed:
                log10 = next(scores)
                total = weights.score * hypothesis.score + weights.lm * log10 + weights.word_penalty * hypothesis.words
                ranked.append(Ranked(hypothesis, log10, total))
            yield sorted(ranked, key=lambda r: -r.total)


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
    """A hypothesis in its layout, newline included: the LM score replaced (srilm), or the score by the total (tsv)."""
    fields = ranked.hypothesis.fields
    if ranked.hypothesis.layout == "tsv":
        return f"{fields[0]}\t{ranked.total:.8g}\t{fields[2]}\n"
    acoustic, _, count, words = fields
    return f"{acoustic} {ranked.log10:.8g} {count} {words}".rstrip() + "\n"


def best_line(ranked: list[Ranked]) -> str:
    """The best hypothesis of a list, newline included: its words (srilm) or its id and text (tsv)."""
    best = ranked[0].hypothesis
    return f"{best.fields[0]}\t{best.fields[2]}\n" if best.layout == "tsv" else f"{best.sentence}\n"
