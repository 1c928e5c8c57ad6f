"""A trained LightRNN in NumPy: what it computes, without PyTorch. lightrnn.py has the same for training.

Shapes: B batch, S codes, V vocabulary, K components, n_s values of component s, N = Σ n_s input vectors, P positions,
D embedding, H hidden, L layers, G gates of the cell, F features: D where vectors are tied and projected to, else H.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..registry import CELLS
from ..table.word_table import WordTable
from ..text.spelling import Codes
from .cells import Array, Cell
from .reader import Arrays
from .sizes import head_of, weight_shapes
from .tensors import check_like

Numbers = NDArray[np.int64]

LARGEST_TABLE = 1 << 26  # products that are kept; 256 MB
AT_ONCE = 1 << 20  # scores that are made together, so that they stay in a cache


class Steps:
    """A recurrence over vectors (N, D) step by step, dropout off: what its layers give for one vector at a time.

    There are only N different inputs of the first layer, 2√V for K = 2, so their products with W are a table of
    (N, G·H), made once: half of a step's arithmetic. Where many codes are fed after one and the same state (all rows of
    a table, say), U·h is computed once for all of them.
    """

    def __init__(self, cell: Cell, layers: list[list[Array]], vectors: Array) -> None:
        """layers: of each W, U and the two biases, as PyTorch has them."""
        self._cell = cell
        self._layers = [(W.T, U.T, b_input, b_hidden) for W, U, b_input, b_hidden in layers]
        self._vectors = vectors
        self.start = self.initial_state(1)

    def initial_state(self, batch_size: int) -> Arrays:
        size = (len(self._layers), batch_size, len(self._layers[0][1]))
        return tuple(np.zeros(size, np.float32) for _ in range(self._cell.states))

    def __call__(self, numbers: Numbers, state: Arrays) -> tuple[Array, Arrays]:
        """Feed vectors, by their numbers (B,), after a state of B tracks, or of one for all.

        Returns the outputs (B, H) and the state after them.
        """
        inputs = self._inputs(numbers)
        after: list[list[Array]] = []
        for layer, (W, U, b_input, b_hidden) in enumerate(self._layers):
            if layer:
                inputs = product(after[-1][0], W) + b_input
            before = [array[layer] for array in state]  # (1 or B, H) each
            after.append(self._cell.step(inputs, product(before[0], U) + b_hidden, before))
        return after[-1][0], tuple(np.stack(arrays) for arrays in zip(*after, strict=True))

    def _inputs(self, numbers: Numbers) -> Array:
        """W·x + b of the first layer, (B, G·H)."""
        W, _, b_input, _ = self._layers[0]
        if len(self._vectors) * len(b_input) > LARGEST_TABLE:
            return product(self._vectors[numbers], W) + b_input
        return self._products[numbers]

    @cached_property
    def _products(self) -> Array:
        W, _, b_input, _ = self._layers[0]
        products: Array = product(self._vectors, W) + b_input  # (N, G·H)
        return products


class CodeNetwork:
    """The network over the codes of a word table, from its weights; a Reader of texts.

    steps: its recurrence. offsets: the number of the first code of each component.
    """

    def __init__(self, config: ModelConfig, weights: Mapping[str, NDArray[Any]], table: WordTable) -> None:
        """weights: as LightRNN.state_dict names them; the codes among them, if they are, are the table's."""
        check_like({name: array for name, array in weights.items() if name != "codes"}, _expected(config, table))

        def layer(index: int) -> list[Array]:
            return [weights[f"recurrence.{name}_l{index}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]

        self.table, self.spelling = table, table.spelling
        vectors = weights["input_vectors.weight"]
        self.steps = Steps(CELLS[config.cell], [layer(index) for index in range(config.layers)], vectors)
        self.offsets = [sum(table.shape[:s]) for s in range(table.components)]
        tied = [vectors[first : first + n] for first, n in zip(self.offsets, table.shape, strict=True)]
        outputs = tied if config.tied else [weights[f"output_vectors.{s}"] for s in range(table.components)]
        self._vectors = [vectors.T for vectors in outputs]  # (F, n_s)
        self._projection = weights["projection.weight"].T if "projection.weight" in weights else None  # (H, D)
        # (n_s,) each, or where words have biases those of the last component, (prefixes, n_K)
        self._biases = [weights.get(f"output_bias.{s}", np.zeros(n, np.float32)) for s, n in enumerate(table.shape)]
        self._head = head_of(config, table.shape[0], table.alone)
        if self._head:
            rest = weights["rest_vector"].T, weights.get("rest_bias", np.zeros(1, np.float32))
            self._head_vectors = np.concatenate([self._vectors[0][:, : self._head], rest[0]], axis=1)
            self._head_biases = np.concatenate([self._biases[0][: self._head], rest[1]])

    def project(self, hidden: Array) -> Array:
        """What codes are scored by: outputs of the recurrence (P, H) → features (P, F)."""
        return hidden if self._projection is None else product(hidden, self._projection)

    def log_probs(self, component: int, features: Array, prefix: Numbers) -> Array:
        """Equation (2): features (P, F), the codes before (P, component), counted from 0 in each component → natural
        logs (P, n_component); see LightRNN.scores."""
        if component == 0 and self._head:
            of_head = _log_softmax(product(features, self._head_vectors) + self._head_biases)
            within = _log_softmax(product(features, self._vectors[0][:, self._head :]) + self._biases[0][self._head :])
            return np.concatenate([of_head[:, :-1], within + of_head[:, -1:]], axis=1)
        return _log_softmax(self._scores(component, features, prefix))

    def _scores(self, component: int, features: Array, prefix: Numbers) -> Array:
        bias = self._biases[component]
        of_words = bias.ndim > 1
        scores = product(features, self._vectors[component])
        scores += bias[self.table.prefix_numbers(prefix)] if of_words else bias
        last = self.table.last_place
        if not self.table.is_full and last[component] < self.table.shape[component] - 1:
            on_edge = (prefix == np.array(last[:component], np.int64)).all(axis=-1)  # (P,)
            missing = np.arange(self.table.shape[component]) > last[component]  # (n_s,)
            scores[on_edge[:, None] & missing] = -np.inf
        return scores

    # --- texts

    def initial_state(self, batch_size: int) -> Arrays:
        return self.steps.initial_state(batch_size)

    def features(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        """Codes (B, K+S) → what the last S of them are scored by, (B, S, F), and the state; see LightRNN.code_log_probs
        for what is fed."""
        K = self.table.components
        begin = K - 1 if state is not None else int((codes[0, :K] < 0).sum())
        state = self.initial_state(len(codes)) if state is None else state
        outputs = []
        for step in range(begin, codes.shape[1] - 1):
            output, state = self.steps(codes[:, step], state)
            if step >= K - 1:
                outputs.append(output)
        hidden = np.stack(outputs, axis=1)  # (B, S, H)
        return self.project(hidden.reshape(-1, hidden.shape[-1])).reshape(*hidden.shape[:2], -1), state

    def code_log_probs(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        """Equation (3) code by code: codes (B, K+S), the K before and the S to score → (B, S, 1), and the state."""
        features, state = self.features(codes, state)
        return self.scored(codes, features), state

    def scored(self, codes: Codes, features: Array) -> Array:
        """The last S of the codes (B, K+S) by their features (B, S, F): (B, S, 1)."""
        K = self.table.components
        features, targets = features.reshape(-1, features.shape[-1]), codes[:, K:].ravel()
        found = np.zeros(len(targets), np.float32)
        for s, (first, n) in enumerate(zip(self.offsets, self.table.shape, strict=True)):
            where = np.flatnonzero((targets >= first) & (targets < first + n))
            for some in np.split(where, range(0, len(where), max(AT_ONCE // max(n, 1), 1))[1:]):
                if len(some):
                    found[some] = self.picked(s, features[some], targets[some] - first, _before(codes, some, K, s))
        return found.reshape(len(codes), -1, 1)

    def picked(self, component: int, features: Array, values: Numbers, before: Codes) -> Array:
        """(P,): the log-probabilities of one value each; before (P, component): the codes before them, of all
        components."""
        if component == 0 and self._head:
            found = _pick(product(features, self._head_vectors) + self._head_biases, np.minimum(values, self._head))
            rest = np.flatnonzero(values >= self._head)
            within = product(features[rest], self._vectors[0][:, self._head :]) + self._biases[0][self._head :]
            found[rest] += _pick(within, values[rest] - self._head)
            return found
        return _pick(self._scores(component, features, before - np.array(self.offsets[:component], np.int64)), values)

    def word_vectors(self) -> Array:
        """(V, H): the state that each word leaves when it is read by itself; see LightRNN.word_vectors."""
        assert self.spelling.codes is not None
        spelled = self.spelling.codes
        vectors = np.empty((len(spelled), len(self.steps.start[0][0, 0])), np.float32)
        for length in (1, self.table.components):
            words = np.flatnonzero((spelled >= 0).sum(axis=1) == length)
            for begin in range(0, len(words), 1 << 12):
                block = words[begin : begin + (1 << 12)]
                state = self.initial_state(len(block))
                for s in range(length):
                    vectors[block], state = self.steps(spelled[block, s], state)
        return vectors


def product(left: Array, right: Array) -> Array:
    """left (M, N) times right (N, P), of finite numbers. One of OpenBLAS's kernels for small matrices now and then sets
    the processor's flag of an invalid operation in lanes that no result comes from; NumPy would warn of it."""
    with np.errstate(invalid="ignore"):
        found: Array = left @ right
    return found


def _expected(config: ModelConfig, table: WordTable) -> dict[str, NDArray[Any]]:
    """Arrays like a LightRNN's weights, of names, shapes and kinds, that take no memory."""
    shapes = weight_shapes(config, table.shape, table.alone, len(table))
    return {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}


def _before(codes: Codes, where: Numbers, components: int, component: int) -> Codes:
    """(P, component): the codes before some of those to score, given by their flat positions."""
    length = codes.shape[1] - components
    tracks, steps = where // length, where % length + components
    before: Codes = codes[tracks[:, None], steps[:, None] - np.arange(component, 0, -1)]
    return before


def _log_softmax(scores: Array) -> Array:
    """In place, over the last dimension."""
    scores -= scores.max(axis=-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return scores


def _pick(scores: Array, values: Numbers) -> Array:
    """(P,): the log-softmax of scores (P, n) at one value each; the scores are used up."""
    scores -= scores.max(axis=-1, keepdims=True)
    picked = np.take_along_axis(scores, values[:, None], axis=1)[:, 0]
    found: Array = picked - np.log(np.exp(scores, out=scores).sum(axis=-1))
    return found
