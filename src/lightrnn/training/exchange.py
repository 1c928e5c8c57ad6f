"""What the processes of a training run exchange: gradients that are added up, or weights that are averaged."""

import torch
from torch import Tensor, nn

from ..errors import LightRNNError
from ..models.base import State
from ..processes import Processes, Share

Optimizers = dict[str, torch.optim.Optimizer]


def refuse_sparse_on_cuda(optimizers: Optimizers, device: torch.device, processes: Processes) -> None:
    """NCCL, which exchanges what is on CUDA, adds up dense tensors only."""
    if processes.size > 1 and device.type == "cuda" and "sparse_optimizer" in optimizers:
        raise LightRNNError(
            "a model whose mini-batches pick rows of word vectors, with sparse gradients, cannot be trained by several "
            "processes on CUDA; use --tied where --model has it, --device cpu, or one process"
        )


def add_gradients(
    optimizers: Optimizers, nats: Tensor, processes: Processes, sent_in: torch.dtype = torch.float32
) -> Tensor:
    """Every parameter's gradient becomes the sum over all processes; returns the sum of their losses, scalar.

    All that is dense goes as one flat tensor; in another type than float32, apart from what must be exact. A parameter
    that no process has a gradient for is left without, as it would be by one process; the flat tensor's end tells
    which.
    """
    if processes.size == 1:
        return nats
    dense = _parameters(optimizers["optimizer"])
    gradients = [_gradient(p).flatten() for p in dense]
    exact = nats.new_tensor([*(p.grad is not None for p in dense), nats.item()], dtype=torch.float32)
    if sent_in is torch.float32:
        flat = torch.cat([*gradients, exact])
        processes.add([flat])
        exact = flat[-len(exact) :]
    else:
        flat = torch.cat(gradients).to(sent_in)
        processes.add([flat, exact])
    sums = torch.split(flat[: sum(map(len, gradients))].float(), [len(gradient) for gradient in gradients])
    for parameter, gradient, times in zip(dense, sums, exact[:-1].tolist(), strict=True):
        parameter.grad = gradient.view_as(parameter) if times else None
    for parameter in _parameters(optimizers.get("sparse_optimizer")):
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter).to_sparse(1)
        parameter.grad = gradient.coalesce()
        processes.add([parameter.grad])
    return exact[-1]


def fill_gradients(optimizers: Optimizers) -> None:
    """Zeros where there is no gradient, so that the optimisers of all processes have the same parts."""
    for parameter in _parameters(optimizers["optimizer"]):
        parameter.grad = _gradient(parameter)


@torch.no_grad()
def average(optimizers: Optimizers, mean: nn.Module | None, processes: Processes) -> None:
    """Every parameter and its moments become the mean over all processes; and the mean of past parameters, which is
    linear in them: the mean of all processes' is that of what they would have had together."""
    tensors = list(mean.parameters()) if mean else []
    for optimizer in optimizers.values():
        for parameter in _parameters(optimizer):
            moments = (t for name, t in optimizer.state[parameter].items() if name != "step")
            tensors += (parameter, *moments)
    for tensor in tensors:
        processes.add([tensor])
        tensor.div_(processes.size)


def whole_state(state: State, share: Share, processes: Processes) -> State:
    """The state of all tracks, from those of each process's share; in single precision where there are several, whose
    machines may differ."""
    if processes.size == 1:
        return state
    found = []
    for tensor in state:
        whole = tensor.new_zeros(tensor.shape[0], share.of, *tensor.shape[2:], dtype=torch.float32)
        if share.weight:
            whole[:, share.tracks] = tensor.float()
        processes.add([whole])
        found.append(whole)
    return tuple(found)


def _parameters(optimizer: torch.optim.Optimizer | None) -> list[nn.Parameter]:
    return [] if optimizer is None else optimizer.param_groups[0]["params"]


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
