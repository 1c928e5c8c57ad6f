"""New words: a distribution still, out of what the unknown word had, in contexts like those of their like."""

from pathlib import Path

import numpy as np
import pytest

from helpers import CPU, FAST, FLOAT32, lm_of
from lightrnn import load, prepare, train
from lightrnn.config import ModelConfig
from lightrnn.errors import LightRNNError
from lightrnn.inference import network
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.new_words import Placing, grow, place, wanted
from lightrnn.models.kind import build
from lightrnn.text.vocabulary import Vocabulary

V = 23
TEXT = "w3 new w4 w5 newer w3\nw4 new w2 newest\n"  # new twice, the others once
KINDS = [
    {"alone": 8, "head": 4},
    {"alone": 8, "tied": True},
    {"alone": 5, "tied": True, "head": 5, "K": 3},
    {"alone": V},
    {"alone": 8, "tied": True, "word_bias": True},
    {},
    {"K": 3, "V": 25},
]


@pytest.fixture(autouse=True)
def _draw_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FAMILIAR", 100)


def frequent_unknown(lm: NetworkLM) -> NetworkLM:
    """The same with the unknown word, alone, in the place of the word whose row is first."""
    model = lm.model
    first = int(np.flatnonzero(model.table.codes[:, 0] == 0)[0])
    rules = lm.vocabulary.rules
    words = [f"w{i}" for i in range(len(lm.vocabulary) - 2)]
    words.insert(first, rules.unk)
    words.append(rules.eos)
    return NetworkLM(model, Vocabulary(words, np.full(len(words), 100), rules))


@pytest.mark.parametrize("settings", KINDS, ids=str)
@pytest.mark.parametrize("met", [True, False], ids=["unknown met", "never met"])
def test_probabilities_sum_to_one(settings: dict[str, int], met: bool) -> None:
    lm = lm_of(**settings)
    if not met:
        lm.vocabulary.counts[lm.vocabulary.unk_id] = 0
    size = len(lm.vocabulary)
    assert lm.add_words(text=TEXT) == ["new", "newer", "newest"]
    assert list(lm.vocabulary.words[size:]) == ["new", "newer", "newest"]
    assert lm.vocabulary.counts[size:].tolist() == [2, 1, 1]
    for context in ("", "w3", "newer w3 new"):
        found = lm.distribution(context)
        assert found.sum() == pytest.approx(1, abs=FLOAT32)
        assert (found > 0).all()


@pytest.mark.parametrize("settings", [{"alone": 8, "head": 4}, {"alone": 8}, {"alone": 8, "tied": True}], ids=str)
def test_shares_come_out_of_the_unknown_word(settings: dict[str, int]) -> None:
    """Without directions, known words are as likely as before in every context, and new ones have their shares."""
    lm = frequent_unknown(lm_of(**settings))
    old, unk, features = lm.network(), lm.vocabulary.unk_id, 7 if "tied" not in settings else 5
    vocabulary = lm.vocabulary.with_words(["new", "newer"], np.array([3, 1]))
    placing = Placing(np.array([0.3, 0.1]), 0.6, np.zeros((2, features)), np.zeros(features), 1.0)
    grown = NetworkLM.of_packed(grow(old, vocabulary, placing))
    for context in ("", "w3 w4", "w9"):
        before, after = lm.distribution(context), grown.distribution(context)
        expected = before * np.where(np.arange(V) == unk, 0.6, 1.0)
        np.testing.assert_allclose(after[:V], expected, rtol=1e-5)
        np.testing.assert_allclose(after[V:], before[unk] * placing.shares, rtol=1e-5)


@pytest.mark.parametrize("settings", [{"alone": 8, "head": 4}, {"alone": 8, "tied": True}, {}], ids=str)
def test_a_new_word_is_scored_as_it_is_written(settings: dict[str, int]) -> None:
    """P(w) / P(k) = t_w P(u) / P(k) · exp(δ·(f - (c + m) / 2)), by probabilities and features of the old model."""
    lm = lm_of(**settings) if not settings else frequent_unknown(lm_of(**settings))
    unk, old = lm.vocabulary.unk_id, lm.network()
    words = wanted(lm.vocabulary, [], TEXT, None, 1)
    placing = place(lm, words)
    grown = NetworkLM.of_packed(grow(old, words.vocabulary, placing))
    row_mates = old.table.codes[:, 0] == old.table.codes[unk, 0]
    counts = lm.vocabulary.counts
    known = int(np.flatnonzero(~row_mates)[3])
    for context in ("", "w3 w4", "w9"):
        f = lm.state_features(lm.state(context))
        assert f is not None
        before, after = lm.distribution(context), grown.distribution(context)
        of_unknown = before[row_mates].sum() * counts[unk] / counts[row_mates].sum()  # its row, were it alone there
        delta = (placing.means - placing.centre) / placing.spread
        lift = np.exp(((f - (placing.centre + placing.means) / 2) * delta).sum(axis=1))
        np.testing.assert_allclose(
            after[V:] / after[known], placing.shares * lift * of_unknown / before[known], rtol=1e-3
        )
        others = ~row_mates
        np.testing.assert_allclose(  # among themselves, known words are as likely as they were
            after[:V][others] / after[:V][others].sum(), before[others] / before[others].sum(), rtol=1e-4
        )


