"""What programs call with, checked where it comes in; what is wrong is told by the argument's name."""

from math import inf, isinf
from numbers import Integral, Real
from os import PathLike
from pathlib import Path

from .errors import LightRNNError


def check_whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    if not isinstance(value, Integral) or int(value) < least or (most is not None and int(value) > most):
        limit = "" if most is None else f" to {most:,}"
        raise LightRNNError(f"{name} must be a whole number from {least}{limit}, got {value!r}")


def check_number(name: str, value: object, least: float = 0.0, most: float = inf) -> None:
    """A finite number."""
    if not isinstance(value, Real) or not least <= float(value) <= most or isinf(value):
        limit = "" if most == inf else f" to {most:g}"
        raise LightRNNError(f"{name} must be a number from {least:g}{limit}, got {value!r}")


def check_string(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise LightRNNError(f"{name} must be a string, got {type(value).__name__}")


def check_several(name: str, values: object) -> None:
    """A list of some sort; one string is several strings of a character each, which nobody means."""
    if isinstance(values, str):
        raise LightRNNError(f"{name} must be a list, got the string {values[:60]!r}; put it into a list")
    if not hasattr(values, "__iter__"):
        raise LightRNNError(f"{name} must be a list, got {type(values).__name__}")


def path_of(name: str, value: object) -> Path:
    if not isinstance(value, str | PathLike):
        raise LightRNNError(f"{name} must be a path, got {type(value).__name__}")
    return Path(value)
