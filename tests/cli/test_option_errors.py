"""Options out of their range: each is named, with what it may be."""

import re
from pathlib import Path

import pytest

from helpers import Call, Refusal, World, refused, snapshot

OUT_OF_RANGE = [
    *(("train", "--hidden-size", value) for value in ("-3", "0", "65537", "1e9", "8.5", "many", "9" * 400, "")),
    *(("train", "--layers", value) for value in ("0", "-1", "65")),
    *(("train", "--embedding-size", value) for value in ("-1", "65537")),
    *(("train", "--components", value) for value in ("1", "0", "-2", "9")),
    *(("train", "--alone", value) for value in ("banana", "-1", "1.5", "AUTO", "", "9" * 30, "2147483648")),
    *(("train", "--cell", value) for value in ("foo", "", "LSTM")),
    *(("train", "--dropout", value) for value in ("1.5", "1", "-0.1", "nan", "inf", "half")),
    *(("train", "--optimizer", value) for value in ("foo", "")),
    ("train", "--schedule", "foo"),
    *(("train", "--learning-rate", value) for value in ("-1", "0", "inf", "nan", "101", "1e999")),
    *(("train", "--clip-norm", value) for value in ("0", "-5", "nan", "inf")),
    *(("train", "--weight-init", value) for value in ("0", "-1", "11", "nan")),
    *(("train", "--batch-size", value) for value in ("0", "-20", "65537")),
    *(("train", "--window", value) for value in ("0", "-1", "65537")),
    *(("train", "--epochs", value) for value in ("0", "-1", "1000000", "nan")),
    *(("train", "--minutes", value) for value in ("-1", "nan", "inf")),
    *(("train", "--validate-every", value) for value in ("-1", "x")),
    ("train", "--patience", "-1"),
    *(("train", "--seed", value) for value in ("-1", "2147483648", "x")),
    *(("train", "--threads", value) for value in ("-1", "5000", "all")),
    *(("prepare", "--min-count", value) for value in ("0", "-1", "two")),
    *(("prepare", "--max-words", value) for value in ("1", "2", "0", "-1")),
    *(("prepare", "--normalize", value) for value in ("foo", "NFC")),
    *(("prepare", "--convention", value) for value in ("foo", "")),
    *(("evaluate", "--batch-size", value) for value in ("0", "-1", "65537")),
    *(("evaluate", "--threads", value) for value in ("-1", "5000")),
    *(("evaluate", "--convention", value) for value in ("foo", "")),
    *(("info", "--vocab-size", value) for value in ("0", "1", "-5", "x")),
    *(("info", "--alone", value) for value in ("-1", "all")),
    *(("info", "--hidden-size", value) for value in ("0", "-3")),
    *(("demo", "--minutes", value) for value in ("0", "-1", "nan")),
    *(("demo", "--threads", value) for value in ("-1",)),
]


@pytest.mark.parametrize(("name", "option", "value"), OUT_OF_RANGE)
def test_option_out_of_range(call: Call, world: World, tmp_path: Path, name: str, option: str, value: str) -> None:
    arguments = {
        "train": [world.train, "-o", "out"],
        "prepare": [world.train, "-o", "out"],
        "evaluate": [world.model, world.data],
        "info": [] if option == "--vocab-size" else ["--vocab-size", "100"],
        "demo": ["-o", "out"],
    }[name]
    result = call(name, *arguments, option, value)
    assert re.search(rf"{option}\b", refused(result))
    assert result.out == ""
    assert snapshot(tmp_path) == {}


def test_resume_checks_options_too(refuse: Refusal, world: World, model: Path) -> None:
    for option, value in (("--epochs", "0"), ("--minutes", "-1"), ("--patience", "-1")):
        assert option in refuse("train", world.data, "--resume", "-o", model, option, value)


@pytest.mark.parametrize("slip", [("table", "model", "--word"), ("table", "model", "--nothing"), ("table",)], ids=str)
def test_a_slip_is_told_with_the_commands_own_help(call: Call, slip: tuple[str, ...]) -> None:
    assert "see lightrnn table --help" in refused(call(*slip))
