"""train --init --add-words: a model that goes on with the words of another text."""

from pathlib import Path

import numpy as np
import pytest

from helpers import Call, Refusal, World, made_up_text, printed, train_small, write
from lightrnn import load, load_model
from lightrnn.inference import network
from lightrnn.text.corpus import prepare

QUICK = ("--epochs", "1", "--batch-size", "4", "--window", "10", "--threads", "1")


@pytest.fixture(autouse=True)
def _draw_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "FAMILIAR", 100)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A model that met unknown words, some words alone."""
    text = write(tmp_path, "train.txt", made_up_text(1500, 40, seed=1))
    corpus = prepare(text, tmp_path / "data", max_words=30)
    return train_small(corpus, tmp_path / "base", alone=12, tied=True, head=4)


@pytest.fixture
def letters(tmp_path: Path) -> str:
    """A text of which the model knows most; new are `vet`, in every line, and words that come once."""
    lines = made_up_text(600, 25, seed=5).splitlines()
    text = "\n".join(f"{line} vet once{i}" for i, line in enumerate(lines))
    return write(tmp_path, "letters.txt", text + "\n")


def test_every_command_takes_the_model_with_new_words(call: Call, base: Path, letters: str, tmp_path: Path) -> None:
    result = call("train", letters, "--init", base, "--add-words", "-o", "mine", *QUICK)
    assert result.code == 0, result.err
    known, mine = load_model(base)[1], load("mine")
    added = len(mine.vocabulary) - len(known)
    assert f"{added:,} words added to {len(known):,}" in result.err
    assert list(mine.vocabulary.words[: len(known)]) == list(known.words)
    before, after = known.counts.copy(), mine.vocabulary.counts[: len(known)].copy()
    assert 0 < after[known.unk_id] < before[known.unk_id]  # some of its probability went to the new words
    before[known.unk_id] = after[known.unk_id] = 0
    assert after.tolist() == before.tolist()
    assert mine.vocabulary.words[len(known)] == "vet"  # the most frequent one
    assert "once0" in mine
    assert mine.distribution("w3").sum() == pytest.approx(1, abs=1e-5)
    assert "vet" in printed(call("table", "mine", "--word", "vet"))
    assert "vet" in printed(call("next", "mine", "", "--prefix", "ve"))
    printed(call("pack", "mine", "-o", "mine.lightrnn", "--precision", "float32"))
    packed = load("mine.lightrnn")
    assert packed.score("w3 vet once0") == pytest.approx(mine.score("w3 vet once0"), abs=1e-4)
    assert "unknown" in printed(call("evaluate", "mine", letters))
    assert printed(call("generate", "mine", "--words", "5", "--seed", "1"))
    assert str(len(mine.vocabulary)) in printed(call("info", "mine", "--json"))
    printed(call("train", letters, "-o", "mine", "--resume", "--epochs", "2"))
    assert "vet" in load("mine")


def test_min_count_and_max_words(call: Call, base: Path, letters: str) -> None:
    known = len(load_model(base)[1])
    start = ("train", letters, "--init", base, "--add-words", *QUICK)
    assert call(*start, "--min-count", "2", "-o", "frequent").code == 0
    assert call(*start, "--max-words", known + 3, "-o", "few").code == 0
    assert "vet" in load("frequent")
    assert "once0" not in load("frequent")
    assert len(load("few").vocabulary) == known + 3


def test_training_teaches_where_a_new_word_comes(call: Call, base: Path, letters: str) -> None:
    printed(call("train", letters, "--init", base, "--add-words", "-o", "mine", *QUICK, "--epochs", "6"))
    mine = load("mine")
    before_the_last = [" ".join(line.split()[:-2]) for line in Path(letters).read_text(encoding="utf-8").splitlines()]
    vet = mine.vocabulary.ids["vet"]
    assert np.mean([mine.distribution(context)[vet] for context in before_the_last[:20]]) > 0.05


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--add-words",), "--add-words goes with --init"),
        (("--init", "MODEL", "--min-count", "2"), "--min-count goes with --add-words"),
        (("--max-words", "20"), "--max-words goes with --add-words"),
        (("--init", "MODEL", "--add-words", "--max-words", "10"), "--max-words counts the "),
        (("--init", "OPPONENT", "--add-words"), "kind hsm has no word table"),
        (("--init", "MODEL", "--add-words", "--alone", "3"), "--alone cannot change with --init"),
    ],
    ids=str,
)
def test_refused(refuse: Refusal, world: World, options: tuple[str, ...], told: str) -> None:
    places = {"MODEL": world.model, "OPPONENT": world.opponent}
    given = [places.get(option, option) for option in options]
    assert told in refuse("train", world.other, "-o", "out", *given)


def test_a_data_folder_has_no_new_words(refuse: Refusal, world: World) -> None:
    message = refuse("train", world.data, "--init", world.model, "--add-words", "-o", "out")
    assert "--add-words goes with text" in message
    message = refuse("train", world.other, "--resume", "--add-words", "-o", "out")
    assert "--add-words cannot be used with --resume" in message
