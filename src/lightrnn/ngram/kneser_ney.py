"""Interpolated modified Kneser-Ney n-gram models (Chen and Goodman 1999), the numbers of KenLM's `lmplz`.

Shapes: P positions of the text with <s> before each sentence, N_n different n-grams of order n, V vocabulary.

    p_n(w | c) = (a(c w) - D(a(c w))) / Σ_v a(c v) + γ(c) · p_{n-1}(w | c'),     γ(c) = Σ_v D(a(c v)) / Σ_v a(c v)
    p_0(w) = 1 / |V|                                                             c' is c without its first word

a, the adjusted count, is the number of occurrences for n-grams of the highest order and those that begin with <s>, and
the number of different words that stand before the n-gram for all others. With t_j the number of n-grams of one order
whose adjusted count is j, and Y = t_1 / (t_1 + 2 t_2),

    D(j) = j - (j + 1) · Y · t_{j+1} / t_j     for j = 1, 2; D(3) for all counts above 2.

Pruned, as by `lmplz --prune`, are n-grams that occur no more often than the threshold of their order: occurrences, not
adjusted counts, decide. They count in every t_j and every sum all the same, and their D is a itself: what they had goes
to γ(c). Thresholds never fall from one order to the next, so that the parts of what is kept are kept.

A word that is pruned is not in the model's vocabulary any more.

Every sentence starts after <s>, which is never predicted; its end is predicted. |V| is the size of the vocabulary with
</s> and <unk> and without <s>, and a word of it that does not occur gets γ / |V|, what lmplz gives <unk>. A literal
<unk> in the text is a word like others, and there is no further unknown word beside it; lmplz refuses such text, and
where it is renamed counts one word more. Where a t_j is 0 or a D(j) outside 0 … j, an order gets the discounts 0.5, 1,
1.5, as with `lmplz --discount_fallback`. One slip of lmplz is not repeated: in its t_j the word of the text that is new
last goes by its occurrences (AdjustCounts::Run, "the last n-grams"), one unigram in all.

All is done by sorting: the n-grams of order n are keys (place of the first n-1 words at order n-1) · size + last word,
of which every position of the text has one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..runtime import Progress, silent
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from .model import NEVER, Floats, Level, NGram, Places, start_and_size

FALLBACK = (0.5, 1.0, 1.5)

Discounts = tuple[float, float, float]


@dataclass
class _Counted:
    """The different n-grams of one order: keys (N_n,), whether they are kept, adjusted counts, places at order n-1 of
    the last n-1 words."""

    keys: Places
    kept: NDArray[np.bool_]
    counts: NDArray[np.int64]
    suffixes: NDArray[np.int32]


def estimate(
    ids: Ids, vocabulary: Vocabulary, order: int = 5, progress: Progress = silent, *, prune: Sequence[int] = ()
) -> NGram:
    """The model of a token stream in which every sentence ends in eos; its `discounts` are those used.

    prune: for each order the occurrences up to which n-grams are left out; the last value holds for all orders above.
    What the first of them leaves out are words, which the model then does not know.
    Use it for a model to compare or mix with, and `write_packed` or `write_arpa` to keep it.
    """
    if order < 1:
        raise LightRNNError(f"order (--order) must be at least 1, got {order}")
    thresholds = thresholds_of(prune, order)
    if len(ids) == 0:
        raise LightRNNError("there is nothing to estimate an n-gram model from: the text is empty")
    if len(ids) >= 2**30:
        raise LightRNNError(f"n-gram models are estimated in memory, from less than 2^30 words, got {len(ids):,}")
    if vocabulary.rules.bos is not None and np.any(np.asarray(ids) == vocabulary.bos_id):
        raise LightRNNError(
            f"the text has {vocabulary.rules.bos!r} among its words, which stands for the start of a sentence and is "
            "never predicted; remove it, every line is a sentence already"
        )
    counted = _count(ids, vocabulary, thresholds, progress)
    start, size = start_and_size(vocabulary)
    if counted[0].kept.sum() <= 3 and thresholds[0]:
        raise LightRNNError(
            f"no word occurs more than {thresholds[0]} times; begin prune (--prune) with a lower number"
        )
    predicted = counted[0].kept & (np.arange(size) != start)
    discounts: list[Discounts] = []
    levels: list[Level] = []
    below: Floats = np.where(predicted, 1 / predicted.sum(), 0.0)  # p_{n-1} of every (n-1)-gram; p_0 to begin with
    for n, grams in enumerate(counted, 1):
        progress(f"estimating {n}-grams", len(grams.keys))
        discounts.append(closed_form_discounts(grams.counts))
        taken = np.array([0.0, *discounts[-1]])[np.minimum(grams.counts, 3)]
        taken = np.where(grams.kept, taken, grams.counts)
        contexts = grams.keys // size if n > 1 else np.zeros(size, np.int64)
        width = len(counted[n - 2].keys) if n > 1 else 1
        totals = np.bincount(contexts, grams.counts, width)
        used = totals > 0
        gammas = np.divide(np.bincount(contexts, taken, width), totals, out=np.ones(width), where=used)
        probs = (grams.counts - taken) / totals[contexts] + gammas[contexts] * below[grams.suffixes]
        if n > 1:
            levels[-1] = Level(levels[-1].keys, levels[-1].log10_probs, _log10(gammas))
        levels.append(Level(grams.keys, _log10(probs), np.zeros(0)))
        below = probs
        grams.counts, grams.suffixes = np.zeros(0, np.int64), np.zeros(0, np.int32)  # not needed any more
    model = NGram(vocabulary, levels, discounts)
    return _without_pruned(model, [grams.kept for grams in counted]) if any(thresholds) else model


def thresholds_of(prune: Sequence[int], order: int) -> list[int]:
    """One for each order, from those given, none of which may be below the one before."""
    given = [*prune] or [0]
    if len(given) > order or given[0] < 0 or any(low > high for low, high in pairwise(given)):
        raise LightRNNError(
            f"prune (--prune) takes at most {order} whole numbers, one for each order, none below the one before, "
            f"got {' '.join(map(str, given))}"
        )
    return given + [given[-1]] * (order - len(given))


def _without_pruned(model: NGram, kept: list[NDArray[np.bool_]]) -> NGram:
    """The model of what is kept: its words and contexts are kept too, and keys stay in order."""
    words, old = model.vocabulary, model.size
    ids, size = np.cumsum(kept[0]) - 1, int(kept[0].sum())
    listed = np.flatnonzero(kept[0][: len(words)])
    vocabulary = Vocabulary([words.words[word] for word in listed.tolist()], words.counts[listed], words.rules)
    levels = []
    places = np.zeros(1, np.int64)  # of the n-grams of the order below, among those kept
    for level, keep in zip(model.levels, kept, strict=True):
        contexts, last = np.divmod(level.keys[keep], old)
        levels.append(level.at(keep, places[contexts] * size + ids[last]))
        places = np.cumsum(keep) - 1
    return NGram(vocabulary, levels, model.discounts)


def closed_form_discounts(counts: NDArray[np.int64]) -> Discounts:
    """D(1), D(2) and D(3+) of n-grams with these adjusted counts, or FALLBACK where the closed form fails."""
    t = np.bincount(np.minimum(counts, 5), minlength=6)
    if not t[1:4].all():
        return FALLBACK
    y = t[1] / (t[1] + 2 * t[2])
    d1, d2, d3 = (float(j - (j + 1) * y * t[j + 1] / t[j]) for j in (1, 2, 3))
    return (d1, d2, d3) if 0 <= d1 <= 1 and 0 <= d2 <= 2 and 0 <= d3 <= 3 else FALLBACK


def _log10(values: Floats) -> Floats:
    """Logarithms between NEVER and 0: a discount can be 0, and rounding can pass 1."""
    logs: Floats = np.minimum(np.log10(np.maximum(values, 10.0**NEVER)), 0.0)
    return logs


def _count(ids: Ids, vocabulary: Vocabulary, thresholds: list[int], progress: Progress) -> list[_Counted]:
    """The n-grams of all orders with their adjusted counts, level by level; kept are those above the thresholds."""
    start, size = start_and_size(vocabulary)
    words, depth = _with_starts(ids, vocabulary.eos_id, start)
    places = words  # (P,): of the n-gram that ends at each position
    occurrences = np.bincount(words, minlength=size)
    occurrences[start] = 0
    begins_sentence = np.zeros(size, bool)
    kept = (occurrences > thresholds[0]) | (thresholds[0] == 0)  # at 0, words that do not occur stay too
    kept[[start, vocabulary.eos_id, vocabulary.unk_id]] = True
    levels = [_Counted(np.arange(size), kept, occurrences, np.arange(size, dtype=np.int32))]
    for n, threshold in enumerate(thresholds[1:], 2):
        progress(f"counting {n}-grams", len(ids))
        ends = np.flatnonzero(depth >= n - 1)
        keys = places[ends - 1].astype(np.int64) * size + words[ends]
        by_key = np.argsort(keys)
        keys = keys[by_key]
        ends = ends[by_key]
        del by_key
        is_new = np.ones(len(keys), bool)
        is_new[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(is_new)
        examples = ends[first]  # a position for each different n-gram
        suffixes = places[examples]
        lower = levels[-1]
        extensions = np.bincount(suffixes, minlength=len(lower.keys))
        lower.counts = np.where(begins_sentence, lower.counts, extensions)
        occurrences = np.diff(first, append=len(keys))
        levels.append(_Counted(keys[first], occurrences > threshold, occurrences, suffixes))
        begins_sentence = depth[examples] == n - 1
        places = np.zeros(len(words), np.int32)
        places[ends] = np.cumsum(is_new, dtype=np.int32) - 1
    return levels


def _with_starts(ids: Ids, eos: int, start: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(P,) both: the text with <s> before each sentence, and how far each word is from the <s> of its sentence."""
    ids = np.asarray(ids)
    begins = np.concatenate([[0], np.flatnonzero(ids[:-1] == eos) + 1])
    words = np.insert(ids, begins, start)
    starts = begins + np.arange(len(begins))
    depth = np.arange(len(words), dtype=np.int32)
    depth -= np.repeat(starts, np.diff(starts, append=len(words))).astype(np.int32)
    return words, depth
