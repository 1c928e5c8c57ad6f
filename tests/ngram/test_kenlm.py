"""KenLM: its files as models, and its figures of ours."""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import lightrnn
from helpers import FLOAT32, KENLM, Call, Sentences, made_up_sentences, random_sentences, refused, stream
from lightrnn.errors import LightRNNError
from lightrnn.inference.ngrams import NGramLM
from lightrnn.ngram.arpa import read_arpa, write_arpa
from lightrnn.ngram.kenlm import KenLM
from lightrnn.ngram.model import NGram
from lightrnn.text.corpus import Corpus


@pytest.mark.parametrize("name", ["probing", "trie", "no-unk"])
def test_kenlm_binaries_list_their_words(name: str, call: Call, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    arpa, binary = (lightrnn.load(KENLM / file) for file in ("tiny.arpa", f"{name}.binary"))
    assert sorted(binary.vocabulary.words) == sorted(arpa.vocabulary.words)
    for sentence in ("a été", "été a c<unk>", ""):
        assert binary.score(sentence) == pytest.approx(arpa.score(sentence), abs=FLOAT32)
    (tmp_path / "t.txt").write_text("a été\n", encoding="utf-8")
    assert call("score", KENLM / f"{name}.binary", "t.txt").out.startswith("-1.2")


def test_kenlm_binaries_without_words_or_with_others(call: Call, before: Path, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    assert "built without its words" in refused(call("next", KENLM / "no-words.binary", "a"))
    mixed = call("mix", before / "kn2.arpa", KENLM / "no-words.binary", "--tune", before / "data")
    assert mixed.code == 0, mixed.err
    whole_file = (KENLM / "trie.binary").read_bytes()
    for damaged in (whole_file[:-3], whole_file[:60], whole_file.replace("été".encode(), b"other"), whole_file + b"x"):
        (tmp_path / "lm.binary").write_bytes(damaged)
        assert "lm.binary is a damaged KenLM binary" in refused(call("next", "lm.binary", "a"))


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
    sentences = [
        *made_up_sentences(800, seed=9),
        *random_sentences(50, small.vocabulary.words[3:], seed=6),
        ("<unk>", "w1"),
    ]
    expected = np.array(kenlm_scores(tmp_path / "lm.arpa", sentences))
    scores, orders = small.score_tokens(stream(sentences, small.vocabulary))
    np.testing.assert_allclose(scores, expected[:, 0], atol=FLOAT32)
    np.testing.assert_array_equal(orders, expected[:, 1])


def test_we_read_others_files_as_kenlm_does() -> None:
    foreign = Path(__file__).parent / "foreign.arpa"
    model = read_arpa(foreign)
    sentences = list(product(["a", "b", "c"], repeat=4))
    expected = np.array(kenlm_scores(foreign, sentences))
    np.testing.assert_allclose(model.score_tokens(stream(sentences, model.vocabulary))[0], expected[:, 0], atol=FLOAT32)


def test_kenlm_files_are_models_too(small: NGram, tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    write_arpa(small, tmp_path / "lm.arpa")
    model = KenLM(tmp_path / "lm.arpa", small.vocabulary)
    ids = stream(made_up_sentences(600, seed=9), small.vocabulary)
    predicted = [i for i, word in enumerate(small.vocabulary.words) if word != small.vocabulary.rules.bos]
    one, other = NGramLM(model), NGramLM(small)
    for begin in ("begin_state", "empty_state"):
        states = [getattr(lm, begin)() for lm in (one, other)]
        for piece in np.array_split(ids[:150], 4):
            (log_probs, state), (expected, expected_state) = (
                lm.read_words(s, piece) for lm, s in zip((one, other), states, strict=True)
            )
            np.testing.assert_allclose(log_probs, expected, rtol=0, atol=3e-5)  # KenLM's float32 in log10, in nats here
            states = [state, expected_state]
        after, expected = (lm.next_log_probs(s)[predicted] for lm, s in zip((one, other), states, strict=True))
        np.testing.assert_allclose(after, expected, rtol=0, atol=3e-5)  # KenLM's float32 in log10, in nats here
    # errors of tokens are of either sign
    assert one.evaluate(ids).nats == pytest.approx(other.evaluate(ids).nats, rel=1e-6)
    np.testing.assert_array_equal(one.orders(ids), other.orders(ids))


def test_errors_about_kenlm(small: NGram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "kenlm" in sys.modules:
        with pytest.raises(LightRNNError, match="KenLM cannot read"):
            KenLM(tmp_path / "missing.arpa", small.vocabulary)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(LightRNNError, match=r'pip install "lightrnn\[kenlm\]"'):
        KenLM(tmp_path / "lm.arpa", small.vocabulary)


@pytest.mark.slow
def test_kenlm_agrees_on_every_token_of_penn_treebank(penn: tuple[Corpus, NGram], tmp_path: Path) -> None:
    pytest.importorskip("kenlm", reason="the kenlm package is not installed")
    corpus, model = penn
    write_arpa(model, tmp_path / "lm.arpa")
    words = [corpus.vocabulary.words[i] for i in corpus.split("test")]
    sentences = [line.split() for line in " ".join(words).split("</s>")][:-1]
    expected = np.array(kenlm_scores(tmp_path / "lm.arpa", sentences))
    scores, orders = model.score_tokens(corpus.split("test"))
    np.testing.assert_allclose(scores, expected[:, 0], atol=FLOAT32)
    np.testing.assert_array_equal(orders, expected[:, 1])
    again, _ = read_arpa(tmp_path / "lm.arpa").score_tokens(corpus.split("test"))
    np.testing.assert_allclose(again, scores, atol=1e-6)  # eight digits are written
