"""From text to token ids: against a plain loop, in every form that text can come in."""

import gzip
import io
import json
import lzma
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import corpus_folder
from lightrnn import files
from lightrnn.errors import LightRNNError
from lightrnn.files import expand
from lightrnn.text import rules as text
from lightrnn.text.corpus import Corpus, choose_vocabulary, prepare
from lightrnn.text.presets import PRESETS, choose_splits, find_splits
from lightrnn.text.reading import word_blocks
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary

TEXT = "the cat sat\nthe dog\tsat  down\r\n\nthe end"


def plain_words(data: str) -> list[str]:
    """What the words of a text are, said once more and slowly."""
    lines = data.split("\n")
    if lines[-1] == "":
        lines.pop()
    words = []
    for line in lines:
        words += [
            w
            for w in line.replace("\t", " ").replace("\r", " ").replace("\x0b", " ").replace("\x0c", " ").split(" ")
            if w
        ]
        words.append("</s>")
    return words


def write(folder: Path, name: str, data: str) -> str:
    path = folder / name
    path.write_bytes(data.encode())
    return str(path)


def prepared(folder: Path, data: str = TEXT, **options) -> Corpus:
    train = write(folder, "train.txt", data)
    return prepare([train], folder / "data", valid=[write(folder, "valid.txt", "the cat ate\n")], **options)


