"""Arrays that somebody else made, checked where they come in; what is wrong is told by the argument's name."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LightRNNError


def _array(values: ArrayLike) -> NDArray[Any]:
    """NumPy's, of a list, an array or a tensor on any device."""
    detach = getattr(values, "detach", None)
    return np.asarray(values if detach is None else detach().cpu())


def whole_numbers(name: str, values: ArrayLike, size: int | None = None) -> NDArray[np.integer]:
    """(N,), N > 0, of numbers from 0, below `size` where there is one."""
    found = _array(values)
    if found.ndim != 1 or not len(found) or not np.issubdtype(found.dtype, np.integer):
        raise LightRNNError(
            f"{name} must be one dimension of whole numbers, got {found.dtype} of shape {found.shape}; flatten it"
        )
    least, most = int(found.min()), int(found.max())
    if least < 0 or (size is not None and most >= size):
        limit = "" if size is None else f" to {size - 1:,}"
        raise LightRNNError(f"{name} must be from 0{limit}, got {least if least < 0 else most:,}")
    return found


def counts_of(counts: ArrayLike, size: int | None = None) -> NDArray[np.int64]:
    """How often each word was seen, (V,)."""
    found = whole_numbers("counts", counts)
    if size is not None and len(found) != size:
        raise LightRNNError(f"counts must be one a word, {size:,}, got {len(found):,}")
    return found.astype(np.int64)


def matrix_of(matrix: ArrayLike) -> NDArray[np.float32]:
    """Vectors of words, (V, d), finite."""
    found = _array(matrix)
    if found.ndim != 2 or not found.size or not np.issubdtype(found.dtype, np.number):
        raise LightRNNError(f"matrix must have a vector a word, (V, d), got {found.dtype} of shape {found.shape}")
    if not np.isfinite(found).all():
        raise LightRNNError("matrix must be finite, got a NaN or an infinity in it; look at what made it")
    return found.astype(np.float32)
