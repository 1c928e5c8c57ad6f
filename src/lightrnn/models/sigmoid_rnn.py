"""The paper's plain cell, h_t = σ(W x_t + U h_{t-1} + b), which PyTorch's nn.RNN leaves out.

Shapes: B batch, T steps, D embedding, H hidden.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SigmoidRNN(nn.RNN):
    """Layers of it, batch first."""

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
