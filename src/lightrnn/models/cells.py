"""Recurrent cells f of equation (1): for each, one record that says all there is to know of it.

Shapes: B batch, H hidden, G gates. PyTorch is imported when layers are made; a single step is NumPy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

Array = NDArray[np.float32]
Step = Callable[[Array, Array, Sequence[Array]], list[Array]]


@dataclass(frozen=True)
class Cell:
    """layers: makes a torch.nn module over whole sequences, with the arguments of nn.LSTM; gates: G, so that W is
    (G·H, D) and U (G·H, H).

    step: W·x + b (B, G·H), U·h + b (B, G·H) and the state's arrays (B, H) before → those after, h first.
    states: how many arrays a state has. forget_gate: which of the gates, counted from 0, starts open; None: none.
    steps_first: whether the layers keep their outputs step by step, as PyTorch's own do, which is the order in which
    dropout is drawn; else track by track.
    """

    layers: "Callable[..., nn.RNNBase]"
    gates: int
    step: Step
    states: int = 1
    forget_gate: int | None = None
    steps_first: bool = True


def _of_torch(name: str) -> "Callable[..., nn.RNNBase]":
    """A module of torch.nn, by its name."""

    def layers(*sizes: int, **options: Any) -> "nn.RNNBase":
        from torch import nn

        found: nn.RNNBase = getattr(nn, name)(*sizes, **options)
        return found

    return layers


def _sigmoid_layers(*sizes: int, **options: Any) -> "nn.RNNBase":
    from .sigmoid_rnn import SigmoidRNN

    return SigmoidRNN(*sizes, **options)


def sigmoid(x: Array) -> Array:
    result: Array = np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))  # never overflows
    return result


def _lstm(inputs: Array, hidden: Array, before: Sequence[Array]) -> list[Array]:
    i, f, g, o = np.split(inputs + hidden, 4, axis=-1)
    c = sigmoid(f) * before[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def _gru(inputs: Array, hidden: Array, before: Sequence[Array]) -> list[Array]:
    (r, z, n), (hr, hz, hn) = np.split(inputs, 3, axis=-1), np.split(hidden, 3, axis=-1)
    z = sigmoid(z + hz)
    return [(1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * before[0]]


LSTM = Cell(_of_torch("LSTM"), gates=4, step=_lstm, states=2, forget_gate=1)
GRU = Cell(_of_torch("GRU"), gates=3, step=_gru)
TANH = Cell(_of_torch("RNN"), gates=1, step=lambda inputs, hidden, before: [np.tanh(inputs + hidden)])
SIGMOID = Cell(
    _sigmoid_layers, gates=1, step=lambda inputs, hidden, before: [sigmoid(inputs + hidden)], steps_first=False
)
