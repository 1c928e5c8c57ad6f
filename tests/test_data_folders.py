"""Data folders: what they are, whether they are whole, and what happens when they change under a run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lightrnn
from conftest import Call, corpus_folder, made_up_text
from lightrnn import files
from lightrnn.compare.grid import Grid
from lightrnn.compare.runs import Comparison
from lightrnn.errors import LightRNNError
from lightrnn.text import corpus as corpora
from lightrnn.text.corpus import SPLITS, Corpus, is_data_folder, prepare
from lightrnn.text.presets import PRESETS
from lightrnn.text.rules import TextRules

BEFORE = Path(__file__).parent / "golden" / "before" / "data"  # by version 0.1.0
TRAINING = ("--hidden-size", "8", "--batch-size", "4", "--window", "10", "--threads", "1", "--refine", "none")


@pytest.fixture
def data(tiny: Corpus, tmp_path: Path) -> Path:
    """A copy, to damage."""
    return Path(shutil.copytree(tiny.path, tmp_path / "data"))


def flip(path: Path, offset: int = -4) -> None:
    """Change one bit of an id, and leave all ids within the vocabulary."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


# --- what a data folder is


def test_what_a_data_folder_is(tiny: Corpus, tmp_path: Path) -> None:
    assert is_data_folder(tiny.path)
    assert is_data_folder(str(tiny.path))
    assert not is_data_folder(tmp_path)
    assert not is_data_folder(tmp_path / "nowhere")
    assert not is_data_folder(tiny.path / "data.json")


def test_folders_of_version_0_1_0(call: Call) -> None:
    corpus = Corpus.load(BEFORE)
    assert [corpus.info["splits"][name]["words"] for name in SPLITS] == [514, 95, 187]
    assert not any("types" in facts for facts in corpus.info["splits"].values())
    assert prepared_words(call) > 0


def prepared_words(call: Call) -> int:
    """What `prepare --json` calls the number of different words."""
    Path("t").write_text("a b\n" * 50, encoding="utf-8")
    facts = json.loads(call("prepare", "t", "--valid", "t", "-o", "out", "--json").out)["splits"]["train"]
    assert "types" not in facts
    return int(facts["words"])


# --- digests


@pytest.mark.parametrize("convention", ["stream", "sentence"])
def test_old_digests_are_recognised(tmp_path: Path, convention: str) -> None:
    (tmp_path / "t").write_text("a b\nc\n" * 50, encoding="utf-8")
    (tmp_path / "v").write_text("a\n", encoding="utf-8")
    text, rules = tmp_path / "t", TextRules(convention=convention)
    corpus = prepare(text, tmp_path / "d", valid=tmp_path / "v", test=text, rules=rules)
    train, valid, test = (corpus.info["splits"][name]["sha256"] for name in SPLITS)
    words = corpus.vocabulary.digest
    in_training = f"{convention} {words} {train} {valid}"
    in_cells = f"{words} {train} {valid} {test}" + " sentence" * (convention == "sentence")
    assert corpus.has_digest(in_training, "train", "valid")
    assert corpus.has_digest(in_cells, *SPLITS)
    assert corpus.has_digest(corpus.digest(*SPLITS), *SPLITS)
    for other in (
        in_cells.replace(train, valid),
        f"{words} {valid} {train} {test}",
        f"{in_cells} sentence" if convention == "stream" else in_cells.removesuffix(" sentence"),
        "",
    ):
        assert not corpus.has_digest(other, *SPLITS)
    with pytest.raises(LightRNNError, match="has no nonsense split"):
        corpus.digest("nonsense")


def test_cells_that_the_repository_ships_are_recognised(tmp_path: Path) -> None:
    corpus = prepare(corpus_folder("ptb"), tmp_path / "data", preset="ptb")
    results = Path(__file__).parent.parent / "docs" / "results"
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("*/runs/*.json")]
    assert {run["corpus"] for run in runs if corpus.has_digest(run["data"], *SPLITS)} == {"ptb"}


# --- damage


@pytest.mark.parametrize("split", SPLITS)
def test_a_flipped_bit_is_found(call: Call, data: Path, split: str) -> None:
    flip(data / f"{split}.npy")
    result = call("train", data, "-o", "model", *TRAINING)
    assert result.code == 2
    assert result.err == (
        f"error: {data / split}.npy is damaged: its SHA-256 is not the one in data.json; prepare the text again\n"
    )
    assert not Path("model").exists()


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Small files are remembered too, in a cache of the test; the files that were read through to be hashed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "REMEMBERED_BYTES", 0)
    hashed: list[Path] = []
    hash_file = files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: (hashed.append(path), hash_file(path))[1])
    return hashed


