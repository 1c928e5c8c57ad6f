"""KenLM's programs, whose sources are in the sdist of the Python package kenlm: our estimates against those of a real
lmplz, n-gram by n-gram, and the binaries of a real build_binary."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lightrnn
from helpers import KENLM, made_up_sentences, stream, vocabulary_with
from lightrnn.ngram.arpa import read_arpa
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.ngram.model import NGram

Figures = dict[tuple[str, ...], tuple[float, float]]


def by_words(model: NGram) -> Figures:
    """log10 probability and back-off of every n-gram, <s> left out, which is given either 0 or -99."""
    figures: Figures = {}
    names = [*model.vocabulary.words, "<s>"]
    for n, level in enumerate(model.levels, 1):
        columns = [[names[word] for word in column.tolist()] for column in model.words_of(n, 0, len(level.keys))]
        backoffs = level.log10_backoffs if len(level.log10_backoffs) else np.zeros(len(level.keys))
        figures |= dict(zip(zip(*columns, strict=True), zip(level.log10_probs, backoffs, strict=True), strict=True))
    figures[("<s>",)] = (0.0, figures[("<s>",)][1])
    return figures


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on the PATH")
    return found


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("prune", [[], [0, 1], [0, 0, 1], [0, 1, 2], [1], [2, 2, 4]])
def test_pruned_as_lmplz_prunes(order: int, prune: list[int], tmp_path: Path) -> None:
    lmplz = program("lmplz")
    prune = prune[:order]
    last = ("last-word",)  # seen once: lmplz counts the word that is new last by its occurrences
    sentences = [*made_up_sentences(4000, seed=order), *[("rare", "w1")] * 2, ("rarer", "w1"), last]
    text, arpa = tmp_path / "text.txt", tmp_path / "lm.arpa"
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    options = ["--prune", *map(str, prune)] if prune else []
    command = [lmplz, "-o", str(order), "--discount_fallback", *options, "-S", "100M", "-T", str(tmp_path / "sort")]
    subprocess.run([*command, "--text", text, "--arpa", arpa], check=True, capture_output=True)
    vocabulary = vocabulary_with([word for sentence in sentences for word in sentence], None)
    expected = by_words(read_arpa(arpa))
    found = by_words(estimate(stream(sentences, vocabulary), vocabulary, order, prune=prune))
    assert found.keys() == expected.keys()
    differences = np.array([found[gram] for gram in expected]) - np.array([*expected.values()])
    assert np.abs(differences).max() < 2e-5  # lmplz computes in single precision


@pytest.mark.parametrize("sort", ["probing", "trie", "-a 22 trie", "-q 8 -b 8 -a 22 trie", "-i -s probing"])
def test_binaries_are_read_with_the_words_they_hold(sort: str, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    command = [program("build_binary"), *sort.split(), KENLM / "model.arpa", tmp_path / "lm.binary"]
    subprocess.run(command, check=True, capture_output=True)
    binary, arpa = lightrnn.load(tmp_path / "lm.binary"), lightrnn.load(KENLM / "model.arpa")
    assert sorted(binary.vocabulary.words) == sorted(arpa.vocabulary.words)
    lines = (KENLM / "text.txt").read_text(encoding="utf-8").splitlines()
    np.testing.assert_allclose(binary.scores(lines), arpa.scores(lines), atol=1e-4)  # few figures: all have a bin
