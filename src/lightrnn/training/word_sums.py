"""Word statistics: what a trained model says of every word, summed over its occurrences in the training text.

Shapes: W words that share rows, H hidden, D embedding, K components, n_s values of component s, B tracks side by side.

The loss of putting word w into row i (the paper's step 3) is linear in the scores up to a constant of the word:

    l_r(w, i) = const(w) - (Σ_{t ∈ S_w} h^c_{t-1}) · y^r_i - |S_w| · bias_i

so one sum of hidden states a word is all that is gathered, in one pass; no log-softmax. Exact for the first component;
for the others under the paper's assumption that the ones before stay.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import LightRNNError
from ..models.base import State
from ..models.lightrnn import LightRNN
from ..processes import here
from ..runtime import Progress, silent
from ..table.costs import Words
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from ..text.windows import sampled, text_windows
from .trainer import start_state

BATCH_SIZE = 64
WINDOW = 64
MEMORY = 8e9  # bytes that the sums may take
CHUNK = 1 << 16  # words whose means are computed together


@dataclass(frozen=True)
class WordSums:
    """Of the W words that share rows. counts[W]: how often each was seen; sums[s]: of the projected states that scored
    its component s, (W, H or D). Where is_scores[s], of those states' linear scores, (W, n_s), instead.
    """

    counts: NDArray[np.int64]
    sums: tuple[NDArray[np.float32], ...]
    is_scores: tuple[bool, ...]


def word_sums(
    model: LightRNN,
    ids: Ids,
    vocabulary: Vocabulary,
    *,
    components: int | None = None,
    for_matching: bool = False,
    sample: int = 0,
    memory: float = MEMORY,
    progress: Progress = silent,
) -> WordSums:
    """One pass over a text in windows as in training, or over a sample of so many of its words, dropout off; sums for
    the first `components` (default: all).

    A matching needs no more than scores, so for one these are summed where they are narrower than the states. Sums are
    kept in double precision where the memory allows, for the sake of very frequent words, else in single. Where several
    processes train together, each reads its share of the tracks, and the leader has the sums of all.
    """
    table = model.table
    size, units = len(table.sharing), model.scoring_vectors(0).shape[1]
    components = components or model.components
    shape = table.shared.shape[:components]
    is_scores = tuple(for_matching and n < units for n in shape)
    widths = [n if scores else units for n, scores in zip(shape, is_scores, strict=True)]
    needed = 4.0 * size * sum(widths)
    if needed > memory:
        raise LightRNNError(
            f"the word sums need {needed / 1e9:.1f} GB for {size:,} words and {units} units, and {memory / 1e9:.1f} GB "
            "are allowed; use a smaller vocabulary or fewer units"
        )
    processes = here()
    processes.call("word sums", components=components, for_matching=for_matching, sample=sample, memory=memory)
    ids = sampled(ids, sample)
    device = model.codes.device
    precision = torch.float64 if 2 * needed <= memory else torch.float32
    sums = [torch.zeros(size, width, dtype=precision, device=device) for width in widths]
    counts = torch.zeros(size, dtype=torch.int64, device=device)
    number = np.full(len(table), -1)  # of each word among those that share
    number[table.sharing] = np.arange(size)
    was_training = model.training
    model.eval()
    state: State | None = None
    done = 0
    read, whose = (
        text_windows(ids, vocabulary, spelling, BATCH_SIZE, WINDOW, np.random.default_rng(0))
        for spelling in (model.spelling, model.spelling.owners)
    )
    with torch.inference_mode():
        for whole, owners in zip(read, whose, strict=True):
            share = processes.share(len(whole.codes))
            window = whole.part(share.tracks)
            codes = torch.from_numpy(window.codes).to(device)
            if window.starts:
                state = start_state(model, window)
            hidden, state = model.hidden_states(codes, state)
            features = model.projection(hidden).flatten(0, 1)  # (B·S, H or D)
            words = number[owners.codes[share.tracks, model.components :]]
            if not share.weight:
                words.fill(-1)
            if window.mask is not None:
                words[~window.mask] = -1
            targets = window.codes[:, model.components :]
            for s in range(components):
                among = (targets >= model.offsets[s]) & (targets < model.offsets[s] + model.shape[s]) & (words >= 0)
                seen = torch.from_numpy(words[among]).to(device)
                states = features[torch.from_numpy(np.flatnonzero(among)).to(device)]
                states = states @ _shared_vectors(model, s).T if is_scores[s] else states
                sums[s].index_add_(0, seen, states.to(precision))
                if s == 0:
                    counts += torch.bincount(seen, minlength=size)
            done += window.tokens
            progress("reading words", done, len(ids))
    model.train(was_training)
    for total in (counts, *sums):
        processes.add_up(total)
    _fill_in_unknown([counts, *sums], vocabulary, number)
    return WordSums(counts.cpu().numpy(), tuple(total.float().cpu().numpy() for total in sums), is_scores)


def _fill_in_unknown(totals: list[Tensor], vocabulary: Vocabulary, number: NDArray[np.int64]) -> None:
    """Where training reads words seen once as unknown (text/rare.py), which the text itself does not have, the unknown
    word has its expected share of their counts and sums."""
    unknown, expected = int(number[vocabulary.unk_id]), int(vocabulary.counts[vocabulary.unk_id])
    rare = torch.from_numpy(number[(vocabulary.counts == 1) & (number >= 0)]).to(totals[0].device)
    if unknown >= 0 and expected and not totals[0][unknown] and len(rare):
        for total in totals:
            total[unknown] = total[rare].sum(dim=0) * expected / len(rare)


def _shared_vectors(model: LightRNN, component: int) -> Tensor:
    """Those of a component's values that words share: of the first, not those of words that stand alone."""
    return model.scoring_vectors(component)[0 if component else model.alone :]


