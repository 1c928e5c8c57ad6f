"""Single steps of a trained model, at half their cost: W·x is looked up, not computed.

Shapes: B batch, N = Σ n_s input vectors, H hidden, L layers, G gates of the cell (4 lstm, 3 gru, 1 rnn).

With dropout off there are only N different inputs of the first layer, 2√V for K = 2, so their products with W are a
table of (N, G·H), made once. Where many codes are fed after one and the same state (all rows of a table, say), U·h is
computed once for all of them.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import State
from .cells import Cell


class Steps:
    """A recurrence over vectors (N, D) step by step, dropout off: what its module gives for one vector at a time."""

    def __init__(self, cell: Cell, recurrence: nn.RNNBase, vectors: Tensor) -> None:
        self._cell = cell
        self._layers: list[list[Tensor]] = [[w.detach() for w in layer] for layer in recurrence.all_weights]
        W, _, b_input, _ = self._layers[0]
        self._products = F.linear(vectors.detach(), W, b_input)  # (N, G·H)

    def __call__(self, numbers: Tensor, state: State) -> tuple[Tensor, State]:
        """Feed vectors, by their numbers (B,), after a state of B tracks, or of one for all.

        Returns the outputs (B, H) and the state after them.
        """
        inputs = self._products[numbers]  # (B, G·H)
        after: list[list[Tensor]] = []
        for layer, (W, U, b_input, b_hidden) in enumerate(self._layers):
            if layer:
                inputs = F.linear(after[-1][0], W, b_input)
            before = [tensor[layer] for tensor in state]  # (1 or B, H) each
            after.append(self._cell.step(inputs, F.linear(before[0], U, b_hidden), before))
        return after[-1][0], tuple(torch.stack(tensors) for tensors in zip(*after, strict=True))