def test_a_file_is_hashed_once_for_each_change(
    data: Path, remembering: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    Corpus.load(data)
    Corpus.load(data)
    assert len(remembering) == 6  # too new to be remembered
    remembering.clear()
    clock = files.time.time
    monkeypatch.setattr(files.time, "time", lambda: clock() + 100)
    Corpus.load(data)
    Corpus.load(data)
    assert len(remembering) == 3
    times = (data / "train.npy").stat()
    flip(data / "train.npy")
    os.utime(data / "train.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(LightRNNError, match=r"train\.npy is damaged"):
            Corpus.load(data)
    flip(data / "train.npy")
    Corpus.load(data)


def test_a_cache_that_cannot_be_written_is_done_without(
    data: Path, remembering: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.time, "time", lambda: 1e12)
    (tmp_path / "cache").write_text("no folder")
    Corpus.load(data)
    Corpus.load(data)
    assert len(remembering) == 6


def test_data_json_without_what_is_needed(data: Path) -> None:
    info = json.loads((data / "data.json").read_text())
    for damage in ({"train": None}, {"train": {}}, {"train": info["splits"]["train"] | {"sha256": 7}}):
        (data / "data.json").write_text(json.dumps(info | {"splits": damage}))
        with pytest.raises(LightRNNError, match=str(data)):
            Corpus.load(data)


# --- folders that change under a run


def test_a_file_that_shrinks(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "MAPPED_BYTES", 0)
    corpus = Corpus.load(data)
    corpus.check()
    os.truncate(data / "train.npy", 4096)
    with pytest.raises(LightRNNError, match=r"train\.npy was cut to 4,096 bytes while it was being read"):
        corpus.check()


SHRINK = """
import os, sys
from pathlib import Path
import lightrnn
from lightrnn.text import corpus as corpora
from lightrnn.training import bootstrap
corpora.MAPPED_BYTES = 0
data, when = Path(sys.argv[1]), sys.argv[2]
corpus = lightrnn.Corpus.load(data)
def report(run, event):
    if type(event).__name__ == when:
        os.truncate(data / "train.npy", 128)
def progress(what, done=0, total=0):
    if when in what:
        os.truncate(data / "train.npy", 128)
recipe = lightrnn.Recipe.load("small").override(
    {"hidden_size": 8, "batch_size": 4, "window": 10, "epochs": 3, "rounds": 1, "refine": "matching", "start": "random"}
)
try:
    bootstrap.train(corpus, recipe, data.parent / "model", report=report, progress=progress)
except lightrnn.LightRNNError as error:
    print(error)
"""


@pytest.mark.parametrize("when", ["Batch", "reading words"])
def test_a_file_that_shrinks_under_training_is_no_bus_error(tmp_path: Path, when: str) -> None:
    (tmp_path / "t").write_text(made_up_text(4000, 60, seed=1), encoding="utf-8")
    prepare(tmp_path / "t", tmp_path / "data", valid=tmp_path / "t")
    done = subprocess.run(
        [sys.executable, "-c", SHRINK, str(tmp_path / "data"), when], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "train.npy was cut to 128 bytes while it was being read" in done.stdout


def test_a_folder_that_goes_away_is_told_once(call: Call, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Corpus.load

    def load_and_remove(path: str | Path, **options: bool) -> Corpus:
        corpus = load(path, **options)
        shutil.rmtree(path)
        return corpus

    monkeypatch.setattr(Corpus, "load", load_and_remove)
    result = call("train", data, "-o", "model", *TRAINING, "--epochs", "2")
    assert result.code == 0
    told = [line for line in result.err.splitlines() if "is gone" in line]
    assert told == [f"note: {data} is gone; the run goes on without it, but could not be resumed"]


# --- presets


def test_a_preset_is_all_that_prepare_needs(call: Call, tmp_path: Path) -> None:
    for split in SPLITS:
        (tmp_path / "corpus").mkdir(exist_ok=True)
        (tmp_path / "corpus" / f"{split}.txt").write_text(f"{split} a b\u0301\n" * 9, encoding="utf-8")
    by_library = prepare(tmp_path / "corpus", tmp_path / "one", preset="ptb")
    call("prepare", tmp_path / "corpus", "--preset", "ptb", "-o", "two")
    (tmp_path / "grid.toml").write_text(
        'epochs = 1\n[[corpus]]\nname = "c"\nfolder = "corpus"\npreset = "ptb"\n'
        '[[model]]\nname = "KN"\nkind = "ngram"\norder = 2\n',
        encoding="utf-8",
    )
    grid = Grid.load(str(tmp_path / "grid.toml"), None)
    compared = Comparison(grid, tmp_path / "results", tmp_path / "work", corpora=tmp_path).open(grid.corpora[0])
    digests = {corpus.digest(*SPLITS) for corpus in (by_library, Corpus.load(tmp_path / "two"), compared)}
    assert len(digests) == 1
    assert by_library.vocabulary.rules == PRESETS["ptb"].rules


def test_min_count_of_a_preset_and_a_folder_without_its_layout(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a a a b b\n" * 1, encoding="utf-8")
    assert "b" not in prepare(tmp_path / "t", tmp_path / "d", valid=tmp_path / "t", preset="billionw").vocabulary
    assert (
        "b" in prepare(tmp_path / "t", tmp_path / "e", valid=tmp_path / "t", preset="billionw", min_count=1).vocabulary
    )
    with pytest.raises(LightRNNError, match="is not laid out as --preset billionw expects"):
        lightrnn.prepare(tmp_path, tmp_path / "f", preset="billionw")
    with pytest.raises(LightRNNError, match="there is no preset 'klingon'"):
        lightrnn.prepare(tmp_path, tmp_path / "f", preset="klingon")
