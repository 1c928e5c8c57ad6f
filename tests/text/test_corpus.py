"""From text to token ids: against a plain loop, in every form that text can come in."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import lightrnn
from helpers import Call, printed, run_apart, write
from lightrnn.errors import LightRNNError
from lightrnn.files import expand
from lightrnn.text.corpus import Corpus, choose_vocabulary, prepare, read_text
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from oracle import plain_words

TEXT = "the cat sat\nthe dog\tsat  down\r\n\nthe end"


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


def test_shards_globs_folders_and_pipes(call: Call, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for name, data in (("b.txt", "two words\n"), ("a.txt", "one\n"), ("README.md", "not text\n"), (".hidden", "no\n")):
        write(tmp_path / "shards", name, data)
    both = [str(tmp_path / "shards" / "a.txt"), str(tmp_path / "shards" / "b.txt")]
    assert expand([tmp_path / "shards"]) == both
    assert expand([str(tmp_path / "shards" / "*.txt")]) == both
    valid = write(tmp_path, "valid.txt", "one\n")
    by_folder = prepare(expand([tmp_path / "shards"]), tmp_path / "d1", valid=[valid])
    shown = printed(call("prepare", "-", "--valid", valid, "-o", "d2", stdin=b"one\ntwo words\n"))
    assert "vocabulary size" in shown
    by_pipe = Corpus.load(tmp_path / "d2")
    assert (by_folder.split("train") == by_pipe.split("train")).all()
    assert by_folder.vocabulary.words == by_pipe.vocabulary.words


def test_cut_offs(tmp_path: Path) -> None:
    words = ["a"] * 5 + ["b"] * 3 + ["c"] * 3 + ["d", "</s>"]
    counts = Counter(words)
    rules = TextRules()
    named, numbers = list(counts), np.array(list(counts.values()))
    by_count, ids = choose_vocabulary(named, numbers, rules, min_count=3)
    assert by_count.words == ["a", "b", "c", "</s>", "<unk>"]
    assert ids.tolist() == by_count.encode(named).tolist() == [0, 1, 2, 4, 3]
    by_size, ids = choose_vocabulary(named, numbers, rules, max_words=4)
    assert by_size.words == ["a", "<unk>", "b", "</s>"]
    assert ids.tolist() == by_size.encode(named).tolist()
    assert by_size.counts.tolist() == [5, 4, 3, 1]  # c and d count as <unk>, which then precedes b
    assert by_size.counts.sum() == len(words)


def test_given_vocabularies_keep_their_order(tmp_path: Path) -> None:
    listed = write(tmp_path, "words.txt", "sat\nmat\t7\nthe\n")
    corpus = prepared(tmp_path, vocabulary=Path(listed))
    assert corpus.vocabulary.words == ["sat", "mat", "the", "</s>", "<unk>"]
    assert corpus.vocabulary.counts.tolist() == [2, 0, 3, 4, 4]


def test_words_are_added_after_those_of_a_given_vocabulary(tmp_path: Path) -> None:
    text = write(tmp_path, "text", "b c b d\nd a d e\n")
    known = Vocabulary(["a", "</s>", "<unk>", "b"], np.array([9, 9, 9, 9]), TextRules())

    def added(**options: int) -> dict[str, int]:
        out = tmp_path / "-".join(["data", *options])
        corpus = prepare(text, out, valid=text, vocabulary=known, add_words=True, **options)
        assert list(corpus.vocabulary.words[:4]) == list(known.words)
        return dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist(), strict=True))

    every = {"a": 1, "</s>": 2, "<unk>": 0, "b": 2, "d": 3, "c": 1, "e": 1}
    assert added() == every
    assert added(min_count=2) == {"a": 1, "</s>": 2, "<unk>": 2, "b": 2, "d": 3}
    assert added(max_words=6) == {"a": 1, "</s>": 2, "<unk>": 1, "b": 2, "d": 3, "c": 1}
    with pytest.raises(LightRNNError, match="none was given"):
        prepare(text, tmp_path / "none", valid=text, add_words=True)


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
    assert len(corpus.split("valid")) == pytest.approx(0.05 * 615, abs=3)  # tokens: at the end of a line
    assert "only-here" not in corpus.vocabulary  # held-out text does not count towards the vocabulary
    assert corpus.split("train")[-1] == corpus.vocabulary.eos_id
    assert corpus.vocabulary.counts.sum() == len(corpus.split("train"))


def test_memory_is_bounded_by_the_vocabulary(tmp_path: Path) -> None:
    """Ten times the text, no more memory (measured by the interpreter's own allocator in a fresh process)."""
    script = (
        "import sys, tracemalloc\nfrom pathlib import Path\nfrom lightrnn import files\n"
        "from lightrnn.text import corpus, id_files\n"
        "corpus.MAPPED_BYTES = 1 << 16\nid_files.CHUNK = files.BLOCK_BYTES = 1 << 14\ntracemalloc.start()\n"
        "corpus.prepare([sys.argv[1]], Path(sys.argv[2]), valid=[sys.argv[3]])\n"
        "print(tracemalloc.get_traced_memory()[1])\n"
    )
    valid = write(tmp_path, "valid.txt", "w1 w2\n")
    peaks = []
    for repeats in (1, 10):
        data = write(tmp_path, f"{repeats}.txt", "".join(f"w{i % 997} w{i % 101}\n" for i in range(50_000)) * repeats)
        peaks.append(int(printed(run_apart(data, tmp_path / f"d{repeats}", valid, script=script))))
    assert peaks[1] < 1.1 * peaks[0]  # the vocabulary is the same, ten times the text is not in memory


def test_a_failed_preparation_leaves_nothing_and_spares_the_old(tmp_path: Path) -> None:
    corpus = prepared(tmp_path)
    before = {p.name: p.read_bytes() for p in corpus.path.iterdir()}
    (tmp_path / "bad.txt").write_bytes(b"good words\nbad \xff byte\n")
    with pytest.raises(LightRNNError, match=r"0xff at offset 15"):
        prepare([str(tmp_path / "bad.txt")], corpus.path, force=True)
    assert {p.name: p.read_bytes() for p in corpus.path.iterdir()} == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_paths_are_strings_or_paths_one_or_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one two\n" * 30, encoding="utf-8")
    Path("list.txt").write_text("two\none\n", encoding="utf-8")
    corpora = [
        prepare("a.txt", "d1", valid="a.txt", vocabulary="list.txt"),
        prepare(Path("a.txt"), Path("d2"), valid=[Path("a.txt")], vocabulary=Path("list.txt")),
        prepare(["a.txt"], "d3", valid=("a.txt",), vocabulary=Vocabulary.read("list.txt", TextRules())),
    ]
    assert len({corpus.digest("train", "valid") for corpus in corpora}) == 1
    corpus = Corpus.load("d1")
    for given_as in ("a.txt", Path("a.txt"), ["a.txt"], [Path("a.txt")]):
        assert corpus.vocabulary.encode_files(given_as).tolist() == corpus.split("train").tolist()
        assert len(read_text(given_as, TextRules())[1]) == 90
    table = lightrnn.WordTable.random(len(corpus.vocabulary), seed=1)
    with Path("table.tsv").open("wb") as file:
        table.write(file, corpus.vocabulary)
    assert lightrnn.WordTable.read("table.tsv", corpus.vocabulary).digest == table.digest
