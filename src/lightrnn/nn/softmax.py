"""Words out: a distribution over words as one over rows and one over columns given the row.

Shapes: P positions, V words, R rows, C columns, N = R + C, H in_features, D size of the vectors, A words alone.

    f = projection(h)                                log P_r(i) = log softmax(Y^r f + b^r)[i]
    g = f + tanh(a) ∘ σ(z), (a, z) = W f + U ŷ^r_i   log P_c(j | i) = log softmax(Y^c g + b_i)[j]
    P(w) = P_r(row of w) · P_c(column of w | its row), and P_r alone for a word that stands alone

Columns that were predicted independently of the row would be no distribution worth having. They see it through the
gated map, where ŷ is y over its root mean square, and through a bias for every word of a row, b_ij.
"""

from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..arguments import check_number, check_whole
from ..errors import LightRNNError
from ..table.word_table import WordTable
from .checks import check_hidden, check_table, check_targets, check_words
from .embedding import LightEmbedding
from .functional import head_log_probs, head_scores, precise, projection_between, without_missing
from .layer import TableLayer
from .likeliest import best_places
from .starts import SCALE, fill_biases, fill_rest, fill_word_biases, shares, start_vectors

REDUCTIONS = ("mean", "sum", "none")
POSITIONS = 128  # whose likeliest words are looked for together


class TopK(NamedTuple):
    """The likeliest words (…, k), best first, and their natural-log probabilities, as `torch.topk` names them."""

    values: Tensor
    indices: Tensor


