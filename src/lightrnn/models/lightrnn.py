"""The LightRNN of Li et al. 2016, equations (1)-(3), for a word table of any number of components.

Shapes: B batch, T words, V vocabulary, D embedding, H hidden, L layers, R rows, C columns, K components.

The paper's two-step cell is an ordinary recurrent layer over the sequence of codes

    column(w_0), row(w_1), column(w_1), row(w_2), …         (K = 2)

in which the state after each code scores the next one. A LightRNN is thus a language model over codes: words w_0 … w_T
are written as (T+1)·K codes, the first K-1 and the last are not fed, and the output after the code before component s
of word t is the paper's h^c_{t-1} (s = row) or h^r_t (s = column).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..config import ModelConfig
from ..table.word_table import WordTable

State = tuple[Tensor, ...]  # tensors with the batch in dimension 1: (L, B, H) each


class LanguageModel(Protocol):
    """What evaluation, scoring and mixing know of a model."""

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """words (B, T+1) → natural-log probabilities of words[:, 1:] given all before, and the state after them.

        The log-probabilities come in parts, (B, T, K), to be summed over the last dimension. words[:, 0] is only
        conditioned on; `state` is what the words before it left behind, None at the start of a text.
        """
        ...

    def initial_state(self, batch_size: int) -> State:
        """The state before anything was read."""
        ...

    def next_log_probs(self, last_word: int, state: State) -> Tensor:
        """(V,): the natural-log probability of every word after last_word; `state` is what the words before it left."""
        ...


class SigmoidRNN(nn.RNN):
    """The paper's plain cell, h_t = σ(W x_t + U h_{t-1} + b), which PyTorch's nn.RNN leaves out. Batch first."""

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        if state is None:
            state = inputs.new_zeros(self.num_layers, inputs.shape[0], self.hidden_size)
        final = []
        for layer in range(self.num_layers):
            W, U, b_input, b_hidden = self.all_weights[layer]
            projected = F.linear(inputs, W, b_input + b_hidden)  # (B, T, H)
            h = state[layer]
            outputs = []
            for t in range(inputs.shape[1]):
                h = torch.sigmoid(projected[:, t] + h @ U.T)
                outputs.append(h)
            final.append(h)
            inputs = torch.stack(outputs, dim=1)
            if layer < self.num_layers - 1:
                inputs = F.dropout(inputs, self.dropout, self.training)
        return inputs, torch.stack(final)


CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn-tanh": nn.RNN, "rnn-sigmoid": SigmoidRNN}


class RecurrentModel(nn.Module):
    """What LightRNN and its opponents share: vectors in, a recurrence, dropout before and after it.

    A subclass makes `recurrence` with `recurrence_of`, where it wants it among its parameters, and says what goes in
    and how words are scored from what comes out (`log_probs`).
    """

    recurrence: nn.RNNBase

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)

    def reset(self, scale: float = 0.1, forget_bias: float = 0.0) -> None:
        """Draw the weights anew, uniform in ±scale from PyTorch's global generator; biases start at zero.

        Those of an LSTM's forget gates start at forget_bias, so that what is remembered fades by σ(forget_bias) a step.
        """
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -scale, scale)
        if self.config.cell == "lstm":
            for _, _, b_input, _ in self.recurrence.all_weights:
                _, forget, _, _ = b_input.data.chunk(4)  # PyTorch's order: input, forget, cell, output
                forget.fill_(forget_bias)

    def set_dropout(self, rate: float) -> None:
        """Change the dropout of a model that is trained further."""
        self.config = replace(self.config, dropout=rate)
        self.dropout.p = rate
        self.recurrence.dropout = rate if self.config.layers > 1 else 0.0

    def initial_state(self, batch_size: int) -> State:
        """The state before anything was read."""
        zeros = next(self.parameters()).new_zeros(self.config.layers, batch_size, self.config.hidden_size)
        return (zeros, zeros.clone()) if self.config.cell == "lstm" else (zeros,)

    def recur(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Input vectors (B, S, D) → the outputs of the recurrence (B, S, H) and the state after them."""
        inputs = F.dropout(inputs, self.config.input_dropout, self.training)
        if self.config.cell == "lstm":
            outputs, after = self.recurrence(inputs, state)
        else:
            outputs, last = self.recurrence(inputs, None if state is None else state[0])
            after = (last,)
        return self.dropout(outputs), cast(State, after)

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """See LanguageModel."""
        raise NotImplementedError

    def next_log_probs(self, last_word: int, state: State) -> Tensor:
        """See LanguageModel."""
        raise NotImplementedError

    def word_vectors(self) -> Tensor:
        """(V, d): a vector for every word."""
        raise NotImplementedError

    def losses(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What training minimises: words (B, T+1) → nats of words[:, 1:], (B, T), with gradient, and the state."""
        log_probs, state = self.log_probs(words, state)
        return -log_probs.float().sum(dim=-1), state


def recurrence_of(config: ModelConfig) -> nn.RNNBase:
    """The recurrent layers of a model, D → H."""
    between_layers = config.dropout if config.layers > 1 else 0.0
    made: nn.RNNBase = CELLS[config.cell](
        config.input_size, config.hidden_size, config.layers, dropout=between_layers, batch_first=True
    )
    return made


class LightRNN(RecurrentModel):
    """One recurrent network over the codes of a word table.

    input_vectors: x^r and x^c, stacked by component, (Σ n_s, D). output_vectors[s]: y^r or y^c, (n_s, H).
    recurrence: W, U and b, the same for the row and the column step. codes: the table, (V, K), a buffer.
    """

    codes: Tensor
    offsets: Tensor

    def __init__(self, config: ModelConfig, table: WordTable) -> None:
        super().__init__(config)
        self.shape = table.shape
        self.last_cell = table.last_cell
        self.is_full = table.is_full
        H, D = config.hidden_size, config.input_size
        self.register_buffer("codes", torch.from_numpy(table.codes.astype(np.int32)))
        offsets = np.concatenate([[0], np.cumsum(table.shape)[:-1]]).astype(np.int32)
        self.register_buffer("offsets", torch.from_numpy(offsets), persistent=False)
        self.input_vectors = nn.Embedding(sum(table.shape), D)
        self.recurrence = recurrence_of(config)
        self.output_vectors = nn.ParameterList(torch.empty(n, H) for n in table.shape)
        self.output_bias = nn.ParameterList(torch.empty(n) for n in table.shape if config.output_bias)
        self.reset()

    @property
    def components(self) -> int:
        return len(self.shape)

    @property
    def table(self) -> WordTable:
        return WordTable(self.codes.cpu().numpy().astype(np.int64), self.shape)

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Equation (3) word by word: see LanguageModel. Part s is log P of component s given the ones before it."""
        codes = self.codes[words]  # (B, T+1, K)
        hidden, state = self.hidden_states(codes, state)  # (B, T, K, H)
        targets = codes[:, 1:].long()  # (B, T, K)
        parts = []
        for s in range(self.components):
            scores = self.scores(s, hidden[:, :, s], targets[..., :s])  # (B, T, n_s)
            picked = -F.cross_entropy(scores.flatten(0, 1), targets[..., s].flatten(), reduction="none")
            parts.append(picked.view(words.shape[0], -1))
        return torch.stack(parts, dim=-1), state

    @torch.inference_mode()
    def next_log_probs(self, last_word: int, state: State) -> Tensor:
        """The whole distribution: one step for the first component, one batched step for each of the others.

        Prefixes (the first s components of a cell) are kept in lexicographic order, in which those that exist come
        first. `predict.Predictor` answers this and more, faster, for a model that is trained no further.
        """
        V, K = self.codes.shape
        steps = (self.codes[last_word] + self.offsets)[-1].view(1, 1)
        prefixes = self.codes.new_zeros(1, 0).long()  # (P, s)
        log_probs = torch.zeros(1, device=steps.device)  # (P,)
        for s in range(K):
            outputs, state = self.step(steps, state)
            scores = self.scores(s, outputs[:, 0], prefixes)  # (P, n_s)
            existing = -(-V // prod(self.shape[s + 1 :]))
            log_probs = (log_probs[:, None] + scores.log_softmax(dim=-1)).flatten()[:existing]
            parents = torch.arange(existing, device=steps.device) // self.shape[s]
            codes = torch.arange(existing, device=steps.device) % self.shape[s]
            prefixes = torch.cat([prefixes[parents], codes[:, None]], dim=1)
            steps = (codes + self.offsets[s])[:, None]
            if s < K - 1:
                state = select_state(state, parents)
        radix = torch.tensor([prod(self.shape[s + 1 :]) for s in range(K)], device=steps.device)
        return log_probs[(self.codes.long() * radix).sum(dim=1)]

    @torch.inference_mode()
    def word_vectors(self) -> Tensor:
        """(V, H): the state that each word leaves when it is read alone.

        Row and column vectors side by side would say little: what a column means depends on the row, and it is the
        recurrence that puts the two together.
        """
        blocks = torch.split(self.codes + self.offsets, 1 << 14)
        return torch.cat([self.step(block)[0][:, -1] for block in blocks])

    def hidden_states(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Equation (1): codes (B, T+1, K) → the states that score the components of words 1 … T, (B, T, K, H)."""
        steps = (codes + self.offsets).flatten(1)[:, self.components - 1 : -1]  # (B, T·K)
        outputs, state = self.step(steps, state)
        return outputs.view(len(outputs), -1, self.components, outputs.shape[-1]), state

    def step(self, steps: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Feed stacked codes (B, S), i.e. indices of input_vectors; returns the outputs (B, S, H) and the state."""
        return self.recur(self.input_vectors(steps), state)

    def scores(self, component: int, hidden: Tensor, prefix: Tensor) -> Tensor:
        """Scores before the softmax of equation (2): hidden (…, H), prefix (…, component) → (…, n_component).

        prefix holds the components before this one; where they are the last cell's, missing cells get -inf.
        """
        bias = self.output_bias[component] if self.config.output_bias else None
        scores = F.linear(hidden, self.output_vectors[component], bias)
        last = self.last_cell[component]
        if self.is_full or last == self.shape[component] - 1:
            return scores
        on_edge = (prefix == prefix.new_tensor(self.last_cell[:component])).all(dim=-1)  # (…)
        missing = torch.arange(self.shape[component], device=scores.device) > last  # (n_s)
        return scores.masked_fill(on_edge.unsqueeze(-1) & missing, -torch.inf)


def stack_states(states: Sequence[State]) -> State:
    """Join states along the batch."""
    return tuple(torch.cat(tensors, dim=1) for tensors in zip(*states, strict=True))


def select_state(state: State, tracks: Tensor | NDArray[np.int64] | slice) -> State:
    """Some tracks of a batch of states; states are values, the original stays."""
    return tuple(tensor[:, tracks].contiguous() for tensor in state)
