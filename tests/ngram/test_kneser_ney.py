"""N-gram models: a literal Kneser-Ney without arrays, KenLM, published figures; ARPA files, sound and broken."""

import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import corpus_folder, made_up_text
from lightrnn.cli import main
from lightrnn.errors import LightRNNError
from lightrnn.inference.lm import NGramLM
from lightrnn.ngram.arpa import read_arpa, write_arpa
from lightrnn.ngram.kenlm import KenLM
from lightrnn.ngram.kneser_ney import FALLBACK, estimate
from lightrnn.ngram.model import NGram
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.presets import PRESETS
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary

Sentences = Sequence[Sequence[str]]


def oracle(sentences: Sentences, words: Sequence[str], order: int) -> Callable[[str, tuple[str, ...]], float]:
    """Interpolated modified Kneser-Ney by the book: P(word | context), with <s> in the context of a sentence's start.

    `words` are all that can be predicted. Counts are dictionaries of tuples, probabilities a recursion.
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
        made = (0.0, 1 - 2 * y * t[2] / t[1], 2 - 3 * y * t[3] / t[2], 3 - 4 * y * t[4] / t[3])
        return made if all(0 <= d <= j for j, d in enumerate(made)) else (0.0, 0.5, 1.0, 1.5)

    @cache
    def probability(word: str, context: tuple[str, ...]) -> float:
        lower = probability(word, context[1:]) if context else 1 / len(words)
        after = {v: adjusted[(*context, v)] for v in words if (*context, v) in adjusted}
        if not after:
            return lower
        discount = discounts(len(context) + 1)
        count = after.get(word, 0)
        saved = sum(discount[min(n, 3)] for n in after.values())
        return (count - discount[min(count, 3)] + saved * lower) / sum(after.values())

    def cut(word: str, context: tuple[str, ...]) -> float:
        return probability(word, context[len(context) - min(order - 1, len(context)) :])

    return cut


def vocabulary_of(words: Sequence[str], bos: str | None) -> Vocabulary:
    rules = TextRules(normalize="none", bos=bos)
    listed = sorted({*words, *rules.specials})
    return Vocabulary(listed, np.zeros(len(listed), np.int64), rules)


def stream(sentences: Sentences, vocabulary: Vocabulary) -> np.ndarray:
    return vocabulary.encode([word for sentence in sentences for word in (*sentence, vocabulary.rules.eos)])


def contexts(sentences: Sentences) -> list[tuple[str, tuple[str, ...]]]:
    """Every token with all that stands before it in its sentence."""
    return [(line[i], line[:i]) for s in sentences for line in [("<s>", *s, "</s>")] for i in range(1, len(line))]


@st.composite
def corpora(draw: st.DrawFn) -> Sentences:
    """Sentences over a few words, skewed, some of them empty, some often repeated, now and then with <unk> in them."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    letters = ["a", "b", "c", "d", "e", "f", "<unk>"][: draw(st.integers(1, 7))]
    weights = rng.dirichlet(np.full(len(letters), draw(st.sampled_from([0.3, 1.0, 5.0]))))
    lengths = rng.integers(0, draw(st.integers(1, 9)), draw(st.integers(1, 60)))
    made = [tuple(rng.choice(letters, length, p=weights)) for length in lengths]
    return [*made, *made[: draw(st.integers(0, 10))], *[("a",)] * draw(st.integers(0, 3))]


def random_sentences(count: int, letters: Sequence[str], seed: int) -> Sentences:
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(letters, rng.integers(0, 9))) for _ in range(count)]


@settings(max_examples=200, deadline=None)
@given(corpora(), st.integers(1, 5), st.sampled_from([None, "<s>", "<S>"]))
def test_estimates_are_kneser_neys(sentences: Sentences, order: int, bos: str | None) -> None:
    vocabulary = vocabulary_of(["a", "b", "c", "d", "e", "f", "never"], bos)
    model = estimate(stream(sentences, vocabulary), vocabulary, order)
    predicted = [word for word in vocabulary.words if word != bos]
    probability = oracle(sentences, predicted, order)
    texts = [*sentences[:20], *random_sentences(10, [w for w in predicted if w != "</s>"], seed=order)]
    expected = [probability(word, context) for word, context in contexts(texts)]
    scores, _ = model.score_tokens(stream(texts, vocabulary))
    np.testing.assert_allclose(10**scores, expected, rtol=1e-9, atol=1e-14)  # where D is 0 some have probability 0


