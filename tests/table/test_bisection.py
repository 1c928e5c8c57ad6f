"""Clustering by bisection: its cuts against brute force, its tables against those of the transport and of chance."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from helpers import grouped_stream
from lightrnn.table import bidding, bigrams, bisection, means, polishing
from lightrnn.table.bigrams import bigram_vectors
from lightrnn.table.bisection import Groups, bisect
from lightrnn.table.clustering import DENSE, cluster, clustering_way, root_counts
from lightrnn.table.polishing import polish
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable

Arrays = tuple[np.ndarray, np.ndarray]


def made_up(V: int, d: int = 7, kinds: int = 12, seed: int = 0) -> Arrays:
    """Vectors of words of some kinds, and weights as uneven as those of words are."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((kinds, d))
    vectors = centres[rng.integers(kinds, size=V)] + rng.standard_normal((V, d))
    return vectors.astype(np.float32), root_counts(rng.zipf(1.5, V).clip(0, 10**6))


def squares(vectors: np.ndarray, weights: np.ndarray, codes: np.ndarray) -> float:
    """Σ weight · |x - its row's mean - its column's mean of what that leaves|², in plain NumPy and double precision."""
    left = vectors.astype(float)
    for values in codes.T:
        for value in np.unique(values):
            here = values == value
            left[here] -= np.average(left[here], axis=0, weights=weights[here])
    return float(weights @ (left**2).sum(axis=1))


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_is_the_best_that_there_is(seed: int) -> None:
    """Of all ways to send 4 of 9 words to the left mean and 5 to the right one, the cheapest; in both of two groups."""
    rng = np.random.default_rng(seed)
    vectors, weights = rng.standard_normal((18, 3)).astype(np.float32), rng.random(18).astype(np.float32)
    left, right = rng.standard_normal((2, 3)).astype(np.float32)
    order = rng.permutation(18)
    groups = [set(order[:9].tolist()), set(order[9:].tolist())]
    begin, middle, end = np.array([0, 9]), np.array([4, 13]), np.array([9, 18])
    axis, offset = np.float32(2) * (right - left), np.float32((left**2).sum() - (right**2).sum())
    bisection._cut(vectors, weights, order, begin, middle, end, axis, offset)
    x = vectors.astype(float)
    to_left, to_right = (weights * ((x - mean) ** 2).sum(axis=1) for mean in (left, right))
    for group, first in zip(groups, (0, 9), strict=True):
        found = order[first : first + 9]
        assert set(found.tolist()) == group
        cheapest = min(
            sum(to_left[list(some)]) + sum(to_right[list(group - set(some))]) for some in combinations(sorted(group), 4)
        )
        assert to_left[found[:4]].sum() + to_right[found[4:]].sum() == pytest.approx(cheapest, rel=1e-6)


@pytest.mark.parametrize(
    ("V", "K", "rows"),
    [(81, 2, 0), (75, 2, 0), (64, 3, 0), (50, 3, 0), (5, 2, 0), (2, 2, 0), (75, 2, 20), (75, 2, 75), (1003, 4, 0)],
)
def test_any_bisection_is_a_table_and_the_same_again(V: int, K: int, rows: int) -> None:
    vectors, weights = made_up(V, seed=V)
    shape = table_shape(V, K, rows)
    one, other = (cluster(vectors, weights, shape, way="bisection", seed=5) for _ in range(2))
    assert (one.codes == other.codes).all()
    table = WordTable(one.codes, shape)  # checks that it is a bijection, and so that every row has its words
    by_hand = squares(vectors, weights, one.codes)
    assert one.distances[-1] == pytest.approx(by_hand, rel=1e-4, abs=1e-3 * float(weights.sum()))  # float32
    for values, n, found in zip(table.codes.T, shape, one.vectors, strict=True):
        assert found.shape == (n, vectors.shape[1])
        assert len(np.unique(values)) == n


def test_words_that_are_all_alike_are_no_trouble() -> None:
    for vectors in (np.zeros((400, 3), np.float32), np.ones((400, 3), np.float32)):
        found = cluster(vectors, np.ones(400, np.float32), (20, 20), way="bisection")
        WordTable(found.codes, (20, 20))
        assert found.distances[-1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("K", "rows"), [(2, 0), (2, 7), (3, 0)])
