"""Score the hypotheses of utterances, as Kaldi's n-best and lattice rescoring (steps/pytorchnn) asks for.

A line is the name of an utterance with the number of the hypothesis, `utt-n`, and its words; the hypotheses of an
utterance follow each other, the best first. What is written for them is `scoring.Kaldi`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

import numpy as np

from ..errors import LightRNNError
from ..runtime import BATCH_SIZE
from ..text.rules import Convention, check_convention
from .lm import LM
from .scoring import ScoredLine, UnknownWords, score_lines, scored_lines


def score_hypotheses(
    lm: LM,
    blocks: Iterable[Sequence[str]],
    convention: Convention = "sentence",
    *,
    unknown_words: UnknownWords | None = None,
    batch_size: int = BATCH_SIZE,
) -> Iterator[list[ScoredLine]]:
    """As `score_lines`, for lines that begin with a name.

    sentence: each hypothesis by itself. stream: after the first hypothesis of the utterance before, as Kaldi's script
    scores with recurrent models.
    """
    check_convention(convention)
    if convention == "stream":
        yield from _stream(lm, blocks, unknown_words or UnknownWords())
        return
    names: deque[str] = deque()

    def texts() -> Iterator[list[str]]:
        number = 0
        for block in blocks:
            pairs = [_split(line, number + place) for place, line in enumerate(block, 1)]
            number += len(pairs)
            names.extend(name for name, _ in pairs)
            yield [text for _, text in pairs]

    for lines in score_lines(lm, texts(), unknown_words=unknown_words, batch_size=batch_size):
        yield [replace(line, name=names.popleft()) for line in lines]


def _stream(lm: LM, blocks: Iterable[Sequence[str]], rule: UnknownWords) -> Iterator[list[ScoredLine]]:
    state: Any = lm.stream_state()
    pairs = (_split(line, number) for number, line in enumerate(chain.from_iterable(blocks), 1))
    for _, group in groupby(pairs, key=lambda pair: pair[0].rsplit("-", 1)[0]):
        listed = list(group)
        words = [lm.vocabulary.rules.split(text) for _, text in listed]
        encoded = [np.append(lm.vocabulary.encode(line), np.int32(lm.vocabulary.eos_id)) for line in words]
        log_probs, (state, *_) = lm.read_sentences(state, encoded)
        scored = scored_lines(lm, words, encoded, np.concatenate(log_probs), rule)
        yield [replace(line, name=name) for line, (name, _) in zip(scored, listed, strict=True)]


def _split(line: str, number: int) -> tuple[str, str]:
    """The name that a line begins with, and the text after it."""
    name, _, text = line.strip(" \t\r").replace("\t", " ", 1).partition(" ")
    if not name:
        raise LightRNNError(f"line {number}: expected utt-n and words, as Kaldi has them, got an empty line; remove it")
    return name, text
