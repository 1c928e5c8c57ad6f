"""What callers give to a layer, checked where it comes in; what is wrong is told by the argument's name.

Types and shapes are always looked at. Values are not while PyTorch compiles, since a question about them would break
the graph.
"""

import torch
from torch import Tensor

from ..errors import LightRNNError
from ..table.word_table import WordTable

WHOLE = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)


def check_table(table: object, components: int = 0) -> None:
    """That it is a word table, of so many components if told."""
    if not isinstance(table, WordTable):
        raise LightRNNError(f"table must be a WordTable, got {type(table).__name__}; WordTable.from_bigrams makes one")
    if components and table.components != components:
        raise LightRNNError(f"table must have rows and columns, got one of {table.components} components")


def check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise LightRNNError(f"{name} must be a tensor, got {type(value).__name__}")


def check_words(name: str, words: Tensor, size: int, *, but: int | None = None) -> None:
    """Ids of words: 0 … size-1, or `but`."""
    check_tensor(name, words)
    if words.dtype not in WHOLE:
        raise LightRNNError(f"{name} must be whole numbers such as torch.long, got {words.dtype}")
    if torch.compiler.is_compiling() or not words.numel():
        return
    ids = words.long()  # small types may hold neither the size nor the exception
    outside = (ids < 0) | (ids >= size)
    if but is not None:
        outside &= ids != but
    if outside.any():
        ignored = "" if but is None else f", or ignore_index, {but}"
        raise LightRNNError(
            f"{name} must be from 0 to {size - 1:,}{ignored}, got {int(words[outside][0]):,}; is the table for a "
            f"vocabulary of another size?"
        )


def check_hidden(hidden: Tensor, features: int) -> None:
    """States (…, features), finite."""
    check_tensor("hidden", hidden)
    if not hidden.dtype.is_floating_point:
        raise LightRNNError(f"hidden must be floating-point numbers, got {hidden.dtype}")
    if not hidden.dim() or hidden.shape[-1] != features:
        raise LightRNNError(
            f"hidden must have in_features, {features}, as its last dimension, got shape {tuple(hidden.shape)}"
        )
    if torch.compiler.is_compiling():
        return
    if not hidden.detach().sum(dtype=torch.promote_types(hidden.dtype, torch.float32)).isfinite():
        raise LightRNNError("hidden must be finite, got a NaN or an infinity in it; look at what made it")


def check_targets(name: str, words: Tensor, hidden: Tensor) -> None:
    """One target a state."""
    if words.shape != hidden.shape[:-1]:
        raise LightRNNError(
            f"{name} must be one word a state, shape {tuple(hidden.shape[:-1])}, got {tuple(words.shape)}"
        )