def test_halving_and_polishing_each_bring_something(K: int, rows: int) -> None:
    vectors, weights = made_up(3001, kinds=200)
    shape = table_shape(3001, K, rows)
    random = WordTable.random(3001, K, rows, seed=1).codes
    groups = Groups.of(random, shape, 0)
    halved = bisect(vectors, weights, groups, shape[0], seed=1)
    assert (np.bincount(halved) == np.bincount(random[:, 0])).all()  # as many words in every row as it has places
    polished = polish(vectors, weights, groups, halved, shape[0], seed=1)
    assert (np.bincount(polished) == np.bincount(random[:, 0])).all()
    chance, half, done = (squares(vectors, weights, v[:, None]) for v in (random[:, 0], halved, polished))
    assert done < half < 0.8 * chance


def test_about_as_near_as_the_transport() -> None:
    """Bigram vectors of a text of classes, and vectors at random: distances within 3% of the dense way's, in the mean
    over three seeds; by either way, one seed differs from another by as much."""
    ids = grouped_stream(classes=30, members=40, words=30_000)
    counts = np.bincount(ids, minlength=1200)
    cases = [(bigram_vectors(ids, counts, contexts=300, dimensions=20), root_counts(counts)), made_up(1500, kinds=300)]
    for vectors, weights in cases:
        shape = table_shape(len(vectors))
        dense, ours = (
            np.mean([cluster(vectors, weights, shape, way=way, seed=seed).distances[-1] for seed in (1, 2, 3)])
            for way in ("transport", "bisection")
        )
        chance = squares(vectors, weights, WordTable.random(len(vectors), seed=1).codes)
        assert ours < 1.03 * dense < 0.9 * chance


def test_blocks_are_a_matter_of_memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same table, whatever is computed together. Of whole numbers, so that sums do not depend on their order."""
    rng = np.random.default_rng(3)
    vectors = rng.integers(-8, 9, (900, 6)).astype(np.float32)
    weights = 2.0 ** rng.integers(0, 3, 900).astype(np.float32)
    prices, group, present = rng.random((1, 100)), np.zeros(900, np.int32), rng.integers(100, size=900)
    distances = bidding.Distances(vectors, weights, rng.integers(-8, 9, (100, 6)).astype(np.float32))
    found = []
    for words in (1 << 15, 64, 7):
        monkeypatch.setattr(bidding, "WORDS", words)
        found.append(bidding.cheapest_values(distances, prices, group, present))
    for candidates, costs in found[1:]:
        assert (candidates == found[0][0]).all()
        assert (costs == found[0][1]).all()


def test_candidates_are_the_cheapest_and_the_present_one() -> None:
    vectors, weights = made_up(300)
    rng = np.random.default_rng(1)
    centroids, prices = rng.standard_normal((90, 7)).astype(np.float32), rng.random((2, 90))
    group, present = rng.integers(2, size=300).astype(np.int32), rng.integers(90, size=300)
    distances = bidding.Distances(vectors, weights, centroids)
    candidates, costs = bidding.cheapest_values(distances, prices, group, present)
    every = weights[:, None] * ((vectors[:, None].astype(float) - centroids) ** 2).sum(axis=2)
    for word in range(300):
        order = np.argsort(every[word] + prices[group[word]])
        expected = set(order[: bidding.CANDIDATES].tolist())
        if present[word] not in expected:
            expected = {*order[: bidding.CANDIDATES - 1].tolist(), present[word]}
        assert set(candidates[word].tolist()) == expected
        mine = every[word, candidates[word]]
        np.testing.assert_allclose(costs[word], mine - mine.min(), atol=1e-3 * float(mine.max()))  # float32


def test_an_auction_of_all_bins_is_a_transport() -> None:
    """With every bin a candidate: the optimum of SciPy's assignment with copies of the bins, to within V·ε."""
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(2)
    costs = rng.random((60, 8)).astype(np.float32)
    capacities = np.array([10, 0, 5, 15, 8, 2, 12, 8])
    firsts = np.concatenate([[0], np.cumsum(capacities)])[None]
    everything = np.tile(np.arange(8, dtype=np.int32), (60, 1))
    prices = np.zeros((1, 8))
    found = bidding.auction(costs, everything, np.zeros(60, np.int32), firsts, prices, epsilon=1e-5, phases=7)
    assert found is not None
    assert (np.bincount(found, minlength=8) == capacities).all()
    expanded = costs[:, np.repeat(np.arange(8), capacities)].astype(float)
    assert costs[np.arange(60), found].sum() == pytest.approx(expanded[linear_sum_assignment(expanded)].sum(), abs=1e-3)


