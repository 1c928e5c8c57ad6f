"""lightrnn score: every format read back by a reader that knows only the format, against LM.full_scores."""

import json
import lzma
import re
from dataclasses import dataclass
from math import exp, inf, log, nan
from pathlib import Path

import numpy as np
import pytest

from helpers import FLOAT32, TIMEOUT, Call, lm_of, made_up_text, random_lightrnn, refused, started, vocabulary_of
from lightrnn import load
from lightrnn.inference.lm import LM
from lightrnn.inference.loading import save_mix
from lightrnn.inference.network import NetworkLM
from lightrnn.inference.scoring import BLOCK_LINES, BLOCK_WORDS, SRILM, KenLM, UnknownWords, score_lines
from lightrnn.models.checkpoint import save_model
from lightrnn.text.reading import line_blocks
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary

TEXT = "w1 w2 never w3\n\nw4\nnever ever\n\tw5  w5 \u00e9t\u00e9\x0bw6\nw1 w1 w1 w1 w1 w2\n"
LINES = TEXT.split("\n")[:-1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored") / "model"
    save_model(folder, random_lightrnn(V=23), vocabulary_of(23), {})
    return folder


@pytest.fixture(scope="module")
def lm(model: Path) -> LM:
    return load(model)


def words_of(line: str) -> list[str]:
    return [*re.split(r"[ \t\r\x0b\x0c]+", line.strip(" \t\r\x0b\x0c")), "</s>"] if line.strip() else ["</s>"]


# --- readers, written from the descriptions of the formats


@dataclass
class Sentence:
    words: list[str]
    log10: list[float]
    orders: list[int]
    unknown: int
    total: float


def read_kenlm(output: str) -> tuple[list[Sentence], dict[str, float]]:
    """Tab-separated `word=id order log10`, `Total: x OOV: n` last in the line; then `name:TAB value` lines."""
    sentences, footer = [], {}
    for line in output.splitlines():
        *tokens, last = line.split("\t")
        if not last.startswith("Total: "):
            footer[tokens[0]] = float(last)
            continue
        assert not footer
        _, total, _, unknown = last.split(" ")
        split = [token.rsplit("=", 1) for token in tokens]
        figures = [figure.split(" ") for _, figure in split]
        found = Sentence([w for w, _ in split], [float(f[2]) for f in figures], [int(f[1]) for f in figures], 0, 0.0)
        assert [f[0] for f in figures].count("0") == int(unknown)
        found.unknown, found.total = int(unknown), float(total)
        sentences.append(found)
    return sentences, footer


def read_srilm(output: str) -> tuple[list[tuple[str, Sentence, dict[str, float]]], dict[str, float]]:
    """Paragraphs; in a word's line the tenth field is log10; two lines of sums, for the file after the last."""
    *paragraphs, end = output.split("\n\n")
    found = []
    for paragraph in paragraphs:
        text, *lines, first, second = paragraph.split("\n")
        fields = [line.split() for line in lines]
        assert all(re.match(r"\tp\( \S+ \| \S+ (\.\.\.)?\) \t= \[\w+\] \S+ \[ \S+ \]$", line) for line in lines), lines
        for before, field in zip([None, *fields], fields, strict=False):
            assert field[3:5] == (["<s>", ")"] if before is None else [before[1], "...)"])
            assert (
                field[7:9] == ["0", "["]
                if field[6] == "[OOV]"
                else float(field[7]) == pytest.approx(10 ** float(field[9]), rel=FLOAT32)
            )
        orders = [0 if f[6] == "[OOV]" else int(re.fullmatch(r"\[(\d+)gram\]", f[6])[1]) for f in fields]
        sentence = Sentence([f[1] for f in fields], [float(f[9]) for f in fields], orders, orders.count(0), nan)
        found.append((text, sentence, read_sums(first, second)))
    name, sums = end.split(": ", 1)
    assert name.startswith("file ")
    return found, read_sums(*sums.removesuffix("\n").split("\n"))


def read_sums(first: str, second: str) -> dict[str, float]:
    one = re.fullmatch(r"(\d+) sentences, (\d+) words, (\d+) OOVs", first)
    two = re.fullmatch(r"(\d+) zeroprobs, logprob= (\S+) ppl= (\S+) ppl1= (\S+)", second)
    names = ("sentences", "words", "unknown", "zeros", "log10", "ppl", "ppl1")
    values = (nan if v == "undefined" else float(v) for v in (*one.groups(), *two.groups()))
    return dict(zip(names, values, strict=True))


# --- formats


def test_kenlm(call: Call, model: Path, lm: LM, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    result = call("score", model, "text", "--format", "kenlm")
    assert (result.code, result.err.count("\n")) == (0, 1)  # a note on unknown words
    sentences, footer = read_kenlm(result.out)
    full = [list(lm.full_scores(line)) for line in LINES]
    for line, sentence, expected in zip(LINES, sentences, full, strict=True):
        assert sentence.words == words_of(line)
        np.testing.assert_allclose(sentence.log10, [p for p, _, _ in expected], rtol=FLOAT32)
        assert sentence.orders == [1] * len(expected)
        assert sentence.unknown == sum(unknown for _, _, unknown in expected)
        assert sentence.total == pytest.approx(sum(sentence.log10), rel=FLOAT32)
    tokens = [token for line in full for token in line]
    known = [p for p, _, unknown in tokens if not unknown]
    assert list(footer) == ["Perplexity including OOVs:", "Perplexity excluding OOVs:", "OOVs:", "Tokens:"]
    assert footer["Tokens:"] == len(tokens)
    assert footer["OOVs:"] == len(tokens) - len(known) == 4
    mean = sum(p for p, _, _ in tokens) / len(tokens)
    assert footer["Perplexity including OOVs:"] == pytest.approx(10**-mean, rel=FLOAT32)
    assert footer["Perplexity excluding OOVs:"] == pytest.approx(10 ** -(sum(known) / len(known)), rel=FLOAT32)
    assert lm.vocabulary.unk_id < lm.vocabulary.ids["w1"]
    assert f"w1={lm.vocabulary.ids['w1']} 1 -" in result.out
    assert "never=0 1 -" in result.out


def test_srilm(call: Call, model: Path, lm: LM, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    result = call("score", model, "text", "--format", "srilm")
    assert (result.code, result.err.count("\n")) == (0, 1)  # a note on unknown words
    sentences, sums = read_srilm(result.out)
    assert "\nfile text: " in result.out
    lines = [line for line in LINES if line]
    for line, (text, sentence, figures) in zip(lines, sentences, strict=True):
        words = words_of(line)
        assert text.split(" ") == words[:-1]
        assert sentence.words == [word if word in lm else "<unk>" for word in words]
        known = []
        for (log10, _, unknown), got, order, place in zip(
            lm.full_scores(line), sentence.log10, sentence.orders, range(99), strict=False
        ):
            assert got == (-inf if unknown else pytest.approx(log10, rel=FLOAT32))
            assert order == (0 if unknown else place + 2)
            known += [] if unknown else [log10]
        assert figures["log10"] == pytest.approx(sum(known), rel=FLOAT32)
        assert (figures["sentences"], figures["words"], figures["unknown"]) == (1, len(words) - 1, sentence.unknown)
        assert figures["ppl"] == pytest.approx(10 ** (-sum(known) / len(known)), rel=FLOAT32)
        only_end = len(known) == 1
        assert figures["ppl1"] == pytest.approx(
            nan if only_end else 10 ** (-sum(known) / (len(known) - 1)), FLOAT32, nan_ok=True
        )
    for name in ("sentences", "words", "unknown", "zeros", "log10"):
        assert sums[name] == pytest.approx(sum(figures[name] for _, _, figures in sentences))
    known = sums["words"] - sums["unknown"]
    assert sums["ppl"] == pytest.approx(10 ** (-sums["log10"] / (known + sums["sentences"])), rel=FLOAT32)
    assert sums["ppl1"] == pytest.approx(10 ** (-sums["log10"] / known), rel=FLOAT32)


class Matching(NetworkLM):
    """A model that says of every token that its n-gram was as long as its id."""

    has_orders = True  # type: ignore[assignment]

    def orders(self, ids: np.ndarray) -> np.ndarray:
        return ids.astype(np.int64)


def test_orders_of_an_ngram_model_are_shown() -> None:
    base = lm_of()
    lm = Matching(base.model, base.vocabulary)
    (line,) = next(score_lines(lm, [["w1 w5 never"]]))
    expected = [lm.vocabulary.ids[word] for word in ("w1", "w5", "<unk>", "</s>")]
    assert read_kenlm(KenLM(lm.vocabulary.unk_id).line(line))[0][0].orders == expected
    shown = SRILM(True)
    text = shown.line(line) + shown.summary("x")
    assert read_srilm(text)[0][0][1].orders == [*expected[:2], 0, expected[3]]


@pytest.mark.parametrize(("base", "unit"), [("10", log(10)), ("e", 1.0), ("2", log(2))])
def test_tsv_and_jsonl_have_one_line_a_line(call: Call, model: Path, lm: LM, base: str, unit: float) -> None:
    for data in (TEXT, TEXT.removesuffix("\n"), TEXT.replace("\n", "\r\n")):
        rows = call("score", model, "--log-base", base, stdin=data.encode()).out.removesuffix("\n").split("\n")
        written = call("score", model, "-", "--format", "jsonl", "--log-base", base, stdin=data.encode()).out
        objects = [json.loads(line) for line in written.removesuffix("\n").split("\n")]
        for line, row, value in zip(LINES, rows, objects, strict=True):
            full = list(lm.full_scores(line))
            nats = sum(p for p, _, _ in full) * log(10)
            got = [float(column) for column in row.split("\t")]
            unknown = sum(u for _, _, u in full)
            assert got == pytest.approx([nats / unit, len(full), unknown, exp(-nats / len(full))], rel=FLOAT32)
            assert [value[k] for k in ("log_prob", "tokens", "unknown", "perplexity")] == pytest.approx(
                got, rel=FLOAT32
            )
            assert value["words"] == words_of(line)
            assert value["log_probs"] == pytest.approx(
                [p * log(10) / unit for p, _, _ in full], rel=FLOAT32, abs=FLOAT32
            )
            assert value["is_unknown"] == [u for _, _, u in full]


def test_nothing_in(call: Call, model: Path) -> None:
    assert call("score", model) == (0, "", "")
    assert read_kenlm(call("score", model, "--format", "kenlm").out)[1]["Tokens:"] == 0
    assert "0 sentences, 0 words" in call("score", model, "--format", "srilm").out


def test_unknown_words(call: Call, model: Path, lm: LM) -> None:
    full = list(lm.full_scores("w1 never w2 ever"))
    every, known = sum(p for p, _, _ in full), sum(p for p, _, unknown in full if not unknown)

    def scored(*options: str) -> list[float]:
        return [float(v) for v in call("score", model, *options, stdin=b"w1 never w2 ever\n").out.split("\t")]

    assert scored("--unk", "score") == pytest.approx([every, 5, 2, 10 ** (-every / 5)], rel=FLOAT32)
    assert scored("--unk", "skip") == pytest.approx([known, 5, 2, 10 ** (-known / 3)], rel=FLOAT32)
    assert scored("--unk", "penalty=-3")[0] == pytest.approx(every - 6, rel=FLOAT32)
    assert scored("--unk", "penalty=-3", "--log-base", "e")[0] == pytest.approx(every * log(10) - 6, rel=FLOAT32)
    skipped = call("score", model, "--unk", "skip", "--format", "jsonl", stdin=b"w1 never\n").out
    assert [value is None for value in json.loads(skipped)["log_probs"]] == [False, True, False]
    (sentence,), _ = read_kenlm(
        call("score", model, "--unk", "penalty=-3", "--format", "kenlm", stdin=b"w1 never w2 ever\n").out
    )
    assert sentence.total == pytest.approx(every - 6, rel=FLOAT32)
    assert sentence.log10[1] == pytest.approx(full[1][0] - 3, rel=FLOAT32)
    assert scored("--unk", "skip") != scored()
    literal = call("score", model, "--format", "kenlm", stdin=b"w1 <unk>\nw1 </s> w2\n").out
    (one, two), _ = read_kenlm(literal)
    assert one.unknown == 1
    assert two.total == pytest.approx(lm.score("w1") + lm.score("w2"), rel=FLOAT32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "xml"), "--format must be one of kenlm, srilm, kaldi, tsv, jsonl, got 'xml'"),
        (("--log-base", "3"), "--log-base must be one of"),
        (("--convention", "page"), "--convention must be one of"),
        (("--errors", "ignore"), "--errors must be one of"),
        *(
            (("--unk", v), "--unk must be score, skip or")
            for v in ("drop", "penalty", "penalty=", "penalty=x", "skip=1")
        ),
        (("--unk", "penalty=nan"), "--unk must be score, skip or"),
        (("--format", "kenlm", "--log-base", "e"), "base 10 always"),
        (("--format", "srilm", "--log-base", "2"), "base 10 always"),
        (("--format", "kaldi", "--log-base", "10"), "base e always"),
        (("--format", "srilm", "--unk", "score"), "--format srilm leaves unknown words out"),
        (("--format", "kenlm", "--unk", "skip"), "with and without unknown words"),
        (("--batch-size", "0"), "--batch-size"),
    ],
)
def test_options_that_make_no_sense(call: Call, model: Path, options: tuple[str, ...], message: str) -> None:
    result = call("score", model, *options, stdin=b"w1\n")
    assert message in refused(result)
    assert result.out == ""


