"""What layers over a word table share: the table itself, as a buffer, and what follows from it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import LightRNNError
from ..table.word_table import WordTable


class TableLayer(nn.Module):
    """codes: the table, int32 (V, K), -1 where a word has no code, a buffer that `state_dict` holds.

    A table that is loaded takes the place of the one that the layer was made with, of the same shape.
    """

    codes: Tensor

    def __init__(self, table: WordTable) -> None:
        super().__init__()
        self.shape = table.shape
        self.size = len(table)
        self.register_buffer("codes", torch.from_numpy(table.codes.astype(np.int32)))
        self._follow(table)

    def _follow(self, table: WordTable) -> None:
        self.alone = table.alone
        self.last_column = table.last_place[-1]
        self.is_full = table.is_full

    @property
    def table(self) -> WordTable:
        return WordTable(self.codes.cpu().numpy().astype(np.int64), self.shape)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        """A table of other words or another shape is told among the other tensors that do not fit."""
        before = self.codes.clone()
        super()._load_from_state_dict(state_dict, prefix, *arguments)
        try:
            self._follow(self.table)
        except LightRNNError as error:
            self.codes.copy_(before)
            arguments[-1].append(f"{prefix}codes is no table for this layer ({error}); make the layer with the table")

    @property
    def offsets(self) -> list[int]:
        """Where the vectors of each component begin when they are stacked."""
        return [sum(self.shape[:s]) for s in range(len(self.shape))]
