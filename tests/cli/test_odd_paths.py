"""Paths that nobody expects: one sentence or the work done, never a traceback. Terminals that know ASCII only."""

import contextlib
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers import NOT_UTF8, Call, made_up_text, printed, refused, run_apart, run_here
from lightrnn.text.corpus import Corpus

NAMES = {
    "too long": "x" * 300,
    "too deep": "/".join(["d" * 200] * 30),
    "not UTF-8": NOT_UTF8,
    "dash": "-o",
    "newline": "a\nb",
    "spaces": " a  b ",
    "markup": "[bold]x[/bold]",
    "broken markup": "[/nope]",
    "emoji": ":smile:",
    "escape": "a\x1b[31mb",
    "glob": "*[a",
}
SMALL = ("--epochs", "0.05", "--hidden-size", "4", "--batch-size", "4", "--window", "10", "--threads", "1")
NEW = ("-o", "new", "--force")
MISSING: dict[str, tuple[str, ...]] = {  # PATH is what does not exist
    "info": ("info", "--", "PATH"),
    "table": ("table", "--", "PATH"),
    "table --data": ("table", "model", "--data=PATH"),
    "table --word": ("table", "model", "--word=PATH"),
    "vectors": ("vectors", *NEW, "--", "PATH"),
    "evaluate MODEL": ("evaluate", "--", "PATH", "data"),
    "evaluate TEXT": ("evaluate", "--", "model", "PATH"),
    "score MODEL": ("score", "--", "PATH"),
    "score FILE": ("score", "--", "model", "PATH"),
    "score --format": ("score", "model", "--format=PATH"),
    "rescore": ("rescore", "--", "model", "PATH"),
    "next": ("next", "--", "PATH"),
    "generate": ("generate", "--", "PATH"),
    "ngram": ("ngram", "-o", "new.arpa", "--", "PATH"),
    "mix": ("mix", "--tune", "data", "--", "model", "PATH"),
    "mix --tune": ("mix", "model", "model", "--tune=PATH"),
    "prepare": ("prepare", *NEW, "--", "PATH"),
    "prepare --valid": ("prepare", "text", "--valid=PATH", *NEW),
    "prepare --vocab": ("prepare", "text", "--vocab=PATH", *NEW),
    "prepare --preset": ("prepare", "text", "--preset=PATH", *NEW),
    "train": ("train", *NEW, "--", "PATH"),
    "train --valid": ("train", "text", "--valid=PATH", *NEW),
    "train --table": ("train", "data", "--table=PATH", *NEW),
    "train --init": ("train", "data", "--init=PATH", *NEW),
    "train --recipe": ("train", "data", "--recipe=PATH", *NEW),
    "train --recipe file": ("train", "data", "--recipe=PATH.toml", *NEW),
    "train --resume": ("train", "data", "--out=PATH", "--resume"),
    "reallocate MODEL": ("reallocate", *NEW, "--", "PATH", "data"),
    "reallocate DATA": ("reallocate", *NEW, "--", "model", "PATH"),
    "compare": ("compare", "-o", "new", "--", "PATH"),
    "compare file": ("compare", "-o", "new", "--", "PATH.toml"),
    "no command": ("PATH",),
}