class Gate(nn.Module):
    """What the columns see of a state and a row: g = f + tanh(a) ∘ σ(z), (a, z) = W f + U ŷ^r + b.

    a starts at zero whatever the state, so that g starts as f. Vectors of rows may be much smaller than states; divided
    by their root mean square they are as well seen.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_state = nn.Linear(dim, 2 * dim)
        self.of_row = nn.Linear(dim, 2 * dim, bias=False)
        for linear in (self.of_state, self.of_row):
            nn.init.zeros_(linear.weight[:dim])
        nn.init.zeros_(self.of_state.bias)

    def forward(self, features: Tensor, rows: Tensor) -> Tensor:
        """features (…, D) and vectors of rows (…, D), which may broadcast → (…, D)."""
        seen = self.of_row(F.rms_norm(rows, rows.shape[-1:]))
        a, z = (self.of_state(features) + seen).chunk(2, dim=-1)
        found: Tensor = features + a.tanh() * z.sigmoid()
        return found


class LightSoftmax(TableLayer):
    """In the place of `nn.Linear(in_features, V)` and its softmax: states (…, in_features) → words.

    weight: y^r and y^c, stacked, (N, D); with `tied` those of a LightEmbedding over the same table, to the size of
    which states are projected. Untied, D is `dim`, or in_features. Vectors start as those of the embedding do; biases
    at the words' shares of the text, where the table knows counts: row_bias at those of rows, column_bias, (R-A, C),
    at those of the words that share them. Without `word_bias` it is columns that have biases, (C,): four bytes a word
    less, and worse.

    With `head` only so many rows are scored at every position, and the others where one of them comes: faster with
    thousands of words alone, in order of falling frequency.
    """

    words: Tensor  # int32 (V,), the word in each place: what follows from the table, and is not saved

    def __init__(
        self,
        table: WordTable,
        in_features: int,
        *,
        tied: LightEmbedding | None = None,
        dim: int | None = None,
        head: int = 0,
        word_bias: bool = True,
        scale: float = SCALE,
    ) -> None:
        check_table(table, components=2)
        check_whole("in_features", in_features)
        check_whole("head", head, least=0)
        check_number("scale", scale)
        super().__init__(table)
        if tied is not None:
            self._check_tied(tied, dim)
        check_whole("dim", D := tied.dim if tied is not None else dim if dim is not None else in_features)
        self.in_features, self.dim = in_features, D
        R, C = self.shape
        self.projection = projection_between(in_features, D)
        self.weight = nn.Parameter(torch.empty(R + C, D)) if tied is None else tied.weight
        self.row_bias = nn.Parameter(torch.zeros(R))
        self.column_bias = nn.Parameter(torch.zeros(R - self.alone, C) if word_bias else torch.zeros(C))
        self.gate = Gate(D)
        self.head = min(head, self.alone) if min(head, self.alone) < R else 0
        if self.head:
            self.rest_vector, self.rest_bias = nn.Parameter(torch.zeros(1, D)), nn.Parameter(torch.zeros(1))
        self.reset(table, scale, vectors=tied is None)

    def _check_tied(self, tied: LightEmbedding, dim: int | None) -> None:
        if not isinstance(tied, LightEmbedding):
            raise LightRNNError(f"tied must be a LightEmbedding, got {type(tied).__name__}")
        if tied.codes.shape != self.codes.shape or not tied.codes.equal(self.codes.to(tied.codes.device)):
            raise LightRNNError(
                f"tied must have the same table, got one of {tied.size:,} words, shape {tied.shape}, for one of "
                f"{self.size:,}, shape {self.shape}"
            )
        if dim is not None and dim != tied.dim:
            raise LightRNNError(f"dim must be that of tied, {tied.dim}, got {dim}; leave it out")

    @torch.no_grad()
    def reset(self, table: WordTable, scale: float = SCALE, *, vectors: bool = True) -> None:
        """Vectors, unless they are tied, and biases as they start, by what a table of this shape knows."""
        if vectors:
            start_vectors(self.weight, table, scale)
        if table.counts is None:
            return
        R, C = self.shape
        of_rows = shares(table.codes[:, 0], table.counts, R)
        fill_biases(self.row_bias, of_rows)
        if self.column_bias.dim() == 1:
            fill_biases(self.column_bias, shares(table.codes[:, 1], table.counts, C))
        else:
            fill_word_biases(self.column_bias, table, table.counts)
        if self.head:
            fill_rest(self.rest_vector, self.rest_bias, self.weight[:R], of_rows, self.head)

    # --- training

    def forward(self, hidden: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
        """The loss of target words (…) after states (…, H), in nats, as `F.cross_entropy` has it of a full softmax.

        Where target is ignore_index the loss is 0 and does not count in the mean; the mean of nothing is 0.
        """
        check_hidden(hidden, self.in_features)
        check_targets("target", target, hidden)
        check_words("target", target, self.size, but=ignore_index)
        if reduction not in REDUCTIONS:
            raise LightRNNError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
        counted = target.long() != ignore_index
        words = torch.where(counted, target, 0)
        losses = torch.where(counted, -self._log_prob_of(hidden, words), 0.0)
        if reduction == "none":
            return losses
        return losses.sum() / counted.sum().clamp(min=1) if reduction == "mean" else losses.sum()

    def log_prob_of(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Natural-log probabilities (…) of given words (…) after states (…, H)."""
        check_hidden(hidden, self.in_features)
        check_targets("words", words, hidden)
        check_words("words", words, self.size)
        return self._log_prob_of(hidden, words)

    def _log_prob_of(self, hidden: Tensor, words: Tensor) -> Tensor:
        features = self.projection(hidden).reshape(-1, self.dim)  # (P, D)
        rows, columns = self.codes[words.reshape(-1).long()].long().unbind(dim=1)
        found = self._row_log_prob_of(features, rows)
        if self.alone < self.size:
            found = self._with_columns(found, features, rows, columns)
        return found.view(words.shape)

    def _row_log_prob_of(self, features: Tensor, rows: Tensor) -> Tensor:
        if self.head and not torch.compiler.is_compiling():
            vectors, rest = self.weight[: self.shape[0]], (self.rest_vector, self.rest_bias)
            scores = head_scores(features, vectors, self.row_bias, rest, self.head)
            return head_log_probs(scores, features, rows, vectors, self.row_bias, self.head)
        return self._row_log_probs(features).gather(1, rows[:, None]).squeeze(1)

    def _with_columns(self, found: Tensor, features: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """log P_r (P,) plus log P_c where a word has a column.

        Only those positions are scored; but for a graph, in which nothing may depend on how many they are.
        """
        if torch.compiler.is_compiling():
            log_probs = self._column_log_probs(features, rows.clamp(min=self.alone))
            picked = log_probs.gather(1, columns.clamp(min=0)[:, None]).squeeze(1)
            return found + torch.where(columns >= 0, picked, 0.0)
        where = (columns >= 0).nonzero().squeeze(1)
        scores = self._column_scores(features[where], rows[where])
        return found.index_add(0, where, -F.cross_entropy(scores, columns[where], reduction="none"))

    # --- distributions

    def _row_log_probs(self, features: Tensor) -> Tensor:
        """(P, D) → log P_r (P, R)."""
        R, head = self.shape[0], self.head
        scores = F.linear(features, self.weight[:R], self.row_bias)
        scores = precise(scores)
        if not head:
            return scores.log_softmax(dim=-1)
        rest = F.linear(features, self.rest_vector, self.rest_bias).to(scores.dtype)
        of_head = torch.cat([scores[:, :head], rest], dim=1).log_softmax(dim=-1)
        return torch.cat([of_head[:, :head], of_head[:, head:] + scores[:, head:].log_softmax(dim=-1)], dim=1)

    def _column_scores(self, features: Tensor, rows: Tensor) -> Tensor:
        """features (…, D) and rows (…), which may broadcast → scores (…, C), -inf where there is no place."""
        R = self.shape[0]
        seen = self.gate(features, F.embedding(rows, self.weight))
        if self.column_bias.dim() == 1:
            scores = F.linear(seen, self.weight[R:], self.column_bias)
        else:
            scores = F.linear(seen, self.weight[R:]) + F.embedding(rows - self.alone, self.column_bias)
        scores = precise(scores)
        return scores if self.is_full else without_missing(scores, rows == R - 1, self.last_column)

    def _column_log_probs(self, features: Tensor, rows: Tensor) -> Tensor:
        return self._column_scores(features, rows).log_softmax(dim=-1)

    def log_prob(self, hidden: Tensor) -> Tensor:
        """Natural-log probabilities of all words (…, V), in the order of their ids."""
        check_hidden(hidden, self.in_features)
        features = self.projection(hidden).reshape(-1, self.dim)
        found = self._row_log_probs(features)  # (P, R)
        if self.alone < self.size:
            rows = torch.arange(self.alone, self.shape[0], device=found.device)
            columns = self._column_log_probs(features[:, None], rows)  # (P, R - A, C)
            shared = (found[:, self.alone :, None] + columns).flatten(1)[:, : self.size - self.alone]
            found = torch.cat([found[:, : self.alone], shared], dim=1)
        by_id = torch.arange(self.size, device=found.device)
        by_id = torch.empty_like(by_id).scatter(0, self.words.long(), by_id)
        return found[:, by_id].view(*hidden.shape[:-1], self.size)

    # --- choosing words

    @torch.no_grad()
    def topk(self, hidden: Tensor, k: int) -> TopK:
        """The k likeliest words after states (…, H), exactly, most of them without a look at most of the columns."""
        check_hidden(hidden, self.in_features)
        if not isinstance(k, Integral) or not 1 <= k <= self.size:
            raise LightRNNError(f"k must be from 1 to the number of words, {self.size:,}, got {k!r}")
        features = self.projection(hidden).reshape(-1, self.dim)
        blocks = [self._best_places(block, k) for block in torch.split(features, POSITIONS)]
        values, places = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        shape = (*hidden.shape[:-1], k)
        return TopK(values.view(shape), self.words[places].long().view(shape))

    def _best_places(self, features: Tensor, k: int) -> tuple[Tensor, Tensor]:
        def open_rows(positions: Tensor, rows: Tensor) -> Tensor:
            return self._column_log_probs(features[positions][:, None], rows)

        return best_places(self._row_log_probs(features), self.alone, self.shape[1], k, open_rows)

    @torch.no_grad()
    def sample(
        self,
        hidden: Tensor,
        temperature: float = 1.0,
        *,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Words (…) drawn after states (…, H): a row, then a column, each at this temperature; no distribution over
        words is made. With `top_k`, out of the so many likeliest words. At temperature 0, the likeliest word.
        """
        check_hidden(hidden, self.in_features)
        if not isinstance(temperature, int | float) or not 0 <= temperature < float("inf"):
            raise LightRNNError(f"temperature must be a number from 0, got {temperature!r}")
        if temperature == 0:
            return self.topk(hidden, 1).indices.squeeze(-1)
        if top_k is not None:
            best = self.topk(hidden, top_k)
            drawn = _draw(best.values.reshape(-1, top_k), temperature, generator).view(*hidden.shape[:-1], 1)
            return best.indices.gather(-1, drawn).squeeze(-1)
        features = self.projection(hidden).reshape(-1, self.dim)
        rows = _draw(self._row_log_probs(features), temperature, generator)
        where = (rows >= self.alone).nonzero().squeeze(1)
        places = rows.clone()
        if len(where):
            columns = _draw(self._column_log_probs(features[where], rows[where]), temperature, generator)
            places[where] = self.alone + (rows[where] - self.alone) * self.shape[1] + columns
        return self.words[places].long().view(hidden.shape[:-1])

    def _follow(self, table: WordTable) -> None:
        super()._follow(table)
        words = torch.from_numpy(table.words.astype(np.int32)).to(self.codes.device)
        self.register_buffer("words", words, persistent=False)

    def extra_repr(self) -> str:
        return (
            f"{self.in_features}, {self.size}, dim={self.dim}, shape={self.shape}, alone={self.alone}, head={self.head}"
        )


def _draw(log_probs: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """log-probabilities (P, n) → one draw each, (P,)."""
    if not len(log_probs):
        return log_probs.new_zeros(0, dtype=torch.int64)
    scaled = (log_probs - log_probs.amax(dim=-1, keepdim=True)).double() / temperature  # finite, however low it is
    return torch.multinomial(scaled.softmax(dim=-1), 1, generator=generator).squeeze(1)
