"""Recipes and options agree, and a value that is none is told by field, option and rule."""

import inspect
from dataclasses import fields

import pytest

from lightrnn.cli.app import app
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, option_name, recipe_names
from lightrnn.errors import LightRNNError

SECTIONS = (ModelConfig, TrainingConfig, BootstrapConfig)


def test_recipes_load_and_differ_from_each_other() -> None:
    recipes = {name: Recipe.load(name) for name in recipe_names()}
    assert {"demo", "small", "paper-aclw", "paper-billionw"} <= set(recipes)
    assert len(set(recipes.values())) == len(recipes)
    aclw, billion = recipes["paper-aclw"], recipes["paper-billionw"]
    assert (aclw.model.layers, aclw.model.hidden_size) == (2, 1000)
    assert (billion.model.layers, billion.model.hidden_size) == (1, 2048)
    for recipe in (aclw, billion):
        training = recipe.training
        assert (training.optimizer, training.learning_rate, training.schedule) == ("sgd", 1.0, "halve")
        assert (training.clip_norm, recipe.model.dropout, recipe.model.cell) == (5.0, 0.5, "lstm")


def test_every_field_is_an_option_with_help() -> None:
    names = [declared.name for section in SECTIONS for declared in fields(section)]
    assert len(set(names)) == len(names)  # one name, one meaning
    train = next(command for command in app.registered_commands if command.name == "train")
    parameters = inspect.signature(train.callback).parameters
    assert set(names) <= set(parameters)
    for section in SECTIONS:
        assert all(declared.metadata["about"] for declared in fields(section))


def test_a_field_without_its_section_is_told_where_it_belongs() -> None:
    with pytest.raises(LightRNNError, match=r"it has 'learning_rate' where only .* belong; put it under \[training\]$"):
        Recipe.from_dict({"learning_rate": 0.1}, "it")
    with pytest.raises(LightRNNError, match=r"it has 'rate' where only .* belong$"):
        Recipe.from_dict({"rate": 0.1}, "it")


@pytest.mark.parametrize("section", SECTIONS)
def test_errors_name_field_option_rule_and_value(section: type) -> None:
    for declared in fields(section):
        with pytest.raises(LightRNNError) as caught:
            section(**{declared.name: []})
        message = str(caught.value)
        assert message.startswith(f"{declared.name} ({option_name(declared.name)}) must be ")
        assert message.endswith("got []")
