"""What the package computes, written out once more, literally and slowly; shares no code with it.

`Oracle`: equations (1)-(3) of Li et al. 2016 in NumPy, one word and one vector at a time, for words of one code or
several. All cells as published: plain
RNN (σ or tanh), LSTM (Hochreiter and Schmidhuber with forget gates) and GRU (Cho et al., in the form with the reset
gate after the product, as in cuDNN). Gate order in the stacked matrices: LSTM i, f, g, o; GRU r, z, n.
`kneser_ney`: n-gram probabilities without arrays. `plain_words`: the words of a text.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@dataclass
class Oracle:
    cell: str
    layers: list[dict[str, np.ndarray]]  # W, U, b_W, b_U of each layer
    input_vectors: list[np.ndarray]  # x^r, x^c, …: one matrix a component
    output_vectors: list[np.ndarray]  # y^r, y^c, …
    output_bias: list[np.ndarray]
    codes: np.ndarray  # (V, K), -1 where a word has no more
    projection: np.ndarray | None = None  # (D, H)
    head: int = 0  # rows scored at every word; the others share `rest`, and each has its part of that
    rest: tuple[np.ndarray, float] = (np.zeros(0), 0.0)  # vector and bias

    def codes_of(self, word):
        return [int(code) for code in self.codes[word] if code >= 0]

    def start(self):
        return [(np.zeros(layer["U"].shape[1]), np.zeros(layer["U"].shape[1])) for layer in self.layers]

    def f(self, x, state):
        """h = f(W x + U h + b), layer after layer; the state is (h, c) a layer, c unused but in the LSTM."""
        after = []
        for layer, (h, c) in zip(self.layers, state, strict=True):
            a = layer["W"] @ x + layer["b_W"]
            b = layer["U"] @ h + layer["b_U"]
            if self.cell == "rnn-sigmoid":
                h = sigmoid(a + b)
            elif self.cell == "rnn-tanh":
                h = np.tanh(a + b)
            elif self.cell == "lstm":
                i, f, g, o = np.split(a + b, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            else:
                (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
                r, z = sigmoid(ar + br), sigmoid(az + bz)
                h = (1 - z) * np.tanh(an + r * bn) + z * h
            after.append((h, c))
            x = h
        return x, after

    def softmax(self, s, h, prefix):
        """P of each value of component s given the ones before it, over the places that exist."""
        seen = h if self.projection is None else self.projection @ h
        scores = self.output_vectors[s] @ seen + self.biases(s, prefix)
        exists = [any((self.codes[:, : s + 1] == [*prefix, v]).all(axis=1)) for v in range(len(scores))]
        e = np.where(exists, np.exp(scores - scores.max()), 0.0)
        if s == 0 and self.head:
            rest = np.exp(self.rest[0] @ seen + self.rest[1] - scores.max())
            of_head = e[: self.head].sum() + rest
            return np.concatenate([e[: self.head] / of_head, rest / of_head * e[self.head :] / e[self.head :].sum()])
        return e / e.sum()

    def biases(self, s, prefix):
        """Of each value of component s; where words have biases, that of the word in the place, found by its number."""
        if self.output_bias[s].ndim == 1:
            return self.output_bias[s]
        places = sorted({tuple(code) for code in self.codes.tolist() if code[1] >= 0})
        of_place = dict(zip(places, self.output_bias[s].ravel(), strict=False))
        return np.array([of_place.get((*prefix, value), 0.0) for value in range(len(self.output_vectors[s]))])

    def word_log_probs(self, last_word, word, state):
        """log P of each component of `word` after `last_word`, and the state before its last component is fed."""
        last, codes = self.codes_of(last_word), self.codes_of(word)
        parts = np.zeros(self.codes.shape[1])
        h, state = self.f(self.input_vectors[len(last) - 1][last[-1]], state)  # h^c_{t-1}
        for s, code in enumerate(codes):
            if s > 0:
                h, state = self.f(self.input_vectors[s - 1][codes[s - 1]], state)  # h^r_t
            parts[s] = np.log(self.softmax(s, h, codes[:s])[code])
        return parts, state

    def fresh(self, word):
        """The state after all components of a word but the last, with nothing before it."""
        state = self.start()
        for s, code in enumerate(self.codes_of(word)[:-1]):
            _, state = self.f(self.input_vectors[s][code], state)
        return state

    def score(self, words, state=None):
        """log P of words 1, 2, … after those before; without a state, word 0 is the first and read whole."""
        state = state or self.fresh(words[0])
        parts = []
        for last_word, word in itertools.pairwise(words):
            part, state = self.word_log_probs(last_word, word, state)
            parts.append(part)
        return np.array(parts), state


def oracle_of(model) -> Oracle:
    """The oracle with a model's numbers (reading them out is all it knows of the model)."""
    weights = {name: value.detach().double().numpy() for name, value in model.state_dict().items() if name != "codes"}
    K = len(model.shape)
    bounds = np.cumsum(model.shape)[:-1]
    inputs = np.split(weights["input_vectors.weight"], bounds)
    return Oracle(
        cell=model.config.cell,
        layers=[
            {
                "W": weights[f"recurrence.weight_ih_l{layer}"],
                "U": weights[f"recurrence.weight_hh_l{layer}"],
                "b_W": weights[f"recurrence.bias_ih_l{layer}"],
                "b_U": weights[f"recurrence.bias_hh_l{layer}"],
            }
            for layer in range(model.config.layers)
        ],
        input_vectors=inputs,
        output_vectors=[weights.get(f"output_vectors.{s}", inputs[s]) for s in range(K)],
        output_bias=[weights.get(f"output_bias.{s}", np.zeros(model.shape[s])) for s in range(K)],
        codes=model.codes.numpy(),
        projection=weights.get("projection.weight"),
        head=min(model.config.head, int((model.codes[:, 1] < 0).sum())) if "rest_vector" in weights else 0,
        rest=(weights.get("rest_vector", np.zeros((1, 0)))[0], float(weights.get("rest_bias", np.zeros(1))[0])),
    )


