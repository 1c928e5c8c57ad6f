"""Presets and corpus folders: which files are which split, by whose rules."""

import json
from pathlib import Path

import pytest

import lightrnn
from helpers import Call, corpus_folder, printed, write
from lightrnn.compare.grid import Grid
from lightrnn.compare.runs import Comparison
from lightrnn.errors import LightRNNError
from lightrnn.text.corpus import SPLITS, Corpus, prepare
from lightrnn.text.presets import PRESETS, choose_splits, find_splits


def test_a_corpus_folder_is_never_taken_for_shards(tmp_path: Path) -> None:
    for name in ("train.txt", "valid.txt", "test.txt", "SOURCE.md"):
        write(tmp_path, name, "a b\n")
    train, valid, test = find_splits(tmp_path)
    assert [Path(f).name for f in (*train, *valid, *test)] == ["train.txt", "valid.txt", "test.txt"]
    (tmp_path / "valid.txt").rename(tmp_path / "other.txt")
    with pytest.raises(LightRNNError, match="--valid"):
        choose_splits([str(tmp_path)], [], [])
    given = choose_splits([str(tmp_path)], [str(tmp_path / "other.txt")], [])
    assert [[Path(f).name for f in split] for split in given] == [["train.txt"], ["other.txt"], ["test.txt"]]
    (tmp_path / "other.txt").rename(tmp_path / "dev.txt")
    assert [Path(f).name for f in choose_splits([str(tmp_path)], [], [])[1]] == ["dev.txt"]


def test_billion_words_preset(call: Call, tmp_path: Path) -> None:
    train = tmp_path / "training-monolingual.tokenized.shuffled"
    held_out = tmp_path / "heldout-monolingual.tokenized.shuffled"
    train.mkdir()
    held_out.mkdir()
    write(train, "news.en-00001-of-00100", "the the the rare\n")
    write(train, "news.en-00002-of-00100", "cat cat cat\n")
    for shard in range(3):
        write(held_out, f"news.en.heldout-{shard:05}-of-00050", f"the shard{shard}\n")
    info = json.loads(printed(call("prepare", tmp_path, "--preset", "billionw", "-o", "d", "--json")))
    corpus = Corpus.load(tmp_path / "d")
    vocabulary = corpus.vocabulary
    assert vocabulary.rules == PRESETS["billionw"].rules
    assert set(vocabulary.words) == {"the", "cat", "<S>", "</S>", "<UNK>"}
    assert vocabulary.words[vocabulary.bos_id] == "<S>"
    assert [vocabulary.words[i] for i in corpus.split("train")] == [
        "the",
        "the",
        "the",
        "<UNK>",
        "</S>",
        "cat",
        "cat",
        "cat",
        "</S>",
    ]
    assert info["splits"]["test"]["files"] == ["news.en.heldout-00000-of-00050"]
    assert info["splits"]["valid"]["files"] == ["news.en.heldout-00001-of-00050"]


@pytest.mark.parametrize(
    ("name", "preset", "tokens", "size"),
    [
        ("ptb", "ptb", (929_589, 73_760, 82_430), 10_000),
        ("wikitext-2", "wikitext", (2_088_628, 217_646, 245_569), 33_278),
    ],
)
def test_published_counts(tmp_path: Path, name: str, preset: str, tokens: tuple[int, ...], size: int) -> None:
    train, valid, test = find_splits(corpus_folder(name))
    corpus = prepare(train, tmp_path / "data", valid=valid, test=test, rules=PRESETS[preset].rules)
    assert tuple(len(corpus.split(split)) for split in ("train", "valid", "test")) == tokens
    assert len(corpus.vocabulary) == size


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