def test_ids_counts_and_unknown_words(tmp_path: Path) -> None:
    corpus = prepared(tmp_path)
    vocabulary = corpus.vocabulary
    assert [vocabulary.words[i] for i in corpus.split("train")] == plain_words(TEXT)
    assert [vocabulary.words[i] for i in corpus.split("valid")] == ["the", "cat", "<unk>", "</s>"]
    assert vocabulary.words[:3] == ["</s>", "the", "sat"]  # most frequent first, ties in order of appearance
    counts = Counter(plain_words(TEXT))
    assert {w: c for w, c in zip(vocabulary.words, vocabulary.counts, strict=True) if c} == counts
    assert corpus.info["splits"]["valid"]["unknown"] == 1


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab \n\t\u00a0é\u2028", max_size=80), st.integers(1, 9))
def test_blocks_cut_anywhere_give_the_same_words(data: str, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK_BYTES", block)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
        words = [w.decode() for b in word_blocks("-", TextRules()) for w in b]
    expected = plain_words(unicodedata.normalize("NFC", data)) if data else []
    assert words == expected


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_compressed_files_read_the_same(tmp_path: Path, suffix: str) -> None:
    data = TEXT.encode()
    packed = {"": data, ".gz": gzip.compress(data), ".xz": lzma.compress(data), ".zst": zstandard.compress(data)}[
        suffix
    ]
    path = tmp_path / f"t.txt{suffix}"
    path.write_bytes(packed)
    assert [w.decode() for b in word_blocks(str(path), TextRules()) for w in b] == plain_words(TEXT)


def test_shards_globs_folders_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for name, data in (("b.txt", "two words\n"), ("a.txt", "one\n"), ("README.md", "not text\n"), (".hidden", "no\n")):
        write(tmp_path / "shards", name, data)
    both = [str(tmp_path / "shards" / "a.txt"), str(tmp_path / "shards" / "b.txt")]
    assert expand([tmp_path / "shards"]) == both
    assert expand([str(tmp_path / "shards" / "*.txt")]) == both
    valid = write(tmp_path, "valid.txt", "one\n")
    by_folder = prepare(expand([tmp_path / "shards"]), tmp_path / "d1", valid=[valid])
    command = [sys.executable, "-m", "lightrnn", "prepare", "-", "--valid", valid, "-o", str(tmp_path / "d2")]
    done = subprocess.run(command, input=b"one\ntwo words\n", capture_output=True, check=True)
    assert b"vocabulary size" in done.stdout
    by_pipe = Corpus.load(tmp_path / "d2")
    assert (by_folder.split("train") == by_pipe.split("train")).all()
    assert by_folder.vocabulary.words == by_pipe.vocabulary.words


def test_cut_offs(tmp_path: Path) -> None:
    words = ["a"] * 5 + ["b"] * 3 + ["c"] * 3 + ["d", "</s>"]
    counts = Counter(words)
    rules = TextRules()
    named, numbers = list(counts), np.array(list(counts.values()))
    assert choose_vocabulary(named, numbers, rules, min_count=3).words == ["a", "b", "c", "</s>", "<unk>"]
    by_size = choose_vocabulary(named, numbers, rules, max_words=4)
    assert by_size.words == ["a", "<unk>", "b", "</s>"]
    assert by_size.counts.tolist() == [5, 4, 3, 1]  # c and d count as <unk>, which then precedes b
    assert by_size.counts.sum() == len(words)


def test_given_vocabularies_keep_their_order(tmp_path: Path) -> None:
    listed = write(tmp_path, "words.txt", "sat\nmat\t7\nthe\n")
    corpus = prepared(tmp_path, vocabulary=Path(listed))
    assert corpus.vocabulary.words == ["sat", "mat", "the", "</s>", "<unk>"]
    assert corpus.vocabulary.counts.tolist() == [2, 0, 3, 4, 4]


def test_case_and_normalisation_are_stored_and_applied_again(tmp_path: Path) -> None:
    rules = TextRules(lowercase=True, normalize="nfkc")
    corpus = prepared(tmp_path, "Cafe\u0301 ﬁn CAFÉ\nÉTÉ\n", rules=rules)
    assert set(corpus.vocabulary.words) == {
        "café",
        "fin",
        "été",
        "</s>",
        "<unk>",
    }
    again = Corpus.load(corpus.path).vocabulary
    assert again.rules == rules
    assert again.rules.split("CAFE\u0301 Fin") == ["café", "fin"]
    scored = again.encode_files([write(tmp_path, "score.txt", "CAFE\u0301\n")])
    assert [again.words[i] for i in scored] == ["café", "</s>"]


def test_the_end_is_held_out_when_no_validation_text_is_given(tmp_path: Path) -> None:
    lines = [f"w{i % 7} w{i % 3}" for i in range(200)] + ["only-here now"] * 5
    train = write(tmp_path, "t.txt", "\n".join(lines) + "\n")
    corpus = prepare([train], tmp_path / "data")
    assert len(corpus.split("train")) + len(corpus.split("valid")) == 3 * 205
    assert len(corpus.split("valid")) == pytest.approx(0.05 * 615, abs=3)
    assert "only-here" not in corpus.vocabulary  # held-out text does not count towards the vocabulary
    assert corpus.split("train")[-1] == corpus.vocabulary.eos_id
    assert corpus.vocabulary.counts.sum() == len(corpus.split("train"))


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


def test_billion_words_preset(tmp_path: Path) -> None:
    train = tmp_path / "training-monolingual.tokenized.shuffled"
    held_out = tmp_path / "heldout-monolingual.tokenized.shuffled"
    train.mkdir()
    held_out.mkdir()
    write(train, "news.en-00001-of-00100", "the the the rare\n")
    write(train, "news.en-00002-of-00100", "cat cat cat\n")
    for shard in range(3):
        write(held_out, f"news.en.heldout-{shard:05}-of-00050", f"the shard{shard}\n")
    command = [
        sys.executable,
        "-m",
        "lightrnn",
        "prepare",
        str(tmp_path),
        "--preset",
        "billionw",
        "-o",
        str(tmp_path / "d"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    info = json.loads(done.stdout)
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


def test_memory_is_bounded_by_the_vocabulary(tmp_path: Path) -> None:
    """Ten times the text, no more memory (measured by the interpreter's own allocator in a fresh process)."""
    script = (
        "import sys, tracemalloc\nfrom pathlib import Path\nfrom lightrnn import files\n"
        "from lightrnn.text import corpus, id_files\n"
        "id_files.CHUNK = corpus.MAPPED_BYTES = files.BLOCK_BYTES = 1 << 16\ntracemalloc.start()\n"
        "corpus.prepare([sys.argv[1]], Path(sys.argv[2]), valid=[sys.argv[3]])\n"
        "print(tracemalloc.get_traced_memory()[1])\n"
    )
    valid = write(tmp_path, "valid.txt", "w1 w2\n")
    peaks = []
    for repeats in (1, 10):
        data = write(tmp_path, f"{repeats}.txt", "".join(f"w{i % 997} w{i % 101}\n" for i in range(50_000)) * repeats)
        command = [sys.executable, "-c", script, data, str(tmp_path / f"d{repeats}"), valid]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
    assert peaks[1] < 1.1 * peaks[0]


def test_a_failed_preparation_leaves_nothing_and_spares_the_old(tmp_path: Path) -> None:
    corpus = prepared(tmp_path)
    before = {p.name: p.read_bytes() for p in corpus.path.iterdir()}
    (tmp_path / "bad.txt").write_bytes(b"good words\nbad \xff byte\n")
    with pytest.raises(LightRNNError, match=r"0xff at offset 15"):
        prepare([str(tmp_path / "bad.txt")], corpus.path, force=True)
    assert {p.name: p.read_bytes() for p in corpus.path.iterdir()} == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_vocabulary_round_trip_with_odd_words(tmp_path: Path) -> None:
    words = ["</s>", "<unk>", "a\u2028b", "\u00a0", "#", '"', "\x85", "𝄞"]
    vocabulary = Vocabulary(words, np.arange(len(words)), TextRules())
    with (tmp_path / "v.tsv").open("wb") as file:
        vocabulary.write(file)
    again = Vocabulary.read(tmp_path / "v.tsv", TextRules())
    assert again.words == words
    assert again.counts.tolist() == list(range(len(words)))
    assert again.digest == vocabulary.digest
    assert text.TextRules().split("a\u2028b \x85") == ["a\u2028b", "\x85"]


@given(st.sets(st.text("abé\U0010ffff", min_size=1, max_size=5), min_size=1, max_size=30), st.text("abé", max_size=3))
def test_words_that_begin_so(words: set[str], prefix: str) -> None:
    """The index says what looking at every word says."""
    vocabulary = Vocabulary([*words, "</s>", "<unk>"], np.zeros(len(words) + 2, np.int64), TextRules())
    expected = [word.startswith(prefix) for word in vocabulary.words]
    assert vocabulary.begin_with(prefix).tolist() == expected
    assert vocabulary.begin_with(prefix).tolist() == expected  # by the index
