"""What solvers know of costs: of any words, those in all values of a component."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]


class CostMatrix(Protocol):
    """costs[words] → (len(words), n): an array, or something that computes its rows on demand."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, words: Words, /) -> NDArray[np.float32]: ...