def test_what_stays_unknown() -> None:
    """Counts 2, 1, 1: two words once, one twice, so 2 / (2 + 2 · 1 + 1) = 0.4 of each stays; 1000 / 23 are expected."""
    lm = frequent_unknown(lm_of(alone=8))
    placing = place(lm, wanted(lm.vocabulary, [], TEXT, None, 1))
    expected = 1000 * 100 / 2300
    np.testing.assert_allclose(placing.shares, np.array([1.6, 0.6, 0.6]) / expected)
    assert placing.kept == pytest.approx(1 - 2.8 / expected)
    crowded = " ".join(f"n{i} n{i} n{i}" for i in range(400))  # more than were expected: all words give something
    placing = place(lm, wanted(lm.vocabulary, [], crowded, None, 1))
    assert placing.kept == pytest.approx(0.1)
    assert placing.shares.sum() == pytest.approx(1200 / (1201 * 100 / 2300))


NOUNS, VERBS = [f"n{i}um" for i in range(20)], [f"v{i}it" for i in range(20)]


def grammar(words: int, seed: int, nouns: list[str], verbs: list[str]) -> str:
    random = np.random.default_rng(seed)
    return "".join(f"the {random.choice(nouns)} to {random.choice(verbs)}\n" for _ in range(words // 4))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a language in which words in -um follow `the`, words in -it `to`, and unknown words both."""
    folder = tmp_path_factory.mktemp("grammar")
    unknown = ["<unk>"] * 4
    (folder / "text").write_text(grammar(3000, 1, NOUNS + unknown, VERBS + unknown), encoding="utf-8")
    corpus = prepare(folder / "text", folder / "data")
    settings = {"alone": 10, "tied": True, "start": "bigram", "epochs": 8, "batch_size": 8}
    train(corpus, FAST.override(settings), folder / "model", device=CPU)
    return folder / "model"


def odds(lm: NetworkLM, word: str) -> float:
    """How much likelier a word is after `the` than after `to`."""
    word_id = lm.vocabulary.ids[word]
    return float(lm.distribution("the")[word_id] / lm.distribution("the n1um to")[word_id])


def test_a_new_word_comes_where_words_of_its_ending_come(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FAMILIAR", 1000)
    lm = load(trained)
    assert isinstance(lm, NetworkLM)
    assert lm.add_words(["zarum", "zarit"]) == ["zarum", "zarit"]
    assert odds(lm, "zarum") > 2 > 1 / 2 > odds(lm, "zarit")  # of the unknown word they are about 1


def test_a_new_word_comes_where_it_came_in_the_text(trained: Path) -> None:
    lm = load(trained)
    assert isinstance(lm, NetworkLM)
    lm.add_words(text=grammar(200, 2, [*NOUNS, "blik"], [*VERBS, "blok"]) + 5 * "the blik to blok\n")
    assert odds(lm, "blik") > 2 > 1 / 2 > odds(lm, "blok")
    assert lm.next_words("the", 1, prefix="bl")[0][0] == "blik"


def test_saved_and_loaded_it_is_the_same(trained: Path, tmp_path: Path) -> None:
    lm = load(trained)
    assert isinstance(lm, NetworkLM)
    lm.add_words(text="the blik to blok\n")
    state = lm.state("the blik")
    lm.save(tmp_path / "mine")
    lm.save(tmp_path / "mine.lightrnn")
    again, packed = load(tmp_path / "mine"), load(tmp_path / "mine.lightrnn")
    assert again.vocabulary.fingerprint == lm.vocabulary.fingerprint
    np.testing.assert_array_equal(again.distribution("the blik"), lm.distribution(state))
    assert packed.score("the blik to blok") == pytest.approx(lm.score("the blik to blok"), rel=0.01)  # int8
    with pytest.raises(LightRNNError, match="mine exists; choose another path, or replace it with force=True"):
        lm.save(tmp_path / "mine")
    assert isinstance(again, NetworkLM)
    again.add_words(["zarum"])
    again.save(tmp_path / "mine", force=True)
    assert "zarum" in load(tmp_path / "mine")


def test_a_packed_file_takes_words_in_without_pytorch(trained: Path, tmp_path: Path) -> None:
    folder = load(trained)
    assert isinstance(folder, NetworkLM)
    packed = NetworkLM.of_packed(folder.network())
    for lm in (folder, packed):
        lm.add_words(text=TEXT)
    assert "model" not in packed.__dict__
    for name, array in folder.network().weights.items():
        np.testing.assert_allclose(packed.network().weights[name], array, atol=1e-4)


def test_states_from_before_go_on(trained: Path) -> None:
    lm = load(trained)
    state = lm.state("the n1um")
    log10, _ = lm.score_word(state, "to")
    assert isinstance(lm, NetworkLM)
    lm.add_words(text="the blik to blok\n")
    after, _ = lm.score_word(state, "to")
    assert after == pytest.approx(log10, abs=0.1)  # what is left is what new words took


def test_reset_forgets_what_was_learned_and_keeps_the_words(trained: Path) -> None:
    lm, learning = load(trained), load(trained)
    assert isinstance(lm, NetworkLM)
    assert isinstance(learning, NetworkLM)
    base = lm.network()
    learning.adapt("the n1um to v1it\n" * 20)
    now = learning.network()
    words = wanted(lm.vocabulary, [], "the blik to blok\n", None, 1)
    placing = place(learning, words)
    assert learning.take_in(words) == ["blik", "blok"]
    for name, array in grow(now, words.vocabulary, placing).weights.items():
        np.testing.assert_array_equal(learning.network().weights[name], array)
    learning.adapt("the blik to blok\n" * 5)
    learning.reset()
    assert "blik" in learning
    for name, array in grow(base, words.vocabulary, placing).weights.items():
        np.testing.assert_array_equal(learning.network().weights[name], array)


def test_adapting_learns_more_of_a_new_word(trained: Path) -> None:
    lm = load(trained)
    assert isinstance(lm, NetworkLM)
    text = "the blik to blok\n" * 10
    lm.add_words(text=text)
    before = lm.score("the blik to blok")
    lm.adapt(text, rate=1e-2)
    assert lm.score("the blik to blok") > before + 0.1


def test_known_words_are_left_alone() -> None:
    lm = lm_of(alone=8)
    before = lm.distribution("w3")
    assert lm.add_words(["w4", "w5"]) == []
    assert lm.add_words(text="w3 w4 new\n", min_count=2) == []
    np.testing.assert_array_equal(lm.distribution("w3"), before)
    assert lm.add_words(["w4", "New", "New"], counts=[1, 2, 2]) == ["New"]
    assert lm.vocabulary.counts[V:].tolist() == [2]


def test_words_without_a_text_are_as_frequent_as_the_median_word() -> None:
    lm = lm_of(alone=8)
    lm.add_words(["new"])
    assert lm.vocabulary.counts[V] == np.median(lm.vocabulary.counts[:V])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"words": ["<unk>"]}, "'<unk>' is a special word"),
        ({"words": ["</s>"]}, "'</s>' is a special word"),
        ({"words": ["two words"]}, "got 'two words'"),
        ({"words": [""]}, "a word is not empty"),
        ({}, "no words to add"),
        ({"text": " \n"}, "no words to add"),
        ({"words": ["new"], "counts": [1, 2]}, "one for each of 1 words"),
        ({"words": ["new"], "counts": [0]}, "whole numbers from 1"),
        ({"words": ["new"], "counts": [1], "text": "new"}, "without a text"),
        ({"words": ["new"], "counts": [10**9]}, "the model was trained on, got 1,000,000,000 in all; scale them down"),
        ({"words": ["new"], "counts": 3}, "counts must be a list, got int"),
        ({"words": None}, "words must be a list, got NoneType"),
        ({"words": [5]}, "text must be a string, got int"),
        ({"text": ["a b"]}, "text must be a string, got list"),
        ({"text": "new", "min_count": "a"}, "min_count must be a whole number from 1, got 'a'"),
    ],
    ids=str,
)
def test_what_cannot_be_added(asked: dict[str, object], told: str) -> None:
    lm = lm_of(alone=8)
    with pytest.raises(LightRNNError, match=told):
        lm.add_words(**asked)  # type: ignore[arg-type]
    assert len(lm.vocabulary) == V


