"""Recurrent cells f of equation (1): for each, one record that says all there is to know of it.

Shapes: B batch, T steps, D embedding, H hidden, G gates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[Tensor, Tensor, Sequence[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Cell:
    """module: the layers over whole sequences; gates: G, so that W is (G·H, D) and U (G·H, H).

    step: W·x + b (B, G·H), U·h + b (B, G·H) and the state's tensors (B, H) before → those after, h first.
    states: how many tensors a state has. forget_gate: which of the gates, counted from 0, starts open; None: none.
    """

    module: type[nn.RNNBase]
    gates: int
    step: Step
    states: int = 1
    forget_gate: int | None = None


def _lstm(inputs: Tensor, hidden: Tensor, before: Sequence[Tensor]) -> list[Tensor]:
    i, f, g, o = (inputs + hidden).chunk(4, dim=-1)
    c = f.sigmoid() * before[1] + i.sigmoid() * g.tanh()
    return [o.sigmoid() * c.tanh(), c]


def _gru(inputs: Tensor, hidden: Tensor, before: Sequence[Tensor]) -> list[Tensor]:
    (r, z, n), (hr, hz, hn) = inputs.chunk(3, dim=-1), hidden.chunk(3, dim=-1)
    z = (z + hz).sigmoid()
    return [(1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * before[0]]


class SigmoidRNN(nn.RNN):
    """The paper's plain cell, h_t = σ(W x_t + U h_{t-1} + b), which PyTorch's nn.RNN leaves out. Batch first."""

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        if state is None:
            state = inputs.new_zeros(self.num_layers, inputs.shape[0], self.hidden_size)
        final = []
        for layer in range(self.num_layers):
            W, U, b_input, b_hidden = self.all_weights[layer]
            projected = F.linear(inputs, W, b_input + b_hidden)  # (B, T, H)
            h = state[layer]
            outputs = []
            for t in range(inputs.shape[1]):
                h = torch.sigmoid(projected[:, t] + h @ U.T)
                outputs.append(h)
            final.append(h)
            inputs = torch.stack(outputs, dim=1)
            if layer < self.num_layers - 1:
                inputs = F.dropout(inputs, self.dropout, self.training)
        return inputs, torch.stack(final)


LSTM = Cell(nn.LSTM, gates=4, step=_lstm, states=2, forget_gate=1)
GRU = Cell(nn.GRU, gates=3, step=_gru)
TANH = Cell(nn.RNN, gates=1, step=lambda inputs, hidden, before: [(inputs + hidden).tanh()])
SIGMOID = Cell(SigmoidRNN, gates=1, step=lambda inputs, hidden, before: [(inputs + hidden).sigmoid()])