def test_an_auction_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bidding, "auction", lambda *_, **__: None)
    monkeypatch.setattr(polishing, "auction", lambda *_, **__: None)
    vectors, weights = made_up(400)
    groups = Groups.of(np.zeros((400, 2), np.int64), (20, 20), 0)
    halved = bisect(vectors, weights, groups, 20)
    assert (polish(vectors, weights, groups, halved, 20) == halved).all()


def test_an_auction_that_ends_too_late_gives_what_coarser_bids_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = np.random.default_rng(2).random((60, 4)).astype(np.float32)
    bids = np.tile(np.arange(4, dtype=np.int32), (60, 1)), np.zeros(60, np.int32), np.arange(0, 61, 15)[None]
    ended, prices = np.zeros((1, 4)), np.zeros((1, 4))
    coarse = bidding.auction(costs, *bids, ended, epsilon=0.05, phases=1)
    phase = bidding._phase

    def impatient(*given: Any) -> bool:
        done = phase(*given)
        return done and given[5] > 0.04

    monkeypatch.setattr(bidding, "_phase", impatient)
    found = bidding.auction(costs, *bids, prices, epsilon=0.01, phases=2, or_coarser=True)
    assert (found == coarse).all()
    assert (prices == ended).all()
    assert bidding.auction(costs, *bids, prices, epsilon=0.01, phases=2) is None
    assert bidding.auction(costs, *bids, prices, epsilon=0.01, phases=1, or_coarser=True) is None


def test_vectors_do_not_depend_on_how_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = grouped_stream(classes=9, members=9, words=5_000)
    counts = np.bincount(ids, minlength=81)
    words = [f"w{index % 9}" for index in range(81)]
    whole = bigram_vectors(ids, counts, contexts=50, dimensions=20, words=words)
    monkeypatch.setattr(bigrams, "CHUNK", 777)
    monkeypatch.setattr(bigrams, "EVENTS", 1000)
    monkeypatch.setattr(bigrams, "WORDS", 7)
    pieces = bigram_vectors(ids, counts, contexts=50, dimensions=20, words=words)
    # axes may be turned round; angles between words may not
    np.testing.assert_allclose(pieces @ pieces.T, whole @ whole.T, atol=1e-3 * float(np.abs(whole @ whole.T).max()))


@pytest.mark.parametrize("way", ["transport", "bisection"])
def test_words_alone_keep_their_vectors(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' table is as if there were no words alone, although the vectors are moved about in place."""
    monkeypatch.setattr(means, "BLOCK", 11)
    vectors, _ = made_up(150)
    counts, alone = np.arange(150, 0, -1), np.array([3, 0, 77, 149, 40])
    sharing = np.setdiff1d(np.arange(150), alone)
    shape = table_shape(145)
    expected = cluster(vectors[sharing], root_counts(counts)[sharing], shape, way=way, seed=2)
    table = WordTable.clustered(vectors.copy(), counts, alone, shape, way=way, seed=2)
    assert table.vectors is not None
    assert (table.shared.codes == expected.codes).all()
    assert (table.vectors[0] == np.concatenate([vectors[alone], expected.vectors[0]])).all()
    assert (table.vectors[1] == expected.vectors[1]).all()


def test_auto_takes_the_transport_where_it_is_small() -> None:
    assert clustering_way("auto", 33_278, table_shape(33_278)) == "transport"
    assert clustering_way("auto", 793_881, table_shape(793_881)) == "bisection"
    assert clustering_way("transport", 793_881, table_shape(793_881)) == "transport"
    most = int(DENSE // 4) // 100
    assert clustering_way("auto", most, (100, 100)) == "transport"
    assert clustering_way("auto", most + 1, (100, 100)) == "bisection"
