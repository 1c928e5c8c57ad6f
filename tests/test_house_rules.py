"""Rules of the house that no linter knows: imports point one way, nothing is pickled, recipes and options agree."""

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

import lightrnn
from lightrnn.cli.app import app
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig, option_name, recipe_names
from lightrnn.errors import LightRNNError

SECTIONS = (ModelConfig, TrainingConfig, BootstrapConfig)
SOURCE = Path(lightrnn.__file__).parent
# Data flows one way; a module may import from those to its left only.
ORDER = [
    *(
        "errors",
        "border",
        "files",
        "text.rules",
        "text.presets",
        "text.vocabulary",
        "text.corpus",
        "table.word_table",
        "config",
        "models.lightrnn",
        "models.tensors",
        "text.windows",
    ),
    *(
        "models.characters",
        "models.outputs",
        "models.registry",
        "ngram.model",
        "ngram.kneser_ney",
        "ngram.arpa",
        "ngram.kenlm",
    ),
    *(
        "inference.evaluation",
        "training.row_adam",
        "training.trainer",
        "table.transport",
        "table.allocation",
        "table.matching",
        "table.clustering",
        "table.bigrams",
    ),
    *(
        "training.word_sums",
        "training.refinement",
        "models.checkpoint",
        "training.tensorboard",
        "training.bootstrap",
        "models.sizes",
        "inference.steps",
        "inference.predict",
        "inference.generate",
        "inference.lm",
    ),
    *(
        "inference.mixture",
        "inference.loading",
        "inference.scoring",
        "inference.rescoring",
        "table.coherence",
        "table.explorer",
        "training.figures",
        "compare.grid",
        "compare.runs",
    ),
    *("compare.tables", "cli"),
]


def imported(path: Path) -> set[str]:
    """The lightrnn modules that a file imports, by their dotted names."""
    names = set()
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) + 1 - node.level] + tuple(node.module.split(".") if node.module else ())
            inner = [(*base, alias.name) for alias in node.names]
            names |= {".".join(parts if is_module(parts) else base) for parts in inner}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert module is None or not module.startswith("lightrnn"), f"{path}: import relatively"
    return names - {""}


def is_module(parts: tuple[str, ...]) -> bool:
    return SOURCE.joinpath(*parts).with_suffix(".py").exists() or SOURCE.joinpath(*parts, "__init__.py").exists()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    if name.endswith("__init__") or name.startswith("cli") or name == "__main__":
        return
    assert name in ORDER, f"{name} has no place in ORDER yet"
    later = {other for other in imported(path) if ORDER.index(other) > ORDER.index(name)}
    assert not later, f"{name} imports {later}, which come after it"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_is_pickled_evaluated_or_printed(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    attributes = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not called & {"eval", "exec", "print", "compile"}
    assert not attributes & {"torch.load", "torch.save", "np.save"}
    assert not modules & {"pickle", "shelve", "marshal"}


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


@pytest.mark.parametrize("section", SECTIONS)
def test_errors_name_field_option_rule_and_value(section: type) -> None:
    for declared in fields(section):
        with pytest.raises(LightRNNError) as caught:
            section(**{declared.name: []})
        message = str(caught.value)
        assert message.startswith(f"{declared.name} ({option_name(declared.name)}) must be ")
        assert message.endswith("got []")
