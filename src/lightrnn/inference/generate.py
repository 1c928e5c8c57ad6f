"""Text from a model: sampled word by word, or the likeliest sentence by beam search."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ..models.likeliest import Likeliest, draw_from
from ..text.vocabulary import Vocabulary

NUCLEUS = 64  # words looked at first for top_p; doubled until they hold its share
DRAWS = 20  # of a word that is not to be drawn, before the likeliest other is taken


class Speaker(Protocol):
    """What is asked of a model here: see lm.LM."""

    vocabulary: Vocabulary

    def likeliest(self, state: Any, count: int) -> Likeliest: ...
    def draw(self, state: Any, temperature: float, random: np.random.Generator) -> int: ...
    def read_word(self, state: Any, word: int) -> tuple[float, Any]: ...
    def go_on(self, state: Any, word: int) -> Any: ...


def sample(
    lm: Speaker,
    state: Any,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    random: np.random.Generator,
    never: int | None = None,
) -> Iterator[int]:
    """Draw words without end, by id; `never` is a word that is left out: what is drawn in its place is drawn again.

    top_k keeps the likeliest words only, top_p the fewest of the likeliest that hold this share of the probability; the
    temperature is then applied to what is kept. Where nothing is cut off, a LightRNN draws a row, then a column, each
    at this temperature; at temperature 0 that is the likeliest row, then the likeliest column: the paper's prediction.
    """
    while True:
        if top_k or top_p < 1:
            choice = _likeliest(lm, state, top_k or len(lm.vocabulary), top_p)
            allowed = choice.words != never
            if allowed.any():
                choice = Likeliest(choice.words[allowed], choice.log_probs[allowed], choice.opened)
            word = int(choice.words[draw_from(choice.log_probs, temperature, random)])
        else:
            draws = (lm.draw(state, temperature, random) for _ in range(DRAWS if temperature else 1))
            word = next((word for word in draws if word != never), -1)
        if word in (-1, never):
            word = int(next((word for word in lm.likeliest(state, 2).words if word != never), lm.vocabulary.eos_id))
        state = lm.go_on(state, word)
        yield word


def _likeliest(lm: Speaker, state: Any, top_k: int, top_p: float) -> Likeliest:
    """The words that both limits keep, at least one."""
    count = min(top_k, NUCLEUS) if top_p < 1 else top_k
    while True:
        found = lm.likeliest(state, count)
        mass = np.exp(found.log_probs).cumsum()
        if top_p == 1 or mass[-1] >= top_p or count >= min(top_k, len(lm.vocabulary)):
            size = int(np.searchsorted(mass, top_p)) + 1
            return Likeliest(found.words[:size], found.log_probs[:size], found.opened)
        count = min(2 * count, top_k)


def beam_search(
    lm: Speaker, state: Any, width: int, length: int, never: int | None = None
) -> list[tuple[list[int], float]]:
    """The likeliest continuations found with `width` kept at each word, best first, with natural-log probabilities.

    A continuation ends with eos, or is cut after `length` words; `never` is a word that is left out.
    """
    eos = lm.vocabulary.eos_id
    running: list[tuple[float, list[int], Any]] = [(0.0, [], state)]
    ended: list[tuple[float, list[int]]] = []
    for _ in range(length):
        longer = []
        for log_prob, words, before in running:
            found = lm.likeliest(before, width + 1)
            options = zip(found.words.tolist(), found.log_probs.tolist(), strict=True)
            known = [(word, value) for word, value in options if word != never]
            longer += [(log_prob + value, words, word, before) for word, value in known[:width]]
        longer.sort(key=lambda option: -option[0])
        running = []
        for log_prob, words, word, before in longer[:width]:
            if word == eos:
                ended.append((log_prob, [*words, word]))
            else:
                running.append((log_prob, [*words, word], lm.read_word(before, word)[1]))
        worst = sorted((log_prob for log_prob, _ in ended), reverse=True)[width - 1 : width]
        if not running or (worst and running[0][0] <= worst[0]):
            break
    ended += [(log_prob, words) for log_prob, words, _ in running]
    return [(words, log_prob) for log_prob, words in sorted(ended, key=lambda end: -end[0])[:width]]
