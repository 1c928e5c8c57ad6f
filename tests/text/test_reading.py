"""Text as people really give it: marks, tabs, bombs, bytes that are no text, words that a model does not know."""

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import lightrnn
from conftest import Call, made_up_text
from lightrnn import files
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe, TrainingConfig
from lightrnn.errors import LightRNNError
from lightrnn.files import read_blocks
from lightrnn.inference.lm import LM
from lightrnn.text import reading
from lightrnn.text.corpus import Corpus, prepare, read_text
from lightrnn.text.reading import line_blocks, text_pieces, word_blocks
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Unknown, Vocabulary

MARK = b"\xef\xbb\xbf"
CAFE = os.fsdecode(b"caf\xe9")  # what sys.argv holds of bytes that are not UTF-8


def train(corpus: Corpus, folder: Path) -> Path:
    settings = TrainingConfig(epochs=1, batch_size=4, window=10)
    lightrnn.train(corpus, Recipe(ModelConfig(hidden_size=8), settings, BootstrapConfig(refine="none")), folder)
    return folder


@pytest.fixture(scope="module")
def model(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny, tmp_path_factory.mktemp("reading") / "model")


@pytest.fixture(scope="module")
def lm(model: Path) -> LM:
    return lightrnn.load(model)


def words_of(path: Path | str, rules: TextRules | None = None) -> list[bytes]:
    return [word for block in word_blocks(path, rules or TextRules()) for word in block]


def lines_of(path: Path | str) -> list[str]:
    return [line for block in line_blocks(path) for line in block]


# --- one reader


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab \n\t\v\r\u00a0é\ufeff", max_size=60), st.integers(1, 9), st.sampled_from(["line", "word"]))
def test_pieces_are_whole_and_make_up_the_text(text: str, size: int, unit: reading.Unit) -> None:
    data = text.encode()
    blocks = [data[i : i + size] for i in range(0, len(data), size)]
    pieces = list(text_pieces(blocks, "it", unit))
    assert "".join(piece for _, piece in pieces) == text.removeprefix("\ufeff")
    assert all(raw.decode() == piece for raw, piece in pieces)
    assert all(piece[-1:] in ("", *("\n" if unit == "line" else " \n\t\v\r")) for _, piece in pieces[:-1])


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_mark_is_no_part_of_the_first_word_or_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", size)
    path = tmp_path / "text"
    path.write_bytes(MARK + b"one two\n" + MARK + b"three\n")
    assert words_of(path) == [b"one", b"two", b"</s>", MARK + b"three", b"</s>"]
    assert lines_of(path) == ["one two", "\ufeffthree"]
    path.write_bytes(MARK)
    assert words_of(path) == lines_of(path) == []
    path.write_bytes(MARK + b"ab \xff")
    for read in (words_of, lines_of):
        with pytest.raises(LightRNNError, match=r"text is not UTF-8: byte 0xff at offset 6; convert it first"):
            read(path)


def test_a_mark_is_no_part_of_the_first_word_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(MARK + b"one\r\ntwo\t7\r\n")
    assert Vocabulary.read(tmp_path / "list.txt", TextRules()).words == ["one", "two", "</s>", "<unk>"]
    (tmp_path / "list.xz").write_bytes(lzma.compress(b"one\ntwo\n"))
    assert Vocabulary.read(str(tmp_path / "list.xz"), TextRules()).words[:2] == ["one", "two"]


def test_a_vocabulary_of_ours_may_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a " + (MARK + b"b ") * 9 + b"\n")
    corpus = prepare(tmp_path / "text", tmp_path / "data", valid=tmp_path / "text")
    assert Corpus.load(corpus.path).vocabulary.words[0] == "\ufeffb"


@pytest.mark.parametrize("space", ["\t", "\v", "\f", "\r", "\r\n"])
def test_any_white_space_is_a_place_to_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: str) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 1000)
    monkeypatch.setitem(reading.LONGEST, "word", 1000)
    (tmp_path / "text").write_text(space.join(["word"] * 5000), encoding="utf-8", newline="")
    pieces = [data for data, _ in text_pieces(read_blocks(tmp_path / "text"), "text", "word")]
    assert max(map(len, pieces)) < 1010
    assert words_of(tmp_path / "text").count(b"word") == 5000


# --- bombs