def test_models_that_take_no_words_in() -> None:
    with pytest.raises(LightRNNError, match="without output biases"):
        lm_of(bias=False).add_words(["new"])
    vocabulary = lm_of().vocabulary
    model = build(ModelConfig(model="full", hidden_size=5), vocabulary, None, 0).eval()
    with pytest.raises(LightRNNError, match="kind full has no word table"):
        NetworkLM(model, vocabulary).add_words(["new"])


def test_a_long_text_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = lm_of(alone=8)
    words = wanted(lm.vocabulary, [], TEXT * 8, None, 1)
    whole = place(lm, words)
    monkeypatch.setattr("lightrnn.inference.new_words.CHUNK", 50)
    pieces = place(lm, words)
    assert not np.array_equal(pieces.means, whole.means)  # pieces begin without what was before
    np.testing.assert_allclose(pieces.means, whole.means, atol=0.1)


def test_words_added_one_by_one_get_as_much_as_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where contexts say nothing, so that only shares count."""
    nothing = np.zeros(5)
    monkeypatch.setattr(
        "lightrnn.inference.new_words._contexts",
        lambda lm, vocabulary, *_: (np.zeros((len(vocabulary) - len(lm.vocabulary), 5)), nothing, 1.0),
    )
    names, taken = [f"new{i}" for i in range(8)], []
    for calls in ([names], [[name] for name in names]):
        lm = frequent_unknown(lm_of(alone=8, tied=True))
        lm.vocabulary.counts[lm.vocabulary.unk_id] = 1000
        for added in calls:
            lm.add_words(added, counts=[20] * len(added))
        taken.append(lm.distribution("w3")[-len(names) :])
    np.testing.assert_allclose(taken[1], taken[0], rtol=0.02)  # counts are whole numbers
