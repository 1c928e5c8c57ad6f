"""The one exception that users see, and how to tell that memory ran out."""

import re


class LightRNNError(Exception):
    """A mistake in what was asked or given, told in one sentence: what was wrong, what was got, what to do.

    The command line prints the sentence to stderr and exits with code 2.
    """


def is_out_of_memory(error: BaseException) -> bool:
    """Python says so in its own way, PyTorch in words."""
    told = isinstance(error, RuntimeError) and re.search("out of memory|(can't|not enough).*memory", str(error))
    return isinstance(error, MemoryError) or bool(told)
