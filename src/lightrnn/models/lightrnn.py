"""The LightRNN of Li et al. 2016, equations (1)-(3), for a word table of any number of components.

Shapes: B batch, T words, V vocabulary, D embedding, H hidden, L layers, R rows, C columns, K components.

The paper's two-step cell is an ordinary recurrent layer over the sequence of codes

    column(w_0), row(w_1), column(w_1), row(w_2), …         (K = 2)

in which the state after each code scores the next one. A LightRNN is thus a language model over codes: words w_0 … w_T
are written as (T+1)·K codes, the first K-1 and the last are not fed, and the output after the code before component s
of word t is the paper's h^c_{t-1} (s = row) or h^r_t (s = column).
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ModelConfig
from ..table.word_table import WordTable
from .base import RecurrentModel, State, recurrence_of
from .predictor import CodePredictor


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
        self.last_place = table.last_place
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

    def predictor(self) -> CodePredictor:
        weights = {name: tensor.cpu().numpy() for name, tensor in self.state_dict().items()}
        return CodePredictor(self.config, weights, self.table)

    @torch.inference_mode()
    def word_vectors(self) -> Tensor:
        """(V, H): the state that each word leaves when it is read alone.

        Row and column vectors side by side would say little: what a column means depends on the row, and it is the
        recurrence that puts the two together.
        """
        blocks = torch.split(self.codes + self.offsets, 1 << 14)
        return torch.cat([self.read(block)[0][:, -1] for block in blocks])

    def hidden_states(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Equation (1): codes (B, T+1, K) → the states that score the components of words 1 … T, (B, T, K, H).

        Of word 0 only the last code is fed after a state, in which its others are; without one, all of them.
        """
        before = self.components - 1
        stacked = (codes + self.offsets).flatten(1)[:, :-1]  # (B, (T+1)·K - 1)
        if state is None:
            outputs, state = self.read(stacked)
            outputs = outputs[:, before:]
        else:
            outputs, state = self.read(stacked[:, before:], state)  # (B, T·K)
        return outputs.reshape(len(outputs), -1, self.components, outputs.shape[-1]), state

    def read(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Feed stacked codes (B, S), i.e. indices of input_vectors; returns the outputs (B, S, H) and the state."""
        return self.recur(self.input_vectors(codes), state)

    def scores(self, component: int, hidden: Tensor, prefix: Tensor) -> Tensor:
        """Scores before the softmax of equation (2): hidden (…, H), prefix (…, component) → (…, n_component).

        prefix holds the components before this one; where they are the last place's, missing places get -inf.
        """
        bias = self.output_bias[component] if self.config.output_bias else None
        scores = F.linear(hidden, self.output_vectors[component], bias)
        last = self.last_place[component]
        if self.is_full or last == self.shape[component] - 1:
            return scores
        on_edge = (prefix == prefix.new_tensor(self.last_place[:component])).all(dim=-1)  # (…)
        missing = torch.arange(self.shape[component], device=scores.device) > last  # (n_s)
        return scores.masked_fill(on_edge.unsqueeze(-1) & missing, -torch.inf)
