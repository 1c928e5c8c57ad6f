"""What solvers know of costs: of any words, those in all values of a component.

Shapes: V words, d dimensions of their vectors, n values.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]


class CostMatrix(Protocol):
    """costs[words] → (len(words), n): an array, or something that computes its rows on demand."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, words: Words, /) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Distances:
    """Weighted squared distances of words to centroids, less what does not depend on the centroid: w·(|c|² - 2 x·c)."""

    vectors: NDArray[np.float32]
    weights: NDArray[np.float32]
    centroids: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.vectors), len(self.centroids)

    def __getitem__(self, words: Words, /) -> NDArray[np.float32]:
        distances = self.vectors[words] @ (-2 * self.centroids.T)
        distances += (self.centroids**2).sum(axis=1)
        distances *= self.weights[words, None]
        return distances
