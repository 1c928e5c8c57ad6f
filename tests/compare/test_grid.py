"""Grids: which models on which corpora, with which budget; those that ship, and those that are none."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightrnn.compare.grid import Budget, Grid, ModelEntry
from lightrnn.config import ModelConfig, shipped_names
from lightrnn.errors import LightRNNError
from lightrnn.models.kind import Size, kind_of

VALUES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "grid.toml").read_text(encoding="utf-8"))


def grid_with(**changes: Any) -> Grid:
    return Grid.from_dict(VALUES | {"corpus": [{"name": "tiny", "data": "data"}]} | changes, "tiny")


def parameters_of(config: ModelConfig, words: int) -> dict[str, int]:
    return kind_of(config).parameters(config, Size(words))


BAD = [
    ({"epoch": 3}, "has an unknown field 'epoch'; known are .*epochs"),
    ({"minutes": 3}, "both epochs and minutes"),
    ({"epochs": 0}, "epochs must be a number above 0, got 0"),
    ({"epochs": 1e9}, "epochs must be above 0, at least 0.001 and at most 100000, got"),
    ({"epochs": float("nan")}, "epochs must be a number above 0, got nan"),
    ({"seeds": [1, 1]}, r"seeds must be different whole numbers from 0 to .*, got \[1, 1\]"),
    ({"seeds": []}, "seeds must be a list that is not empty"),
    ({"seeds": [True]}, "seeds must be different whole"),
    ({"target": "KN-3"}, "target must be the name of a network, one of LightRNN 12, HSM, got 'KN-3'"),
    ({"model": VALUES["model"][:2], "target": "HSM"}, 'mix = true needs a model of kind = "ngram"'),
    ({"model": []}, "model must be a list"),
    ({"model": [3]}, r"\[\[model\]\] number 1 must be a table"),
    ({"model": [{"name": "A", "model": "transformer"}]}, "model 'A': model .* must be one of lightrnn, full, hsm"),
    (
        {"model": [{"name": "A", "hidden": 3}]},
        "model 'A' has an unknown field 'hidden'; known are name, kind, seeds, on, teacher, adapt, recipe",
    ),
    ({"model": [{"name": "A", "hidden_size": 0}]}, "model 'A': hidden_size .* must be a whole number at least 1"),
    ({"model": [{"name": "A", "epochs": 3}]}, "model 'A': epochs is the whole grid's"),
    ({"model": [{"name": "A", "model": "hsm", "refine": "cluster"}]}, "model 'A': --refine is for --model lightrnn"),
    ({"model": [{"name": "A", "refine": "cluster", "rounds": 9}]}, "model 'A': --rounds 9 .* leave nothing"),
    ({"model": [{"name": "A", "recipe": "huge"}]}, "model 'A': there is no recipe 'huge'"),
    ({"model": [{"name": "A", "kind": "n-gram"}]}, "model 'A': kind must be network or ngram, got 'n-gram'"),
    ({"model": [{"name": "A", "kind": "ngram", "order": 0}]}, "order must be a whole number above 0, got 0"),
    ({"model": [{"name": "A", "kind": "ngram", "order": 100}]}, "order must be at most 99, got 100"),
    ({"model": [{"name": "A", "kind": "ngram", "hidden_size": 3}]}, "unknown field 'hidden_size'; known are .*order"),
    ({"model": [{"name": "A b"}, {"name": "A-b"}], "mix": False}, "models 'A b' and 'A-b' are too alike"),
    ({"model": [{"name": "//"}]}, "needs a name with letters or figures in it, got '//'"),
    (
        {"model": [{"name": "A", "teacher": "B"}, {"name": "B"}], "mix": False, "target": "A"},
        "model 'A': teacher must be the name of a network that stands before it, got 'B'",
    ),
    ({"model": [{"name": "A", "teacher_share": 0.2}]}, "model 'A': teacher_share changes nothing without a teacher"),
    ({"cache": 0}, "cache must be a whole number above 0, got 0"),
    ({"cache": 200_000}, "cache must be at most 100,000, got 200,000"),
    ({"adapt": 1}, "adapt must be true or false, got 1"),
    ({"model": [{}]}, r"\[\[model\]\] number 1 needs a name"),
    ({"shared": {"seed": 1}}, r"\[shared\]: seed is the whole grid's"),
    ({"shared": {"size": 1}}, r"\[shared\] has an unknown field 'size'"),
    ({"corpus": [{"name": "x"}]}, "corpus 'x' needs either data .* or folder"),
    ({"corpus": [{"name": "x", "data": "a", "folder": "b"}]}, "needs either data"),
    ({"corpus": [{"name": "x", "data": "a", "preset": "ptb"}]}, "preset goes with folder"),
    (
        {"corpus": [{"name": "x", "folder": "a", "preset": "ptc"}]},
        "corpus 'x': there is no preset 'ptc'; known are ptb",
    ),
    ({"corpus": [{"name": "x", "folder": 3}]}, "corpus 'x': folder must be a string that is not empty, got 3"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[re.sub(r"\W+", "-", rule)[:40] for _, rule in BAD])
def test_bad_grids_are_refused_by_the_field(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LightRNNError, match=sentence) as caught:
        grid_with(**changes)
    assert "\n" not in str(caught.value)


def test_a_budget_for_all_for_one_and_none() -> None:
    corpora = [{"name": "a", "data": "a"}, {"name": "b", "data": "b", "minutes": 2}]
    grid = grid_with(corpus=corpora)
    assert [str(entry.budget) for entry in grid.corpora] == ["1 epoch", "2 minutes"]
    recipes = {run.corpus.name: run.recipe.training for run in grid.runs() if run.recipe}
    assert (recipes["a"].epochs, recipes["a"].minutes) == (1, 0)
    assert (recipes["b"].epochs, recipes["b"].minutes) == (1e5, 2)
    forced = Grid.from_dict(VALUES | {"corpus": corpora}, "g", budget=Budget("minutes", 7.0))
    assert [str(entry.budget) for entry in forced.corpora] == ["7 minutes", "7 minutes"]
    without = {name: value for name, value in VALUES.items() if name != "epochs"}
    with pytest.raises(LightRNNError, match="corpus 'a' has no budget; give epochs or minutes"):
        Grid.from_dict(without | {"corpus": corpora}, "g")


def test_n_gram_models_have_one_run_and_seeds_take_turns() -> None:
    runs = grid_with(seeds=[3, 5]).runs()
    assert [(run.model.name, run.seed) for run in runs] == [
        *(("LightRNN 12", 3), ("HSM", 3), ("KN-3", 0)),
        *(("LightRNN 12", 5), ("HSM", 5)),
    ]
    assert [run.recipe.training.seed for run in runs if run.recipe] == [3, 3, 5, 5]


def test_a_teacher_has_its_students_seed_where_it_can() -> None:
    models = [{"name": "large", "seeds": [1, 2]}, {"name": "small", "teacher": "large", "seeds": [1, 2, 3]}]
    grid = grid_with(model=models, mix=False, target="large")
    teachers = {run.seed: grid.teacher_of(run) for run in grid.runs() if run.model.name == "small"}
    assert {seed: (run.model.name, run.seed) for seed, run in teachers.items() if run} == {
        **{1: ("large", 1), 2: ("large", 2)},
        3: ("large", 1),
    }
    assert grid.teacher_of(grid.runs()[0]) is None


def test_grids_that_ship() -> None:
    grids = {name: Grid.load(name) for name in shipped_names("grid")}
    ours = {"main", "ablation", "opponents", "characters", "sizes", "alone", "time", "converged", "parts"}
    assert set(grids) == ours | {"paper-aclw", "paper-billionw"}
    assert {entry.recipe.model.layers for entry in grids["opponents"].models} == {2}
    kinds = {entry.recipe.model.model if entry.recipe else "ngram" for entry in grids["main"].models}
    assert kinds == {"ngram", "lightrnn", "full", "hsm", "chsm", "adaptive", "blackout"}
    assert len(grids["paper-aclw"].corpora) == 6


def test_the_grid_of_sizes_has_three_networks_for_each_number_of_parameters() -> None:
    models = {entry.name: entry.recipe.model for entry in Grid.load("sizes").models}
    square = [model for model in models.values() if not model.tied]
    assert [(model.hidden_size, model.input_size, model.alone) for model in square] == [
        (size, size, 0) for size in (100, 200, 400)
    ]
    tied = {name: model for name, model in models.items() if model.tied}
    for name, model in tied.items():
        assert name == f"alone {model.alone}, D {model.embedding_size}, H {model.hidden_size}"
    millions = [sum(parameters_of(model, 33_278).values()) / 1e6 for model in tied.values()]
    wanted = [about for about in (0.1, 0.25, 0.5, 1, 2, 4) for _ in range(3)]
    assert millions == pytest.approx(wanted, rel=0.06)  # what the frontier takes for equal is a tenth


VOCABULARIES = {"ptb": 10_000, "wikitext-2": 33_278, "eltec-cs-1m": 43_023}


def test_the_converged_grid_has_the_sizes_that_it_names_and_ends_by_patience() -> None:
    grid = Grid.load("converged")
    millions: dict[str, dict[str, float]] = {}
    for run in grid.runs():
        if run.recipe is None:
            continue
        training = run.recipe.training
        assert (training.patience, training.minutes, training.epochs) == (2, 720, 1e5)
        assert (training.schedule, training.validate_every) == ("average", 0)  # no end to aim at; once an epoch
        words = VOCABULARIES[run.corpus.name]
        alone = min(int(run.recipe.model.alone), words)
        parameters = parameters_of(replace(run.recipe.model, alone=alone), words)
        millions.setdefault(run.model.name, {})[run.corpus.name] = sum(parameters.values()) / 1e6
    assert all(set(found) == set(VOCABULARIES) for found in millions.values())
    ours = {name: found for name, found in millions.items() if name.startswith("LightRNN")}
    for name, found in ours.items():
        wanted = float(name.removeprefix("LightRNN ").removesuffix("M"))
        assert list(found.values()) == pytest.approx([wanted] * 3, rel=0.03)  # what three figures of a name tell
    assert list(ours) == ["LightRNN 0.5M", "LightRNN 1M", "LightRNN 4M"]
    kinds = {entry.recipe.model.model if entry.recipe else "ngram" for entry in grid.models}
    assert kinds == {"ngram", "lightrnn", "full", "hsm", "chsm", "adaptive", "blackout"}
    opponents = [found["eltec-cs-1m"] for name, found in millions.items() if name not in ours]
    assert min(opponents) == pytest.approx(10, rel=0.05)  # the smallest has some ten times as many as LightRNN 1M


def test_the_grid_of_parts_adds_one_at_a_time_then_all_but_dropout() -> None:
    grid = Grid.load("parts")
    base, *others = [entry for entry in grid.models if "1M" not in entry.name]
    for corpus, words in VOCABULARIES.items():
        sizes = {
            entry.name: sum(
                parameters_of(replace(recipe.model, alone=min(int(recipe.model.alone), words)), words).values()
            )
            for entry in grid.models
            if (recipe := entry.recipe_on(corpus))
        }
        assert sizes[base.name] == pytest.approx(250_000, rel=0.06)
        assert sizes["teacher, 1M"] == sizes["1M, dropout after an epoch"] == pytest.approx(1e6, rel=0.03)
        assert {name for name in sizes if sizes[name] == sizes[base.name]} == {
            *(base.name, "dropout after an epoch", "averaged weights", "taught")
        }

    def parts(entry: ModelEntry) -> dict[str, Any]:
        then, now = (
            {name: value for section in recipe.to_dict().values() for name, value in section.items()}
            for recipe in (base.recipe, entry.recipe)
        )
        return {name: now[name] for name in now if now[name] != then[name]} | {"teacher": entry.teacher}

    *single, together = [parts(entry) for entry in others]
    assert [entry.name for entry in others if "dropout" in parts(entry)] == ["dropout after an epoch"]
    paying = [found for found in single if "dropout" not in found]
    united = {name: value for found in paying for name, value in found.items() if value is not None}
    assert united == together
    assert united["teacher"] == "teacher, 1M"


def test_a_network_may_differ_on_a_corpus() -> None:
    corpora = [{"name": "a", "data": "a"}, {"name": "b c", "data": "b"}]
    model = {"name": "A", "dropout": 0.2, "hidden_size": 7, "on": {"b c": {"dropout": 0.5}}}
    grid = grid_with(corpus=corpora, model=[model], mix=False, target="A")
    found = [(run.corpus.name, run.recipe.model.dropout, run.recipe.model.hidden_size) for run in grid.runs()]
    assert found == [("a", 0.2, 7), ("b c", 0.5, 7)]
    for on, sentence in (
        ({"c": {"dropout": 0.5}}, r"model 'A': on names the corpora, a, b c, got 'c'"),
        ({"a": {"dropout": 5}}, r"model 'A', on 'a': dropout .* must be a number at least 0.0 and at most 0.95, got 5"),
        ({"a": {"epochs": 5}}, r"model 'A', on 'a': epochs is the whole grid's"),
        ({"a": {"on": {}}}, r"model 'A', on 'a' has an unknown field 'on'"),
        ({"a": 5}, r"model 'A', on 'a' must be a table, got 5"),
        (5, r"model 'A': on must be a table, got 5"),
    ):
        with pytest.raises(LightRNNError, match=sentence):
            grid_with(corpus=corpora, model=[model | {"on": on}], mix=False, target="A")


def test_the_grid_of_words_alone_differs_in_them_only() -> None:
    models = [entry.recipe.model for entry in Grid.load("alone").models]
    assert [model.alone for model in models] == [1000, 2000, 4000, 8000, 16000, "auto"]
    assert len({replace(model, alone=0) for model in models}) == 1
    assert models[0].tied


PRINTED = {  # parameters in the paper's Tables 4 and 5, in millions, and the vocabularies in thousands
    "HSM": [(152, 61), (137, 56), (60, 25), (206, 83), (339, 137), (497, 200)],
    "C-HSM": [(152, 48), (137, 44), (60, 20), (206, 64), (339, 104), (497, 152)],
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_opponents_of_the_papers_grid_have_the_papers_sizes(name: str) -> None:
    entry = next(entry for entry in Grid.load("paper-aclw").models if entry.name == name)
    for thousands, millions in PRINTED[name]:
        parameters = sum(parameters_of(entry.recipe.model, 1000 * thousands).values())
        assert abs(parameters / 1e6 - millions) < 0.75  # millions: they round, and may count no biases
    hsm = next(entry for entry in Grid.load("paper-billionw").models if entry.name == "HSM")
    assert f"{sum(parameters_of(hsm.recipe.model, 793_471).values()) / 1e9:.1f}" == "1.6"


def test_a_network_may_have_seeds_of_its_own() -> None:
    values = {
        "epochs": 1.0,
        "seeds": [1],
        "corpus": [{"name": "c", "folder": "c"}],
        "model": [
            {"name": "KN", "kind": "ngram"},
            {"name": "one", "model": "hsm"},
            {"name": "two", "model": "hsm", "seeds": [1, 7]},
        ],
    }
    runs = [(run.model.name, run.seed) for run in Grid.from_dict(values, "g").runs()]
    assert runs == [("KN", 0), ("one", 1), ("two", 1), ("two", 7)]
    values["model"][2]["seeds"] = [1, 1]  # type: ignore[index]
    with pytest.raises(LightRNNError, match=r"'two': seeds must be different whole numbers"):
        Grid.from_dict(values, "g")