def made_up(words: int = 1500, seed: int = 3) -> Sentences:
    return [tuple(line.split()) for line in made_up_text(words, 25, seed).splitlines()]


@pytest.fixture(scope="module", params=[None, "<s>"])
def small(request: pytest.FixtureRequest) -> NGram:
    """A 4-gram model of a text that is big enough for the closed form of the discounts at every order but one."""
    sentences = made_up()
    vocabulary = vocabulary_of([*(word for s in sentences for word in s), "never", "seen"], request.param)
    return estimate(stream(sentences, vocabulary), vocabulary, 4)


def test_the_closed_form_is_used_where_it_can_be(small: NGram) -> None:
    assert small.discounts is not None
    assert [d != FALLBACK for d in small.discounts[1:]] == [True] * 3
    regular = [("a",)] * 6
    vocabulary = vocabulary_of(["a"], None)
    assert estimate(stream(regular, vocabulary), vocabulary, 3).discounts == [FALLBACK] * 3


def test_distributions_are_the_oracles_and_sum_to_one(small: NGram) -> None:
    vocabulary = small.vocabulary
    bos = vocabulary.rules.bos
    predicted = [word for word in vocabulary.words if word != bos]
    probability = oracle(made_up(), predicted, 4)
    places = vocabulary.encode(predicted)
    for sentence in [*made_up()[:12], *random_sentences(12, vocabulary.words[3:], seed=5), ()]:
        _, state = small.read(small.start_state(of_sentence=True), vocabulary.encode(sentence))
        after = small.distribution(state)
        assert after.shape == (len(vocabulary),)
        assert (10**after).sum() == pytest.approx(1, abs=1e-12)
        expected = [probability(word, ("<s>", *sentence)) for word in predicted]
        np.testing.assert_allclose(10 ** after[places], expected, rtol=1e-9)
        for word in (0, 5, vocabulary.eos_id):
            assert small.read(state, np.array([word]))[0][0] == pytest.approx(after[word], abs=1e-12)


def test_without_a_sentence_start_the_context_is_empty(small: NGram) -> None:
    """Nothing before a word is not the same as a sentence start before it."""
    first = small.vocabulary.encode(["w3", "w4"])
    plain, _ = small.read(small.start_state(of_sentence=False), first)
    probability = oracle(made_up(), [w for w in small.vocabulary.words if w != small.vocabulary.rules.bos], 4)
    assert plain[1] == pytest.approx(np.log10(probability("w4", ("w3",))), abs=1e-9)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_pieces_with_the_state_carried_are_the_whole(order: int) -> None:
    sentences = made_up()
    vocabulary = vocabulary_of([word for s in sentences for word in s], None)
    ids = stream(sentences, vocabulary)
    model = estimate(ids, vocabulary, order)
    whole, end = model.read(model.start_state(of_sentence=True), ids[:200])
    assert whole.shape == (200,)
    assert len(end) == order - 1
    for size in (1, 2, 3, 7, 50):
        state, parts = model.start_state(of_sentence=True), []
        for begin in range(0, 200, size):
            part, state = model.read(state, ids[begin : min(begin + size, 200)])
            parts.append(part)
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert state == end


def test_stream_and_sentence_conventions_agree(small: NGram) -> None:
    ids = stream(made_up(4000, seed=8), small.vocabulary)
    scores, orders = small.score_tokens(ids)
    assert set(orders) == {1, 2, 3, 4}
    for convention in ("stream", "sentence"):
        result = NGramLM(small).evaluate(ids, convention)
        assert result.nats == pytest.approx(-np.log(10) * scores.sum(), rel=1e-6)


