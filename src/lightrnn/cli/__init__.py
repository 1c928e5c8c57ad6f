"""The command line: each command is a thin wrapper in a module of its own."""

from .app import main

__all__ = ["main"]
