"""Words in: ids to vectors, the row's and the column's put together.

Shapes: V words, K components, n_s values of component s, N = Σ n_s, D size of the vectors.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..arguments import check_number, check_whole
from ..table.word_table import WordTable
from .checks import check_table, check_words
from .layer import TableLayer
from .starts import SCALE, start_vectors


class LightEmbedding(TableLayer):
    """In the place of `nn.Embedding(V, dim)`: ids (…) → vectors (…, dim), the sum of those of the word's codes.

    weight: the vectors of all rows, then of all columns, (N, dim). A word that stands alone has the vector of its row.
    They start at what the table knows of its words, scaled to a standard deviation of `scale`; what it does not know
    is drawn at random. With `sparse` gradients are sparse, for optimisers such as SparseAdam.
    """

    def __init__(self, table: WordTable, dim: int, *, sparse: bool = False, scale: float = SCALE) -> None:
        check_table(table)
        check_whole("dim", dim)
        check_number("scale", scale)
        super().__init__(table)
        self.dim, self.sparse = dim, sparse
        self.weight = nn.Parameter(torch.empty(sum(table.shape), dim))
        start_vectors(self.weight, table, scale)

    def forward(self, ids: Tensor) -> Tensor:
        check_words("ids", ids, self.size)
        codes = self.codes[ids.long()]  # (…, K)
        there = codes >= 0
        numbers = torch.where(there, codes + codes.new_tensor(self.offsets), 0)
        vectors = F.embedding(numbers, self.weight, sparse=self.sparse)  # (…, K, D)
        return (vectors * there.unsqueeze(-1)).sum(dim=-2)

    def extra_repr(self) -> str:
        return f"{self.size}, {self.dim}, shape={self.shape}, alone={self.alone}"