def kneser_ney(
    sentences: Sequence[Sequence[str]], words: Sequence[str], order: int, prune: Sequence[int] = ()
) -> Callable[[str, tuple[str, ...]], float]:
    """Interpolated modified Kneser-Ney by the book: P(word | context), with <s> in the context of a sentence's start.

    `words` are all that can be predicted, `prune` has a threshold for every order, if any. Counts are dictionaries of
    tuples, probabilities a recursion.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for sentence in sentences:
        line = ("<s>", *sentence, "</s>")
        seen.update(line[i:j] for i in range(len(line)) for j in range(i + 1, min(i + order, len(line)) + 1))
    del seen[("<s>",)]
    before: dict[tuple[str, ...], set[str]] = {}
    for gram in seen:
        before.setdefault(gram[1:], set()).add(gram[0])
    adjusted = {g: n if len(g) == order or g[0] == "<s>" else len(before.get(g, ())) for g, n in seen.items()}

    @cache
    def discounts(n: int) -> tuple[float, ...]:
        t = Counter(count for gram, count in adjusted.items() if len(gram) == n)
        if 0 in (t[1], t[2], t[3]):
            return (0.0, 0.5, 1.0, 1.5)
        y = t[1] / (t[1] + 2 * t[2])
        found = (0.0, 1 - 2 * y * t[2] / t[1], 2 - 3 * y * t[3] / t[2], 3 - 4 * y * t[4] / t[3])
        return found if all(0 <= d <= j for j, d in enumerate(found)) else (0.0, 0.5, 1.0, 1.5)

    followers: dict[tuple[str, ...], list[str]] = {}
    for gram in adjusted:
        followers.setdefault(gram[:-1], []).append(gram[-1])

    def taken(gram: tuple[str, ...]) -> float:
        """What is taken from an n-gram's adjusted count: a discount, or all where it is pruned."""
        if prune and gram not in {("</s>",), ("<unk>",)} and seen[gram] <= prune[len(gram) - 1]:
            return adjusted[gram]
        return discounts(len(gram))[min(adjusted[gram], 3)]

    @cache
    def probability(word: str, context: tuple[str, ...]) -> float:
        lower = probability(word, context[1:]) if context else 1 / len(words)
        after = [(*context, v) for v in followers.get(context, [])]
        if not after:
            return lower
        gram = (*context, word)
        own = adjusted[gram] - taken(gram) if gram in adjusted else 0.0
        return (own + sum(map(taken, after)) * lower) / sum(adjusted[gram] for gram in after)

    def cut(word: str, context: tuple[str, ...]) -> float:
        return probability(word, context[len(context) - min(order - 1, len(context)) :])

    return cut


def plain_words(data: str) -> list[str]:
    """What the words of a text are, said once more and slowly."""
    lines = data.split("\n")
    if lines[-1] == "":
        lines.pop()
    words = []
    for line in lines:
        words += [
            w
            for w in line.replace("\t", " ").replace("\r", " ").replace("\x0b", " ").replace("\x0c", " ").split(" ")
            if w
        ]
        words.append("</s>")
    return words
