"""The one exception that users see."""


class LightRNNError(Exception):
    """A mistake in what was asked or given, told in one sentence: what was wrong, what was got, what to do.

    The command line prints the sentence to stderr and exits with code 2.
    """
