"""lightrnn pack, and the commands that take what it makes: the folder's answers, without PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT, SMALL, Call, Refusal, World, printed, refused, run_apart
from lightrnn.text.corpus import Corpus


@pytest.fixture(scope="module")
def folder(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with words alone, packed whole and in int8, and n-best lists."""
    from helpers import run_here

    folder = tmp_path_factory.mktemp("packed")
    printed(run_here("train", tiny.path, "-o", folder / "model", "--alone", "9", "--tied", *SMALL))
    for precision in ("float32", "int8"):
        printed(run_here("pack", folder / "model", "-o", folder / f"{precision}.lightrnn", "--precision", precision))
    (folder / "lists.tsv").write_text("one\t-2\tw1 w2\none\t-3\tw1 w3\ntwo\t-1\tw5\n", encoding="utf-8")
    return folder


def asked(model: Path, tiny: Corpus, lists: Path) -> list[tuple[object, ...]]:
    """Every command that takes a packed file."""
    return [
        ("next", model, "w1 w2", "--json"),
        ("next", model, "w1", "--prefix", "w2", "--json"),
        ("generate", model, "--prompt", "w1", "-n", "9", "--seed", "1"),
        ("generate", model, "--beam", "3", "-n", "9"),
        ("score", model, tiny.path / "vocab.tsv", "--format", "jsonl"),
        ("score", model, tiny.path / "vocab.tsv", "--convention", "stream"),
        ("rescore", model, lists),
        ("evaluate", model, tiny.path, "--json"),
        ("evaluate", model, tiny.path / "vocab.tsv", "--convention", "sentence", "--json"),
        ("info", model),
        ("mix", model, model, "--tune", tiny.path, "--json"),
    ]


def numbers(text: str) -> list[float]:
    """All figures of some output, but for speeds and times, which no two runs share."""
    lines = [line for line in text.splitlines() if "words" not in line and "seconds" not in line]
    parts = " ".join(lines).replace(",", " ").replace(":", " ").replace('"', " ").split()
    return [float(part) for part in parts if part.lstrip("-").replace(".", "", 1).replace("e-", "", 1).isdigit()]


def test_every_command_gives_the_folders_answers(call: Call, folder: Path, tiny: Corpus) -> None:
    for index, arguments in enumerate(asked(folder / "model", tiny, folder / "lists.tsv")):
        if arguments[0] == "info":
            continue
        ours = printed(call(*asked(folder / "float32.lightrnn", tiny, folder / "lists.tsv")[index]))
        expected = printed(call(*arguments))
        assert numbers(ours) == pytest.approx(numbers(expected), rel=1e-4, abs=1e-4), arguments[0]
        assert [len(line.split()) for line in ours.splitlines()] == [
            len(line.split()) for line in expected.splitlines()
        ]


SCRIPT = """
import json, sys
from lightrnn.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["lightrnn", *arguments]
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code, arguments
print([name for name in ("torch", "scipy", "numba", "safetensors") if name in sys.modules], file=sys.stderr)
"""


def test_a_packed_file_needs_no_pytorch(folder: Path, tiny: Corpus) -> None:
    arguments = asked(folder / "int8.lightrnn", tiny, folder / "lists.tsv")
    listed = json.dumps([[str(argument) for argument in one] for one in arguments])
    result = run_apart(listed, script=SCRIPT)
    assert result.code == 0, result.err
    assert result.err.splitlines()[-1] == "[]"


def test_info_tells_what_is_in_the_file(call: Call, folder: Path) -> None:
    ours, its = (json.loads(printed(call("info", folder / name, "--json"))) for name in ("int8.lightrnn", "model"))
    sizes = ours.pop("files")
    its.pop("files")
    assert ours == its
    assert sum(sizes.values()) == (folder / "int8.lightrnn").stat().st_size
    assert "weights in int8" in printed(call("info", folder / "int8.lightrnn"))


def test_info_of_packed_ngrams(call: Call, tiny: Corpus) -> None:
    made = json.loads(printed(call("ngram", tiny.path, "-o", "kn.lightrnn", "--order", "2", "--json")))
    told = json.loads(printed(call("info", "kn.lightrnn", "--json")))
    assert told["ngrams"] == made["ngrams"]
    assert sum(told["files"].values()) == Path("kn.lightrnn").stat().st_size
    assert "up to order 2" in printed(call("info", "kn.lightrnn"))


