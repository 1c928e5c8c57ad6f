"""Rules of the house that no linter knows: imports point one way, nothing is pickled, recipes and options agree."""

import ast
import re
from pathlib import Path

import pytest

import lightrnn
from lightrnn.registry import KINDS

SOURCE = Path(lightrnn.__file__).parent


# Folders are rooms; data flows one way, and a module may import from its own room and those to the left only.
ROOMS = ("base", "text", "table", "nn", "models", "ngram", "packed", "inference", "training", "compare", "cli")
WITHOUT_TORCH = ("base", "text", "table", "ngram", "packed")  # inside a function `import torch` is allowed
Sources = dict[str, str]  # dotted module name below lightrnn → its text


def sources() -> Sources:
    paths = {".".join(p.relative_to(SOURCE).with_suffix("").parts): p for p in SOURCE.rglob("*.py")}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def room_of(module: str) -> str:
    """The folder that a module lies in; what lies outside of all is the base, but for the front door."""
    return module.split(".", maxsplit=1)[0] if module.split(".", maxsplit=1)[0] in ROOMS else "base"


def imports(name: str, known: Sources, *, at_run_time: bool = False) -> set[str]:
    """The lightrnn modules that a module imports; without those that only a type checker sees, if asked for."""
    tree = ast.parse(known[name])
    package = name.split(".")[:-1]
    hidden = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level or (at_run_time and node in hidden):
            continue
        base = [*package[: len(package) + 1 - node.level], *(node.module.split(".") if node.module else ())]
        for alias in node.names:
            inner = ".".join([*base, alias.name])
            found.add(inner if inner in known or f"{inner}.__init__" in known else ".".join(base))
    return found - {""}


def wrong_ways(known: Sources) -> list[str]:
    """Imports that point to a later room, or in a circle."""
    wrong = []
    for name in known:
        if name in {"__init__", "__main__"}:
            continue
        here = ROOMS.index(room_of(name))
        wrong += [f"{name} → {other}" for other in imports(name, known) if ROOMS.index(room_of(other)) > here]
    state: dict[str, bool] = {}  # False while a module's imports are followed, True when they are done

    def follow(name: str) -> None:
        state[name] = False
        for other in sorted(imports(name, known, at_run_time=True) & set(known)):
            if state.get(other) is False:
                wrong.append(f"{name} ↺ {other}")
            elif other not in state:
                follow(other)
        state[name] = True

    for name in known:
        if name not in state and name != "__init__":
            follow(name)
    return wrong


def test_imports_point_one_way() -> None:
    assert wrong_ways(sources()) == []


@pytest.mark.parametrize(
    ("module", "line", "told"),
    [
        ("table.transport", "from ..models.base import State", "table.transport → models.base"),
        ("errors", "from .text import rules", "errors → text.rules"),
        ("text.rules", "if True:\n    from .. import training", "text.rules → training"),
        ("table.word_table", "def f():\n    from .matching import exact", "↺"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_seen(module: str, line: str, told: str) -> None:
    known = sources()
    known[module] += f"\n{line}\n"
    assert any(told in found for found in wrong_ways(known))


def test_packages_are_imported_relatively_and_by_module() -> None:
    for name, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                assert not any(module.split(".")[0] == "lightrnn" for module in modules), name


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_rooms_without_pytorch(room: str) -> None:
    for name, text in sources().items():
        if room_of(name) == room:
            top = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
            assert not any("torch" in ast.unparse(node).split()[1].split(".") for node in top), name


def test_no_kind_of_model_is_told_by_name_outside_the_registry() -> None:
    """Neither compared by name nor by class: `registry.KINDS` and the record of a kind answer."""
    for name, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Compare) and name != "registry":
                constants = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                assert not set(KINDS) & {value for value in constants if isinstance(value, str)}, ast.unparse(node)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                assert not re.search(r"\b(LightRNN|WordModel|NGram|KenLM|RecurrentModel)\b", ast.unparse(node)), name


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
    if inner and inner[-1] in FORBIDDEN_FUNCTIONS.get(package, set()) | {"read_pickle", "to_pickle"}:
        return [name]
    if inner[-1:] == ["import_module"]:
        if ast.unparse(call).endswith("__package__)") and ast.unparse(call.args[0]).startswith("f'."):
            return []  # one of our own modules
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
        "import importlib\nimportlib.import_module(f'.{name}', __package__)",
    ],
)
def test_the_rule_leaves_the_rest_alone(source: str) -> None:
    assert breaches(source) == []
