"""Output layers of the paper's opponents: words scored from hidden states, over the whole vocabulary.

Shapes: N positions of a text, V vocabulary, D embedding, H hidden, C classes, S words of a class, K parts.
"""

from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..nn.functional import projection_between, without_missing
from ..nn.starts import fill_biases, fill_vectors
from ..table.shapes import table_shape
from ..table.word_table import WordTable
from ..text.vocabulary import frequency_ranks
from .base import SCORES
from .sizes import adaptive_shape

BLOCK = 16  # positions of one class that are scored together


class Output(nn.Module):
    """Scores words from hidden states; size: how many words there are."""

    size: int

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """hidden (N, H), targets (N,) → natural-log probabilities in parts, (N, K), to be summed."""
        raise NotImplementedError

    def distribution(self, hidden: Tensor) -> Tensor:
        """hidden (H,) → the natural-log probability of every word, (V,)."""
        raise NotImplementedError

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """hidden (N, H), targets (N,) → what training minimises, (N,)."""
        return -self.log_probs(hidden, targets).float().sum(dim=-1)

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        """Begin with these vectors (V, d), put in by `fill_vectors`, biases as the logs of counts (V,) > 0."""
        raise NotImplementedError


def group_means(vectors: Tensor, counts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """groups (V,) of numbers 0 … G-1 → the means of their vectors, weighted by counts, (G, d); their counts, (G,)."""
    totals = torch.bincount(groups, weights=counts)
    sums = totals.new_zeros(len(totals), vectors.shape[1]).index_add(0, groups, counts[:, None] * vectors)
    return sums / totals[:, None], totals


def exact_log_probs(hidden: Tensor, targets: Tensor, vectors: Tensor, bias: Tensor | None) -> Tensor:
    """A softmax over the whole vocabulary, some positions at a time: (N, 1)."""
    block = max(1, SCORES // len(vectors))
    losses = [
        F.cross_entropy(F.linear(h, vectors, bias), t, reduction="none")
        for h, t in zip(torch.split(hidden, block), torch.split(targets, block), strict=True)
    ]
    return -torch.cat(losses)[:, None]


class FullSoftmax(Output):
    """One vector and one bias a word."""

    def __init__(self, size: int, units: int) -> None:
        super().__init__()
        self.size = size
        self.vectors = nn.Linear(units, size)

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return exact_log_probs(hidden, targets, self.vectors.weight, self.vectors.bias)

    def distribution(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.vectors(hidden)
        return scores.log_softmax(dim=-1)

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        fill_vectors(self.vectors.weight, vectors, scale)
        fill_biases(self.vectors.bias, counts)


class TiedOutput(Output):
    """Words are scored by the vectors that they have as input, (V, D), to the size of which the state is projected."""

    def __init__(self, words: nn.Embedding, units: int) -> None:
        super().__init__()
        self.size, D = words.weight.shape
        self._words = (words,)  # in a tuple: they are parameters of the input, not of the output too
        self.projection = projection_between(units, D)

    @property
    def vectors(self) -> Tensor:
        return self._words[0].weight


class TiedSoftmax(TiedOutput):
    """Of its own it has one bias a word."""

    def __init__(self, words: nn.Embedding, units: int) -> None:
        super().__init__(words, units)
        self.bias = nn.Parameter(torch.zeros(self.size))

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return exact_log_probs(self.projection(hidden), targets, self.vectors, self.bias)

    def distribution(self, hidden: Tensor) -> Tensor:
        return F.linear(self.projection(hidden), self.vectors, self.bias).log_softmax(dim=-1)

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        fill_biases(self.bias, counts)


class HierarchicalSoftmax(Output):
    """Two levels: the class from the hidden state, then the word among those of its class from the same state.

    places[w] = class · S + number in the class. `words` has the S word vectors of a class in one row, so that a class
    is picked as a whole; the last class is filled up with vectors that no word uses, and masked.
    """

    places: Tensor

    def __init__(self, places: NDArray[np.int64], units: int) -> None:
        super().__init__()
        self.size = len(places)
        C, self.S = table_shape(self.size)
        self.register_buffer("places", torch.from_numpy(places.astype(np.int32)))
        self.classes = nn.Linear(units, C)
        self.words = nn.Embedding(C, self.S * units, sparse=True)
        self.word_bias = nn.Embedding(C, self.S, sparse=True)

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        place = self.places[targets].long()
        classes, numbers = place // self.S, place % self.S
        class_losses = F.cross_entropy(self.classes(hidden), classes, reduction="none")
        word_losses = F.cross_entropy(self._word_scores(hidden, classes), numbers, reduction="none")
        return -torch.stack([class_losses, word_losses], dim=-1)

    def _word_scores(self, hidden: Tensor, classes: Tensor) -> Tensor:
        """hidden (N, H), classes (N,) → the scores of the words of each position's class, (N, S).

        Positions of one class are put side by side, BLOCK of them to a matrix product with the vectors of that class.
        """
        H = hidden.shape[1]
        distinct, index, counts = torch.unique(classes, return_inverse=True, return_counts=True)
        blocks = (counts + BLOCK - 1) // BLOCK  # of each distinct class
        order = torch.argsort(index, stable=True)
        rank = torch.empty_like(order)  # of a position among those of its class
        rank[order] = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[index[order]]
        slots = (blocks.cumsum(0) - blocks)[index] * BLOCK + rank
        owners = torch.repeat_interleave(distinct, blocks)  # (blocks,): the class of each block
        padded = hidden.new_zeros(len(owners) * BLOCK, H).index_copy(0, slots, hidden)
        vectors = self.words(owners).view(-1, self.S, H)
        bias = self.word_bias(owners).unsqueeze(1)
        scores = torch.baddbmm(bias, padded.view(-1, BLOCK, H), vectors.transpose(1, 2))  # (blocks, BLOCK, S)
        return self._masked(scores.flatten(0, 1)[slots], classes)

    def _masked(self, scores: Tensor, classes: Tensor) -> Tensor:
        """-inf where the last class, scores (…, S) of classes (…), has no word."""
        last_class, last_number = divmod(self.size - 1, self.S)
        if last_number == self.S - 1:
            return scores
        return without_missing(scores, classes == last_class, last_number)

    def distribution(self, hidden: Tensor) -> Tensor:
        C = len(self.words.weight)
        scores = self.words.weight.view(C, self.S, -1) @ hidden + self.word_bias.weight  # (C, S)
        within = self._masked(scores, torch.arange(C, device=scores.device)).log_softmax(dim=1)
        class_scores: Tensor = self.classes(hidden)
        return (class_scores.log_softmax(dim=0)[:, None] + within).flatten()[self.places]

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        """The vector of a class begins as the mean of those of its words."""
        means, totals = group_means(vectors, counts, self.places.long() // self.S)
        fill_vectors(self.classes.weight, means, scale)
        fill_biases(self.classes.bias, totals)
        words = torch.argsort(self.places)  # by their places, which are the first V
        fill_vectors(self.words.weight.view(-1, self.classes.in_features)[: self.size], vectors[words], scale)
        fill_biases(self.word_bias.weight.view(-1)[: self.size], counts[words])


def class_places(
    counts: NDArray[np.int64], classes: str, seed: int, table: WordTable | None = None
) -> NDArray[np.int64]:
    """[V]: words dealt to places at random, or in order of falling frequency, or as they sit in a table of C × S."""
    if table is not None:
        return table.places
    if classes == "frequency":
        return frequency_ranks(counts)
    return np.random.default_rng(seed).permutation(len(counts))


class BlackOut(Output):
    """Ji et al. 2015: trained to tell the word from K drawn ones; scored by an exact softmax.

    With the proposal Q(w) ∝ count(w)^α, its importance weights q_w = 1 / Q(w), and S_K drawn once for a mini-batch:

        p(w) = q_w exp(θ_w·s) / (q_i exp(θ_i·s) + Σ_{j ∈ S_K} q_j exp(θ_j·s))
        loss = -log p(w_i) - Σ_{j ∈ S_K} log(1 - p(w_j))

    where drawn words that are the word itself, j = i, are left out of S_K.
    """

    log_proposal: Tensor

    def __init__(self, counts: NDArray[np.int64], units: int, samples: int, alpha: float) -> None:
        super().__init__()
        logs = alpha * np.log(np.maximum(counts, 1).astype(np.float64))
        logs -= np.logaddexp.reduce(logs)
        self.size = len(counts)
        self.samples = samples
        self.register_buffer("log_proposal", torch.from_numpy(logs.astype(np.float32)))  # log Q, (V,)
        self.vectors = nn.Embedding(len(counts), units, sparse=True)
        self.bias = nn.Embedding(len(counts), 1, sparse=True)

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.sampled_losses(hidden, targets, self.draw())

    def draw(self) -> Tensor:
        """S_K: words drawn from Q with replacement, (K,)."""
        cumulated = self.log_proposal.double().exp().cumsum(0)
        draws = torch.rand(self.samples, dtype=torch.float64, device=cumulated.device) * cumulated[-1]
        return torch.searchsorted(cumulated, draws, right=True).clamp(max=len(cumulated) - 1)

    def sampled_losses(self, hidden: Tensor, targets: Tensor, drawn: Tensor) -> Tensor:
        """hidden (N, H), targets (N,), drawn (K,) → the loss above, (N,)."""
        rows, index = torch.unique(torch.cat([targets, drawn]), return_inverse=True)
        vectors, bias = self.vectors(rows), self.bias(rows)[:, 0] - self.log_proposal[rows]
        targeted, sampled = torch.split(index, [len(targets), len(drawn)])
        positive = (hidden * F.embedding(targeted, vectors)).sum(dim=1) + bias[targeted]  # (N,): θ_i·s + log q_i
        negative = F.linear(hidden, F.embedding(sampled, vectors), bias[sampled])  # (N, K)
        negative = negative.masked_fill(targets[:, None] == drawn, -torch.inf).float()
        positive = positive.float()
        total = torch.cat([positive[:, None], negative], dim=1).logsumexp(dim=1)
        drawn_p = (negative - total[:, None]).exp().clamp(max=1 - 1e-6)  # p(w_j)
        losses: Tensor = total - positive - torch.log1p(-drawn_p).sum(dim=1)
        return losses

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return exact_log_probs(hidden, targets, self.vectors.weight, self.bias.weight[:, 0])

    def distribution(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.vectors.weight, self.bias.weight[:, 0]).log_softmax(dim=-1)

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        fill_vectors(self.vectors.weight, vectors, scale)
        fill_biases(self.bias.weight[:, 0], counts)


class AdaptiveSoftmax(Output):
    """Grave et al. 2017 as PyTorch has it, over words in order of falling frequency."""

    ranks: Tensor

    def __init__(self, counts: NDArray[np.int64], units: int) -> None:
        super().__init__()
        self.size = len(counts)
        self.register_buffer("ranks", torch.from_numpy(frequency_ranks(counts).astype(np.int32)))
        cutoffs, divisor = adaptive_shape(len(counts), units)
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(units, len(counts), cutoffs, divisor, head_bias=True)

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):  # PyTorch's layer cannot add up in both precisions
            log_probs: Tensor = self.softmax(hidden.float(), self.ranks[targets].long()).output
        return log_probs[:, None]

    def distribution(self, hidden: Tensor) -> Tensor:
        log_probs: Tensor = self.softmax.log_prob(hidden[None])
        return log_probs[0, self.ranks]

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        """The head's vector of a tail begins as the mean of those of the tail's words; tails have no biases."""
        cutoffs = self.softmax.cutoffs
        means, totals = group_means(vectors, counts, head_numbers(self.ranks.long(), cutoffs[:-1]))
        fill_vectors(self.softmax.head.weight, means, scale)
        fill_biases(self.softmax.head.bias, totals)
        words = torch.argsort(self.ranks)
        for tail, begin, end in zip(self.softmax.tail, cutoffs, cutoffs[1:], strict=False):
            _, tail_words = cast(nn.Sequential, tail)  # a projection, and vectors
            fill_vectors(cast(nn.Linear, tail_words).weight, vectors[words[begin:end]], scale)


def head_numbers(ranks: Tensor, cutoffs: list[int]) -> Tensor:
    """Ranks of words → their numbers in the softmax of the head: a tail's words have that of their tail."""
    return ranks.clamp(max=cutoffs[0]) + sum((ranks >= cut).long() for cut in cutoffs[1:])


class RankedEmbedding(nn.Embedding):
    """Words → vectors (…, D), which are stored in order of falling frequency: row ranks[w] is that of word w."""

    ranks: Tensor

    def __init__(self, counts: NDArray[np.int64], width: int) -> None:
        super().__init__(len(counts), width)
        self.register_buffer("ranks", torch.from_numpy(frequency_ranks(counts).astype(np.int32)))

    def forward(self, words: Tensor) -> Tensor:
        return super().forward(self.ranks[words])


class TiedAdaptive(TiedOutput):
    """An adaptive softmax whose vectors are those of the input, all of one size; each tail has a projection of its own.

    Of its own the head has a vector for each tail, and biases.
    """

    def __init__(self, words: RankedEmbedding, units: int) -> None:
        super().__init__(words, units)
        self.cutoffs, _ = adaptive_shape(self.size, units)
        tails, D = len(self.cutoffs), words.embedding_dim
        self.tails = nn.Parameter(torch.zeros(tails, D))
        self.head_bias = nn.Parameter(torch.zeros(self.cutoffs[0] + tails))
        self.tail_projections = nn.ModuleList(nn.Linear(units, D, bias=False) for _ in range(tails))

    @property
    def ranks(self) -> Tensor:
        return cast(RankedEmbedding, self._words[0]).ranks

    def _vectors(self) -> tuple[Tensor, ...]:
        """The vectors that the head scores, and those of the words of each tail."""
        ends = [*self.cutoffs, self.size]
        sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
        head, *tails = torch.split(self.vectors, sizes)
        return torch.cat([head, self.tails]), *tails

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        ranks = self.ranks[targets].long()
        numbers = head_numbers(ranks, self.cutoffs)
        head, *tails = self._vectors()
        log_probs = exact_log_probs(self.projection(hidden), numbers, head, self.head_bias)
        for tail, (begin, project, vectors) in enumerate(zip(self.cutoffs, self.tail_projections, tails, strict=True)):
            positions = (numbers == self.cutoffs[0] + tail).nonzero()[:, 0]
            if len(positions):
                within = exact_log_probs(project(hidden[positions]), ranks[positions] - begin, vectors, None)
                log_probs = log_probs.index_add(0, positions, within)
        return log_probs

    def distribution(self, hidden: Tensor) -> Tensor:
        head, *tails = self._vectors()
        scores = F.linear(self.projection(hidden), head, self.head_bias).log_softmax(dim=-1)
        words, of_tails = torch.split(scores, [self.cutoffs[0], len(tails)])
        within = [
            log_prob + F.linear(project(hidden), vectors).log_softmax(dim=-1)
            for log_prob, project, vectors in zip(of_tails, self.tail_projections, tails, strict=True)
        ]
        return torch.cat([words, *within])[self.ranks]

    def use_word_vectors(self, vectors: Tensor, counts: Tensor, scale: float) -> None:
        """The head's vector of a tail begins as the mean of those of the tail's words; tails have no biases."""
        means, totals = group_means(self.vectors[self.ranks], counts, head_numbers(self.ranks.long(), self.cutoffs))
        self.tails.copy_(means[self.cutoffs[0] :])
        fill_biases(self.head_bias, totals)