def test_what_was_made_is_told(call: Call, folder: Path, tmp_path: Path) -> None:
    told = json.loads(printed(call("pack", folder / "model", "-o", "m.lightrnn", "--json")))
    assert told["bytes"] == (tmp_path / "m.lightrnn").stat().st_size == sum(told["parts"].values())
    assert (tmp_path / "m.lightrnn").read_bytes() == (folder / "int8.lightrnn").read_bytes()
    assert told["source"] == sum(
        (folder / "model" / name).stat().st_size for name in ("weights.safetensors", "table.tsv", "vocab.tsv")
    )
    assert "weights" in printed(call("pack", folder / "model", "-o", "m.lightrnn", "--force"))
    printed(call("pack", folder / "float32.lightrnn", "-o", "again.lightrnn"))
    assert (tmp_path / "again.lightrnn").read_bytes() == (folder / "int8.lightrnn").read_bytes()


def test_what_cannot_be_packed_is_told(refuse: Refusal, world: World) -> None:
    assert "kind hsm, which cannot be packed" in refuse("pack", world.opponent, "-o", "m.lightrnn")
    assert "must end in .lightrnn" in refuse("pack", world.model, "-o", "m.zip")
    assert "--precision must be one of" in refuse("pack", world.model, "-o", "m.lightrnn", "--precision", "int4")
    assert "model folder" in refuse("pack", world.data, "-o", "m.lightrnn")
    assert "does not exist" in refuse("pack", world.model, "-o", "nowhere/m.lightrnn")
    assert "no packed model" in refuse("pack", world.train, "-o", "m.lightrnn")


def test_an_existing_file_is_kept(call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m.lightrnn").write_bytes(b"mine")
    assert "--force" in refused(call("pack", folder / "model", "-o", "m.lightrnn"))
    assert (tmp_path / "m.lightrnn").read_bytes() == b"mine"


def test_data_of_other_words_is_refused(refuse: Refusal, folder: Path, world: World) -> None:
    assert "another vocabulary" in refuse("evaluate", folder / "int8.lightrnn", world.other_data)


@pytest.mark.parametrize("command", ["train", "next"])
def test_without_its_packages_training_names_the_extra(command: str, world: World, tmp_path: Path) -> None:
    hidden = "import sys\nsys.modules |= dict.fromkeys(('torch', 'scipy', 'numba', 'safetensors'))\n"
    arguments = {"train": ("train", world.data, "-o", tmp_path / "m"), "next": ("next", world.model, "w1")}[command]
    result = run_apart(*arguments, script=f"{hidden}from lightrnn.cli import main\nmain()")
    assert "pip install 'lightrnn[train]'" in refused(result)


def test_without_pytorch_learning_names_the_extra(folder: Path) -> None:
    script = f"""
import sys
sys.modules["torch"] = None
import lightrnn
lm = lightrnn.load({str(folder / "int8.lightrnn")!r})
try:
    lm.adapt("w1 w2")
except lightrnn.LightRNNError as error:
    print(error, lm.score("w1 w2"))
"""
    assert "pip install 'lightrnn[train]'" in run_apart(script=script).out


@pytest.mark.slow
def test_the_wheel_alone_answers(folder: Path, tmp_path: Path) -> None:
    """Built, and installed with what it requires into a fresh environment."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", tmp_path, ROOT], capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"no wheel can be built here: {built.stderr.strip().splitlines()[-1:]}")
    (wheel,) = tmp_path.glob("lightrnn-*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    python = tmp_path / "fresh" / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-q",
        "install",
        "-c",
        ROOT / "constraints.txt",
        wheel,
    ]
    installed = subprocess.run(install, capture_output=True, text=True, check=False, env=environment)
    if installed.returncode:
        pytest.skip(f"no index can be reached here: {installed.stderr.strip().splitlines()[-1:]}")

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [python, "-m", "lightrnn", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)

    answered = run("next", folder / "int8.lightrnn", "w1 w2")
    assert answered.returncode == 0, answered.stderr
    assert len(answered.stdout.splitlines()) == 10
    assert run("evaluate", folder / "int8.lightrnn", ROOT / "README.md").returncode == 0
    told = run("train", ROOT / "README.md", "-o", "model")
    assert (told.returncode, "pip install 'lightrnn[train]'" in told.stderr) == (2, True)
    listed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True, env=environment)
    assert "torch" not in listed.stdout
