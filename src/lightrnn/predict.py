"""What comes next: the distribution over all words, the likeliest ones, sampled text.

Shapes: V vocabulary, K components, P prefixes (the first s components of a cell), H hidden.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from .model import LightRNN, State, select_state
from .vocabulary import Vocabulary


@torch.inference_mode()
def read(model: LightRNN, words: Sequence[int], state: State | None = None) -> tuple[int, State]:
    """Condition on words (at least one); returns the last of them and the state that log_probs would leave."""
    ids = torch.tensor([list(words)], device=model.codes.device)
    state = state or model.initial_state(1)
    if len(words) > 1:
        _, state = model.hidden_states(model.codes[ids], state)
    return int(words[-1]), state


@torch.inference_mode()
def next_log_probs(model: LightRNN, last_word: int, state: State) -> Tensor:
    """(V,): the natural-log probability of every word as the next one; exp of it sums to 1.

    One step for the row softmax, then one batched step for the column softmax of every row. Prefixes are kept in
    lexicographic order, in which those that exist come first.
    """
    K, V = model.components, len(model.codes)
    steps = (model.codes[last_word] + model.offsets)[-1].view(1, 1)
    prefixes = model.codes.new_zeros(1, 0).long()  # (P, s)
    log_probs = torch.zeros(1, device=steps.device)  # (P,)
    for s in range(K):
        outputs, state = model.step(steps, state)
        scores = model.scores(s, outputs[:, 0], prefixes)  # (P, n_s)
        existing = -(-V // prod(model.shape[s + 1 :]))
        log_probs = (log_probs[:, None] + scores.log_softmax(dim=-1)).flatten()[:existing]
        if s == K - 1:
            break
        parents = torch.arange(existing, device=steps.device) // model.shape[s]
        codes = torch.arange(existing, device=steps.device) % model.shape[s]
        prefixes = torch.cat([prefixes[parents], codes[:, None]], dim=1)
        steps = (codes + model.offsets[s])[:, None]
        state = select_state(state, parents)
    radix = torch.tensor([prod(model.shape[s + 1 :]) for s in range(K)], device=steps.device)
    return log_probs[(model.codes.long() * radix).sum(dim=1)]


def next_words(model: LightRNN, vocabulary: Vocabulary, context: str, count: int = 10) -> list[tuple[str, float]]:
    """The likeliest words after a context, with their probabilities."""
    ids = [vocabulary.bos_id, *vocabulary.encode(vocabulary.rules.split(context)).tolist()]
    probabilities, words = next_log_probs(model, *read(model, ids)).exp().topk(min(count, len(vocabulary)))
    return [(vocabulary.words[w], float(p)) for w, p in zip(words.tolist(), probabilities.tolist(), strict=True)]


@torch.inference_mode()
def sample(
    model: LightRNN,
    vocabulary: Vocabulary,
    context: str = "",
    *,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Iterator[str]:
    """Draw words without end after a context: a row, then a column."""
    last, state = read(model, [vocabulary.bos_id, *vocabulary.encode(vocabulary.rules.split(context)).tolist()])
    words_by_cell = model.table.words
    while True:
        step = (model.codes[last] + model.offsets)[-1]
        cell: list[int] = []
        for s in range(model.components):
            outputs, state = model.step(step.view(1, 1), state)
            prefix = torch.tensor([cell], dtype=torch.long, device=step.device)
            scores = model.scores(s, outputs[0], prefix)[0]  # (n_s,)
            code = int(torch.multinomial((scores / temperature).softmax(dim=-1), 1, generator=generator))
            step = model.offsets[s] + code
            cell.append(code)
        last = int(words_by_cell[np.ravel_multi_index(cell, model.shape)])
        yield vocabulary.words[last]
