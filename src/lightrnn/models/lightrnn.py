"""The LightRNN of Li et al. 2016, equations (1)-(3), for a word table of any number of components.

Shapes: B batch, S codes, T words, V vocabulary, D embedding, H hidden, K components, n_s values of component s,
N = Σ n_s codes, P positions.

The paper's two-step cell is an ordinary recurrent layer over the sequence of codes

    column(w_0), row(w_1), column(w_1), row(w_2), …         (K = 2)

in which the state after each code scores the next one: the paper's h^c_{t-1} the row of word t, h^r_t its column. A
LightRNN is thus a language model over codes, numbered through from 0 to N-1, components one after the other
(`WordTable.spelling`). Where the next code begins a word its softmax is over the rows, elsewhere over the values of the
component that follows. A word that stands alone is one code, and P(w) = P_r.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ModelConfig
from ..nn.functional import head_log_probs, head_scores, projection_between, without_missing
from ..table.word_table import WordTable
from .base import SCORES, RecurrentModel, State, recurrence_of, select_state
from .predictor import CodePredictor
from .sizes import bias_shapes, head_of


class LightRNN(RecurrentModel):
    """One recurrent network over the codes of a word table.

    input_vectors: x^r and x^c, stacked by component, (N, D). output_vectors[s]: y^r or y^c, (n_s, H); none where they
    are tied, which is the input vectors then, scored with a projection of the state, H → D, if the two sizes differ.
    recurrence: W, U and b, the same for the row and the column step. codes: the table, (V, K), a buffer. head: the rows
    that are scored at every word, and rest_vector, which scores all others together; 0: the rows have one softmax.
    output_bias[s]: (n_s,), or where words have biases those of the last component, (prefixes, n_K).
    """

    codes: Tensor

    def __init__(self, config: ModelConfig, table: WordTable) -> None:
        super().__init__(config)
        self.shape = table.shape
        self.alone = table.alone
        self.last_place = table.last_place
        self.is_full = table.is_full
        self.spelling = table.spelling
        H, D = config.hidden_size, config.input_size
        self.register_buffer("codes", torch.from_numpy(table.codes.astype(np.int32)))
        self.offsets = [sum(table.shape[:s]) for s in range(table.components)]
        self.input_vectors = nn.Embedding(sum(table.shape), D)
        self.recurrence = recurrence_of(config)
        self.output_vectors = nn.ParameterList(torch.empty(n, H) for n in table.shape if not config.tied)
        self.projection = projection_between(H, D if config.tied else H)
        biases = bias_shapes(config, table.shape, table.alone, len(table))
        self.output_bias = nn.ParameterList(torch.empty(shape) for shape in biases)
        self.head = head_of(config, table.shape[0], table.alone)
        if self.head:
            self.rest_vector = nn.Parameter(torch.empty(1, D if config.tied else H))
            self.rest_bias = nn.Parameter(torch.empty(1)) if config.output_bias else None
        self.reset()

    @property
    def components(self) -> int:
        return len(self.shape)

    @property
    def table(self) -> WordTable:
        return WordTable(self.codes.cpu().numpy().astype(np.int64), self.shape)

    def scoring_vectors(self, component: int) -> Tensor:
        """y^r or y^c: (n_s, H), or where they are tied (n_s, D)."""
        if not self.config.tied:
            found: Tensor = self.output_vectors[component]
            return found
        return self.input_vectors.weight.narrow(0, self.offsets[component], self.shape[component])

    def code_log_probs(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Equation (3) code by code: codes (B, K+S), the K before and the S to score → (B, S, 1), and the state.

        After a state only the last of the K is fed, since the others are in it; without one, all but the -1 in front,
        of which every track has as many.
        """
        features, state = self.features(codes, state)
        return self.scored(codes, features), state

    def scored(self, codes: Tensor, features: Tensor) -> Tensor:
        """See RecurrentModel; without gradients in little memory, whatever the table."""
        at_once = len(codes) if torch.is_grad_enabled() else max(1, SCORES // (features.shape[1] * max(self.shape) + 1))
        tracks = zip(torch.split(codes, at_once), torch.split(features, at_once), strict=True)
        return torch.cat([self.scored_together(*some) for some in tracks])

    def scored_together(self, codes: Tensor, features: Tensor, first: Tensor | None = None) -> Tensor:
        """The last S of the codes (B, K+S) by their features (B, S, F): log-probabilities (B, S, 1); first: the
        `first_scores` of those that begin a word, where they are known."""
        features = features.flatten(0, 1)
        targets = codes[:, self.components :].flatten()  # (B·S,)
        found = features.new_zeros(len(features), dtype=torch.promote_types(features.dtype, torch.float32))
        for s, (begin, n) in enumerate(zip(self.offsets, self.shape, strict=True)):
            where = ((targets >= begin) & (targets < begin + n)).nonzero().squeeze(1)
            states, values = features[where], targets[where] - begin
            if s == 0:
                scores = self.first_scores(states) if first is None else first
            else:
                scores = self.scores(s, states, self._prefixes(codes, where, s))  # (positions, n_s)
            if s == 0 and self.head:
                bias = self.output_bias[0] if self.config.output_bias else None
                picked = head_log_probs(scores, states, values, self.scoring_vectors(0), bias, self.head)
            else:
                picked = -F.cross_entropy(scores, values, reduction="none")
            found = found.index_copy(0, where, picked.to(found.dtype))
        return found.view(len(codes), -1, 1)

    def log_probs(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The same in whole words: see LanguageModel. Part s is log P of component s given the ones before it, 0 for a
        word without. Words of unlike length are read track by track."""
        if self.alone and len(words) > 1:
            befores = [None if state is None else select_state(state, slice(b, b + 1)) for b in range(len(words))]
            tracks = [self.log_probs(words[b : b + 1], before) for b, before in enumerate(befores)]
            parts, states = zip(*tracks, strict=True)
            return torch.cat(parts), tuple(torch.cat(tensors, dim=1) for tensors in zip(*states, strict=True))
        K = self.components
        assert self.spelling.codes is not None
        spelled = torch.from_numpy(self.spelling.codes).to(words.device)[words]  # (B, T+1, K)
        front = spelled[:, 0].sort(dim=1).values  # codes of later components are larger, so that only -1 moves
        there = spelled[:, 1:] >= 0
        following = spelled[:, 1:][there].view(len(words), -1)
        log_probs, state = self.code_log_probs(torch.cat([front, following], dim=1), state)
        found = log_probs.new_zeros(len(words), words.shape[1] - 1, K)
        found[there] = log_probs.flatten()
        return found, state

    def predictor(self) -> CodePredictor:
        weights = {name: tensor.cpu().numpy() for name, tensor in self.state_dict().items()}
        return CodePredictor(self.config, weights, self.table)

    @torch.inference_mode()
    def word_vectors(self) -> Tensor:
        """(V, H): the state that each word leaves when it is read by itself.

        Row and column vectors side by side would say little: what a column means depends on the row, and it is the
        recurrence that puts the two together.
        """
        assert self.spelling.codes is not None
        spelled = torch.from_numpy(self.spelling.codes).to(self.codes.device)
        vectors = self.input_vectors.weight.new_empty(len(spelled), self.config.hidden_size)
        for length in (1, self.components):
            words = ((spelled >= 0).sum(dim=1) == length).nonzero().squeeze(1)
            for block in torch.split(words, 1 << 14):
                if len(block):
                    vectors[block] = self.read(spelled[block, :length])[0][:, -1]
        return vectors

    def features(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The states of `hidden_states`, projected where the vectors are tied and narrow: (B, S, H or D)."""
        hidden, state = self.hidden_states(codes, state)
        return self.projection(hidden), state

    def hidden_states(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Equation (1): codes (B, K+S) → the states that score the last S of them, (B, S, H)."""
        before = self.components - 1
        if state is None:
            missing = int((codes[0, : self.components] < 0).sum())
            outputs, state = self.read(codes[:, missing:-1])
            return outputs[:, before - missing :], state
        return self.read(codes[:, before:-1], state)

    def read(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Feed codes (B, S); returns the outputs (B, S, H) and the state."""
        return self.recur(self.input_vectors(codes), state)

    def first_scores(self, features: Tensor) -> Tensor:
        """Scores before the softmax with which a word begins: projected states (P, H or D) → (P, n_1), those of rows,
        or where there is a head (P, head + 1)."""
        if not self.head:
            return self.scores(0, features, None)
        bias = self.output_bias[0] if self.config.output_bias else None
        return head_scores(features, self.scoring_vectors(0), bias, (self.rest_vector, self.rest_bias), self.head)

    def scores(self, component: int, features: Tensor, prefix: Tensor | None) -> Tensor:
        """Scores before the softmax of equation (2): projected states (P, H or D) → (P, n_component).

        prefix (P, component) holds the codes before this one, if they matter: in the last component for the words'
        biases, and where they are the last place's, since missing places get -inf.
        """
        bias = self.output_bias[component] if self.config.output_bias else None
        of_words = self.has_word_biases(component)
        scores = F.linear(features, self.scoring_vectors(component), None if of_words else bias)
        if of_words:
            assert bias is not None
            assert prefix is not None
            scores = scores + F.embedding(self._prefix_numbers(prefix), bias)
        if prefix is None or self._all_exist(component):
            return scores
        last = [first + code for first, code in zip(self.offsets, self.last_place, strict=True)]
        on_edge = (prefix == prefix.new_tensor(last[:component])).all(dim=-1)  # (P,)
        return without_missing(scores, on_edge, self.last_place[component])

    def _all_exist(self, component: int) -> bool:
        """Whether all values of a component exist whatever was before."""
        return self.is_full or self.last_place[component] == self.shape[component] - 1

    def has_word_biases(self, component: int) -> bool:
        """Whether the biases of this component are those of words, which depend on the codes before."""
        return self.config.output_bias and self.output_bias[component].dim() > 1

    def _prefix_numbers(self, prefix: Tensor) -> Tensor:
        """(P,): the codes before the last component, (P, K-1), as numbers in lexicographic order."""
        numbers = prefix[:, 0] - self.alone
        for s in range(1, self.components - 1):
            numbers = numbers * self.shape[s] + prefix[:, s] - self.offsets[s]
        return numbers

    def _prefixes(self, codes: Tensor, where: Tensor, component: int) -> Tensor | None:
        """(P, component): the codes before some of those to score, given by their flat positions; None: they do not
        matter."""
        if self._all_exist(component) and not self.has_word_biases(component):
            return None
        length = codes.shape[1] - self.components
        tracks, steps = where // max(length, 1), where % max(length, 1) + self.components
        before = torch.arange(component, 0, -1, device=codes.device)
        return codes[tracks[:, None], steps[:, None] - before]
