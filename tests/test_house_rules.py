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
        "files",
        "text.rules",
        "text.presets",
        "text.vocabulary",
        "text.corpus",
        "table.word_table",
        "config",
        "models.lightrnn",
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


FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "pickletools", "copyreg", "shelve", "marshal"}
FORBIDDEN_MODULES |= {"dill", "joblib", "cloudpickle", "jsonpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "print", "compile", "__import__"}
FORBIDDEN_FUNCTIONS = {  # by module: what reads or writes pickles, or runs what it reads
    "torch": {"load", "save"},
    "numpy": {"save", "savez", "savez_compressed"},
    "yaml": {"load", "load_all", "full_load", "unsafe_load", "unsafe_load_all"},
    "pandas": {"read_pickle", "to_pickle"},
}


def breaches(source: str) -> list[str]:
    """What in some Python could pickle, unpickle, evaluate or print."""
    tree, found = ast.parse(source), []
    aliases: dict[str, str] = {"np": "numpy", "pd": "pandas"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = {alias.name for alias in node.names}
            package = node.module.split(".")[0]
            found += [node.module] if package in FORBIDDEN_MODULES or "pickle" in names else []
            found += [f"{package}.{name}" for name in names & FORBIDDEN_FUNCTIONS.get(package, set())]
            aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += _breaches_of_call(node, aliases)
    return found


def _breaches_of_call(call: ast.Call, aliases: dict[str, str]) -> list[str]:
    name = ast.unparse(call.func)
    first, *rest = name.split(".")
    package, *inner = ".".join([aliases.get(first, first), *rest]).split(".")
    arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if name in FORBIDDEN_CALLS or (package == "builtins" and inner[0] in FORBIDDEN_CALLS):
        return [name]
    if arguments.get("allow_pickle", "False") != "False":
        return [f"{name} with allow_pickle"]
    if inner and inner[-1] in FORBIDDEN_FUNCTIONS.get(package, set()):
        return [name]
    if inner and inner[-1] in {"read_pickle", "to_pickle"}:
        return [name]
    if inner[-1:] == ["import_module"]:
        named = [argument.value if isinstance(argument, ast.Constant) else "?" for argument in call.args]
        return [f"{name}({m})" for m in named if str(m).split(".")[0] in FORBIDDEN_MODULES | {"?"}]
    return []


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_is_pickled_evaluated_or_printed(path: Path) -> None:
    assert breaches(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, pickle as p",
        "from pickle import loads",
        "from pickle import loads as json",
        "def f():\n    import _pickle",
        "from multiprocessing.reduction import pickle",
        'importlib.import_module("pickle")',
        'from importlib import import_module\nimport_module("dill.source")',
        "import importlib as i\ni.import_module(name)",
        '__import__("pickle")',
        "import builtins\nbuiltins.eval(text)",
        "import dill",
        "from joblib import dump",
        "import cloudpickle",
        "import shelve",
        "import marshal",
        "np.load(path, allow_pickle=True)",
        "numpy.load(path, allow_pickle=flag)",
        "from numpy import load\nload(path, allow_pickle=1)",
        "np.save(path, array)",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "torch.serialization.save(x, path)",
        "import torch as t\nt.save(x, path)",
        "from torch import load",
        "import yaml\nyaml.load(text)",
        "from yaml import unsafe_load",
        "import pandas as pd\npd.read_pickle(path)",
        "pandas.read_pickle(path)",
        "frame.to_pickle(path)",
        "eval(text)",
        "print(text)",
    ],
)
def test_the_rule_sees_what_it_forbids(source: str) -> None:
    assert breaches(source)


@pytest.mark.parametrize(
    "source",
    [
        'np.load(path, mmap_mode="r")',
        "np.load(path, allow_pickle=False)",
        "import safetensors.torch\nsafetensors.torch.load(data)",
        "json.load(file)",
        "from json import load, dumps\nload(file)",
        "yaml.safe_load(text)",
        "Corpus.load(path).save(path)",
        'from importlib.util import find_spec\nfind_spec("matplotlib")',
        "from . import loading\nloading.load(path)",
        "console.print(text)",
        "re.compile(text)",
    ],
)
def test_the_rule_leaves_the_rest_alone(source: str) -> None:
    assert breaches(source) == []


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
