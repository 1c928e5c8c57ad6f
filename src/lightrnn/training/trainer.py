"""Training: truncated back-propagation through time over the windows of a stream of codes.

Shapes: B batch, S codes.

The Trainer knows neither files nor screens. Its `run` is a generator that stops after every mini-batch and every
validation; between any two of these, its tensors (`snapshot.py`) and its `position` say all there is to know about it,
and a Trainer that is given them goes on to the same bytes.

Where several processes train together, all of them make the same windows, and each has its share of the tracks. With
--local-steps they are `together` only after some of the mini-batches, and all of the above holds there.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import cos, exp, isfinite, pi
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..border import maybe, number, record, whole
from ..config import TrainingConfig
from ..inference.evaluation import Evaluation
from ..inference.passes import evaluate
from ..models.base import RecurrentModel, State
from ..models.lightrnn import LightRNN
from ..processes import here
from ..runtime import multiplies_bfloat16
from ..text.rare import with_unknown
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from ..text.windows import Window, text_windows
from .averaging import Average
from .clock import Clock
from .exchange import add_gradients, average, fill_gradients, refuse_sparse_on_cuda
from .row_adam import RowAdam
from .teaching import Lessons, Teacher

LOWER_RATE = "start again, or go on from the best model with --init, at a lower --learning-rate"


@dataclass
class Position:
    """Where a training run stands; plain numbers, saved as JSON."""

    epoch: int = 0  # epochs finished
    batch: int = 0  # mini-batches done in this epoch
    step: int = 0  # mini-batches done in all
    epoch_tokens: int = 0  # words trained on in this epoch
    words: int = 0  # words trained on in all
    rate_factor: float = 1.0  # what "halve" has made of the learning rate
    best_perplexity: float | None = None
    validations_since_best: int = 0  # … was lowered by the least gain
    nats: float = 0.0  # training loss since the last validation …
    tokens: int = 0  # … over so many words
    began: float = 0.0  # what the clock had of training when the run began


POSITION = record(  # the same as read from a file
    {
        **dict.fromkeys(
            ("epoch", "batch", "step", "epoch_tokens", "words", "validations_since_best", "tokens"), whole()
        ),
        "rate_factor": number(least=0, most=1),
        "best_perplexity": maybe(number(least=0)),
        "nats": number(),
        "began": number(least=0, most=1e12),
    }
)


@dataclass(frozen=True)
class Batch:
    """A mini-batch was done."""

    nats: float
    tokens: int


@dataclass(frozen=True)
class Validated:
    """A validation was done."""

    validation: Evaluation
    train_perplexity: float
    learning_rate: float
    improved: bool


class Trainer:
    """One run of the optimiser over one corpus with one table.

    Weights of which a mini-batch touches some rows only (embeddings with sparse gradients) have an optimiser of their
    own, which leaves the other rows and their moments alone.
    """

    def __init__(
        self,
        model: RecurrentModel,
        config: TrainingConfig,
        train: Ids,
        valid: Ids,
        vocabulary: Vocabulary,
        clock: Clock | None = None,
        teacher: Teacher | None = None,
        epochs_before: float = 0.0,
    ) -> None:
        """epochs_before: what the weights have read of the text in earlier rounds."""
        self.model = model
        self.config = config
        self.train = train
        self.valid = valid
        self.vocabulary = vocabulary
        self.device = next(model.parameters()).device
        self.optimizers = _optimizers(model, config)
        self.average = Average(model) if config.schedule == "average" else None
        self.processes = here()
        refuse_sparse_on_cuda(self.optimizers, self.device, self.processes)
        self.in_bfloat16 = config.precision == "bfloat16" or (
            config.precision == "auto" and multiplies_bfloat16(self.device)
        )
        self.is_local = config.local_steps > 1 and self.processes.size > 1
        self.together = True  # the weights are the same in all processes
        self.clock = clock or Clock()
        self.epochs_before = epochs_before
        self.position = Position(began=self.clock.training)
        self.carried: State | None = None
        self.lessons = self._lessons(teacher) if teacher and config.teacher_share else None

    def _lessons(self, teacher: Teacher) -> Lessons:
        """Windows of a stream are the same in every epoch, unless words are read as unknown at random."""
        read = with_unknown(self.train, self.vocabulary, self.config.unk_rate, np.random.default_rng(0))
        is_same = read is self.train and self.vocabulary.rules.convention == "stream"
        repeated = is_same * len(self.train) // self.processes.size
        student = cast(LightRNN, self.model)
        return Lessons(teacher, student, self.vocabulary, self.config.teacher_share, repeated)

    @property
    def result(self) -> RecurrentModel:
        """What the training makes: the model that is validated, kept and refined."""
        return self.average.model if self.average else self.model

    def run(self) -> Iterator[Batch | Validated]:
        """Train until a budget or the patience is spent; ends with a validation. `stop_reason` then tells why."""
        for window in self._windows_to_come():
            if self._validation_is_due():
                yield self._validate()
            if self.stop_reason:
                break
            yield self._timed_batch(window)
        if self.position.tokens:
            yield self._validate()

    def _windows_to_come(self) -> Iterator[Window]:
        """Epoch after epoch without end, from the position on."""
        while True:
            yield from self.windows(self.position.epoch, self.position.batch)
            self.position.epoch += 1
            self.position.batch = self.position.epoch_tokens = 0

    def _validation_is_due(self) -> bool:
        """Told by the position alone, so that a run resumed just before a validation does not skip it."""
        position, every = self.position, self.config.validate_every
        return position.tokens > 0 and (position.step % every == 0 if every else position.batch == 0)

    @property
    def stop_reason(self) -> str:
        """Why the run is over, or an empty string."""
        position, config = self.position, self.config
        if self.epochs_done >= config.epochs:
            return "the epochs are done"
        if config.minutes and self.seconds >= 60 * config.minutes:
            return "the minutes are used up"
        if config.patience and position.validations_since_best >= config.patience:
            return f"no improvement in {config.patience} validations"
        return ""

    @property
    def seconds(self) -> float:
        """Spent on mini-batches and validations."""
        return self.clock.training - self.position.began

    @property
    def epochs_done(self) -> float:
        return self.position.epoch + self.position.epoch_tokens / len(self.train)

    @property
    def progress(self) -> float:
        """The share of the budget that is used, 0 … 1."""
        config = self.config
        epochs = self.epochs_done / config.epochs
        minutes = self.seconds / (60 * config.minutes) if config.minutes else 0.0
        return min(max(epochs, minutes), 1.0)

    @property
    def learning_rate(self) -> float:
        factor = {
            "constant": 1.0,
            "average": 1.0,
            "cosine": (1 + cos(pi * self.progress)) / 2,
            "halve": self.position.rate_factor,
        }[self.config.schedule]
        return self.config.learning_rate * factor

    def windows(self, epoch: int, skip: int) -> Iterator[Window]:
        """Those of an epoch, the first `skip` left out."""
        order = np.random.default_rng([self.config.seed, epoch])
        shape = self.config.batch_size, self.config.window
        text = with_unknown(self.train, self.vocabulary, self.config.unk_rate, order)
        return text_windows(text, self.vocabulary, self.model.spelling, *shape, order, skip)

    def catch_up(self) -> None:
        """Where the run goes on from its position, the teacher reads again what it had read of this epoch."""

        def own_windows(skip: int) -> Iterator[Window]:
            for window in self.windows(self.position.epoch, skip):
                yield window.part(self.processes.share(len(window.codes)).tracks)

        if self.lessons:
            with self._precision():
                self.lessons.catch_up(own_windows, self.position.batch)

    def _timed_batch(self, window: Window) -> Batch:
        with self.clock.on("training"):
            nats = self.train_step(window)
        self._share_clock()
        tokens = window.tokens
        position = self.position
        position.batch += 1
        position.step += 1
        position.epoch_tokens += tokens
        position.words += tokens
        position.nats += nats
        position.tokens += tokens
        self.together = not self.is_local
        if position.step % self.config.local_steps == 0:
            self._meet()
        if self.average:
            self.average.add(self.model, position.step - 1)
        return Batch(nats, tokens)

    def _meet(self) -> None:
        """Weights that were trained apart become their mean."""
        if not self.together:
            average(self.optimizers, self.average.model if self.average else None, self.processes)
            self.together = True

    def _share_clock(self) -> None:
        """The leader's seconds are everybody's, so that all agree on the learning rate and on when to stop."""
        self.clock.training = self.processes.told(self.clock.training)

    def train_step(self, window: Window) -> float:
        """One mini-batch: forward, backward, clip, step. Returns the text's loss in nats, summed over the words."""
        self.model.train()
        self.model.drop(self.epochs_before + self.epochs_done >= self.config.dropout_from)
        self.model.share = share = self.processes.share(len(window.codes))
        own = window.part(share.tracks)
        before = start_state(self.model, own) if own.starts else self.carried
        with self._precision():
            if self.lessons:
                losses, taught, state = self.lessons.losses(own, self.position.batch, before)  # (B, S) each
            else:
                losses, state = self.model.losses(torch.from_numpy(own.codes).to(self.device), before)  # (B, S)
                taught = losses
        nats = self._summed(losses, own) * share.weight
        minimised = nats if taught is losses else self._summed(taught, own) * share.weight
        self.model.zero_grad()
        torch.autograd.backward(minimised / (share.size if self.is_local else share.of))
        nats, norm = self._clipped(nats)
        if not (isfinite(nats.item()) and isfinite(norm.item())):
            raise self.processes.error(
                f"the loss became {nats.item():g} (gradient norm {norm.item():g}) "
                f"at mini-batch {self.position.step + 1:,} "
                f"with learning rate {self.learning_rate:g}; {LOWER_RATE}"
            )
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = self.learning_rate
            optimizer.step()
        self.carried = tuple(tensor.detach() for tensor in state)
        return float(nats.item())

    def _summed(self, losses: Tensor, window: Window) -> Tensor:
        """The losses of a window's codes, (B, S), without those of padding: scalar."""
        if window.mask is not None:
            losses = losses * torch.from_numpy(window.mask).to(self.device)
        by_word = losses.view(len(losses), -1, self.model.spelling.each).sum(dim=-1)  # where all have as many codes
        return by_word.sum()

    def _clipped(self, nats: Tensor) -> tuple[Tensor, Tensor]:
        """Clip the gradients, of all processes or with --local-steps each its own; returns the loss of all, and the
        norm."""
        if not self.is_local:
            nats = add_gradients(self.optimizers, nats, self.processes, getattr(torch, self.config.exchange))
            return nats, clip_gradients(self.model, self.config.clip_norm)
        fill_gradients(self.optimizers)
        both = torch.stack([nats.detach(), clip_gradients(self.model, self.config.clip_norm)])
        self.processes.add([both])
        return both[0], both[1]

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.in_bfloat16)

    def _validate(self) -> Validated:
        """Validate; note whether it is the best so far; halve the rate if not and the schedule says so."""
        self._meet()
        with self.clock.on("training"):
            validation = Evaluation.from_dict(self.processes.led(self._evaluated))
        self._share_clock()
        position, rate = self.position, self.learning_rate
        if not isfinite(validation.nats):
            raise self.processes.error(
                f"the validation loss became {validation.nats:g} at mini-batch {position.step:,} "
                f"with learning rate {rate:g}; {LOWER_RATE}"
            )
        best, found = position.best_perplexity, validation.perplexity
        improved = best is None or found < best
        if improved:
            position.best_perplexity = found
        if best is None or (improved and found <= (1 - self.config.least_gain) * best):
            position.validations_since_best = 0
        else:
            position.validations_since_best += 1
            position.rate_factor *= 0.5
        event = Validated(validation, exp(min(position.nats / position.tokens, 700.0)), rate, improved)
        position.nats, position.tokens = 0.0, 0
        return event

    def _evaluated(self) -> dict[str, Any]:
        return asdict(evaluate(self.result.eval(), self.valid, self.vocabulary))


