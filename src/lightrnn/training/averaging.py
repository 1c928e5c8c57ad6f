"""A mean of the weights that a run passes through, in which later ones count more.

At a constant rate the weights wander about a valley; their mean lies in the middle of it. After t of them the i-th
counts as (i + POWER - 1)! / (i - 1)!, about i^POWER (Shamir and Zhang, 2013): what is early is soon forgotten however
long the run is to be, so that the mean can be asked for at any time and no end need be known.
"""

import copy

import torch

from ..models.base import RecurrentModel

POWER = 8.0
EVERY = 10  # mini-batches: those between hardly differ, and large models take as long to average as to train …
ALL = 100  # … but for so many at the start


class Average:
    """A model whose weights are the mean of another's."""

    def __init__(self, model: RecurrentModel) -> None:
        self.model = copy.deepcopy(model)
        self.model.recurrence.flatten_parameters()  # one piece of memory, which cuDNN wants, is four once it is copied

    @torch.no_grad()
    def add(self, model: RecurrentModel, step: int) -> None:
        """Count the weights after mini-batch `step`, from 0 on, if it is one of those that are. The mean of the first
        ALL stands for that of every EVERY-th of them."""
        index, between = (step, 0) if step < ALL else divmod(step, EVERY)
        if between:
            return
        share = (POWER + 1) / (index + 1 + POWER)  # of the first all: where a run starts from does not count
        for mean, weights in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(weights, share)
