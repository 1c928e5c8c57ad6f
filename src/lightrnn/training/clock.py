"""Where the seconds of a run went."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal


@dataclass
class Clock:
    """Seconds of a run by what they were spent on; plain numbers, saved with it."""

    start: float = 0.0  # making the first table
    training: float = 0.0  # mini-batches and validations
    refinement: float = 0.0  # finding the tables of later rounds

    @property
    def total(self) -> float:
        return self.start + self.training + self.refinement

    @contextmanager
    def on(self, what: Literal["start", "training", "refinement"]) -> Iterator[None]:
        """The block's seconds count as this."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.perf_counter() - begin)
