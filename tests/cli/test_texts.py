"""Text given to a command: arguments that are no text, and notes on words that a model does not know."""

from pathlib import Path

import pytest

from helpers import NOT_UTF8, SMALL, Call, made_up_text, train_small
from lightrnn.text.corpus import Corpus, prepare


@pytest.fixture(scope="module")
def model(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_small(tiny, tmp_path_factory.mktemp("reading") / "model")


@pytest.mark.parametrize(
    "arguments",
    [
        ("next", "MODEL", NOT_UTF8),
        ("next", "MODEL", "w1", "--prefix", NOT_UTF8),
        ("generate", "MODEL", "--prompt", NOT_UTF8),
        ("generate", "MODEL", "--prompt", NOT_UTF8, "--beam", "2"),
        ("table", "MODEL", "--word", NOT_UTF8),
    ],
    ids=" ".join,
)
def test_arguments_that_are_not_utf8(call: Call, model: Path, arguments: tuple[str, ...]) -> None:
    result = call(*(model if argument == "MODEL" else argument for argument in arguments))
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: 'caf\\udce9' holds bytes that are not UTF-8; give text in UTF-8\n"


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose training text had unknown words."""
    folder = tmp_path_factory.mktemp("taught")
    (folder / "text").write_text(made_up_text(2000, 40, seed=1) + "rare\nwords\n", encoding="utf-8")
    return train_small(prepare(folder / "text", folder / "data", valid=folder / "text", min_count=2), folder / "model")


def test_a_note_on_unknown_words(call: Call, model: Path, taught: Path, tmp_path: Path) -> None:
    (tmp_path / "known").write_text("w1 w2\n" * 20, encoding="utf-8")
    (tmp_path / "capitals").write_text("W1 w2 w3 W2\n" * 20, encoding="utf-8")
    (tmp_path / "other").write_text("quite another w1\n" * 20, encoding="utf-8")
    (tmp_path / "glued").write_text("w1, w2 (w3)\n" * 20, encoding="utf-8")
    (tmp_path / "given").write_text("<unk> w1\n" * 20, encoding="utf-8")
    (tmp_path / "lists").write_text("a\t-1\tW1 w2\n", encoding="utf-8")
    for command in ("evaluate", "score"):
        for text in ("known", "given"):
            assert call(command, taught, text).err == ""
        assert "not know 50.0% of the words, most of them for their capitals" in call(command, taught, "capitals").err
        assert "not know 66.7% of the words; is this the kind of text" in call(command, taught, "other").err
        assert "not know 66.7% of the words, and met no unknown word in training" in call(command, model, "other").err
        assert "not know 66.7% of the words, most of them for punctuation" in call(command, taught, "glued").err
    assert "50.0% of the words, most of them for their capitals" in call("rescore", taught, "lists").err
    assert "50.0% of the words, most of them for their capitals" in call("next", taught, "W1 w2").err
    assert "50.0% of the words, most of them for their capitals" in call("generate", taught, "--prompt", "W1 w2").err
    assert call("next", taught, "w1 w2").err == ""


def test_a_note_on_punctuation_that_is_part_of_words(call: Call, tmp_path: Path) -> None:
    (tmp_path / "glued").write_text("it was late, and dark. it was late, said he.\n" * 20, encoding="utf-8")
    (tmp_path / "apart").write_text(
        "it was late , and dark , and he said to mr. w that it was late , and dark , and so on .\n" * 20,
        encoding="utf-8",
    )
    told = call("prepare", "glued", "-o", "data").err
    assert "note: 36% of the words end in punctuation, as 'late,' does" in told  # 4 of 10 words, and a sentence end
    assert "36% of the words end in punctuation" in call("train", "glued", "-o", "model", *SMALL).err
    assert "punctuation" not in call("prepare", "apart", "-o", "other", "--min-count", "2").err


def test_a_note_on_unknown_words_that_no_one_taught(call: Call, tmp_path: Path) -> None:
    (tmp_path / "train").write_text(made_up_text(500, 20, seed=1) + "once\n", encoding="utf-8")
    (tmp_path / "test").write_text("w1 w2 never\n" * 9, encoding="utf-8")
    arguments = ("train", "--valid", "train", "--test", "test")
    result = call("prepare", *arguments, "-o", "data")
    assert result.err.startswith("note: 25.0% of test are unknown words, and train has none")
    assert "--min-count 2" in result.err
    assert call("prepare", *arguments, "-o", "other", "--min-count", "2").err == ""
    train_small(Corpus.load("data"), Path("model"))
    assert "met no unknown word in training" in call("evaluate", "model", "data").err
    assert call("evaluate", "model", "data", "--split", "train").err == ""
