"""Vocabularies: lists of words there and back, and words that are not in them."""

import lzma
from codecs import BOM_UTF8
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
