"""All tensors of a training run by name: taken at a pause, given back to a Trainer that goes on from there.

Weights, optimiser, carried state, random state. With `Trainer.position`, which is plain numbers, they are all there is.
"""

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ..errors import LightRNNError
from ..models.base import State, select_state
from ..models.tensors import check_finite, check_like
from .exchange import whole_state
from .trainer import Position, Trainer


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """Once there is a carried state, each process has that of its tracks, so that all have to ask."""
    named = _weights(trainer)
    for optimizer, torch_optimizer in trainer.optimizers.items():
        for index, entry in torch_optimizer.state_dict()["state"].items():
            named |= {f"{optimizer}.{index}.{key}": tensor for key, tensor in entry.items() if tensor is not None}
    carried = whole_state(trainer.carried or (), trainer.model.share, trainer.processes)
    named |= {f"carried.{index}": tensor.float() for index, tensor in enumerate(carried)}
    named["random.cpu"] = torch.get_rng_state()
    if trainer.device.type == "cuda":
        named["random.cuda"] = torch.cuda.get_rng_state(trainer.device)
    return named


def restore(trainer: Trainer, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
    """Go on from what `tensors_of` and the position, as a dict, were; tensors that do not fit change nothing."""
    _check(trainer, tensors, position)

    def named(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

    trainer.model.load_state_dict(named("model."))
    for name, mean in _averaged(trainer).items():
        mean.copy_(tensors[name])
    for optimizer, torch_optimizer in trainer.optimizers.items():
        entries: dict[int, dict[str, Tensor]] = {}
        for name, tensor in named(f"{optimizer}.").items():
            index, _, key = name.partition(".")
            entries.setdefault(int(index), {})[key] = tensor
        groups = torch_optimizer.state_dict()["param_groups"]
        torch_optimizer.load_state_dict({"state": entries, "param_groups": groups})
    carried = named("carried.")
    whole = tuple(carried[str(i)].to(trainer.device) for i in range(len(carried)))
    trainer.carried = _own(trainer, whole) if whole else None
    torch.set_rng_state(tensors["random.cpu"])
    if trainer.device.type == "cuda" and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"], trainer.device)
    trainer.position = Position(**{field.name: position[field.name] for field in fields(Position)})
    trainer.catch_up()


def _weights(trainer: Trainer) -> dict[str, Tensor]:
    return {f"model.{name}": tensor for name, tensor in trainer.model.state_dict().items()} | _averaged(trainer)


def _averaged(trainer: Trainer) -> dict[str, Tensor]:
    """The mean weights by the name that they are saved under, if there are any."""
    means = trainer.average.model.named_parameters() if trainer.average else ()
    return {f"average.{name}": mean.detach() for name, mean in means}


def _own(trainer: Trainer, whole: State) -> State:
    """Of the state of all tracks that of this process's."""
    trainer.model.share = share = trainer.processes.share(whole[0].shape[1])
    return whole if share.is_all else select_state(whole, share.tracks)


def _check(trainer: Trainer, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
    """Refuse tensors that are not those of such a run at such a position.

    A parameter that has had no gradient has no moments yet; a state is carried once there was a mini-batch.
    """
    expected = _weights(trainer)
    for optimizer, torch_optimizer in trainer.optimizers.items():
        for index, parameter in enumerate(torch_optimizer.param_groups[0]["params"]):
            entry = f"{optimizer}.{index}."
            if trainer.config.optimizer == "adam" and any(name.startswith(entry) for name in tensors):
                expected |= {entry + "exp_avg": parameter, entry + "exp_avg_sq": parameter}
                expected[entry + "step"] = torch.zeros(())
    expected |= {f"carried.{index}": tensor for index, tensor in enumerate(_state_like(trainer, tensors, position))}
    expected["random.cpu"] = torch.get_rng_state()
    if "random.cuda" in tensors:  # without a GPU nobody reads it
        on_gpu = trainer.device.type == "cuda"
        expected["random.cuda"] = torch.cuda.get_rng_state(trainer.device) if on_gpu else tensors["random.cuda"]
    check_like(tensors, expected)
    check_finite(tensors, torch.finfo().max)
    for name, tensor in tensors.items():
        if name.endswith((".step", ".exp_avg_sq")) and (tensor < 0).any():
            raise LightRNNError(f"{name} holds values below 0")
    try:
        torch.Generator().set_state(tensors["random.cpu"])
    except RuntimeError as error:
        raise LightRNNError(f"random.cpu is no state of the random numbers: {error}") from None


def _state_like(trainer: Trainer, tensors: dict[str, Tensor], position: dict[str, Any]) -> State:
    """A state of as many tracks as the next mini-batch has; where that starts afresh, of as many as were saved."""
    window = next(trainer.windows(position["epoch"], position["batch"]), None)
    saved = tensors.get("carried.0")
    if window is not None and not window.starts:
        tracks = len(window.codes)
    elif saved is None:
        return ()
    else:
        tracks = min(saved.shape[1] if saved.ndim == 3 else 1, trainer.config.batch_size)
    mixed = saved is not None and saved.dtype == torch.bfloat16
    return tuple(tensor.bfloat16() if mixed else tensor for tensor in trainer.model.initial_state(tracks))