@pytest.fixture(scope="module")
def world(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, its data, a model and a grid."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "text").write_text(made_up_text(300, 20, seed=1), encoding="utf-8")
    shutil.copytree(tiny.path, folder / "data")
    with contextlib.chdir(folder):  # so that the model names its data as tests will
        printed(run_here("train", "data", "-o", "model", *SMALL))
    (folder / "grid.toml").write_text(
        'epochs = 0.05\nshared = { hidden_size = 4, batch_size = 4, window = 10 }\nmodel = [{ name = "A" }]\n'
        'corpus = [{ name = "t", data = "data" }]\n',
        encoding="utf-8",
    )
    return folder


@pytest.fixture
def here(world: Path, tmp_path: Path) -> Path:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("case", MISSING)
def test_a_path_that_does_not_exist_is_told_in_one_line(call: Call, here: Path, case: str) -> None:
    for name in NAMES.values():
        result = call(*(argument.replace("PATH", name) for argument in MISSING[case]))
        assert refused(result, notes=case.startswith("train"))
        assert result.out == ""
        assert "\x1b" not in result.err


@pytest.mark.parametrize("kind", ["not UTF-8", "dash", "newline", "spaces", "markup", "broken markup"])
def test_everything_works_in_a_place_with_an_odd_name(call: Call, here: Path, kind: str) -> None:
    name = NAMES[kind]
    (here / name).mkdir(parents=True)
    for sound in ("data", "model", "text"):
        (here / sound).rename(here / name / sound)

    def does(*arguments: str) -> str:
        return printed(call(*(argument.replace("PATH", name) for argument in arguments)))

    does("prepare", "--out=PATH/prepared", "--", "PATH/text")
    does("evaluate", "--", "PATH/model", "PATH/text")
    does("score", "--format", "jsonl", "--", "PATH/model", "PATH/text")
    does("table", "--html=PATH/page.html", "--", "PATH/model")
    does("vectors", "--out=PATH/vectors", "--", "PATH/model")
    does("ngram", "--out=PATH/lm.arpa", "--order", "2", "--json", "--", "PATH/data")
    shutil.copy(here / name / "lm.arpa", here / name / "lm.kenlm")
    members = ["PATH/model", "PATH/lm.arpa", *(["PATH/lm.kenlm"] if find_spec("kenlm") else [])]
    shown = does("mix", "--tune=PATH/data", "--out=PATH/mixed", "--", *members)
    assert "markup" not in kind or f"{name}/lm.arpa" in shown
    does("next", "--", "PATH/mixed", "w1")
    does("train", "--out=PATH/model", "--resume", "--epochs", "0.1", "--threads", "1", "--", "PATH/data")
    does("reallocate", "--out=PATH/moved", "--threads", "1", "--", "PATH/model", "PATH/data")
    shutil.copytree(here / name / "data", here / "data")
    does("mix", "--tune=data", "--", "PATH/model", "PATH/model")
    does("compare", "grid.toml", "--out=PATH/results", "--no-plots", "--threads", "1")
    assert (here / name / "results" / "tables.md").read_text(encoding="utf-8").startswith("# Comparison")


@pytest.mark.parametrize("command", ["next", "generate"])
def test_words_that_are_not_text(call: Call, here: Path, command: str) -> None:
    context = NAMES["not UTF-8"]
    arguments = ("next", "model", context) if command == "next" else ("generate", "model", f"--prompt={context}")
    told = refused(call(*arguments))
    assert told == "error: 'caf\\udce9' holds bytes that are not UTF-8; give text in UTF-8"


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.mark.parametrize("environment", ASCII, ids=["PYTHONIOENCODING=ascii", "LC_ALL=C"])
def test_a_terminal_that_knows_ascii_only(here: Path, environment: dict[str, str]) -> None:
    (here / "naïve").write_text("naïve … café\nnaïve √ café\n" * 20, encoding="utf-8")
    script = f"""
import sys
from lightrnn.cli import main
small = {SMALL!r}
for arguments in (["--help"], ["train", "--help"], ["train", "na\\udcc3\\udcafve", "-o", "m", "--alone", "0", *small],
                  ["info", "m"], ["table", "m"], ["table", "m", "--json"], ["next", "m", "na\\udcc3\\udcafve"],
                  ["info", "sm\\xf8r"]):
    sys.argv = ["lightrnn", *arguments]
    try:
        main()
    except SystemExit as stopped:
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\\n== %d\\n" % (stopped.code or 0))
        sys.stdout.flush()
"""
    shown = run_apart(script=script, folder=here, environment=environment)
    assert "Traceback" not in shown.err, shown.err
    *parts, rest = shown.out.split("\n== ")
    assert [part[0] for part in parts[1:]] + [rest[0]] == list("00000002"), shown.err
    assert "sqrt V" in parts[0]
    words = [word for line in json.loads(parts[5][1:])["shown"] for word in line["words"]]
    assert {"naïve", "café", "…", "√"} <= set(words)
    assert "caf\\xe9" in parts[4]
    for part in parts[:6]:
        assert part.isascii()
    assert "naïve" in parts[6]  # for other programs: UTF-8 always