@dataclass(frozen=True)
class LinearCosts:
    """l(w, i) of one component, less the word's constant, computed for blocks of words on demand."""

    sums: NDArray[np.float32]  # (W, H), or (W, n) of scores
    counts: NDArray[np.int64]  # (W,)
    vectors: NDArray[np.float32] | None  # (n, H); None where the sums are of scores already
    bias: NDArray[np.float32]  # (n,)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.sums), len(self.bias)

    def __getitem__(self, words: Words, /) -> NDArray[np.float32]:
        """Costs above each word's least: near zero where it matters, so single precision is enough."""
        counts = self.counts[words, None].astype(np.float32)
        if self.vectors is None:
            scores = self.sums[words] + counts * self.bias
        else:  # the bias as one more column, so that there is never a second matrix of this size
            scores = np.hstack([self.sums[words], counts]) @ np.hstack([self.vectors, self.bias[:, None]]).T
        np.subtract(scores.max(axis=1, keepdims=True), scores, out=scores)
        return scores


def matching_costs(model: LightRNN, sums: WordSums) -> list[LinearCosts]:
    """The paper's l_r and l_c for every word and value, one matrix a component."""
    vectors = [_shared_vectors(model, s).detach().cpu().numpy() for s in range(model.components)]
    shared = [model.alone, *(0 for _ in model.shape[1:])]
    biases = [np.zeros(len(y), np.float32) for y in vectors]
    for s, (bias, first) in enumerate(zip(model.output_bias, shared, strict=False)):
        if not model.has_word_biases(s):  # those go where their words go, and cost nothing
            biases[s] = bias.detach().cpu().numpy()[first:]
    return [
        LinearCosts(total, sums.counts, None if scores else y, bias)
        for total, scores, y, bias in zip(sums.sums, sums.is_scores, vectors, biases, strict=True)
    ]


def mean_states(sums: WordSums) -> NDArray[np.float32]:
    """(W, H or D): the mean state before each word, h^c_{t-1}: words used alike lie close together."""
    means = np.empty_like(sums.sums[0])
    for first in range(0, len(means), CHUNK):
        piece = slice(first, first + CHUNK)
        means[piece] = sums.sums[0][piece] / np.maximum(sums.counts[piece], 1)[:, None]
    return means
