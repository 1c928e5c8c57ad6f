"""Tensors on disk: safetensors files, read and compared with what a model or an optimiser expects before it gets them.

A tensor of the wrong shape that an optimiser updates in place would write past the end of another one. The errors here
name tensors and no files: those who read a file say which one it was.
"""

import json
from collections.abc import Mapping

import safetensors.torch
import torch
from torch import Tensor

from ..border import shown
from ..errors import LightRNNError, is_out_of_memory

LARGEST = 1e9  # of a weight: products of three such over the widest layer are finite


def read_tensors(data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, from its contents."""
    try:
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return tensors, header.get("__metadata__") or {}
    except Exception as error:  # of any kind: the library's own, and those of PyTorch under it
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LightRNNError(f"it is no whole safetensors file: {shown(reason)}") from None


def check_names(tensors: Mapping[str, Tensor], known: Mapping[str, object]) -> None:
    """Every tensor is known, and none is missing."""
    for name in known.keys() - tensors.keys():
        raise LightRNNError(f"{name} is missing")
    for name in tensors.keys() - known.keys():
        raise LightRNNError(f"{shown(name)} belongs to no part of it")


def check_like(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """The same names, shapes and kinds of numbers as those of `expected`, which may be on the device "meta"."""
    check_names(tensors, expected)
    for name, tensor in tensors.items():
        if (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):
            raise LightRNNError(f"{name} is {_kind(tensor)}, and must be {_kind(expected[name])}")


def check_finite(tensors: Mapping[str, Tensor], largest: float = LARGEST) -> None:
    """No NaN, no infinity, nothing that would soon become one."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        low, high = tensor.aminmax()  # NaN if there is one
        if not (-largest <= low.item() and high.item() <= largest):
            raise LightRNNError(f"{name} holds values that are not finite or above {largest:g}")


def check_permutation(name: str, tensor: Tensor) -> None:
    """Each of the numbers 0 … N-1 once."""
    if not torch.equal(tensor.sort().values, torch.arange(len(tensor), dtype=tensor.dtype)):
        raise LightRNNError(f"{name} does not hold each of the numbers from 0 to {len(tensor) - 1:,} once")


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
