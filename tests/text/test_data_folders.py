"""Data folders: what they are, whether they are whole, and what happens when they change under a run."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import (
    BEFORE,
    ROOT,
    SMALL,
    Call,
    corpus_folder,
    edit_json,
    flip_bit,
    made_up_text,
    printed,
    refused,
    run_apart,
)
from lightrnn.errors import LightRNNError
from lightrnn.files import sha256
from lightrnn.text import corpus as corpora
from lightrnn.text.corpus import SPLITS, Corpus, is_data_folder, prepare
from lightrnn.text.rules import TextRules

# --- what a data folder is


def test_what_a_data_folder_is(tiny: Corpus, tmp_path: Path) -> None:
    assert is_data_folder(tiny.path)
    assert is_data_folder(str(tiny.path))
    assert not is_data_folder(tmp_path)
    assert not is_data_folder(tmp_path / "nowhere")
    assert not is_data_folder(tiny.path / "data.json")


def test_folders_of_version_0_1_0(call: Call) -> None:
    corpus = Corpus.load(BEFORE / "data")
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
    results = ROOT / "docs" / "results"
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("*/runs/*.json")]
    assert {run["corpus"] for run in runs if corpus.has_digest(run["data"], *SPLITS)} == {"ptb"}


# --- damage


@pytest.mark.parametrize("split", SPLITS)
def test_a_flipped_bit_is_found(call: Call, data: Path, split: str) -> None:
    flip_bit(data / f"{split}.npy", -4)
    assert refused(call("train", data, "-o", "model", *SMALL)) == (
        f"error: {data / split}.npy is damaged: its SHA-256 is not the one in data.json; prepare the text again"
    )
    assert not Path("model").exists()


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
    shown = printed(run_apart(tmp_path / "data", when, script=SHRINK))
    assert "train.npy was cut to 128 bytes while it was being read" in shown


def test_a_folder_that_goes_away_is_told_once(call: Call, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Corpus.load

    def load_and_remove(path: str | Path, **options: bool) -> Corpus:
        corpus = load(path, **options)
        shutil.rmtree(path)
        return corpus

    monkeypatch.setattr(Corpus, "load", load_and_remove)
    result = call("train", data, "-o", "model", *SMALL, "--epochs", "2")
    assert result.code == 0
    told = [line for line in result.err.splitlines() if "is gone" in line]
    assert told == [f"note: {data} is gone; the run goes on without it, but could not be resumed"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.replace(b"<i4", b"<i8"),
        lambda d: d.replace(b"<i4", b"|O8"),
        lambda d: d.replace(b"False", b"True "),
        lambda d: d.replace(b"(", b"(" * 60, 1),
        lambda d: d.replace(b"(5992,)", b"(59,)  "),
        lambda d: d + b"\0",
        lambda d: b"PK\x03\x04" + d[4:],
        lambda d: d[:8] + b"\xff\xff" + d[10:],
        lambda d: d[:100],
        lambda d: d[:-4] + b"\xff" * 4,
    ],
)
def test_token_ids_that_are_none(call: Call, before: Path, change: Callable[[bytes], bytes]) -> None:
    path = before / "data" / "train.npy"
    path.write_bytes(change(path.read_bytes()))
    edit_json(before / "data" / "data.json", lambda facts: facts["splits"]["train"].update(sha256=sha256(path)))
    assert "train.npy" in refused(call("ngram", before / "data", "-o", "lm.arpa"))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["splits"]["train"].pop("tokens"),
        lambda d: d["splits"]["train"].update(tokens="5992"),
        lambda d: d["splits"]["train"].update(files="train.txt"),
        lambda d: d["splits"].update(train=[]),
        lambda d: d.update(splits=[]),
        lambda d: d.update(vocabulary_size=5),
        lambda d: d.update(format=True),
    ],
)
def test_data_json_that_is_none(call: Call, before: Path, change: Callable[[dict[str, Any]], object]) -> None:
    edit_json(before / "data" / "data.json", change)
    assert "data.json" in refused(call("ngram", before / "data", "-o", "lm.arpa"))