@pytest.mark.parametrize("unit", ["line", "word"])
def test_the_longest_line_and_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: reading.Unit) -> None:
    """Exactly: what is allowed does not depend on where the blocks of a file end."""
    monkeypatch.setitem(reading.LONGEST, unit, 100)
    read = words_of if unit == "word" else lines_of
    path = tmp_path / "text"
    for block in (7, 30, 100):
        monkeypatch.setattr(files, "BLOCK_BYTES", block)
        for before in (0, 1, 50, 99):
            for end in (b"", b"\n"):
                path.write_bytes(b"b" * before + b"\n" + b"a" * 100 + end)
                assert read(path)
                path.write_bytes(b"b" * before + b"\n" + b"a" * 101 + end)
                with pytest.raises(LightRNNError, match=f"a {unit} of more than 100 bytes at offset {before + 1};"):
                    read(path)


MEMORY = """
import resource, sys
from lightrnn.errors import LightRNNError
from lightrnn.text.reading import line_blocks, word_blocks
from lightrnn.text.rules import TextRules
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for block in line_blocks(sys.argv[2]) if sys.argv[1] == "line" else word_blocks(sys.argv[2], TextRules()): pass
except LightRNNError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("unit", ["line", "word"])
def test_a_bomb_is_refused_before_it_is_unfolded(tmp_path: Path, unit: str) -> None:
    compressor = zstandard.ZstdCompressor().compressobj()
    packed = [compressor.compress(bytes(1 << 22)) for _ in range(100)]
    (tmp_path / "bomb.zst").write_bytes(b"".join([*packed, compressor.flush()]))
    assert (tmp_path / "bomb.zst").stat().st_size < 50_000
    command = [sys.executable, "-c", MEMORY, unit, str(tmp_path / "bomb.zst")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    refusal, megabytes = done.stdout.splitlines()
    assert f"has a {unit} of more than {reading.LONGEST[unit]:,} bytes at offset 0; give text," in refusal
    assert int(megabytes) < 100


def test_zstandard_files_of_every_make(tmp_path: Path) -> None:
    text, path = made_up_text(60_000, 500, seed=1).encode(), tmp_path / "t.zst"
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00note"
    for options in ({}, {"write_checksum": True}, {"write_content_size": False}, {"level": 19}):
        pack = zstandard.ZstdCompressor(**options).compress
        for data in (b"", b"a", text, bytes(1 << 20), np.random.default_rng(1).bytes(300_000)):
            for packed, whole in ((pack(data), data), (pack(data) + skipped + pack(data), data + data)):
                path.write_bytes(packed)
                blocks = list(read_blocks(path))
                assert b"".join(blocks) == whole
                assert max(map(len, blocks), default=0) <= 1 << 17
                for cut in (1, 3, len(pack(data)) // 2):
                    path.write_bytes(packed[:-cut])
                    with pytest.raises(LightRNNError, match=r"not a complete \.zst file"):
                        list(read_blocks(path))


# --- arguments that are no text


@pytest.mark.parametrize(
    "arguments",
    [
        ("next", "MODEL", CAFE),
        ("next", "MODEL", "w1", "--prefix", CAFE),
        ("generate", "MODEL", "--prompt", CAFE),
        ("generate", "MODEL", "--prompt", CAFE, "--beam", "2"),
        ("table", "MODEL", "--word", CAFE),
    ],
    ids=" ".join,
)
def test_arguments_that_are_not_utf8(call: Call, model: Path, arguments: tuple[str, ...]) -> None:
    result = call(*(str(model) if a == "MODEL" else a for a in arguments))
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: 'caf\\udce9' holds bytes that are not UTF-8; give text in UTF-8\n"


def test_callers_who_pass_lone_surrogates(lm: LM) -> None:
    for ask in (
        lambda: lm.score(f"w1 {CAFE}"),
        lambda: lm.scores(["w1", CAFE]),
        lambda: lm.perplexity(CAFE),
        lambda: lm.score_word(lm.begin_state(), CAFE),
        lambda: lm.next_words("w1", 3, prefix=CAFE),
        lambda: lm.distribution(CAFE),
        lambda: next(lm.generate(CAFE)),
        lambda: lm.similar(CAFE),
    ):
        with pytest.raises(LightRNNError, match=r"caf\\udce9"):
            ask()


# --- paths of either kind


def test_paths_are_strings_or_paths_one_or_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one two\n" * 30, encoding="utf-8")
    Path("list.txt").write_text("two\none\n", encoding="utf-8")
    made = [
        prepare("a.txt", "d1", valid="a.txt", vocabulary="list.txt"),
        prepare(Path("a.txt"), Path("d2"), valid=[Path("a.txt")], vocabulary=Path("list.txt")),
        prepare(["a.txt"], "d3", valid=("a.txt",), vocabulary=Vocabulary.read("list.txt", TextRules())),
    ]
    assert len({corpus.digest("train", "valid") for corpus in made}) == 1
    corpus = Corpus.load("d1")
    for given_as in ("a.txt", Path("a.txt"), ["a.txt"], [Path("a.txt")]):
        assert corpus.vocabulary.encode_files(given_as).tolist() == corpus.split("train").tolist()
        assert len(read_text(given_as, TextRules())[1]) == 90
    table = lightrnn.WordTable.random(len(corpus.vocabulary), seed=1)
    with Path("table.tsv").open("wb") as file:
        table.write(file, corpus.vocabulary)
    assert lightrnn.WordTable.read("table.tsv", corpus.vocabulary).digest == table.digest


# --- what the model does not know


def test_unknown_words_are_counted() -> None:
    vocabulary = Vocabulary(["</s>", "<unk>", "the", "cat"], np.array([3, 0, 2, 1]), TextRules())
    unknown = Unknown(vocabulary)
    for words in (["The", "cat", "</s>", "<unk>", "dog"], [b"the", b"CAT", b"</s>"]):
        ids = [vocabulary.ids.get(w.decode() if isinstance(w, bytes) else w, vocabulary.unk_id) for w in words]
        unknown.add(words, np.array(ids, np.int32))
    assert (unknown.tokens, unknown.unknown, unknown.known_in_lower_case) == (6, 3, 2)
    assert unknown.is_notable
    assert unknown.is_capitals
    assert vocabulary.never_saw_unknown


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose training text had unknown words."""
    folder = tmp_path_factory.mktemp("taught")
    (folder / "text").write_text(made_up_text(2000, 40, seed=1) + "rare\nwords\n", encoding="utf-8")
    return train(prepare(folder / "text", folder / "data", valid=folder / "text", min_count=2), folder / "model")


