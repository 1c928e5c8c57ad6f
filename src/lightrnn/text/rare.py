"""Words seen once, read as unknown now and then: how a model learns where words come that it has never seen.

A text without unknown words teaches nothing of them, and every new word of another text is then a surprise of ten nats.
But what stands where its words seen once stand is what new words are like, and there are as many of them as new words
are to be expected (Good and Turing).
"""

import numpy as np
from numpy.typing import NDArray

from .id_files import CHUNK
from .spelling import Ids
from .vocabulary import Vocabulary


def expected_counts(vocabulary: Vocabulary, rate: float) -> NDArray[np.int64]:
    """[V]: how often words are read if those seen once are unknown at this rate; as they are, where unknown words were
    seen."""
    counts = vocabulary.counts.copy()
    if rate and vocabulary.never_saw_unknown:
        counts[vocabulary.unk_id] = round(rate * int(_seen_once(vocabulary).sum()))
    return counts


def with_unknown(ids: Ids, vocabulary: Vocabulary, rate: float, draw: np.random.Generator) -> Ids:
    """A text in which words seen once are unknown at this rate; as it is, where it has unknown words of its own. The
    counts may be of another text that a model was trained on before: a word must be rare in both."""
    pieces = [slice(begin, begin + CHUNK) for begin in range(0, len(ids), CHUNK)]
    if not rate or any((ids[piece] == vocabulary.unk_id).any() for piece in pieces):
        return ids
    read, is_rare = np.array(ids), _seen_once(vocabulary)
    found = [piece.start + np.flatnonzero(is_rare[read[piece]]) for piece in pieces]
    places = np.concatenate([*found, np.zeros(0, np.int64)])
    places = places[np.bincount(read[places], minlength=len(is_rare))[read[places]] == 1]
    read[places[draw.random(len(places)) < rate]] = vocabulary.unk_id
    return read


def _seen_once(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """[V]: of words; the end of the only sentence is none."""
    once: NDArray[np.bool_] = vocabulary.counts == 1
    once[[vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id]] = False
    return once
