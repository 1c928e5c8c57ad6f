"""A recurrent cell from outside the package: h_t = max(0, W x_t + U h_{t-1} + b)."""

from functools import partial

import numpy as np
from torch import nn

from lightrnn.models.cells import Cell
from lightrnn.registry import CELLS

RELU = Cell(
    partial(nn.RNN, nonlinearity="relu"), gates=1, step=lambda inputs, hidden, before: [np.maximum(inputs + hidden, 0)]
)
CELLS.add("rnn-relu", RELU)
