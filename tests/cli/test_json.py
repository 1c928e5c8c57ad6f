"""Every --json is one object, as its help says, and readable whatever the terminal."""

import inspect
import json
from pathlib import Path

import pytest

from conftest import Call
from lightrnn.cli.app import app
from lightrnn.text.corpus import Corpus

SMALL = ("--epochs", "0.2", "--hidden-size", "6", "--threads", "1")
WITH_JSON = {
    command.name for command in app.registered_commands if "as_json" in inspect.signature(command.callback).parameters
}
ASKED = {
    "evaluate": ("model", "data"),
    "info": ("model",),
    "mix": ("model", "kn.arpa", "--tune", "data"),
    "next": ("model", "w1 …"),
    "ngram": ("data", "-o", "new.arpa", "--order", "2"),
    "prepare": ("valid.txt", "-o", "new"),
    "table": ("model", "--data", "data"),
}


def test_every_command_with_json_is_asked_here() -> None:
    assert set(ASKED) == WITH_JSON


@pytest.mark.parametrize("command", sorted(ASKED))
def test_json_is_one_object(call: Call, tiny: Corpus, tmp_path: Path, command: str) -> None:
    (tmp_path / "data").symlink_to(tiny.path)
    (tmp_path / "valid.txt").symlink_to(tiny.path.parent / "valid.txt")
    if "model" in ASKED[command]:
        assert call("train", "data", "-o", "model", *SMALL).code == 0
    if "kn.arpa" in ASKED[command]:
        assert call("ngram", "data", "-o", "kn.arpa", "--order", "2").code == 0
    result = call(command, *ASKED[command], "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert isinstance(facts, dict)
    if command == "next":
        assert facts["context"] == "w1 …"
        assert set(facts["words"][0]) == {"word", "probability"}
    if command == "mix":
        assert [row["model"] for row in facts["models"]] == ["model", "kn.arpa", "mix"]


def test_vectors_has_threads(call: Call, tiny: Corpus) -> None:
    assert call("train", tiny.path, "-o", "model", *SMALL).code == 0
    assert call("vectors", "model", "-o", "vectors.txt", "--threads", "1").code == 0
    assert "--threads" in call("vectors", "--help").out


def test_rows_that_cannot_be_ranked_are_not_shown(call: Call, tmp_path: Path) -> None:
    """A validation text with but a few of the words: most rows have too little in it."""
    words = [f"w{i:02}" for i in range(100)]
    (tmp_path / "train.txt").write_text((" ".join(words) + "\n") * 20, encoding="utf-8")
    (tmp_path / "valid.txt").write_text((" ".join(words[:36]) + "\n") * 10, encoding="utf-8")
    assert call("prepare", "train.txt", "--valid", "valid.txt", "-o", "data").code == 0
    table = [f"{word}\t{i // 11}\t{i % 11}\n" for i, word in enumerate(["</s>", "<unk>", *words])]
    (tmp_path / "table.tsv").write_text(
        "".join(["# lightrnn table, shape 10x11\nword\trow\tcolumn\n", *table]), encoding="utf-8"
    )
    trained = call("train", "data", "--table", "table.tsv", "-o", "model", *SMALL)
    assert trained.code == 0, trained.err
    facts = json.loads(call("table", "model", "--data", "data", "--count", "12", "--json").out)
    assert {line["row"] for line in facts["shown"]} == {0, 1, 2}
    assert facts["unranked"] == 7
    shown = call("table", "model", "--data", "data", "--count", "12").out
    assert len([line for line in shown.splitlines() if line.startswith("row ")]) == 3
    assert "7 of 10 rows could not be ranked: fewer than 8 of their words" in shown
    assert "could not be ranked" not in call("table", "model").out
