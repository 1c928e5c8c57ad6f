"""Single steps of a trained model, at half their cost: W·x is looked up, not computed.

Shapes: B batch, N = Σ n_s input vectors, H hidden, L layers, G gates of the cell (4 lstm, 3 gru, 1 rnn).

With dropout off there are only N different inputs of the first layer, 2√V for K = 2, so their products with W are a
table of (N, G·H), made once. Where many codes are fed after one and the same state (all rows of a table, say), U·h is
computed once for all of them.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.lightrnn import LightRNN, State


class Steps:
    """The recurrence of a LightRNN step by step, dropout off; what `model.step` gives for one code a time."""

    def __init__(self, model: LightRNN) -> None:
        self._cell = CELLS[model.config.cell]
        self._layers: list[list[Tensor]] = [[w.detach() for w in layer] for layer in model.recurrence.all_weights]
        W, _, b_input, _ = self._layers[0]
        self._products = F.linear(model.input_vectors.weight.detach(), W, b_input)  # (N, G·H)

    def __call__(self, codes: Tensor, state: State) -> tuple[Tensor, State]:
        """Feed stacked codes (B,), i.e. indices of input_vectors, after a state of B tracks, or of one for all.

        Returns the outputs (B, H) and the state after them.
        """
        inputs = self._products[codes]  # (B, G·H)
        after: list[list[Tensor]] = []
        for layer, (W, U, b_input, b_hidden) in enumerate(self._layers):
            if layer:
                inputs = F.linear(after[-1][0], W, b_input)
            before = [tensor[layer] for tensor in state]  # (1 or B, H) each
            after.append(self._cell(inputs, F.linear(before[0], U, b_hidden), before))
        return after[-1][0], tuple(torch.stack(tensors) for tensors in zip(*after, strict=True))


def _lstm(inputs: Tensor, hidden: Tensor, before: list[Tensor]) -> list[Tensor]:
    i, f, g, o = (inputs + hidden).chunk(4, dim=-1)
    c = f.sigmoid() * before[1] + i.sigmoid() * g.tanh()
    return [o.sigmoid() * c.tanh(), c]


def _gru(inputs: Tensor, hidden: Tensor, before: list[Tensor]) -> list[Tensor]:
    (r, z, n), (hr, hz, hn) = inputs.chunk(3, dim=-1), hidden.chunk(3, dim=-1)
    z = (z + hz).sigmoid()
    return [(1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * before[0]]


CELLS: dict[str, Callable[[Tensor, Tensor, list[Tensor]], list[Tensor]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn-tanh": lambda inputs, hidden, before: [(inputs + hidden).tanh()],
    "rnn-sigmoid": lambda inputs, hidden, before: [(inputs + hidden).sigmoid()],
}
