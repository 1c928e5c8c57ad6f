"""Balanced clustering by halves: V log n work and V memory, where the transport's k-means needs a matrix of V × n.

Shapes: V words, d dimensions of their vectors, n values of a component, G groups of words.

The values of a component are halved again and again, and with them the words: those that are nearer to the one half's
mean go there, as many as it has places. Which ones is settled exactly: moving word w from the right half to the left
costs w's weight times |x - left|² - |x - right|², so the words with the least of it belong to the left, and sorting
finds them. Means and cut alternate, as in k-means with two clusters, on a sample of the words; one cut of all follows.

Words of different groups do not compete: within every group, a half of the values has its places. So the same halving
gives rows to all words, columns to the words of every row, and any further component.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..runtime import Progress, in_parallel, silent

SAMPLE = 8192  # words from which two means are learned, at most
TAKEN = 256  # of a group's words in it, where there are so many
ALTERNATIONS = 8


@dataclass(frozen=True)
class Groups:
    """Where words that share their components before s may go: their places are the first in lexicographic order.

    Group g has the words `order[starts[g] : starts[g + 1]]`, and value i of component s room for `room` of them, as
    far as there are any.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    room: int

    @classmethod
    def of(cls, codes: NDArray[np.int64], shape: tuple[int, ...], component: int) -> "Groups":
        """The groups of the words with these codes (V, K), of which those before `component` are settled."""
        number = np.zeros(len(codes), np.int64)
        for s in range(component):
            number = number * shape[s] + codes[:, s]
        starts = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=1))])
        return cls(np.argsort(number, kind="stable"), starts, prod(shape[component + 1 :]))

    def upto(self, value: int) -> NDArray[np.int64]:
        """(G,): where in `order` the words with this value begin, if the words lie in the order of their values."""
        return np.minimum(self.starts[:-1] + value * self.room, self.starts[1:])


def bisect(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    groups: Groups,
    values: int,
    *,
    seed: int = 0,
    progress: Progress = silent,
    what: str = "halving",
) -> NDArray[np.int64]:
    """(V,): a value for every word, alike for words that are near to each other, each as often as there is room."""
    order = groups.order.copy()
    nodes, done = [(0, values)], 0
    while nodes := [(low, high) for low, high in nodes if high - low > 1]:

        def split(index: int, nodes: list[tuple[int, int]] = nodes) -> float:
            low, high = nodes[index]
            _halve(vectors, weights, order, groups, low, high, np.random.default_rng([seed, low, high]))
            return 0.0

        in_parallel(split, len(nodes))
        nodes = [half for low, high in nodes for half in ((low, (low + high) // 2), ((low + high) // 2, high))]
        done += 1
        progress(what, done, (values - 1).bit_length())
    found = np.empty(len(order), np.int64)
    found[order] = (np.arange(len(order)) - np.repeat(groups.starts[:-1], np.diff(groups.starts))) // groups.room
    return found


def _halve(
    vectors: NDArray[np.float32],
    weights: NDArray[np.float32],
    order: NDArray[np.int64],
    groups: Groups,
    low: int,
    high: int,
    random: np.random.Generator,
) -> None:
    """Sort the words of values low … high - 1, in every group, into those of the lower half and those of the upper."""
    begin, middle, end = (groups.upto(value) for value in (low, (low + high) // 2, high))
    there = (begin < middle) & (middle < end)
    begin, middle, end = begin[there], middle[there], end[there]
    if not len(begin):
        return
    taken = max(TAKEN, SAMPLE // len(begin))
    some = random.permutation(len(begin))[: -(-SAMPLE // min(taken, int((end - begin).mean())))]
    words, cuts, ends = [], [], []
    for a, m, b in zip(begin[some].tolist(), middle[some].tolist(), end[some].tolist(), strict=True):
        sample = order[a:b] if b - a <= taken else order[a + np.sort(random.choice(b - a, taken, replace=False))]
        words.append(sample)
        cuts.append(round(len(sample) * (m - a) / (b - a)))
        ends.append(len(sample))
    bounds = np.concatenate([[0], np.cumsum(ends)])
    start = random.standard_normal(vectors.shape[1], np.float32)
    axis, offset = _two_means(vectors, weights, np.concatenate(words), bounds, bounds[:-1] + cuts, start)
    _cut(vectors, weights, order, begin, middle, end, axis, offset)


@njit(cache=True, nogil=True)
def _two_means(vectors, weights, words, bounds, cuts, axis):  # type: ignore[no-untyped-def]
    """Axis and offset by which words are told apart, w · (x · axis + offset), the least ones left: from a principal
    axis, then by turns of cut and means."""
    x, w = vectors[words], weights[words]
    size = len(words)
    total = w.sum()
    mean = (w @ x) / total
    for _ in range(3):
        axis = ((x @ axis - mean @ axis) * w) @ x - ((x @ axis - mean @ axis) * w).sum() * mean
        length = np.sqrt((axis * axis).sum())
        if length == 0:
            break
        axis /= length
    offset = -(mean @ axis)
    side = np.empty(size, np.float32)
    for _ in range(ALTERNATIONS):
        keys = w * (x @ axis + offset)
        for g in range(len(cuts)):
            begin, end = bounds[g], bounds[g + 1]
            ranked = np.argsort(keys[begin:end], kind="mergesort")
            side[begin:end] = 0
            side[begin + ranked[: cuts[g] - begin]] = 1
        on_left = w * side
        share = on_left.sum()
        if not 0 < share < total:
            break
        left = (on_left @ x) / share
        right = (mean * total - left * share) / (total - share)
        axis = np.float32(2) * (right - left)
        offset = (left * left).sum() - (right * right).sum()
    return axis, offset


@njit(cache=True, nogil=True)
def _cut(vectors, weights, order, begin, middle, end, axis, offset):  # type: ignore[no-untyped-def]
    """Within each stretch begin … end - 1 of `order`, the words with the least keys to before `middle`."""
    for g in range(len(begin)):
        words = order[begin[g] : end[g]].copy()
        keys = np.empty(len(words), np.float32)
        for i in range(len(words)):
            keys[i] = weights[words[i]] * (vectors[words[i]] @ axis + offset)
        order[begin[g] : end[g]] = words[np.argsort(keys, kind="mergesort")]
