"""Softmaxes over a word table, as functions: what the layers here and the models of the package share.

Shapes: P positions, D size of the vectors, n values of a component, R rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def projection_between(features: int, dim: int) -> nn.Module:
    """States to the size of tied vectors; nothing where they have it."""
    return nn.Linear(features, dim, bias=False) if features != dim else nn.Identity()


def precise(scores: Tensor) -> Tensor:
    """In single precision at least, in which sums of exponentials are safe."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def without_missing(scores: Tensor, on_edge: Tensor, last: int) -> Tensor:
    """Scores (…, n) with -inf beyond value `last` where on_edge (…): there the table ends.

    A table's places are the first V in lexicographic order, so that a component is cut exactly where the ones before it
    are those of the last place.
    """
    missing = torch.arange(scores.shape[-1], device=scores.device) > last  # (n,)
    return scores.masked_fill(on_edge.unsqueeze(-1) & missing, -torch.inf)


def head_scores(
    features: Tensor, vectors: Tensor, bias: Tensor | None, rest: tuple[Tensor, Tensor | None], head: int
) -> Tensor:
    """Scores before the softmax over the rows of the head and the rest: (P, head + 1).

    features (P, D), vectors (R, D) and bias (R,) of the rows, vector (1, D) and bias (1,) of the rest.
    """
    rest_vector, rest_bias = rest
    of_head = None if bias is None or rest_bias is None else torch.cat([bias[:head], rest_bias])
    return F.linear(features, torch.cat([vectors[:head], rest_vector]), of_head)


def head_log_probs(
    scores: Tensor, features: Tensor, rows: Tensor, vectors: Tensor, bias: Tensor | None, head: int
) -> Tensor:
    """Rows in two softmaxes: log P (P,) of rows (P,), those of the head, and the others as the rest times their share
    of it; scores: what `head_scores` gives for the same."""
    found = -F.cross_entropy(precise(scores), rows.clamp(max=head), reduction="none")
    where = (rows >= head).nonzero().squeeze(1)
    within = F.linear(features[where], vectors[head:], None if bias is None else bias[head:])
    return found.index_add(0, where, -F.cross_entropy(precise(within), rows[where] - head, reduction="none"))