# --- the text


def test_bytes_that_are_not_utf8(call: Call, model: Path, lm: LM, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfw1\nw2\nw3 \xff w4\nw5\n")
    result = call("score", model, "text")
    assert refused(result).startswith("error: text is not UTF-8: byte 0xff at offset 12; ")
    assert [float(row.split("\t")[0]) for row in result.out.splitlines()] == pytest.approx(
        [lm.score("w1"), lm.score("w2")], rel=FLOAT32
    )
    result = call("score", model, "text", "--errors", "replace", "--format", "jsonl")
    assert result.code == 0
    assert json.loads(result.out.splitlines()[2])["words"] == ["w3", "\ufffd", "w4", "</s>"]


def test_control_characters_are_letters_and_only_newlines_end_lines(call: Call, model: Path) -> None:
    line = "a\x00b \x1b[31m \x85 \u2028 \u00a0 w1\x1cw2\n"
    (written,) = call("score", model, "--format", "jsonl", stdin=line.encode()).out.removesuffix("\n").split("\n")
    assert json.loads(written)["words"] == ["a\x00b", "\x1b[31m", "\x85", "\u2028", "\u00a0", "w1\x1cw2", "</s>"]
    assert call("score", model, "--format", "kenlm", stdin=line.encode()).out.startswith("a\x00b=0 1 ")


def test_lines_of_a_hundred_thousand_words(call: Call, model: Path, lm: LM, tmp_path: Path) -> None:
    long = " ".join(f"w{i * i % 19}" for i in range(100_000))
    with lzma.open(tmp_path / "text.xz", "wt") as file:
        file.write(f"w1\n{long}\nw2\n")
    result = call("score", model, "text.xz")
    rows = [row.split("\t") for row in result.out.splitlines()]
    assert [int(row[1]) for row in rows] == [2, 100_001, 2]
    assert [float(row[0]) for row in rows] == pytest.approx(
        [lm.score("w1"), sum(p for p, _, _ in lm.full_scores(long)), lm.score("w2")], rel=FLOAT32
    )


def test_blocks_are_bounded() -> None:
    lm = lm_of()
    lines = ["w1"] * (BLOCK_LINES + 1) + ["w2 " * (BLOCK_WORDS + 1)] + ["w3"]
    sizes = [len(block) for block in score_lines(lm, [lines], "stream")]
    assert sizes == [BLOCK_LINES, 1, 1, 1]


def test_files_that_cannot_be_read(call: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.xz").write_bytes(lzma.compress(b"w1\n" * 9999)[:-20])
    for name, message in (("nowhere", "cannot read nowhere"), (".", ". is a folder"), ("cut.xz", "not a complete .xz")):
        assert message in refused(call("score", model, name))
    assert "does not exist" in refused(call("score", "no-model", "text"))


@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_lines_are_whole_however_the_bytes_come(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    whole = ["one", "", "\u00e9\u00e9 two\r", "three"]
    data = "\ufeffone\n\n\u00e9\u00e9 two\r\nthree".encode()
    for size in range(1, len(data) + 1):
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        monkeypatch.setattr("lightrnn.text.reading.read_blocks", lambda source, pieces=pieces: iter(pieces))
        assert [line for block in line_blocks("x", errors) for line in block] == whole


# --- the stream convention


def mixed(folder: Path, model: Path) -> Path:
    """A mix of two models with different vocabularies."""
    other = Vocabulary(["<S>", "</s>", "<unk>", *(f"w{i}" for i in range(9))], np.arange(12), TextRules(bos="<S>"))
    save_model(folder / "other", random_lightrnn("gru", V=12, seed=4), other, {})
    save_mix(folder / "mix", [model, folder / "other"], [0.7, 0.3])
    return folder / "mix"


@pytest.mark.parametrize("kind", ["single", "mix"])
def test_the_stream_is_that_of_evaluate(call: Call, model: Path, tmp_path: Path, kind: str) -> None:
    path = model if kind == "single" else mixed(tmp_path, model)
    (tmp_path / "text").write_text(made_up_text(1500, 30, seed=8) + "\nw1 never", encoding="utf-8")
    lm = load(path)
    ids = lm.vocabulary.encode_files([str(tmp_path / "text")])
    for convention in ("stream", "sentence"):
        result = call("score", path, "text", "--convention", convention, "--log-base", "e")
        rows = [row.split("\t") for row in result.out.splitlines()]
        expected = lm.evaluate(ids, convention)  # type: ignore[arg-type]
        # eight digits are printed, and rounding evens out
        assert -sum(float(row[0]) for row in rows) == pytest.approx(expected.nats, rel=1e-6)
        assert sum(int(row[1]) for row in rows) == expected.tokens
        assert sum(int(row[2]) for row in rows) == expected.unknown_tokens
    # far beyond what is told apart above
    assert lm.evaluate(ids, "stream").nats != pytest.approx(lm.evaluate(ids, "sentence").nats, rel=1e-4)


def test_advancing_together_is_advancing_one_by_one(model: Path, tmp_path: Path) -> None:
    ids = np.random.default_rng(1).integers(0, 23, size=150).astype(np.int32)
    for lm in (load(model), load(mixed(tmp_path, model))):
        for state in (lm.begin_state(), lm.empty_state()):
            together, after = lm.read_words(state, ids)
            slow, after_slow = LM.read_words(lm, state, ids)
            np.testing.assert_allclose(together, slow, rtol=1e-4)  # 150 steps in float32
            # 150 steps in float32
            np.testing.assert_allclose(lm.next_log_probs(after), lm.next_log_probs(after_slow), rtol=1e-4)
            assert lm.read_words(state, ids[:0])[0].shape == (0,)


def test_blocks_do_not_change_the_stream() -> None:
    lm = lm_of()
    lines = ["w1 w2", "", "w3 never", "w4"]
    rule = UnknownWords(penalty=-1.0)
    once = [line.total for block in score_lines(lm, [lines], "stream", unknown_words=rule) for line in block]
    pieces = [[line] for line in lines]
    apart = [line.total for block in score_lines(lm, pieces, "stream", unknown_words=rule) for line in block]
    assert apart == pytest.approx(once, rel=FLOAT32)


# --- pipes


def test_a_line_is_answered_before_the_next_is_written(model: Path, lm: LM) -> None:
    with started("score", model, "--format", "jsonl", environment={"LC_ALL": "C"}) as process:
        for line in ("w1 w2", "", "\u00e9t\u00e9 w3"):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["words"] == words_of(line)
            assert answer["log_prob"] == pytest.approx(lm.score(line), rel=FLOAT32)
        process.stdin.write("w4")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["words"] == ["w4", "</s>"]
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read().startswith("note: the model does not know 20.0% of the words")


def test_a_reader_that_goes_away(model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("w1 w2 w3\n" * 60_000, encoding="utf-8")
    with started("score", model, tmp_path / "text", "--threads", "1") as process:
        assert process.stdout.readline().startswith("-")
        process.stdout.close()
        assert process.wait(TIMEOUT) != 0
        assert process.stderr.read() == ""
