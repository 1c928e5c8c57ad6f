"""Everything that is read back from a file passes a border: fields, kinds, ranges, shapes, finite numbers."""

from pathlib import Path
from typing import Any

import pytest

from helpers import Call, refused
from lightrnn.border import check, list_of, maybe, number, one_field, parse_json, record, text, whole
from lightrnn.errors import LightRNNError
from lightrnn.files import read_json

POINT = record({"words": whole(1, 9), "names": list_of(text(), least=1)}, {"seconds": maybe(number(least=0))})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "what it holds must be an object, got []"),
        ({"names": ["a"]}, "words is missing"),
        ({"words": True, "names": ["a"]}, "words must be a whole number from 1 to 9, got True"),
        ({"words": 10**9, "names": ["a"]}, "words must be a whole number from 1 to 9, got 1000000000"),
        ({"words": 1, "names": []}, "names must be a list of 1 to 1,000,000 entries, got []"),
        ({"words": 1, "names": ["a", "\ud800"]}, r"names[1] must be a string of at most 1,000 printable characters"),
        ({"words": 1, "names": ["a"], "seconds": -1}, "seconds must be a number at least 0, got -1"),
        ({"words": 1, "names": ["a"], "seconds": float("nan")}, "seconds must be a number at least 0, got nan"),
        ({"words": 1, "names": ["a"], "seconds": 10**400}, "seconds must be a number at least 0, got 1000"),
    ],
)
def test_a_rule_names_file_field_rule_and_value(value: Any, message: str) -> None:
    with pytest.raises(LightRNNError) as caught:
        check(value, POINT, "a.json", "make it again")
    assert str(caught.value).startswith(f"a.json: {message}")
    assert str(caught.value).endswith("; make it again")


def test_a_rule_lets_be_what_it_does_not_name() -> None:
    value = {"words": 1, "names": ["a"], "seconds": None, "more": object()}
    assert check(value, POINT, "a.json", "") is value
    budget = one_field({"epochs": number(), "minutes": number()})
    check({"epochs": 1}, budget, "a.json", "")
    for wrong in ({}, {"hours": 1}, {"epochs": 1, "minutes": 1}, {"epochs": "1"}, 5):
        with pytest.raises(LightRNNError):
            check(wrong, budget, "a.json", "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b"[" * 60 + b"]" * 60, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1, "a": 2}', "a field is there twice"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_is_none(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(LightRNNError, match=f"^x is not valid JSON .*{message}.*; restore it$") as caught:
        parse_json(data, "x", "restore it")
    assert "\n" not in str(caught.value)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(LightRNNError, match="cannot read"):
        read_json(tmp_path / "folder.json")


@pytest.mark.parametrize(
    "content", ["a = " + "[" * 5000 + "]" * 5000, "layers = 0x" + "f" * 9000, "a = " + "9" * 5000, "a = nan"]
)
def test_toml_that_is_none(call: Call, tmp_path: Path, content: str) -> None:
    for kind, command in (
        ("recipe", ("info", "--vocab-size", "99", "--recipe")),
        ("grid", ("compare", "-o", "r", "--tables-only")),
    ):
        (tmp_path / f"{kind}.toml").write_text(f"[model]\n{content}\n", encoding="utf-8")
        message = refused(call(*command, f"{kind}.toml"))
        assert f"{kind}.toml" in message
        assert len(message) < 400  # characters: a sentence, not the file
