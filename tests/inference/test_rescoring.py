"""lightrnn rescore: against a naive ranking by LM.score, and lists that are not lists."""

import gzip
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from helpers import FLOAT32, Call, lm_of, random_lightrnn, refused, vocabulary_of
from lightrnn import load
from lightrnn.inference.lm import LM
from lightrnn.inference.rescoring import read_lists, rescore
from lightrnn.inference.scoring import BLOCK_WORDS
from lightrnn.models.checkpoint import save_model
from lightrnn.ngram.model import LN10


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rescored") / "model"
    save_model(folder, random_lightrnn(V=23), vocabulary_of(23), {})
    return folder


@pytest.fixture(scope="module")
def lm(model: Path) -> LM:
    return load(model)


def random_texts(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{w}" for w in rng.integers(0, 25, size=rng.integers(0, 9))) for _ in range(count)]


def test_tsv_lists_are_ranked_as_by_hand(call: Call, model: Path, lm: LM, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(f"u{i // 7 % 3}", round(float(rng.normal()), 3), text) for i, text in enumerate(random_texts(40, 1))]
    (tmp_path / "lists").write_text("".join(f"{n}\t{s}\t{t}\n" for n, s, t in rows), encoding="utf-8")
    options = ("--lm-weight", "0.7", "--word-penalty", "1.5", "--score-weight", "2")
    result = call("rescore", model, "lists", *options)
    assert (result.code, result.err.count("\n")) == (0, 1)  # a note on unknown words
    expected, best = [], []
    for name, group in groupby(rows, key=lambda row: row[0]):
        totals = [(2 * s + 0.7 * lm.score(t) + 1.5 * len(t.split()), t) for _, s, t in group]
        ranked = sorted(totals, key=lambda pair: -pair[0])
        expected += [(name, total, text) for total, text in ranked]
        best.append(f"{name}\t{ranked[0][1]}")
    got = [line.split("\t") for line in result.out.removesuffix("\n").split("\n")]
    assert [(n, t) for n, _, t in got] == [(n, t) for n, _, t in expected]
    # sums of float32 that nearly cancel
    np.testing.assert_allclose([float(s) for _, s, _ in got], [s for _, s, _ in expected], rtol=1e-4, atol=FLOAT32)
    assert len(best) == 6
    shown = call("rescore", model, "lists", *options, "--best").out
    assert shown.removesuffix("\n").split("\n") == best


def test_srilm_lists_of_several_files(call: Call, model: Path, lm: LM, tmp_path: Path) -> None:
    names, expected, best = ["one", "two.gz"], [], []
    for number, name in enumerate(names):
        texts = random_texts(9, 10 + number)
        rows = [(f"-{i}.50", f"<s> {t} </s>" if i % 2 else t, t) for i, t in enumerate(texts)]
        lines = "".join(f"{a} -99 {len(t.split())} {shown}\n" for a, shown, t in rows)
        with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wt") as file:
            file.write(lines)
        ranked = sorted(rows, key=lambda row: -(float(row[0]) + 3 * lm.score(row[2])))
        expected += [[a, lm.score(t), str(len(t.split())), *shown.split()] for a, shown, t in ranked]
        best.append(ranked[0][2])
    result = call("rescore", model, *names, "--lm-weight", "3")
    assert (result.code, result.err.count("\n")) == (0, 1)  # a note on unknown words
    got = [line.split() for line in result.out.splitlines()]
    assert [[row[0], *row[2:]] for row in got] == [[row[0], *row[2:]] for row in expected]
    np.testing.assert_allclose([float(row[1]) for row in got], [row[1] for row in expected], rtol=FLOAT32)
    assert call("rescore", model, *names, "--lm-weight", "3", "--best").out.splitlines() == best


def test_ranked_lists_can_be_ranked_again(call: Call, model: Path) -> None:
    data = b"-3.5 0 2 w1 w2\n-1 0 0\n-2 0 1 w3\n"
    once = call("rescore", model, "-", stdin=data).out
    assert call("rescore", model, "-", stdin=once.encode()).out == once


def test_equals_keep_their_order(call: Call, model: Path) -> None:
    data = b"a\t-1\tw2\na\t-1\tw1\na\t-2\tw3\na\t-1\tw4\n"
    result = call("rescore", model, "-", "--lm-weight", "0", stdin=data)
    assert [line.split("\t")[2] for line in result.out.splitlines()] == ["w2", "w1", "w4", "w3"]


def test_the_best_hypothesis_is_the_context_of_the_next_utterance(call: Call, model: Path, lm: LM) -> None:
    rng = np.random.default_rng(5)
    texts = random_texts(24, 2)
    rows = [(f"u{i // 4}", round(float(rng.normal()), 3), text) for i, text in enumerate(texts)]
    data = "".join(f"{name}\t{score}\t{text}\n" for name, score, text in rows).encode()
    state, expected = lm.stream_state(), []
    for name, group in groupby(rows, key=lambda row: row[0]):
        found = []
        for _, score, text in group:
            after, log10 = state, 0.0
            for word in [*text.split(), "</s>"]:
                value, after = lm.score_word(after, word)
                log10 += value
            found.append((score + 0.5 * log10, text, after))
        found.sort(key=lambda one: -one[0])
        state = found[0][2]
        expected += [(name, total, text) for total, text, _ in found]
    result = call("rescore", model, "-", "--convention", "stream", "--lm-weight", "0.5", stdin=data)
    got = [line.split("\t") for line in result.out.removesuffix("\n").split("\n")]
    assert [(n, t) for n, _, t in got] == [(n, t) for n, _, t in expected]
    np.testing.assert_allclose([float(s) for _, s, _ in got], [s for _, s, _ in expected], rtol=1e-4, atol=FLOAT32)
    alone = call("rescore", model, "-", "--lm-weight", "0.5", stdin=data).out.removesuffix("\n").split("\n")
    changed = sum(line.split("\t")[1] != one[1] for line, one in zip(alone, got, strict=True))
    assert changed > len(got) / 2  # context matters


@pytest.mark.parametrize("convention", ["sentence", "stream"])
def test_unknown_words_in_lists(call: Call, model: Path, lm: LM, convention: str) -> None:
    words = ["w1", "never", "w2", "</s>"]
    start = lm.begin_state() if convention == "sentence" else lm.stream_state()
    nats, _ = lm.read_words(start, lm.vocabulary.encode(words))
    sums = {"score": nats.sum(), "skip": nats[[0, 2, 3]].sum(), "penalty=-2.5": nats.sum() - 2.5 * LN10}
    for rule, expected in sums.items():
        options = ("--unk", rule, "--convention", convention)
        _, total, _ = call("rescore", model, "-", *options, stdin=b"a\t0\tw1 never w2\n").out.split("\t")
        assert float(total) == pytest.approx(expected / LN10, rel=FLOAT32)
    assert "--unk must be score, skip or penalty=X" in refused(call("rescore", model, "-", "--unk", "x"))


def test_beams_of_nemo(call: Call, model: Path, lm: LM) -> None:
    texts = [*random_texts(8, 7), ""]
    rows = [(text, -0.25 * i) for i, text in enumerate(texts)]
    data = "".join(f"{text}\t{score}\n" for text, score in rows).encode()
    ranked, best = [], []
    for begin in (0, 3, 6):
        totals = sorted(((score + 2 * lm.score(text), text) for text, score in rows[begin : begin + 3]), reverse=True)
        ranked += totals
        best.append(totals[0][1])
    for options in (("--beams", "3"), ("--beams", "3", "--layout", "nemo")):
        lines = call("rescore", model, "-", "--lm-weight", "2", *options, stdin=data).out.splitlines()
        assert [line.split("\t")[0] for line in lines] == [text for _, text in ranked]
        np.testing.assert_allclose([float(line.split("\t")[1]) for line in lines], [t for t, _ in ranked], rtol=1e-4)
    shown = call("rescore", model, "-", "--lm-weight", "2", "--beams", "3", "--best", stdin=data)
    assert shown.out.splitlines() == best


def test_many_lists_are_scored_together() -> None:
    lm = lm_of()
    lines = [f"u{i}\t0\t{'w1 ' * 1000}" for i in range(2 * BLOCK_WORDS // 1000)]
    calls: list[int] = []
    score = lm.token_log_probs
    lm.token_log_probs = lambda ids, *given, **named: calls.append(len(ids)) or score(ids, *given, **named)  # type: ignore[assignment]
    assert len(list(rescore(lm, read_lists(lines, None, "x")))) == len(lines)
    assert 1 < len(calls) < 4  # there are as many words as fit into two blocks
    assert sum(calls) == 1001 * len(lines)


def test_without_the_models_part_impossible_words_do_not_count(call: Call, tmp_path: Path) -> None:
    arpa = "\\data\\\nngram 1=4\n\n\\1-grams:\n-99\t<s>\n-0.3\t</s>\n-0.3\t<unk>\n-inf\tw1\n\n\\end\\\n"
    (tmp_path / "m.arpa").write_text(arpa, encoding="utf-8")
    (tmp_path / "lists").write_text("u\t-5\tw2\nu\t-3\tw1\nu\t-4\tw2 w2\n", encoding="utf-8")
    shown = call("rescore", "m.arpa", "lists", "--lm-weight", "0").out.splitlines()
    assert [line.split("\t")[1:] for line in shown] == [["-3", "w1"], ["-4", "w2 w2"], ["-5", "w2"]]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b"-1 -2 1 w1\n-1 -2\n", (), "lists line 2: expected acoustic score, LM score, number of words, words"),
        (b"-1 -2 x w1\n", (), "lists line 1: expected acoustic"),
        (b"-1 x 1 w1\n", (), "lists line 1: expected acoustic"),
        (b"nan 0 1 w1\n", (), "lists line 1: expected acoustic"),
        (b"-1 0 -1 w1\n", (), "lists line 1: expected acoustic"),
        (b"-1 0 1 w1\n\n", (), "lists line 2: expected acoustic"),
        (b"a\t-1\tw1\na\tw1\n", (), "lists line 2: expected id, score and text with tabs between, got"),
        (b"a\tmany\tw1\n", (), "lists line 1: expected id"),
        (b"a\tinf\tw1\n", (), "lists line 1: expected id"),
        (b"-1 0 1 w1\n", ("--layout", "tsv"), "lists line 1: expected id"),
        (b"a\t-1\tw1\n", ("--layout", "srilm"), "lists line 1: expected acoustic"),
        (b"a\t-1\t\xff\n", (), "lists is not UTF-8: byte 0xff at offset 5;"),
        (b"w1\t-1\n", (), "lists holds text and score, as NeMo's beams; say by --beams"),
        (b"w1\t-1\n" * 5, ("--beams", "2"), "lists ends after 1 lines of a list, and --beams 2 was given"),
        (b"w1\tw2\n", ("--beams", "1"), "lists line 1: expected text and score with a tab between"),
        (b"w1\n", ("--beams", "1"), "lists line 1: expected text and score with a tab between"),
        (b"a\t-1\tw1\n", ("--beams", "1", "--layout", "tsv"), "--beams is for layout nemo, got --layout tsv"),
        (b"a\t-1\tw1\n", ("--convention", "talk"), "--convention must be one of"),
        (b"a\t-1\tw1\n", ("--layout", "xml"), "--layout must be one of srilm, tsv, nemo, got 'xml'"),
        (b"a\t-1\tw1\n", ("--lm-weight", "nan"), "--lm-weight must be a finite number, got nan"),
        (b"a\t-1\tw1\n", ("--word-penalty", "inf"), "--word-penalty must be a finite number"),
    ],
)
def test_lists_that_are_none(
    call: Call, model: Path, tmp_path: Path, data: bytes, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "lists").write_bytes(data)
    assert message in refused(call("rescore", model, "lists", *options))


def test_missing_lists_and_replaced_bytes(call: Call, model: Path, tmp_path: Path) -> None:
    assert "nowhere does not exist" in refused(call("rescore", model, "nowhere"))
    (tmp_path / "lists").write_bytes(b"a\t-1\tw1 \xff\n")
    assert call("rescore", model, "lists", "--errors", "replace", "--best").out == "a\tw1 \ufffd\n"
    assert call("rescore", model, "-", stdin=b"").out == ""
