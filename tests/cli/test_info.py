"""lightrnn info: what it says of models and mixes, and of what is neither."""

import json
from pathlib import Path

import pytest

from helpers import Call, Refusal, World, edit_json, refused, set_fields
from lightrnn.config import Recipe, option_name


@pytest.mark.parametrize("content", ["[]", "null", "{}", '{"kind": "other", "format": 1, "files": {}}'])
@pytest.mark.parametrize("arguments", [("evaluate", "model", "test.txt"), ("info", "model")], ids=["evaluate", "info"])
def test_config_of_something_else(refuse: Refusal, model: Path, arguments: tuple[str, ...], content: str) -> None:
    (model / "config.json").write_text(content, encoding="utf-8")
    assert "config.json" in refuse(*arguments)


@pytest.mark.parametrize("key", ["model", "vocabulary_size", "table_shape"])
def test_info_on_a_config_that_lacks_something(refuse: Refusal, model: Path, key: str) -> None:
    set_fields(model / "config.json", **{key: None})
    assert "config.json" in refuse("info", model)


@pytest.mark.parametrize("arguments", [(), ("MODEL", "--vocab-size", "100"), ("MODEL", "--hidden-size", "8")])
def test_info_wants_one_thing(refuse: Refusal, world: World, arguments: tuple[str, ...]) -> None:
    assert "--vocab-size" in refuse("info", *(world.model if a == "MODEL" else a for a in arguments))


def test_info_shows_whatever_was_said_of_the_training(call: Call, before: Path) -> None:
    edit_json(before / "model" / "config.json", lambda config: config["training"].update(note="\udcff"))
    assert json.loads(call("info", before / "model", "--json").out)["training"]["note"] == "\udcff"
    edit_json(before / "model" / "config.json", lambda config: config["training"].update(valid_perplexity="low"))
    assert "training.valid_perplexity must be a number at least 0, got 'low'" in refused(call("info", before / "model"))


def test_info_says_what_a_mix_is(call: Call, before: Path) -> None:
    told = json.loads(call("info", before / "mixed", "--json").out)
    assert told["model"] == "mix"
    assert [Path(member["model"]).name for member in told["members"]] == ["model", "kn2.arpa"]
    assert sum(member["weight"] for member in told["members"]) == pytest.approx(1)
    shown = call("info", before / "mixed")
    assert shown.code == 0
    assert "0.976" in shown.out
    for command in (("train", before / "data", "-o", "out", "--init"), ("table",)):
        assert "is a mix, where a single model is needed" in refused(call(*command, before / "mixed"))


def test_info_shows_a_recipe(call: Call) -> None:
    recipe = Recipe.load("tiny").override({"hidden_size": 99})
    shown = call("info", "--recipe", "tiny", "--hidden-size", 99)
    assert shown.code == 0
    options = {name: value for _, name, value in map(str.split, shown.out.splitlines()[1:])}
    fields = {name: value for section in recipe.to_dict().values() for name, value in section.items()}
    assert options == {option_name(name): str(value) for name, value in fields.items()}
    assert json.loads(call("info", "--recipe", "tiny", "--hidden-size", 99, "--json").out) == recipe.to_dict()
