"""What comes next after a state: one word's probability, all words', the likeliest ones, a draw.

Shapes: V vocabulary, K components, n_s values of component s, P prefixes (the first s components of a place), H hidden.

A `state` is what `log_probs` leaves behind: all codes of the words before were fed but the last word's last one. So
every question begins by feeding that code, which gives the row softmax.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .base import State, select_state
from .likeliest import Likeliest, draw_from
from .steps import Steps

if TYPE_CHECKING:
    from .lightrnn import LightRNN

FIRST_CHUNK, LAST_CHUNK = 16, 256  # rows opened together by the search


class CodePredictor:
    """A LightRNN made ready to answer, one state at a time: see base.Predictor."""

    def __init__(self, model: "LightRNN") -> None:
        self._model = model
        self._steps = Steps(model.cell, model.recurrence, model.input_vectors.weight)
        self._shape = model.shape
        self._stacked = (model.codes + model.offsets).long()  # (V, K): indices of input_vectors
        self._codes = model.codes.long()
        table = model.table
        self._place_of_word = torch.from_numpy(table.places).to(model.codes.device)  # (V,)
        self._word_of_place = table.words

    @torch.inference_mode()
    def fresh_state(self, word: int) -> State:
        """All codes of the word but the last are read, from nothing."""
        state = self._model.initial_state(1)
        for code in self._stacked[word, :-1]:
            _, state = self._steps(code.view(1), state)
        return state

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
    def all_words(self, last_word: int, state: State) -> NDArray[np.float64]:
        """(V,): the natural-log probability of every word; exp of it sums to 1. One batched step a component."""
        prefixes = self._root(last_word, state)
        for s in range(len(self._shape)):
            prefixes = self._open(s, prefixes)
        return prefixes.log_probs[self._place_of_word].double().cpu().numpy()

    @torch.inference_mode()
    def likeliest(
        self, last_word: int, state: State, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> Likeliest:
        """The `count` most probable words, exactly; of those in allowed[V], if given.

        A word is never likelier than its row: P(w) = P_r(row) · P_c(column | row) ≤ P_r(row). So rows are opened in
        falling order of P_r, and no more once P_r is not above the least of the best words found. The same for K > 2,
        one component after the other.
        """
        count = min(count, len(self._word_of_place))
        masks = self._allowed_prefixes(allowed)
        best_places = self._codes.new_zeros(0)
        best = torch.zeros(0, device=best_places.device)
        opened = 0

        def search(s: int, prefixes: "_Prefixes") -> None:
            """Open prefixes with s components, likeliest first."""
            nonlocal best_places, best, opened
            if masks is not None and s:
                prefixes.log_probs.masked_fill_(~masks[s - 1][prefixes.places], -torch.inf)
            if s == len(self._shape):
                found = torch.cat([best, prefixes.log_probs])
                best, kept = found.topk(min(count, len(found)))
                best_places = torch.cat([best_places, prefixes.places])[kept]
                return
            order = prefixes.log_probs.argsort(descending=True)
            begin, chunk = 0, FIRST_CHUNK
            while begin < len(order):
                some = order[begin : begin + chunk]
                if len(best) == count:
                    some = some[prefixes.log_probs[some] > best[-1]]
                    if len(some) == 0:
                        return
                opened += len(some) if s else 0
                search(s + 1, self._open(s, prefixes.select(some)))
                begin, chunk = begin + chunk, min(2 * chunk, LAST_CHUNK)

        search(0, self._root(last_word, state))
        some = best > -torch.inf
        return Likeliest(
            self._word_of_place[best_places[some].cpu().numpy()], best[some].double().cpu().numpy(), opened
        )

    @torch.inference_mode()
    def draw(self, last_word: int, state: State, temperature: float, random: np.random.Generator) -> int:
        """A random word: one draw a component, no distribution over words. Temperature 0 takes the likeliest each time,
        the paper's greedy row, then column."""
        feed = self._stacked[last_word, -1]
        place: list[int] = []
        for s in range(len(self._shape)):
            outputs, state = self._steps(feed.view(1), state)
            prefix = torch.tensor([place], dtype=torch.long, device=outputs.device)
            scores = self._model.scores(s, outputs, prefix)[0].cpu().numpy()  # (n_s,)
            place.append(draw_from(scores, temperature, random))
            feed = self._model.offsets[s] + place[-1]
        return int(self._word_of_place[np.ravel_multi_index(place, self._shape)])

    def _root(self, last_word: int, state: State) -> "_Prefixes":
        none = self._codes.new_zeros(1)
        return _Prefixes(none, none.float(), self._stacked[last_word, -1:], state, none)

    def _open(self, s: int, prefixes: "_Prefixes") -> "_Prefixes":
        """All extensions of some prefixes with s components by component s, those that exist, in order."""
        state = prefixes.state
        if state[0].shape[1] > 1:
            state = select_state(state, prefixes.tracks)
        outputs, after = self._steps(prefixes.feed, state)  # (P, H)
        n, places = self._shape[s], prefixes.places
        digits = [places // prod(self._shape[i + 1 : s]) % self._shape[i] for i in range(s)]
        codes = torch.stack(digits, dim=1) if s else places.new_zeros(1, 0)  # (P, s)
        log_probs = self._model.scores(s, outputs, codes).log_softmax(dim=-1)  # (P, n_s)
        log_probs += prefixes.log_probs[:, None]
        values = torch.arange(n, device=places.device)
        extended = _Prefixes(
            (places[:, None] * n + values).flatten(),
            log_probs.flatten(),
            (values + self._model.offsets[s]).repeat(len(places)),
            after,
            torch.arange(len(places), device=places.device).repeat_interleave(n),
        )
        existing = -(-len(self._word_of_place) // prod(self._shape[s + 1 :]))
        if self._model.is_full or bool(extended.places.max() < existing):
            return extended
        return extended.select(torch.nonzero(extended.places < existing)[:, 0])

    def _allowed_prefixes(self, allowed: NDArray[np.bool_] | None) -> list[Tensor] | None:
        """For every component s, whether a prefix with s+1 components leads to an allowed word."""
        if allowed is None:
            return None
        places = np.flatnonzero(allowed[self._word_of_place])
        masks = []
        for s in range(len(self._shape)):
            below = prod(self._shape[s + 1 :])
            mask = torch.zeros(-(-len(allowed) // below), dtype=torch.bool)
            mask[torch.from_numpy(places // below)] = True
            masks.append(mask.to(self._codes.device))
        return masks


@dataclass(frozen=True)
class _Prefixes:
    """P first parts of places: their numbers in lexicographic order, log-probabilities, the code to feed next, and
    after which track of `state` (a single one serves all)."""

    places: Tensor
    log_probs: Tensor
    feed: Tensor
    state: State
    tracks: Tensor

    def select(self, some: Tensor) -> "_Prefixes":
        return _Prefixes(self.places[some], self.log_probs[some], self.feed[some], self.state, self.tracks[some])