def test_long_streams_are_scored_in_chunks(small: NGram, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = stream(made_up(300, seed=8), small.vocabulary)
    whole = small.score_tokens(ids)
    for size in (1, 2, 5, 100):
        monkeypatch.setattr("lightrnn.ngram.model.CHUNK", size)
        for got, expected in zip(small.score_tokens(ids), whole, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_what_cannot_be_estimated() -> None:
    vocabulary = vocabulary_of(["a"], "<s>")
    for ids, order, message in (
        ([], 3, "the text is empty"),
        ([vocabulary.eos_id], 0, "must be at least 1, got 0"),
        ([vocabulary.bos_id, vocabulary.eos_id], 2, "'<s>' among its words"),
    ):
        with pytest.raises(LightRNNError, match=message):
            estimate(np.array(ids, np.int32), vocabulary, order)


# ARPA files


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_arpa_there_and_back(small: NGram, tmp_path: Path, name: str) -> None:
    write_arpa(small, tmp_path / name)
    again = read_arpa(tmp_path / name)
    assert [*again.vocabulary.words] == small.vocabulary.words + ["<s>"] * (small.vocabulary.rules.bos is None)
    assert again.counts == small.counts
    for one, other in zip(small.levels, again.levels, strict=True):
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_allclose(one.log10_probs, other.log10_probs, rtol=1e-7)
        np.testing.assert_allclose(one.log10_backoffs, other.log10_backoffs, rtol=1e-7, atol=1e-12)
    write_arpa(again, tmp_path / f"again-{name}")
    assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_sections_that_span_many_blocks(small: NGram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arpa(small, tmp_path / "lm.arpa")
    whole = read_arpa(tmp_path / "lm.arpa")
    for size in (1, 100, 1001):
        monkeypatch.setattr("lightrnn.files.BLOCK_BYTES", size)
        pieces = read_arpa(tmp_path / "lm.arpa")
        for one, other in zip(whole.levels, pieces.levels, strict=True):
            assert all(np.array_equal(getattr(one, f), getattr(other, f)) for f in one.__dataclass_fields__)


def test_specials_get_their_arpa_names_and_do_not_collide(tmp_path: Path) -> None:
    rules = PRESETS["billionw"].rules
    vocabulary = Vocabulary(["<S>", "x", "</S>", "<UNK>"], np.zeros(4, np.int64), rules)
    write_arpa(estimate(np.array([1, 2, 1, 1, 2]), vocabulary, 2), tmp_path / "lm.arpa")
    assert read_arpa(tmp_path / "lm.arpa").vocabulary.words == ["<s>", "x", "</s>", "<unk>"]
    clash = Vocabulary(["<S>", "<s>", "</S>", "<UNK>"], np.zeros(4, np.int64), rules)
    with pytest.raises(LightRNNError, match="an ordinary word '<s>'"):
        write_arpa(estimate(np.array([1, 2]), clash, 2), tmp_path / "clash.arpa")
    assert not (tmp_path / "clash.arpa").exists()


FOREIGN = """
\\data\\
ngram 1=5
ngram 2=3
ngram 3=2

\\1-grams:
-0.5	</s>
0	<s>	-0.1
-0.7\ta\t-0.2
-1.5\tb
-2\t<UNK>\t-0.3

\\2-grams:
-0.25\tb a
-0.4\t<s> a\t-0.05
-0.3\ta b\t-0.15

\\3-grams:
-0.01\t<s> a b

-0.02\ta b a

\\end\\
"""


@pytest.mark.parametrize("text", [FOREIGN, FOREIGN.replace("\n", "\r\n"), FOREIGN.replace("\t", "  ")])
def test_arpa_files_of_others(tmp_path: Path, text: str) -> None:
    """Unsorted, back-offs left out, <UNK>, a probability for <s>: figures worked out by hand."""
    (tmp_path / "lm.arpa").write_bytes(text.encode())
    model = read_arpa(tmp_path / "lm.arpa")
    ids = model.vocabulary.encode(["a", "b", "a", "a", "c", "b", "</s>", "b", "</s>"])
    scores, orders = model.score_tokens(ids)
    by_hand = [-0.4, -0.01, -0.02, -0.2 - 0.7, -0.2 - 2, -0.3 - 1.5, -0.5, -0.1 - 1.5, -0.5]
    np.testing.assert_allclose(scores, by_hand, atol=1e-12)
    assert orders.tolist() == [2, 3, 3, 1, 1, 1, 1, 1, 1]
    _, state = model.read(model.start_state(of_sentence=True), ids[:1])
    assert model.distribution(state)[model.vocabulary.bos_id] < -90


def test_arpa_files_without_an_unknown_word(tmp_path: Path) -> None:
    text = FOREIGN.replace("-2\t<UNK>\t-0.3\n", "").replace("1=5", "1=4")
    (tmp_path / "lm.arpa").write_text(text)
    model = read_arpa(tmp_path / "lm.arpa")
    scores, _ = model.score_tokens(model.vocabulary.encode(["c", "</s>"]))
    np.testing.assert_allclose(scores, [-100.1, -0.5])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", r"line 2: expected \\data\\, got 'data'"),
        ("ngram 2=3", "ngram 3=3", "line 4: expected ngram 2=COUNT, got 'ngram 3=3'"),
        ("ngram 2=3", "ngram 2=many", "line 4: expected ngram 2=COUNT"),
        ("ngram 1=5\nngram 2=3\nngram 3=2\n", "", "announces no n-grams"),
        ("ngram 2=3", "ngram 2=4", "line 19: .* announces 4 2-grams, here are 3"),
        ("\\2-grams:", "\\3-grams:", r"line 14: expected \\2-grams:, got '\\\\3-grams:'"),
        (
            "-0.25\tb a",
            "-0.25\tb",
            "line 15: expected a log10 probability, 2 words and perhaps a back-off, got fields: 2",
        ),
        ("-0.25\tb a", "-0.25\tb a a a", "line 15: .*got fields: 5"),
        ("-0.25\tb a", "-0,25\tb a", "line 15: expected a log10 probability, got '-0,25'"),
        ("-0.25\tb a", "nan\tb a", "line 15: expected a log10 probability, got 'nan'"),
        ("-0.25\tb a", "0.25\tb a", "line 15: a log10 probability is never positive, got 0.25"),
        ("a b\t-0.15", "a b\tx", "line 17: expected a log10 back-off, got 'x'"),
        ("-0.25\tb a", "-0.25\tb z", "line 15: 'z' is not among the 1-grams"),
        ("-1.5\tb", "-1.5\ta", "line 11: 'a' is listed twice"),
        ("-0.25\tb a", "-0.25\ta b", "line 17: this n-gram is listed twice"),
        ("-0.01\t<s> a b", "-0.01\t<s> b a", "line 20: its context '<s> b' is not among the 2-grams"),
        ("-0.5\t</s>", "-0.5\tend", "line 14: </s> is not among the 1-grams"),
        ("\\end\\\n", "", r"ends without \\end\\"),
        ("\\end\\", "\\4-grams:", r"line 24: expected \\end\\"),
    ],
)
def test_broken_arpa_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert FOREIGN.count(old) == 1
    (tmp_path / "lm.arpa").write_text(FOREIGN.replace(old, new))
    with pytest.raises(LightRNNError, match=message) as caught:
        read_arpa(tmp_path / "lm.arpa")
    assert str(caught.value).startswith(str(tmp_path / "lm.arpa"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends without"),
        (b"mmap lm http://kheafield.com/code format version 5\n\0\0", "is a KenLM binary"),
        (FOREIGN.encode().replace(b"\tb\n", b"\t\xff\n"), "line 11: .* is not UTF-8"),
        (gzip.compress(FOREIGN.encode())[:-20], "is not a complete .gz file"),
    ],
)
def test_files_that_are_no_arpa(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / ("lm.arpa.gz" if content.startswith(b"\x1f\x8b") else "lm.arpa")
    path.write_bytes(content)
    with pytest.raises(LightRNNError, match=message):
        read_arpa(path)
    with pytest.raises(LightRNNError, match="cannot read"):
        read_arpa(tmp_path / "missing.arpa")


# KenLM


def kenlm_scores(path: Path, sentences: Sentences) -> list[tuple[float, int]]:
    """What the kenlm package says of every token: log10 probability and the order it was found at."""
    kenlm = pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(path), config)
    return [(p, n) for sentence in sentences for p, n, _ in model.full_scores(" ".join(sentence))]


def test_kenlm_reads_our_files_and_agrees(small: NGram, tmp_path: Path) -> None:
    write_arpa(small, tmp_path / "lm.arpa")
    sentences = [*made_up(800, seed=9), *random_sentences(50, small.vocabulary.words[3:], seed=6), ("<unk>", "w1")]
    expected = np.array(kenlm_scores(tmp_path / "lm.arpa", sentences))
    scores, orders = small.score_tokens(stream(sentences, small.vocabulary))
    np.testing.assert_allclose(scores, expected[:, 0], atol=1e-5)
    np.testing.assert_array_equal(orders, expected[:, 1])


def test_we_read_others_files_as_kenlm_does(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(FOREIGN)
    model = read_arpa(tmp_path / "lm.arpa")
    sentences = list(product(["a", "b", "c"], repeat=4))
    expected = np.array(kenlm_scores(tmp_path / "lm.arpa", sentences))
    np.testing.assert_allclose(model.score_tokens(stream(sentences, model.vocabulary))[0], expected[:, 0], atol=1e-5)


def test_kenlm_files_are_models_too(small: NGram, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    write_arpa(small, tmp_path / "lm.arpa")
    model = KenLM(tmp_path / "lm.arpa", small.vocabulary)
    ids = stream(made_up(600, seed=9), small.vocabulary)
    predicted = [i for i, word in enumerate(small.vocabulary.words) if word != small.vocabulary.rules.bos]
    one, other = NGramLM(model), NGramLM(small)
    for begin in ("begin_state", "empty_state"):
        states = [getattr(lm, begin)() for lm in (one, other)]
        for piece in np.array_split(ids[:150], 4):
            (log_probs, state), (expected, expected_state) = (
                lm.advance_all(s, piece) for lm, s in zip((one, other), states, strict=True)
            )
            np.testing.assert_allclose(log_probs, expected, rtol=0, atol=3e-5)
            states = [state, expected_state]
        after, expected = (lm.next_log_probs(s)[predicted] for lm, s in zip((one, other), states, strict=True))
        np.testing.assert_allclose(after, expected, rtol=0, atol=3e-5)
    assert one.evaluate(ids).nats == pytest.approx(other.evaluate(ids).nats, rel=1e-6)
    np.testing.assert_array_equal(one.orders(ids), other.orders(ids))


def test_errors_about_kenlm(small: NGram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "kenlm" in sys.modules:
        with pytest.raises(LightRNNError, match="KenLM cannot read"):
            KenLM(tmp_path / "missing.arpa", small.vocabulary)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(LightRNNError, match=r'pip install "lightrnn\[kenlm\]"'):
        KenLM(tmp_path / "lm.arpa", small.vocabulary)


# Published figures: lmplz -o 5 with its defaults


def prepared(name: str, preset: str, folder: Path) -> Corpus:
    source = corpus_folder(name)
    train, valid, test = ([str(source / f"{split}.txt.xz")] for split in ("train", "valid", "test"))
    return prepare(train, folder / name, valid=valid, test=test, rules=PRESETS[preset].rules)


@pytest.fixture(scope="module")
def penn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, NGram]:
    corpus = prepared("ptb", "ptb", tmp_path_factory.mktemp("penn"))
    return corpus, estimate(corpus.split("train"), corpus.vocabulary)


def test_penn_treebank(penn: tuple[Corpus, NGram]) -> None:
    corpus, model = penn
    scores, _ = model.score_tokens(corpus.split("test"))
    assert len(scores) == 82_430
    assert 10 ** -scores.mean() == pytest.approx(141.19, rel=1e-3)
    assert NGramLM(model).evaluate(corpus.split("test")).perplexity == pytest.approx(141.19, rel=1e-3)


@pytest.mark.slow
def test_kenlm_agrees_on_every_token_of_penn_treebank(penn: tuple[Corpus, NGram], tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    corpus, model = penn
    write_arpa(model, tmp_path / "lm.arpa")
    words = [corpus.vocabulary.words[i] for i in corpus.split("test")]
    sentences = [line.split() for line in " ".join(words).split("</s>")][:-1]
    expected = np.array(kenlm_scores(tmp_path / "lm.arpa", sentences))
    scores, orders = model.score_tokens(corpus.split("test"))
    np.testing.assert_allclose(scores, expected[:, 0], atol=1e-5)
    np.testing.assert_array_equal(orders, expected[:, 1])
    again, _ = read_arpa(tmp_path / "lm.arpa").score_tokens(corpus.split("test"))
    np.testing.assert_allclose(again, scores, atol=1e-6)


@pytest.mark.slow
def test_wikitext_2(tmp_path: Path) -> None:
    corpus = prepared("wikitext-2", "wikitext", tmp_path)
    model = estimate(corpus.split("train"), corpus.vocabulary)
    scores, _ = model.score_tokens(corpus.split("test"))
    assert len(scores) == 245_569
    assert 10 ** -scores.mean() == pytest.approx(220.14, rel=1e-3)


# The command


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["lightrnn", "ngram", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def test_the_command(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lm.arpa"
    assert run(monkeypatch, tiny.path, "-o", out, "--order", "3") == 0
    shown = capsys.readouterr().out
    expected = estimate(tiny.split("train"), tiny.vocabulary, 3)
    model = read_arpa(out)
    assert model.counts == expected.counts
    for count, discounts in zip(expected.counts, expected.discounts or [], strict=True):
        assert f"{count:,}" in shown
        assert all(f"{d:.4f}" in shown for d in discounts)
    ids = tiny.split("test")
    np.testing.assert_allclose(model.score_tokens(ids)[0], expected.score_tokens(ids)[0], atol=1e-6)

    written = out.read_bytes()
    assert run(monkeypatch, tiny.path, "-o", out, "--order", "2") == 2
    assert "exists; choose another -o, or replace it with --force" in capsys.readouterr().err
    assert out.read_bytes() == written
    assert run(monkeypatch, tiny.path, "-o", out, "--order", "2", "--force", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ngrams"] == read_arpa(out).counts == expected.counts[:2]


def test_the_command_on_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = made_up()
    (tmp_path / "text.txt").write_text("".join(" ".join(s) + "\n" for s in sentences))
    assert run(monkeypatch, tmp_path / "text.txt", "-o", tmp_path / "lm.arpa.gz", "--order", "2") == 0
    model = read_arpa(tmp_path / "lm.arpa.gz")
    words = {word for s in sentences for word in s}
    assert set(model.vocabulary.words) == words | {"<s>", "</s>", "<unk>"}
    probability = oracle(sentences, [*words, "</s>", "<unk>"], 2)
    expected = [probability(word, context) for word, context in contexts(sentences)]
    scores, _ = model.score_tokens(stream(sentences, model.vocabulary))
    np.testing.assert_allclose(scores, np.log10(expected), atol=1e-6)


@pytest.mark.parametrize(
    ("text", "out", "message"),
    [
        ("a b\n", "lm.txt", "must end in .arpa or .arpa.gz, got 'lm.txt'"),
        ("a b\n", "no/lm.arpa", "does not exist; make it"),
        ("a b\n", "folder.arpa", "is a folder"),
        ("", "lm.arpa", "is empty"),
        ("\n\n", "lm.arpa", "at least one word"),
        ("<s> a b\n", "lm.arpa", "has '<s>' among its words"),
    ],
)
def test_bad_input_to_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    out: str,
    message: str,
) -> None:
    (tmp_path / "text.txt").write_text(text)
    (tmp_path / "folder.arpa").mkdir()
    assert run(monkeypatch, tmp_path / "text.txt", "-o", tmp_path / out) == 2
    shown = capsys.readouterr().err
    assert message in shown.replace("\n", " ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.arpa", "text.txt"]
