"""Dynamic evaluation (Krause, Kahembwe, Murray and Renals 2018): a network that goes on learning from what it reads.

Shapes: N words, S codes, P parts of a log-probability, F features.

A text is read in segments of some words. Each is scored by the weights as they are, and only then are they moved by the
gradient g of what was scored, so that no token's score knows the token or one after it:

    w ← w - rate · g / (√s + ε), and then w ← w + decay · (w_0 - w)

s is the mean of the squares of such gradients, weight by weight, on a text that holds no news: it makes steps short
where gradients are always large, and long for the vectors of rare words. Krause et al. take the training text for that;
here it is one that the network draws itself, so that a model is all that is needed. ε is EASE times the mean of √s. w_0
are the weights as they were trained.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import Diverged
from ..models.base import RecurrentModel
from ..runtime import Progress, silent
from ..text.spelling import Ids
from .features import Reading

SEGMENT = 20  # words
EASE = 0.5


class Segment(NamedTuple):
    """Of some words of S codes: the codes' natural logs in parts (S, P), with gradient, and the words' features."""

    log_probs: Tensor
    features: Tensor  # (N, F)
    read: int  # words of the text up to here


class Adapter:
    """Reads texts as streams with a network, which it changes; `reset` makes it what it was, bit for bit."""

    @torch.inference_mode(False)  # whatever a program asks in
    def __init__(self, model: RecurrentModel, first: int, familiar: Ids) -> None:
        """first: the context of a text's first word. familiar: a text without news, by which steps are scaled."""
        self.model, self._first = model, first
        self._weights = list(model.parameters())
        self._trained = self.weights()
        squares, segments = [torch.zeros_like(weight) for weight in self._trained], 0
        for segment in self._segments(familiar):
            for square, gradient in zip(squares, self._gradients(segment), strict=True):
                square.addcmul_(gradient, gradient)
            segments += 1
        sizes = [(square / max(segments, 1)).sqrt_() for square in squares]
        mean = sum(float(size.sum()) for size in sizes) / sum(size.numel() for size in sizes)
        self._scales = [size.add_(EASE * mean + 1e-12) for size in sizes]

    @torch.inference_mode(False)
    def read(
        self, ids: Ids, rate: float, decay: float, progress: Progress = silent, *, features: bool = True
    ) -> Reading:
        """Score a text, and learn from it as it is read; the weights are what the last text left. Without `features`
        the reading has none: of a long text they take far more memory than its scores."""
        log_probs, kept = [], []
        for segment in self._segments(ids):
            log_probs.append(segment.log_probs.detach().float().cpu().numpy())
            if features:
                kept.append(segment.features.float().cpu().numpy())
            if not np.isfinite(log_probs[-1]).all():
                raise Diverged(f"the loss became infinite at word {segment.read:,}; lower the rate (--adapt-rate)")
            gradients = self._gradients(segment)
            with torch.no_grad():
                for weight, gradient, scale, trained in zip(
                    self._weights, gradients, self._scales, self._trained, strict=True
                ):
                    weight.addcdiv_(gradient, scale, value=-rate)
                    weight.lerp_(trained, decay)
            progress("reading", segment.read, len(ids))
        if not all(bool(weight.isfinite().all()) for weight in self._weights):
            raise Diverged("the weights became infinite after the last word; lower the rate (--adapt-rate)")
        by_word = self.model.spelling.by_word(np.concatenate(log_probs), ids)
        return Reading(by_word, np.concatenate(kept) if features else np.empty((len(ids), 0), np.float32))

    def reset(self) -> None:
        """The weights as they were trained."""
        self.put_back(self._trained)

    def weights(self) -> list[Tensor]:
        """As they are now, to be put back."""
        return [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def put_back(self, kept: list[Tensor]) -> None:
        for weight, value in zip(self._weights, kept, strict=True):
            weight.copy_(value)

    def _segments(self, ids: Ids) -> Iterator[Segment]:
        """A text, SEGMENT words at a time, each by the weights as they are when it is asked for."""
        model, spelling = self.model, self.model.spelling
        stream, front, ends = spelling.stream(ids), spelling.context(self._first), spelling.ends(ids)
        state = model.initial_state(1)
        for begin in range(0, len(ids), SEGMENT):
            stop = min(begin + SEGMENT, len(ids))
            piece = stream.piece(front, int(ends[begin]), int(ends[stop]))
            codes = torch.from_numpy(piece[None]).to(state[0].device)
            with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN wants dropout for gradients
                features, after = model.features(codes, state)
                log_probs = model.scored(codes, features)
            state = tuple(tensor.detach() for tensor in after)
            firsts = torch.from_numpy(ends[begin:stop] - ends[begin]).to(codes.device)
            yield Segment(log_probs[0], features[0].detach()[firsts], stop)

    def _gradients(self, segment: Segment) -> list[Tensor]:
        """Of the loss in nats, summed over the segment."""
        with torch.enable_grad():
            loss = -segment.log_probs.float().sum()
        found = torch.autograd.grad(loss, self._weights, materialize_grads=True)
        return [gradient.to_dense() if gradient.is_sparse else gradient for gradient in found]
