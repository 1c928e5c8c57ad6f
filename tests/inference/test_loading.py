"""Whatever a path names: a model, a mix, an n-gram file, or one sentence."""

import json
import shutil
from pathlib import Path

import pytest

from helpers import Call, edit_json, refused
from lightrnn import load, save_mix
from lightrnn.errors import LightRNNError


@pytest.mark.parametrize(
    "members",
    [
        [],
        [{"path": "../model"}],
        [{"path": "../model", "weight": -1}],
        [{"path": "../model", "weight": 1e300}],
        [{"path": "../model", "weight": "1"}],
        [{"path": "../model", "weight": 0}],
        [{"path": "\ud800", "weight": 1}],
        [{"path": "../nowhere", "weight": 1}],
        [{"path": ".", "weight": 1}],
        [{"path": "../other", "weight": 1}],
        [{"weight": 1}],
        [{"cache": 5, "weight": 1}],
        [{"path": "../model", "weight": 1}, {"path": "../model", "cache": 5, "weight": 1}],
        [{"path": "../model", "weight": 1}, {"cache": 0, "weight": 1}],
        [{"path": "../model", "weight": 1}, {"cache": 5, "flatness": 0, "weight": 1}],
        "../model",
        None,
    ],
    ids=str,
)
def test_damaged_mixes(call: Call, before: Path, members: object) -> None:
    edit_json(before / "mixed" / "config.json", lambda config: config.update(members=members))
    (before / "other").mkdir()
    mix = {"format": 1, "kind": "mix", "files": {}, "members": [{"path": "../mixed", "weight": 1}]}
    (before / "other" / "config.json").write_text(json.dumps(mix), encoding="utf-8")
    assert "mixed" in refused(call("evaluate", before / "mixed", before / "data")).replace("other", "mixed")


def test_mixes_that_could_not_be_loaded_are_not_written(before: Path, tmp_path: Path) -> None:
    for members, weights, told in (
        ([before, before], [1, -2], "a weight must be a number from 0, got -2"),
        ([before, before], [1], "as many weights as models"),
        ([], [], "one at least"),
        (["cache:5", before], [1, 1], "cannot be the first of a mix"),
        ([before, "cache:0"], [1, 1], "size of a cache must be a whole number from 1 to 100,000, got 0"),
        ([before, "cache:5:-3"], [1, 1], "flatness of a cache must be a number from 1e-06 to 1e\\+06, got -3"),
        ([before, "cache:5:nan"], [1, 1], "flatness of a cache must be a number"),
        ([before / "mixed", "cache:5"], [1, 1], "cache:5 needs a network to go with"),
        ([before, "nowhere"], [1, 1], "nowhere does not exist"),
        ([5], [1], "a model must be a path, got int"),
    ):
        with pytest.raises(LightRNNError, match=told):
            save_mix(tmp_path / "mix", members, weights)  # type: ignore[arg-type]
        assert not (tmp_path / "mix").exists()
    with pytest.raises(LightRNNError, match="path must be a path, got NoneType"):
        load(None)  # type: ignore[arg-type]


def test_mixes_that_name_each_other_a_thousand_times(call: Call, before: Path) -> None:
    """Eight folders that take no room would be 100⁸ models."""
    for level in range(8):
        member = {"path": f"../level{level + 1}" if level < 7 else "../model", "weight": 1}
        mix = {"format": 1, "kind": "mix", "files": {}, "members": [member] * 100}
        (before / f"level{level}").mkdir()
        (before / f"level{level}" / "config.json").write_text(json.dumps(mix), encoding="utf-8")
    assert "a mix of more than 1,000 models" in refused(call("next", before / "level0", "the"))


def test_names_of_files_are_no_markup(call: Call, before: Path, tmp_path: Path) -> None:
    odd = Path("[red]:smile:")
    (tmp_path / odd).mkdir()
    shutil.copytree(before / "mixed", odd / "mix")
    edit_json(odd / "mix" / "config.json", lambda config: config["members"][0].update(path="[/red]"))
    assert "[/red]" in call("info", odd / "mix").out
    assert "[red]:smile:" in refused(call("evaluate", odd / "mix", before / "data"))


def test_a_file_that_is_no_model_is_told_as_such(call: Call, before: Path, tmp_path: Path) -> None:
    for name, content in (("m.zip", b"PK\x03\x04" + bytes(99)), ("m.bin", b""), ("m.txt", b"\\date\\\n")):
        (tmp_path / name).write_bytes(content)
        assert f"{name} is not a model" in refused(call("score", name, before / "vocab.tsv"))
