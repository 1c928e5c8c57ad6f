"""Words that a network never saw get rows of their own, made out of what the unknown word had.

Shapes: V words, n new ones, N tokens of a text, F features (what words are scored by), D input vectors, R rows.

Until now a new word w was read and scored as the unknown word u. So it begins there: it stands alone, with the vectors
of u's row, y_u and b_u, and a share t_w of u's probability, of which u keeps t_u.

    P(w | f) = t_w P(u | f)          y_w = y_u, b_w = b_u + log t_w          b_u ← b_u + log t_u

With Σ t_w + t_u = 1 all other words are as likely as they were, whatever the context. Which of the new words comes is
told by where it came before and where words of its ending come: by m_w, the mean of the features before them. As if
features lay about these means, and those before u about c, with a variance of v in every direction,

    P(w | f) = t_w P(u | f) exp(δ_w · (f - (c + m_w) / 2))               δ_w = (m_w - c) / v

which is a vector, y_w = y_u + δ_w, and a bias again. The new words then have 1 - t_u of P(u | f) on the mean, not in
every context, and other words are as likely as they were but for some thousandths.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arguments import check_several, check_string, check_whole
from ..errors import LightRNNError
from ..models.sizes import head_of
from ..packed.model import Network
from ..runtime import Progress, silent
from ..table.bigrams import shrink_to_endings
from ..table.word_table import WordTable
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from .network import NetworkLM

CHUNK = 1 << 16  # tokens of a text whose features are there together
SHORTEST = 1000  # tokens: as so long a shorter text counts, so that a word of one message is no frequent word
LEFT = 0.1  # of its probability, what the unknown word keeps at least

Array = NDArray[np.float64]
Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Placing:
    """Where n new words go: t_w (n,), their shares of the unknown word's probability, t_u that it keeps; m_w (n, F), c
    (F,) and v."""

    shares: Array
    kept: float
    means: Array
    centre: Array
    spread: float


@dataclass(frozen=True)
class Wanted:
    """A vocabulary with new words after the known ones, and their counts in so many tokens; ids of a text in it."""

    vocabulary: Vocabulary
    tokens: int
    text: Ids


def wanted(known: Vocabulary, words: Sequence[str], text: str, counts: Sequence[int] | None, min_count: int) -> Wanted:
    """What `NetworkLM.add_words` is asked for."""
    check_string("text", text)
    check_whole("min_count", min_count)
    if counts is not None:
        check_several("counts", counts)
    if not words and not text.split():
        raise LightRNNError("there are no words to add; give words, or a text that holds them")
    rules = known.rules
    read = rules.read(text)
    seen, tokens, least = Counter(read), len(read), 1
    given = [_cleaned(word, known) for word in words]
    if counts is not None:
        if text or len(counts) != len(given) or not all(isinstance(c, int | np.integer) and c > 0 for c in counts):
            raise LightRNNError(
                f"counts are whole numbers from 1, one for each of {len(given)} words, and come without a text, got "
                f"{str(counts)[:60]}"
            )
        if sum(counts) > known.counts.sum():
            raise LightRNNError(
                f"counts are of occurrences in the {known.counts.sum():,} words that the model was trained on, got "
                f"{sum(counts):,} in all; scale them down"
            )
        seen = Counter(dict(zip(given, map(int, counts), strict=True)))
    if not text:
        tokens, least = int(known.counts.sum()), max(int(np.median(known.counts)), 1)
    listed = given or [word for word, count in seen.most_common() if count >= min_count]
    new = [word for word in dict.fromkeys(listed) if word not in known]
    found = np.array([seen[word] or least for word in new], np.int64)
    vocabulary = known.with_words(new, found)
    return Wanted(vocabulary, tokens, vocabulary.encode(read))


def _cleaned(word: str, vocabulary: Vocabulary) -> str:
    """A word that somebody gave, as a text would have it."""
    found = vocabulary.rules.word(word)
    if found in vocabulary.rules.specials:
        raise LightRNNError(f"{found!r} is a special word, which every model has; leave it out")
    if found.encode().split() != [found.encode()]:
        raise LightRNNError(f"a word is not empty and holds no white space, got {word[:60]!r}; give single words")
    return found


def place(lm: "NetworkLM", words: Wanted, progress: Progress = silent) -> Placing:
    """Where the words go that a model lacks; their contexts come from the text, which may be empty."""
    if not lm.config.output_bias:
        raise LightRNNError("a model without output biases cannot give new words their shares; train one with biases")
    known, vocabulary, text = lm.vocabulary, words.vocabulary, words.text
    unknown = known.counts[known.unk_id] / known.counts.sum() if _met_unknown(known) else 1.0
    others = int((text == vocabulary.unk_id).sum())
    shares, kept = _shares(vocabulary.counts[len(known) :], max(words.tokens, SHORTEST) * unknown, others)
    return Placing(shares, kept, *_contexts(lm, vocabulary, text, progress))


def _met_unknown(vocabulary: Vocabulary) -> bool:
    """Whether the network learned where unknown words come."""
    return bool(vocabulary.counts[vocabulary.unk_id] > 0)


def _shares(counts: NDArray[np.int64], expected: float, others: int) -> tuple[Array, float]:
    """t_w (n,) and t_u, of a text in which so many unknown words were expected, the new ones have these counts, and
    `others` stay unknown.

    Of every count a part stays with the unknown word, for words that will come for the first time: as much as the words
    seen once and twice suggest (Ney's absolute discounting). Where the text has more new words than were expected, they
    get what it says, and all words give something.
    """
    once, twice = (int((counts == times).sum()) for times in (1, 2))
    discount = once / (once + 2 * twice + 1)
    found = (counts - discount) / expected
    kept = max(1 - found.sum(), (discount * len(counts) + others) / expected, LEFT)
    return np.asarray(found, np.float64), min(float(kept), 1.0)


def _contexts(lm: "NetworkLM", vocabulary: Vocabulary, text: Ids, progress: Progress) -> tuple[Array, Array, float]:
    """m_w of the new words, c, and v: the variance of features in the direction in which they differ most.

    Read are the text, in which new words are unknown, and one that the network draws itself, so that there are words of
    like endings however short the text is.
    """
    V, size, unk = len(lm.vocabulary), len(vocabulary), vocabulary.unk_id
    F = lm.token_features(np.array([unk], np.int32)).shape[1]
    sums, counts, squares = np.zeros((size, F)), np.zeros(size, np.int64), np.zeros((F, F))
    for ids in (text, lm.familiar_text()):
        for begin in range(0, len(ids), CHUNK):
            some = ids[begin : begin + CHUNK]
            features = lm.token_features(np.where(some < V, some, unk).astype(np.int32)).astype(np.float64)
            places = np.ones(len(some)), (some, np.arange(len(some)))
            sums += sparse.csr_matrix(places, shape=(size, len(some))) @ features
            counts += np.bincount(some, minlength=size)
            squares += features.T @ features
            progress("reading", begin + len(some), len(ids))
    mean = sums.sum(axis=0) / counts.sum()
    variance = np.linalg.norm(squares / counts.sum() - np.outer(mean, mean), 2)
    is_unknown = np.isin(np.arange(size), [unk, *range(V, size)])
    centre = sums[is_unknown].sum(axis=0) / counts[is_unknown].sum() if counts[is_unknown].any() else mean
    compared = np.flatnonzero((counts > 0) | (np.arange(size) >= V))  # the new words are the last ones
    means = (sums[compared] / np.maximum(counts[compared], 1)[:, None]).astype(np.float32)
    words = [vocabulary.words[word] for word in compared.tolist()]
    found = shrink_to_endings(means, counts[compared], words)[V - size :]
    return found.astype(np.float64), centre, max(float(variance), 1e-12)


@dataclass(frozen=True)
class _Origin:
    """What new words are made of: y_u and b_u; what is read last of u, (D,); before which row they go, and whether that
    is in the head."""

    vector: Vector
    bias: float
    read: Vector
    before: int
    in_head: bool = False


def grow(network: Network, vocabulary: Vocabulary, placing: Placing) -> Network:
    """The network with the words that `vocabulary` has more than its own, each in a row of its own. From the unknown
    word's count goes what it gives them, so that words that are added later get as much."""
    config, table, n = network.config, network.table, len(placing.shares)
    head = head_of(config, table.shape[0], table.alone)
    origin = _origin(network, head)
    directions = (placing.means - placing.centre) / placing.spread  # δ_w
    vectors = origin.vector + directions
    halfway = (placing.centre + placing.means) / 2
    biases = origin.bias + np.log(placing.shares) - (directions * halfway).sum(axis=1)
    read = vectors if config.tied else np.tile(origin.read, (n, 1))
    rows = {"input_vectors.weight": read, "output_bias.0": biases}
    if not config.tied:
        rows["output_vectors.0"] = vectors
    weights = {**network.weights, "output_bias.0": _reduced_biases(network, placing.kept)}
    for name, added in rows.items():
        before, after = np.split(weights[name], [origin.before])
        weights[name] = np.concatenate([before, added.astype(np.float32), after])
    return replace(
        network,
        config=replace(config, alone=table.alone + n, head=head + n * origin.in_head),
        vocabulary=_with_fewer_unknown(vocabulary, placing.kept),
        weights=weights,
        table=_with_rows(table, origin.before, n),
    )


def _origin(network: Network, head: int) -> _Origin:
    """The unknown word: its row, with the bias that it would have alone in there. Where the network never met one, the
    mean of the rows, with the bias that a row would have that is all of the text."""
    table, vocabulary, weights = network.table, network.vocabulary, network.weights
    inputs, biases = weights["input_vectors.weight"], weights["output_bias.0"]
    vectors = inputs[: table.shape[0]] if network.config.tied else weights["output_vectors.0"]
    if _met_unknown(vocabulary):
        codes = table.spelling.spell(np.array([vocabulary.unk_id], np.int32))
        row, bias = int(codes[0]), float(biases[codes[0]] + np.log(_part_of_row(network)))
        return _Origin(vectors[row], bias, inputs[codes[-1]], head if row < head else table.alone, row < head)
    counts = np.bincount(table.codes[:, 0], np.maximum(vocabulary.counts, 0.5), minlength=table.shape[0])
    bias = float((biases - np.log(counts / counts.sum()))[head:].mean())
    last = inputs[: table.alone] if table.alone else inputs[-table.shape[-1] :]  # codes that end words
    return _Origin(vectors[head:].mean(axis=0), bias, last.mean(axis=0), table.alone)


def _part_of_row(network: Network) -> float:
    """What the unknown word has of its row: 1 where it stands alone."""
    counts, rows, unk = network.vocabulary.counts, network.table.codes[:, 0], network.vocabulary.unk_id
    return float(counts[unk] / counts[rows == rows[unk]].sum())


def _reduced_biases(network: Network, kept: float) -> Vector:
    """Of the rows, where the unknown word keeps so much of its probability; other words of its row lose with it."""
    biases, vocabulary = network.weights["output_bias.0"].copy(), network.vocabulary
    if _met_unknown(vocabulary):
        biases[network.table.codes[vocabulary.unk_id, 0]] += np.log(1 - _part_of_row(network) * (1 - kept))
    return biases


def _with_fewer_unknown(vocabulary: Vocabulary, kept: float) -> Vocabulary:
    """With so much of the count of the unknown word, at least one if it was met."""
    counts, unk = vocabulary.counts.copy(), vocabulary.unk_id
    counts[unk] = np.ceil(kept * counts[unk])
    return Vocabulary(vocabulary.words, counts, vocabulary.rules)


def _with_rows(table: WordTable, before: int, n: int) -> WordTable:
    """A table with n more words, which stand alone, in rows before one of those that it has."""
    codes = table.codes.copy()
    codes[codes[:, 0] >= before, 0] += n
    added = np.full((n, table.components), -1, np.int64)
    added[:, 0] = before + np.arange(n)
    return WordTable(np.concatenate([codes, added]), (table.shape[0] + n, *table.shape[1:]))