def test_a_note_on_unknown_words(call: Call, model: Path, taught: Path, tmp_path: Path) -> None:
    (tmp_path / "known").write_text("w1 w2\n" * 20, encoding="utf-8")
    (tmp_path / "capitals").write_text("W1 w2 w3 W2\n" * 20, encoding="utf-8")
    (tmp_path / "other").write_text("quite another w1\n" * 20, encoding="utf-8")
    (tmp_path / "given").write_text("<unk> w1\n" * 20, encoding="utf-8")
    (tmp_path / "lists").write_text("a\t-1\tW1 w2\n", encoding="utf-8")
    for command in ("evaluate", "score"):
        for text in ("known", "given"):
            assert call(command, taught, text).err == ""
        assert "not know 50.0% of the words, most of them for their capitals" in call(command, taught, "capitals").err
        assert "not know 66.7% of the words; is this the kind of text" in call(command, taught, "other").err
        assert "not know 66.7% of the words, and met no unknown word in training" in call(command, model, "other").err
    assert "50.0% of the words, most of them for their capitals" in call("rescore", taught, "lists").err
    assert "50.0% of the words, most of them for their capitals" in call("next", taught, "W1 w2").err
    assert call("next", taught, "w1 w2").err == ""


def test_a_note_on_unknown_words_that_no_one_taught(call: Call, tmp_path: Path) -> None:
    (tmp_path / "train").write_text(made_up_text(500, 20, seed=1) + "once\n", encoding="utf-8")
    (tmp_path / "test").write_text("w1 w2 never\n" * 9, encoding="utf-8")
    arguments = ("train", "--valid", "train", "--test", "test")
    result = call("prepare", *arguments, "-o", "data")
    assert result.err.startswith("note: 25.0% of test are unknown words, and train has none")
    assert "--min-count 2" in result.err
    assert call("prepare", *arguments, "-o", "other", "--min-count", "2").err == ""
    train(Corpus.load("data"), Path("model"))
    assert "met no unknown word in training" in call("evaluate", "model", "data").err
    assert call("evaluate", "model", "data", "--split", "train").err == ""


def test_texts_of_all_kinds_read_alike(tmp_path: Path) -> None:
    data = MARK + "Été \u00a0\n\nB\tc".encode()
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
    rules = TextRules(lowercase=True)
    for suffix, compress in pack.items():
        (tmp_path / f"t{suffix}").write_bytes(compress(data))
        assert lines_of(tmp_path / f"t{suffix}") == ["Été \u00a0", "", "B\tc"]
        found = b" ".join(words_of(tmp_path / f"t{suffix}", rules)).decode()
        assert found == "été \u00a0 </s> </s> b c </s>"
