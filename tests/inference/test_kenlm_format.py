"""`lightrnn score --format kenlm` against what KenLM's own `query` wrote."""

import re
from pathlib import Path

import numpy as np
import pytest

from helpers import KENLM, Call
from lightrnn.inference.scoring import _shortest
from lightrnn.ngram.arpa import read_arpa


def assert_as_query(shown: str) -> None:
    """Words, ids and orders to the letter; logarithms up to the single precision in which KenLM adds them up."""
    expected = (KENLM / "query.out").read_text(encoding="utf-8")
    number = re.compile(r"-?\d+\.\d+")
    assert number.sub("#", shown) == number.sub("#", expected)
    values, expected_values = ([float(n) for n in number.findall(text)] for text in (shown, expected))
    np.testing.assert_allclose(values, expected_values, rtol=3e-7)  # two or three units in the last place of a float32
    digits = [len(n) for n in number.findall(expected)]
    # as many digits as KenLM's, give or take rounding
    assert abs(np.mean([len(n) for n in number.findall(shown)]) - np.mean(digits)) < 0.5


@pytest.mark.parametrize("convention", ["sentence", "stream"])
def test_an_arpa_file_is_scored_as_query_scores_it(call: Call, convention: str) -> None:
    result = call("score", KENLM / "model.arpa", KENLM / "text.txt", "--format", "kenlm", "--convention", convention)
    assert result.code == 0, result.err
    assert_as_query(result.out)


def test_ids_do_not_depend_on_where_the_unknown_word_is_listed(call: Call, tmp_path: Path) -> None:
    """KenLM's own is 0 wherever it stands, and the others are counted from 1."""
    lines = (KENLM / "model.arpa").read_text(encoding="utf-8").splitlines(keepends=True)
    (unknown,) = (line for line in lines if "\t<unk>\t" in line)
    lines.remove(unknown)
    lines.insert(lines.index("\\2-grams:\n") - 1, unknown)
    (tmp_path / "last.arpa").write_text("".join(lines), encoding="utf-8")
    assert read_arpa(tmp_path / "last.arpa").vocabulary.unk_id == 12
    result = call("score", tmp_path / "last.arpa", KENLM / "text.txt", "--format", "kenlm")
    assert_as_query(result.out)


def test_ids_of_other_models_are_places_in_the_vocabulary_without_the_unknown_word(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("b a b\na b a b\n" * 30, encoding="utf-8")
    trained = call("train", "text", "-o", "model", "--epochs", "0.1", "--hidden-size", "4", "--threads", "1")
    assert trained.code == 0, trained.err
    rows = (tmp_path / "model" / "vocab.tsv").read_text(encoding="utf-8").splitlines()
    words = [row.split("\t")[0] for row in rows if not row.startswith("<unk>")]
    shown = call("score", "model", "--format", "kenlm", stdin=b"a b c\n").out.splitlines()[0]
    ids = dict(re.findall(r"(\S+)=(\d+) 1 ", shown))
    assert ids == {"a": str(words.index("a") + 1), "b": str(words.index("b") + 1), "c": "0", "</s>": ids["</s>"]}
    assert ids["</s>"] == str(words.index("</s>") + 1)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(-1.14817810), "-1.1481781"),
        (np.float32(-100), "-100"),
        (np.float32(-2.5e-7), "-2.5e-7"),
        (np.float32(-0.0000125), "-0.0000125"),
        (np.float64(9.025296994073246), "9.025296994073246"),
        (np.float64(1e25), "1e25"),
        (np.float64(np.inf), "inf"),
        (np.float64(np.nan), "NaN"),
    ],
)
def test_numbers_have_the_fewest_digits_that_tell_them_apart(value: np.floating, shown: str) -> None:
    assert _shortest(value) == shown