def start_state(model: RecurrentModel, window: Window) -> State | None:
    """What comes before a window that starts: of sentences nothing, so that the first word is read whole; of a stream's
    tracks, which begin in the middle of the text, a state in which nothing is known."""
    return model.initial_state(len(window.codes)) if window.mask is None else None


def _optimizers(model: RecurrentModel, config: TrainingConfig) -> dict[str, torch.optim.Optimizer]:
    """By the name that their state is saved under: one for dense gradients, and one for sparse ones if there are."""
    rows = [m.weight for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse]
    dense = [p for p in model.parameters() if all(p is not row for row in rows)]
    rate, adam = config.learning_rate, config.optimizer == "adam"
    optimizers: dict[str, torch.optim.Optimizer] = {
        "optimizer": (torch.optim.Adam if adam else torch.optim.SGD)(dense, lr=rate, fused=True)
    }
    if rows:
        optimizers["sparse_optimizer"] = (RowAdam if adam else torch.optim.SGD)(rows, lr=rate)
    return optimizers


def clip_gradients(model: nn.Module, limit: float) -> Tensor:
    """Scale all gradients down to a norm of `limit` in all; returns the norm they had, scalar.

    Sparse ones are coalesced first: the rows that they list more than once are sums, not separate vectors.
    """
    values = []
    for parameter in model.parameters():
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = nn.utils.get_total_norm(values)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale)
    return norm
