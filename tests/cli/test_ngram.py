"""lightrnn ngram: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers import Call, contexts, made_up_sentences, printed, refused, stream
from lightrnn.ngram.arpa import read_arpa
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.text.corpus import Corpus
from oracle import kneser_ney


def test_the_command(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "lm.arpa"
    shown = printed(call("ngram", tiny.path, "-o", out, "--order", "3"))
    expected = estimate(tiny.split("train"), tiny.vocabulary, 3)
    model = read_arpa(out)
    assert model.counts == expected.counts
    for count, discounts in zip(expected.counts, expected.discounts or [], strict=True):
        assert f"{count:,}" in shown
        assert all(f"{d:.4f}" in shown for d in discounts)
    ids = tiny.split("test")
    # eight digits are written
    np.testing.assert_allclose(model.score_tokens(ids)[0], expected.score_tokens(ids)[0], atol=1e-6)

    written = out.read_bytes()
    told = refused(call("ngram", tiny.path, "-o", out, "--order", "2"))
    assert "exists; choose another -o, or replace it with --force" in told
    assert out.read_bytes() == written
    facts = json.loads(printed(call("ngram", tiny.path, "-o", out, "--order", "2", "--force", "--json")))
    assert facts["ngrams"] == read_arpa(out).counts == expected.counts[:2]


def test_the_command_on_text(call: Call, tmp_path: Path) -> None:
    sentences = made_up_sentences()
    (tmp_path / "text.txt").write_text("".join(" ".join(s) + "\n" for s in sentences))
    printed(call("ngram", "text.txt", "-o", "lm.arpa.gz", "--order", "2"))
    model = read_arpa(tmp_path / "lm.arpa.gz")
    words = {word for s in sentences for word in s}
    assert set(model.vocabulary.words) == words | {"<s>", "</s>", "<unk>"}
    probability = kneser_ney(sentences, [*words, "</s>", "<unk>"], 2)
    expected = [probability(word, context) for word, context in contexts(sentences)]
    scores, _ = model.score_tokens(stream(sentences, model.vocabulary))
    np.testing.assert_allclose(scores, np.log10(expected), atol=1e-6)  # eight digits are written


@pytest.mark.parametrize(
    ("prune", "message"),
    [
        ("0 x", "takes whole numbers with spaces between them, such as '0 0 1', got '0 x'"),
        ("-1", "got '-1'"),
        ("0 2 1", "none below the one before, got 0 2 1"),
        ("0 0 0 1", "at most 3 whole numbers"),
        ("9", "no word occurs more than 9 times"),
    ],
)
def test_what_cannot_be_pruned(call: Call, tmp_path: Path, prune: str, message: str) -> None:
    (tmp_path / "text.txt").write_text("a b\n")
    assert message in refused(call("ngram", "text.txt", "--order", "3", f"--prune={prune}", "-o", "lm.lightrnn"))
    assert not (tmp_path / "lm.lightrnn").exists()


@pytest.mark.parametrize(
    ("text", "out", "message"),
    [
        ("a b\n", "lm.txt", "must end in .lightrnn, .arpa or .arpa.gz, got 'lm.txt'"),
        ("a b\n", "no/lm.arpa", "does not exist; make it"),
        ("a b\n", "folder.arpa", "is a folder"),
        ("", "lm.arpa", "is empty"),
        ("\n\n", "lm.arpa", "at least one word"),
        ("<s> a b\n", "lm.arpa", "has '<s>' among its words"),
    ],
)
def test_bad_input_to_the_command(call: Call, tmp_path: Path, text: str, out: str, message: str) -> None:
    (tmp_path / "text.txt").write_text(text)
    (tmp_path / "folder.arpa").mkdir()
    assert message in refused(call("ngram", "text.txt", "-o", out))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.arpa", "text.txt"]
