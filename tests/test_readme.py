"""The README runs as written: its shell commands and its Python, in the order in which a reader meets them."""

import contextlib
import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from helpers import ROOT, made_up_text, printed, run_apart, run_here
from lightrnn import load

README = (ROOT / "README.md").read_text(encoding="utf-8")
# What a test cannot do again is not run as a command: these set up the environment that the test already runs in.
SET_UP = {"make demo", 'pip install -c constraints.txt -e ".[train]"'}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def run(folder: Path, *command: str) -> str:
    """A program that is not ours."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who has the three texts and the n-best lists that the README speaks of."""
    folder = tmp_path_factory.mktemp("reader")
    for split, words in (("train", 6000), ("valid", 800), ("test", 800)):
        (folder / f"{split}.txt").write_text(made_up_text(words, 80, seed=len(split)), encoding="utf-8")
    (folder / "lists.tsv").write_text("one\t-2\tw1 w2\none\t-3\tw1 w3\ntwo\t-1\tw5\n", encoding="utf-8")
    return folder


def test_commands_and_python_in_order(reader: Path) -> None:
    lines = list(itertools.chain(*(block.strip().splitlines() for block in blocks("sh"))))
    assert set(lines) > SET_UP
    commands = [shlex.split(line) for line in lines if line not in SET_UP]
    assert {program for program, *_ in commands} == {"lightrnn"}
    with contextlib.chdir(reader):
        ran = [printed(run_here(*arguments)) for _, *arguments in commands]
    assert len(ran) == len(lines) - len(SET_UP) >= 8  # it shows as many at least
    assert "perplexity" in ran[2]
    for block in blocks("python"):
        if "flashlight" in block:
            continue
        shown = printed(run_apart(script=block, folder=reader))
        assert float(shown.splitlines()[-1]) < 80  # the last figure is a perplexity, of a text of 80 words


def test_the_decoder_hears_what_was_said(reader: Path) -> None:
    pytest.importorskip("flashlight.lib.text", reason="flashlight-text is not installed")
    if not (reader / "model").exists():
        with contextlib.chdir(reader):
            printed(run_here("train", "train.txt", "-o", "model", "--epochs", "1", "--hidden-size", "8"))
    (passage,) = (block for block in blocks("python") if "flashlight" in block)
    words = load(reader / "model").vocabulary.words
    said = [word for word in words if not word.startswith("<")][:3]
    assert printed(run_apart(script=passage, folder=reader)) == f"{said}\n"


def test_the_table_lists_every_command_and_the_tree_every_module() -> None:
    from lightrnn.cli.app import app

    listed = set(re.findall(r"^\| `lightrnn (\w+)", README, flags=re.MULTILINE))
    assert listed == {command.name for command in app.registered_commands}
    tree = README.split("## What is where")[1]
    package = ROOT / "src" / "lightrnn"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    modules = {path.name for path in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert rooms | modules <= set(re.findall(r"[\w-]+(?:\.py|/)", tree))


def test_the_order_is_what_command_output_commands_tree() -> None:
    marks = ["Word-level language models", "make demo", "```text", "| command |", "## What is where"]
    places = [README.index(mark) for mark in marks]
    assert places == sorted(places)


def test_the_output_is_the_demos_and_the_links_lead_somewhere() -> None:
    for number, heading in enumerate(
        ("Prepare", "Train", "What it is worth", "What comes next", "Sampled", "Some rows"), 1
    ):
        assert f"\n{number}. {heading}" in "\n" + blocks("text")[0]
    assert "<unk>" not in blocks("text")[0]
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_a_short_demo_shows_all_that_it_promises(tmp_path: Path) -> None:
    shown = printed(run_apart("demo", "--minutes", "0.02", "--threads", "1", "-o", "shown", folder=tmp_path))
    for number in range(1, 7):
        assert re.search(rf"^{number}\. ", shown, flags=re.MULTILINE)
    for word in ("unigram", "LightRNN", "conventional", "share a row"):
        assert word in shown
    assert "<unk>" not in shown
    assert (tmp_path / "shown" / "model" / "weights.safetensors").exists()


@pytest.mark.slow
def test_make_demo_in_a_fresh_clone(tmp_path: Path) -> None:
    run(tmp_path, "git", "clone", "--quiet", str(ROOT), "clone")
    shown = run(tmp_path / "clone", "make", "demo")
    unigram, light = (
        float(re.search(rf"^{name}\s+([\d.]+)", shown, re.MULTILINE)[1]) for name in ("unigram", "LightRNN")
    )
    assert light < 0.6 * unigram  # what a minute of training is worth at least
