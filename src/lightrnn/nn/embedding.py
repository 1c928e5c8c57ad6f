"""Words in: ids to vectors, the row's and the column's put together.

Shapes: V words, K components, n_s values of component s, N = Σ n_s, D size of the vectors.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..table.word_table import WordTable
from .checks import check_size, check_table, check_words
from .layer import TableLayer
from .starts import fill_vectors

SCALE = 0.02  # standard deviation of vectors at the start: scores stay small after a LayerNorm


class LightEmbedding(TableLayer):
    """In the place of `nn.Embedding(V, dim)`: ids (…) → vectors (…, dim), the sum of those of the word's codes.

    weight: the vectors of all rows, then of all columns, (N, dim). A word that stands alone has the vector of its row.
    They start at what the table knows of its words, scaled to a standard deviation of `scale`; what it does not know
    is drawn at random. With `sparse` gradients are sparse, for optimisers such as SparseAdam.
    """

    def __init__(self, table: WordTable, dim: int, *, sparse: bool = False, scale: float = SCALE) -> None:
        check_table(table)
        check_size("dim", dim)
        super().__init__(table)
        self.dim, self.sparse = dim, sparse
        self.weight = nn.Parameter(torch.empty(sum(table.shape), dim))
        self.reset(table, scale)

    @torch.no_grad()
    def reset(self, table: WordTable, scale: float = SCALE) -> None:
        """Draw the vectors anew, and fill in what a table of this shape knows."""
        nn.init.normal_(self.weight, std=scale)
        for to_fill, known in zip(torch.split(self.weight, list(self.shape)), table.vectors or (), strict=False):
            fill_vectors(to_fill, known, scale)

    def forward(self, ids: Tensor) -> Tensor:
        check_words("ids", ids, self.size)
        codes = self.codes[ids.long()]  # (…, K)
        there = codes >= 0
        numbers = torch.where(there, codes + codes.new_tensor(self.offsets), 0)
        vectors = F.embedding(numbers, self.weight, sparse=self.sparse)  # (…, K, D)
        return (vectors * there.unsqueeze(-1)).sum(dim=-2)

    def extra_repr(self) -> str:
        return f"{self.size}, {self.dim}, shape={self.shape}, alone={self.alone}"
