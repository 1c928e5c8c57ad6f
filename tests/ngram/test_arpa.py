"""ARPA files, ours and those of others, sound and broken."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from lightrnn.errors import LightRNNError
from lightrnn.ngram.arpa import read_arpa, write_arpa
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.ngram.model import NGram
from lightrnn.text.presets import PRESETS
from lightrnn.text.reading import LONGEST
from lightrnn.text.vocabulary import Vocabulary


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_arpa_there_and_back(small: NGram, tmp_path: Path, name: str) -> None:
    write_arpa(small, tmp_path / name)
    again = read_arpa(tmp_path / name)
    assert [*again.vocabulary.words] == small.vocabulary.words + ["<s>"] * (small.vocabulary.rules.bos is None)
    assert again.counts == small.counts
    for one, other in zip(small.levels, again.levels, strict=True):
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_allclose(one.log10_probs, other.log10_probs, rtol=1e-7)  # eight digits are written
        np.testing.assert_allclose(one.log10_backoffs, other.log10_backoffs, rtol=1e-7, atol=1e-12)  # and -0 is 0
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


FOREIGN = (Path(__file__).parent / "foreign.arpa").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [FOREIGN, FOREIGN.replace("\n", "\r\n"), FOREIGN.replace("\t", "  ")])
def test_arpa_files_of_others(tmp_path: Path, text: str) -> None:
    """Unsorted, back-offs left out, <UNK>, a probability for <s>: figures worked out by hand."""
    (tmp_path / "lm.arpa").write_bytes(text.encode())
    model = read_arpa(tmp_path / "lm.arpa")
    ids = model.vocabulary.encode(["a", "b", "a", "a", "c", "b", "</s>", "b", "</s>"])
    scores, orders = model.score_tokens(ids)
    by_hand = [-0.4, -0.01, -0.02, -0.2 - 0.7, -0.2 - 2, -0.3 - 1.5, -0.5, -0.1 - 1.5, -0.5]
    np.testing.assert_allclose(scores, by_hand, atol=1e-12)  # float64
    assert orders.tolist() == [2, 3, 3, 1, 1, 1, 1, 1, 1]
    _, state = model.read(model.start_state(of_sentence=True), ids[:1])
    assert model.distribution(state)[model.vocabulary.bos_id] < -90  # as good as never: ARPA writes -99


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
        (gzip.compress(b"x" * (LONGEST["line"] + 2**21)), "line 1 has more than 16,777,216 bytes; it is no ARPA file"),
    ],
)
def test_files_that_are_no_arpa(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / ("lm.arpa.gz" if content.startswith(b"\x1f\x8b") else "lm.arpa")
    path.write_bytes(content)
    with pytest.raises(LightRNNError, match=message):
        read_arpa(path)
    with pytest.raises(LightRNNError, match="cannot read"):
        read_arpa(tmp_path / "missing.arpa")
