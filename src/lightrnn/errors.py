"""The one exception that users see, and how to tell that memory ran out or that a package is not there."""

import re


class LightRNNError(Exception):
    """A mistake in what was asked or given, told in one sentence: what was wrong, what was got, what to do.

    The command line prints the sentence to stderr and exits with code 2.
    """


class Diverged(LightRNNError):
    """Steps that were too large for a model led out of all numbers; smaller ones may not."""


class MissingPackage(LightRNNError):
    """Something is well, but cannot be read or made without a package."""


EXTRAS = {"torch": "train", "safetensors": "train", "scipy": "train", "numba": "train"}  # packages by extra


def missing_package(error: ModuleNotFoundError) -> MissingPackage:
    """The sentence for a package that comes with an extra; another one is a mistake of ours, and raised."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        raise error
    extra = EXTRAS[package]
    return MissingPackage(
        f"this needs {package}, which is not installed; install it with: pip install 'lightrnn[{extra}]'"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Python says so in its own way, PyTorch in words."""
    told = isinstance(error, RuntimeError) and re.search("out of memory|(can't|not enough).*memory", str(error))
    return isinstance(error, MemoryError) or bool(told)
