"""Vocabularies: lists of words there and back, and words that are not in them."""

import io
import lzma
from codecs import BOM_UTF8
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import made_up_vocabulary
from lightrnn.errors import LightRNNError
from lightrnn.text import vocabulary as vocabularies
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Unknown, Vocabulary


def test_vocabulary_round_trip_with_odd_words(tmp_path: Path) -> None:
    words = ["</s>", "<unk>", "a\u2028b", "\u00a0", "#", '"', "\x85", "𝄞"]
    vocabulary = Vocabulary(words, np.arange(len(words)), TextRules())
    with (tmp_path / "v.tsv").open("wb") as file:
        vocabulary.write(file)
    again = Vocabulary.read(tmp_path / "v.tsv", TextRules())
    assert again.words == words
    assert again.counts.tolist() == list(range(len(words)))
    assert again.digest == vocabulary.digest
    assert TextRules().split("a\u2028b \x85") == ["a\u2028b", "\x85"]


def test_a_mark_is_no_part_of_the_first_word_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(BOM_UTF8 + b"one\r\ntwo\t7\r\n")
    assert Vocabulary.read(tmp_path / "list.txt", TextRules()).words == ["one", "two", "</s>", "<unk>"]
    (tmp_path / "list.xz").write_bytes(lzma.compress(b"one\ntwo\n"))
    assert Vocabulary.read(str(tmp_path / "list.xz"), TextRules()).words[:2] == ["one", "two"]


def test_a_vocabulary_of_ours_may_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a " + (BOM_UTF8 + b"b ") * 9 + b"\n")
    corpus = prepare(tmp_path / "text", tmp_path / "data", valid=tmp_path / "text")
    assert Corpus.load(corpus.path).vocabulary.words[0] == "\ufeffb"


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


@given(st.sets(st.text("abé\U0010ffff", min_size=1, max_size=5), min_size=1, max_size=30), st.text("abé", max_size=3))
def test_words_that_begin_so(words: set[str], prefix: str) -> None:
    """The index says what looking at every word says."""
    vocabulary = Vocabulary([*words, "</s>", "<unk>"], np.zeros(len(words) + 2, np.int64), TextRules())
    expected = [word.startswith(prefix) for word in vocabulary.words]
    assert vocabulary.begin_with(prefix).tolist() == expected
    assert vocabulary.begin_with(prefix).tolist() == expected  # by the index


LINE = st.one_of(
    st.builds("{}\t{}".format, st.text("ab é\u2028", min_size=1, max_size=3), st.integers(0, 10**18 - 1)),
    st.text("ab\t\n\r \v019-é٣", max_size=8),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINE, max_size=4).map("\n".join), st.sampled_from(["", "\n"]), st.booleans())
def test_lines_read_at_once_or_one_by_one(lines: str, end: str, broken: bool) -> None:
    """The same words and counts, or the same complaint."""
    data = f"</s>\t3\n<unk>\t0\n{lines}{end}".encode() + b"\xff" * broken

    def read() -> object:
        try:
            found = Vocabulary.parse(data, "it", TextRules())
        except LightRNNError as error:
            return str(error)
        return list(found.words), found.counts.tolist()

    at_once = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabularies, "_written_words", lambda data: None)
        assert read() == at_once


def test_lines_as_they_are_written_are_read_at_once() -> None:
    words = made_up_vocabulary([f"é{i}" for i in range(500)])
    file = io.BytesIO()
    words.write(file)
    found = vocabularies._written_words(file.getvalue())
    assert found is not None
    assert found[0] == words.words
    assert found[1].tolist() == words.counts.tolist()


def test_words_are_found_one_by_one_and_in_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where different words have the same hash, as hardly ever happens."""
    names = [f"w{i}" for i in range(300)]
    for by_hash in (hash, len):
        monkeypatch.setattr(vocabularies, "hash", by_hash, raising=False)
        words = made_up_vocabulary(names)
        for few in (0, 10**6):
            monkeypatch.setattr(vocabularies, "FEW", few)
            assert [words.find(word) for word in names] == list(range(1, 301))
            assert [words.find(word) for word in ("w300", "W1", "")] == [-1, -1, -1]
            assert words.encode(["w7", "nobody", "</s>"]).tolist() == [8, words.unk_id, 0]
        with pytest.raises(LightRNNError, match="lists 'w299' twice"):
            made_up_vocabulary([*names, "w299"])
