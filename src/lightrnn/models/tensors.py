"""Arrays on disk: safetensors files, read and compared with what a model or an optimiser expects before it gets them.

A tensor of the wrong shape that an optimiser updates in place would write past the end of another one. The errors here
name arrays and no files: those who read a file say which one it was. What is checked may be NumPy's or, on the CPU,
PyTorch's.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..border import shown
from ..errors import LightRNNError, is_out_of_memory, missing_package

LARGEST = 1e9  # of a weight: products of three such over the widest layer are finite


class Like(Protocol):
    """An array or tensor, as far as it is compared."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


def read_arrays(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a safetensors file, from its contents."""
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise missing_package(error) from None
    try:
        arrays = {name: array.copy() for name, array in safetensors.numpy.load(data).items()}
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return arrays, header.get("__metadata__") or {}
    except Exception as error:  # of any kind: the library's own, and those of NumPy under it
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LightRNNError(f"it is no whole safetensors file: {shown(reason)}") from None


def check_like(arrays: Mapping[str, Like], expected: Mapping[str, Like]) -> None:
    """The same names, shapes and kinds of numbers as those of `expected`."""
    for name in expected.keys() - arrays.keys():
        raise LightRNNError(f"{name} is missing")
    for name in arrays.keys() - expected.keys():
        raise LightRNNError(f"{shown(name)} belongs to no part of it")
    for name, array in arrays.items():
        if _kind(array) != _kind(expected[name]):
            raise LightRNNError(f"{name} is {_kind(array)}, and must be {_kind(expected[name])}")


def check_finite(arrays: Mapping[str, Like], largest: float = LARGEST) -> None:
    """No NaN, no infinity, nothing that would soon become one."""
    for name, array in arrays.items():
        values = np.asarray(array)
        if values.dtype.kind == "f" and values.size and not (-largest <= values.min() <= values.max() <= largest):
            raise LightRNNError(f"{name} holds values that are not finite or above {largest:g}")


def check_permutation(name: str, array: NDArray[Any]) -> None:
    """Each of the numbers 0 … N-1 once."""
    if not np.array_equal(np.sort(array), np.arange(len(array))):
        raise LightRNNError(f"{name} does not hold each of the numbers from 0 to {len(array) - 1:,} once")


def _kind(array: Like) -> str:
    return f"{str(array.dtype).removeprefix('torch.')} of shape {tuple(array.shape)}"
