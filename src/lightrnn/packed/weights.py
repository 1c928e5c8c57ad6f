"""Weights as bytes: each number whole, in half, or as one of 255 steps of a scale. docs/packed-format.md.

Shapes: an array of any; int8 has a scale for every group of numbers in a row of the last dimension, g of them.

    w = scale · q        scale = the largest |w| of the group / 127, q whole from -127 to 127

Arrays of one dimension, biases, are few and keep their precision under int8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..container import damaged
from ..errors import LightRNNError
from ..models.tensors import LARGEST

Precision = Literal["float32", "float16", "int8"]
Weights = dict[str, NDArray[np.float32]]
STEPS = 127  # of a scale, on either side of 0


@dataclass(frozen=True)
class Layout:
    """How an array lies in the file; group: numbers that share a scale, of int8 only, else 0."""

    name: str
    shape: tuple[int, ...]
    type: Precision
    group: int = 0

    @property
    def scales(self) -> tuple[int, ...]:
        """The shape of the scales."""
        return (*self.shape[:-1], -(-self.shape[-1] // self.group)) if self.group else (0,)

    @property
    def bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.type).itemsize + 4 * prod(self.scales)

    def to_dict(self) -> dict[str, Any]:
        told = {"name": self.name, "shape": list(self.shape), "type": self.type}
        return told | ({"group": self.group} if self.group else {})


def pack_weights(
    arrays: Mapping[str, NDArray[Any]], precision: Precision, group: int = 0
) -> tuple[list[Layout], bytes]:
    """Arrays of float32 one after the other; group: numbers that share a scale, 0: a row of the last dimension."""
    layouts, pieces = [], []
    for name, array in arrays.items():
        if precision == "int8" and array.ndim > 1:
            layout = Layout(name, array.shape, "int8", min(group or array.shape[-1], array.shape[-1]))
            pieces += [part.tobytes() for part in quantised(array, layout.group)]
        else:
            layout = Layout(name, array.shape, "float32" if precision == "int8" else precision)
            pieces.append(narrowed(name, array, layout.type).tobytes())
        layouts.append(layout)
    return layouts, b"".join(pieces)


def unpack_weights(layouts: Sequence[Layout], data: bytes, origin: str) -> Weights:
    """The same back as float32; refused where the bytes are not as many as these arrays have."""
    if sum(layout.bytes for layout in layouts) != len(data):
        raise damaged(origin, "its weights have not the length that they should have")
    arrays, begin = {}, 0
    for layout in layouts:
        piece = data[begin : begin + layout.bytes]
        begin += layout.bytes
        if layout.group:
            scales = np.frombuffer(piece, "<f4", prod(layout.scales)).reshape(layout.scales)
            values = np.frombuffer(piece, np.int8, offset=scales.nbytes).reshape(layout.shape)
            if not ((scales >= 0) & (scales <= LARGEST)).all():
                raise damaged(origin, f"{layout.name} has scales that are not finite, below 0 or above {LARGEST:g}")
            arrays[layout.name] = _spread(scales, layout) * values.astype(np.float32)
        else:
            arrays[layout.name] = np.frombuffer(piece, _stored(layout.type)).reshape(layout.shape).astype(np.float32)
    return arrays


def _stored(kind: Precision) -> np.dtype[Any]:
    return np.dtype(kind).newbyteorder("<")


def narrowed(name: str, array: NDArray[np.float32], kind: Precision) -> NDArray[Any]:
    """The same in a floating type; refused where it has no such numbers."""
    with np.errstate(over="ignore"):
        narrow = array.astype(_stored(kind))
    if not np.isfinite(narrow).all():
        raise LightRNNError(f"{name} holds weights too large for {kind}; pack with --precision float32")
    return narrow


def quantised(array: NDArray[np.float32], group: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Scales (…, groups) and steps (…, n)."""
    starts = np.arange(0, array.shape[-1], group)
    scales = (np.maximum.reduceat(np.abs(array), starts, axis=-1) / STEPS).astype("<f4")
    spread = np.repeat(scales, group, axis=-1)[..., : array.shape[-1]]
    steps = np.rint(np.divide(array, spread, out=np.zeros_like(array), where=spread > 0))
    return scales, np.clip(steps, -STEPS, STEPS).astype(np.int8)


def _spread(scales: NDArray[np.float32], layout: Layout) -> NDArray[np.float32]:
    """A scale for every number, or one that serves a whole row."""
    if layout.group >= layout.shape[-1]:
        return scales
    return np.repeat(scales, layout.group, axis=-1)[..., : layout.shape[-1]]
