"""The exact likeliest places of a table, for many positions at once.

Shapes: P positions, R rows, A rows of words that stand alone, C columns, m rows that are opened together.

A word is never likelier than its row: P(w) = P_r(row) · P_c(column | row) ≤ P_r(row). So shared rows are opened in
falling order of P_r, and at a position no more once P_r is not above the least of the best words found.
"""

from collections.abc import Callable

import torch
from torch import Tensor

FIRST, LAST = 4, 64  # rows that are opened together at first, and at most

OpenRows = Callable[[Tensor, Tensor], Tensor]  # positions (p,) and rows (p, m) → log P_c (p, m, C)


def best_places(rows: Tensor, alone: int, columns: int, k: int, open_rows: OpenRows) -> tuple[Tensor, Tensor]:
    """rows (P, R), log P_r → natural-log probabilities (P, k), best first, and the numbers of their places, (P, k)."""
    values = rows.new_full((len(rows), k), -torch.inf)
    places = torch.zeros_like(values, dtype=torch.int64)
    first = min(k, alone)
    values[:, :first], places[:, :first] = rows[:, :alone].topk(first, dim=1)
    ordered, order = rows[:, alone:].sort(dim=1, descending=True)
    positions = torch.arange(len(rows), device=rows.device)
    begin, m = 0, FIRST
    while begin < ordered.shape[1]:
        positions = positions[ordered[positions, begin] > values[positions, -1]]
        if not len(positions):
            break
        opened = order[positions, begin : begin + m]  # (p, m)
        log_probs = ordered[positions, begin : begin + m, None] + open_rows(positions, alone + opened)  # (p, m, C)
        numbers = alone + opened[..., None] * columns + torch.arange(columns, device=rows.device)
        found = torch.cat([values[positions], log_probs.flatten(1)], dim=1)
        values[positions], best = found.topk(k, dim=1)
        places[positions] = torch.cat([places[positions], numbers.flatten(1)], dim=1).gather(1, best)
        begin, m = begin + m, min(2 * m, LAST)
    return values, places
