"""What comes next after a state: one word's probability, all words', the likeliest ones, a draw.

Shapes: V vocabulary, K components, n_s values of component s, P prefixes (the first s components of a cell), H hidden.

A `state` is what `log_probs` leaves behind: all codes of the words before were fed but the last word's last one. So
every question begins by feeding that code, which gives the row softmax.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .model import LanguageModel, LightRNN, State, select_state
from .steps import Steps

FIRST_CHUNK, LAST_CHUNK = 8, 256  # rows opened together by the search


@dataclass(frozen=True)
class Found:
    """The likeliest words, best first, with natural-log probabilities; opened: how many prefixes (rows) it took."""

    words: NDArray[np.int64]
    log_probs: NDArray[np.float64]
    opened: int


def best_of(log_probs: NDArray[np.float64], count: int, allowed: NDArray[np.bool_] | None = None) -> Found:
    """The likeliest words of a whole distribution, log_probs[V]."""
    values = log_probs if allowed is None else np.where(allowed, log_probs, -np.inf)
    count = min(count, len(values))
    best = np.argpartition(-values, count - 1)[:count]
    best = best[np.argsort(-values[best], kind="stable")]
    best = best[values[best] > -np.inf]
    return Found(best, values[best], 0)


def draw_from(log_probs: NDArray[np.float64], temperature: float, generator: torch.Generator | None) -> int:
    """A word drawn from a distribution, log_probs[V] up to a constant; at temperature 0 the likeliest."""
    if temperature == 0:
        return int(np.argmax(log_probs))
    scores = torch.from_numpy(log_probs) / temperature
    places = (
        torch.rand(1, dtype=torch.float64, generator=generator) * (total := scores.softmax(dim=-1).cumsum(dim=-1))[-1]
    )
    return int(torch.searchsorted(total, places, right=True).clamp_(max=len(log_probs) - 1))


class GeneralPredictor:
    """The same questions to any other model, by its whole distribution."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    @torch.inference_mode()
    def word(self, last_word: int, state: State, word: int) -> tuple[float, State]:
        log_probs, state = self._model.log_probs(torch.tensor([[last_word, word]], device=state[0].device), state)
        return float(log_probs.double().sum()), state

    @torch.inference_mode()
    def all_words(self, last_word: int, state: State) -> Tensor:
        return self._model.next_log_probs(last_word, state)

    def likeliest(self, last_word: int, state: State, count: int, allowed: NDArray[np.bool_] | None = None) -> Found:
        return best_of(self.all_words(last_word, state).double().cpu().numpy(), count, allowed)

    def draw(
        self, last_word: int, state: State, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> int:
        return draw_from(self.all_words(last_word, state).double().cpu().numpy(), temperature, generator)


class Predictor:
    """A LightRNN made ready to answer, one state at a time."""

    def __init__(self, model: LightRNN) -> None:
        self._model = model
        self._steps = Steps(model)
        self._shape = model.shape
        self._stacked = (model.codes + model.offsets).long()  # (V, K): indices of input_vectors
        self._codes = model.codes.long()
        table = model.table
        self._cell_of_word = torch.from_numpy(table.cells).to(model.codes.device)  # (V,)
        self._word_of_cell = table.words

    @torch.inference_mode()
    def word(self, last_word: int, state: State, word: int) -> tuple[float, State]:
        """The natural-log probability of one word, and the state after it: K steps and K softmaxes."""
        codes = self._codes[word]  # (K,)
        feeds = torch.cat([self._stacked[last_word, -1:], self._stacked[word, :-1]])  # (K,)
        total = 0.0
        for s in range(len(codes)):
            outputs, state = self._steps(feeds[s : s + 1], state)
            scores = self._model.scores(s, outputs, codes[None, :s])[0]
            total += float(scores[codes[s]] - scores.logsumexp(dim=-1))
        return total, state

    @torch.inference_mode()
    def all_words(self, last_word: int, state: State) -> Tensor:
        """(V,): the natural-log probability of every word; exp of it sums to 1. One batched step a component."""
        prefixes = self._root(last_word, state)
        for s in range(len(self._shape)):
            prefixes = self._children(s, prefixes, torch.arange(len(prefixes.cells), device=self._codes.device))
        return prefixes.log_probs[self._cell_of_word]

    @torch.inference_mode()
    def likeliest(self, last_word: int, state: State, count: int, allowed: NDArray[np.bool_] | None = None) -> Found:
        """The `count` most probable words, exactly; of those in allowed[V], if given.

        A word is never likelier than its row: P(w) = P_r(row) · P_c(column | row) ≤ P_r(row). So rows are opened in
        falling order of P_r, and no more once P_r is not above the least of the best words found. The same for K > 2,
        one component after the other.
        """
        V, K = len(self._cell_of_word), len(self._shape)
        count = min(count, V)
        best_cells = self._codes.new_zeros(0)
        best = torch.zeros(0, device=best_cells.device)
        opened = 0
        masks = self._allowed_prefixes(allowed)

        def search(s: int, prefixes: "_Prefixes") -> None:
            """Open prefixes with s components, likeliest first."""
            nonlocal best_cells, best, opened
            order = prefixes.log_probs.argsort(descending=True)
            begin, chunk = 0, FIRST_CHUNK
            while begin < len(order):
                some = order[begin : begin + chunk]
                least = float(best[-1]) if len(best) == count else -torch.inf
                some = some[prefixes.log_probs[some] > least]
                if len(some) == 0:
                    return
                opened += len(some) if s else 0
                children = self._children(s, prefixes, some)
                if masks is not None:
                    children.log_probs.masked_fill_(~masks[s][children.cells], -torch.inf)
                if s == K - 1:
                    found, cells = torch.cat([best, children.log_probs]), torch.cat([best_cells, children.cells])
                    best, kept = found.topk(min(count, len(found)))
                    best_cells = cells[kept]
                else:
                    search(s + 1, children)
                begin, chunk = begin + chunk, min(2 * chunk, LAST_CHUNK)

        search(0, self._root(last_word, state))
        some = best > -torch.inf
        return Found(self._word_of_cell[best_cells[some].cpu().numpy()], best[some].double().cpu().numpy(), opened)

    @torch.inference_mode()
    def draw(
        self, last_word: int, state: State, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> int:
        """A random word: one draw a component, no distribution over words. Temperature 0 takes the likeliest each time,
        the paper's greedy row, then column."""
        feed = self._stacked[last_word, -1]
        cell: list[int] = []
        for s in range(len(self._shape)):
            outputs, state = self._steps(feed.view(1), state)
            prefix = torch.tensor([cell], dtype=torch.long, device=outputs.device)
            scores = self._model.scores(s, outputs, prefix)[0].cpu()  # (n_s,)
            if temperature == 0:
                cell.append(int(scores.argmax()))
            else:
                cell.append(int(torch.multinomial((scores / temperature).softmax(dim=-1), 1, generator=generator)))
            feed = self._model.offsets[s] + cell[-1]
        return int(self._word_of_cell[np.ravel_multi_index(cell, self._shape)])

    def _root(self, last_word: int, state: State) -> "_Prefixes":
        device = self._codes.device
        none = torch.zeros(1, dtype=torch.long, device=device)
        return _Prefixes(none, torch.zeros(1, device=device), self._stacked[last_word, -1:], none, state)

    def _children(self, s: int, prefixes: "_Prefixes", some: Tensor) -> "_Prefixes":
        """What follows some prefixes with s components: their extensions by component s, those that exist."""
        states = prefixes.state
        if states[0].shape[1] > 1:
            states = select_state(states, prefixes.parents[some])
        outputs, after = self._steps(prefixes.feed[some], states)  # (P, H)
        cells = prefixes.cells[some]
        digits = [cells // prod(self._shape[i + 1 : s]) % self._shape[i] for i in range(s)]
        codes = torch.stack(digits, dim=1) if s else cells.new_zeros(len(cells), 0)  # (P, s)
        log_probs = self._model.scores(s, outputs, codes).log_softmax(dim=-1)  # (P, n_s)
        log_probs += prefixes.log_probs[some, None]
        n = self._shape[s]
        values = torch.arange(n, device=cells.device)
        extended = (cells[:, None] * n + values).flatten()
        existing = extended < -(-len(self._cell_of_word) // prod(self._shape[s + 1 :]))
        parents = torch.arange(len(cells), device=cells.device).repeat_interleave(n)
        feed = (values + self._model.offsets[s]).repeat(len(cells))
        return _Prefixes(extended[existing], log_probs.flatten()[existing], feed[existing], parents[existing], after)

    def _allowed_prefixes(self, allowed: NDArray[np.bool_] | None) -> list[Tensor] | None:
        """For every component s, whether a prefix with s+1 components leads to an allowed word."""
        if allowed is None:
            return None
        cells = np.flatnonzero(allowed[self._word_of_cell])
        masks = []
        for s in range(len(self._shape)):
            below = prod(self._shape[s + 1 :])
            mask = torch.zeros(-(-len(allowed) // below), dtype=torch.bool)
            mask[torch.from_numpy(cells // below)] = True
            masks.append(mask.to(self._codes.device))
        return masks


@dataclass(frozen=True)
class _Prefixes:
    """P first parts of cells: their numbers in lexicographic order, log-probabilities, the code to feed next, and after
    which of the tracks of `state` (a single one serves all)."""

    cells: Tensor
    log_probs: Tensor
    feed: Tensor
    parents: Tensor
    state: State
