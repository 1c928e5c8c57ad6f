"""What all networks share: vectors in, a recurrence, log-probabilities of words out.

Shapes: B batch, T words, S steps, V vocabulary, D embedding, H hidden, L layers, K parts of a log-probability.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import ModelConfig
from ..processes import Share
from ..registry import CELLS
from ..table.word_table import WordTable
from ..text.spelling import Codes, Spelling
from .cells import Array, Cell
from .predictor import Predictor
from .reader import Arrays

SCORES = 2**23  # that a softmax over a vocabulary holds at once: more are no faster, and leave holes in memory
LAYER_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")  # as nn.RNNBase names them
State = tuple[Tensor, ...]  # tensors with the batch in dimension 1: (L, B, H) each
Ask = Callable[[Tensor, State | None], tuple[Tensor, State]]  # codes and a state → numbers for the codes, and the state


class LanguageModel(Protocol):
    """What evaluation and training know of a network: implement it to have your own model scored by `evaluate`."""

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """words (B, T+1) → natural-log probabilities of words[:, 1:] given all before, and the state after them.

        The log-probabilities come in parts, (B, T, K), to be summed over the last dimension. words[:, 0] is only
        conditioned on. `state` is what the words before it left behind; None: nothing was, a sentence or text starts
        afresh with words[:, 0], which is read whole.
        """
        ...

    def initial_state(self, batch_size: int) -> State:
        """The state before anything was read."""
        ...


class RecurrentModel(nn.Module):
    """Vectors in, a recurrence, dropout before and after it.

    A subclass makes `recurrence` with `recurrence_of`, where it wants it among its parameters, and says what goes in
    and how words are scored from what comes out (`log_probs`).
    """

    recurrence: nn.RNNBase
    spelling = Spelling()  # what it reads: the words themselves, unless a kind of model says otherwise
    share = Share(slice(0, 0), 0)  # the tracks that it is trained on, where other processes have the others
    drops = True  # whether there is dropout in training

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def cell(self) -> Cell:
        return cast(Cell, CELLS[self.config.cell])

    @property
    def table(self) -> WordTable | None:
        """The word table, of a kind of model that has one."""
        return None

    def reset(self, scale: float = 0.1, forget_bias: float = 0.0) -> None:
        """Draw the weights anew, uniform in ±scale from PyTorch's global generator; biases start at zero.

        Those of forget gates start at forget_bias, so that what is remembered fades by σ(forget_bias) a step.
        """
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -scale, scale)
        if self.cell.forget_gate is not None:
            for _, _, b_input, _ in self.recurrence.all_weights:
                b_input.data.chunk(self.cell.gates)[self.cell.forget_gate].fill_(forget_bias)

    def set_dropout(self, rate: float) -> None:
        """Change the dropout of a model that is trained further."""
        self.config = replace(self.config, dropout=rate)
        self.drop(self.drops)

    def drop(self, on: bool) -> None:
        """Begin or end the dropout of training; the settings stay as they are."""
        self.drops = on
        self.recurrence.dropout = self.config.dropout if on and self.config.layers > 1 else 0.0

    @property
    def dropping(self) -> bool:
        return self.training and self.drops

    def initial_state(self, batch_size: int) -> State:
        """The state before anything was read."""
        zeros = next(self.parameters()).new_zeros(self.config.layers, batch_size, self.config.hidden_size)
        return tuple(zeros.clone() for _ in range(self.cell.states))

    def recur(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Input vectors (B, S, D) → the outputs of the recurrence (B, S, H) and the state after them."""
        inputs = self._drop(inputs, self.config.input_dropout, steps_first=False)
        if self.dropping and self.recurrence.dropout and not self.share.is_all:
            outputs, after = self._recur_by_layers(inputs, state)
        else:
            outputs, after = self._run(self.recurrence, inputs, state)
        return self._drop(outputs, self.config.dropout, steps_first=self.cell.steps_first), after

    def _run(self, layers: nn.RNNBase, inputs: Tensor, state: State | None) -> tuple[Tensor, State]:
        if inputs.is_cuda and torch.is_autocast_enabled("cuda"):  # cuDNN would take float16, whatever it is told
            with torch.autocast("cuda", enabled=False):
                before = None if state is None else tuple(tensor.float() for tensor in state)
                return self._run(layers, inputs.float(), before)
        if self.cell.states > 1:  # PyTorch has a tuple of tensors there, and one tensor else
            outputs, after = layers(inputs, state)
            return outputs, after
        outputs, last = layers(inputs, None if state is None else state[0])
        return outputs, (last,)

    def _recur_by_layers(self, inputs: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The layers one by one, with dropout between them that is drawn for all tracks."""
        last, after = self.config.layers - 1, []
        for index, weights in enumerate(self.recurrence.all_weights):
            layer = self.cell.layers(inputs.shape[-1], self.config.hidden_size, 1, batch_first=True, device="meta")
            for name, weight in zip(LAYER_WEIGHTS, weights, strict=True):
                setattr(layer, name, weight)
            before = None if state is None else tuple(tensor[index : index + 1] for tensor in state)
            inputs, now = self._run(layer, inputs, before)
            inputs = self._drop(inputs, self.recurrence.dropout if index < last else 0.0, self.cell.steps_first)
            after.append(now)
        return inputs, tuple(torch.cat(tensors) for tensors in zip(*after, strict=True))

    def _drop(self, vectors: Tensor, rate: float, steps_first: bool) -> Tensor:
        """Dropout of vectors (B, S, …). Where this process has some of the tracks only, it is drawn for all of them, in
        the order in which one process would, and so the same for any number of processes."""
        if self.share.is_all or not self.dropping or not rate:
            return F.dropout(vectors, rate, self.dropping)
        tracks, (_, steps, *width) = self.share.of, vectors.shape
        if steps_first:
            ones = vectors.new_ones(steps, tracks, *width).transpose(0, 1)
        else:
            ones = vectors.new_ones(tracks, steps, *width)
        return vectors * F.dropout(ones, rate)[self.share.tracks]

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """See LanguageModel."""
        raise NotImplementedError

    def predictor(self) -> Predictor:
        """For a model that is trained no further."""
        raise NotImplementedError

    def word_vectors(self) -> Tensor:
        """(V, d): a vector for every word."""
        raise NotImplementedError

    def code_log_probs(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The same of codes as `spelling` has them: (B, K+S), the K before and the S to score → (B, S, parts)."""
        return self.log_probs(codes, state)

    def features(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What the last S of the codes (B, K+S) are scored by, (B, S, F), and the state; of one place in a text and
        another, the more alike the likelier the same word comes."""
        raise NotImplementedError

    def scored(self, codes: Tensor, features: Tensor) -> Tensor:
        """The last S of the codes (B, K+S) by their features (B, S, F): natural-log probabilities (B, S, parts)."""
        raise NotImplementedError

    def losses(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What training minimises: codes (B, K+S) → nats of the last S, (B, S), with gradient, and the state."""
        log_probs, state = self.code_log_probs(codes, state)
        return -log_probs.float().sum(dim=-1), state


def recurrence_of(config: ModelConfig) -> nn.RNNBase:
    """The recurrent layers of a model, D → H."""
    between_layers = config.dropout if config.layers > 1 else 0.0
    layers: nn.RNNBase = CELLS[config.cell].layers(
        config.input_size, config.hidden_size, config.layers, dropout=between_layers, batch_first=True
    )
    return layers


def select_state(state: State, tracks: Tensor | NDArray[np.int64] | NDArray[np.bool_] | slice) -> State:
    """Some tracks of a batch of states, copied: states are values, the original stays."""
    return tuple(tensor[:, tracks].clone(memory_format=torch.contiguous_format) for tensor in state)


def to_arrays(state: State) -> Arrays:
    """A state as a predictor has it."""
    plain = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor for tensor in state)  # NumPy lacks it
    return tuple(tensor.detach().cpu().numpy() for tensor in plain)


def to_tensors(arrays: Arrays, model: LanguageModel) -> State:
    """A predictor's state as a model has its own, on its device and in its precision."""
    return tuple(torch.from_numpy(a).to(own) for a, own in zip(arrays, model.initial_state(1), strict=True))


class TorchReader:
    """A PyTorch model, of this package or not, as passes over a text know it; one that names no spelling reads
    words."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._log_probs = getattr(model, "code_log_probs", model.log_probs)
        self.spelling: Spelling = getattr(model, "spelling", None) or Spelling()

    @torch.inference_mode()
    def initial_state(self, batch_size: int) -> Arrays:
        return to_arrays(self._model.initial_state(batch_size))

    def code_log_probs(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        return self._asked(self._log_probs, codes, state)

    def features(self, codes: Codes, state: Arrays | None = None) -> tuple[Array, Arrays]:
        return self._asked(cast(RecurrentModel, self._model).features, codes, state)

    @torch.inference_mode()
    def scored(self, codes: Codes, features: Array) -> Array:
        device = _device(self._model)
        known = torch.from_numpy(codes).to(device), torch.from_numpy(features).to(device)
        return np.asarray(cast(RecurrentModel, self._model).scored(*known).float().cpu().numpy(), np.float32)

    @torch.inference_mode()
    def _asked(self, ask: Ask, codes: Codes, state: Arrays | None) -> tuple[Array, Arrays]:
        before = None if state is None else to_tensors(state, self._model)
        found, after = ask(torch.from_numpy(codes).to(_device(self._model)), before)
        return found.float().cpu().numpy(), to_arrays(after)

    def word_vectors(self) -> Array:
        return np.asarray(cast(RecurrentModel, self._model).word_vectors().cpu().numpy(), np.float32)


def _device(model: object) -> torch.device:
    parameters = getattr(model, "parameters", None)
    return next(parameters()).device if parameters else torch.device("cpu")
