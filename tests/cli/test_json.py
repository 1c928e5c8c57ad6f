"""Every --json is one object, as its help says, and readable whatever the terminal."""

import inspect
import json
from pathlib import Path

import pytest

from helpers import Call
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
    "pack": ("model", "-o", "new.lightrnn"),
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
