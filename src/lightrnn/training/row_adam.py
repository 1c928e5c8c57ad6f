"""Adam for weights of which a step touches some rows only.

The rule is that of torch.optim.SparseAdam: rows without a gradient keep their values and their moments, and the bias
correction counts all steps. Here the touched rows are copied out, updated by PyTorch's one fused kernel and copied
back, which is several times as fast where rows are wide or many.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class RowAdam(torch.optim.Optimizer):
    """Takes coalesced sparse gradients of matrices."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        super().__init__(parameters, {"lr": lr, "fused": True})  # fused: a loaded state keeps its steps on the device

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, self.state[parameter], group["lr"])

    def _update(self, parameter: Tensor, state: dict[str, Any], rate: float) -> None:
        assert parameter.grad is not None
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        rows, gradient = parameter.grad.indices()[0], parameter.grad.values()
        whole = (parameter, state["exp_avg"], state["exp_avg_sq"])
        weights, means, squares = touched = [tensor.index_select(0, rows) for tensor in whole]
        adam(
            [weights],
            [gradient],
            [means],
            [squares],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
        for tensor, part in zip(whole, touched, strict=True):
            tensor.index_copy_(0, rows, part)
