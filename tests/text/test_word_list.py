"""Words as what they do not share with the one before: back to the same words, or one sentence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrnn.container import pack_varints
from lightrnn.errors import LightRNNError
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.text.word_list import LONGEST_SHARED, pack_vocabulary, pack_words, unpack_vocabulary, unpack_words

LETTERS = st.sampled_from(["a", "b", "ab", "é", "日", "🙂", "a" * 20, "\x85", "\u2028", "</script>"])
WORDS = st.lists(LETTERS, min_size=1, max_size=6).map("".join)
BOTH = TextRules(bos="<s>")


def refused(data: bytes, count: int) -> str:
    with pytest.raises(LightRNNError, match=r"^x is damaged: .{10,}; ") as error:
        unpack_words(data, count, "x")
    return str(error.value)


def listed(*words: tuple[int, bytes]) -> bytes:
    """Words as they are told: how much is shared, and the rest."""
    lengths = pack_varints(np.array([len(rest) for _, rest in words], np.int64))
    return bytes(shared for shared, _ in words) + lengths + b"".join(rest for _, rest in words)


@given(st.sets(WORDS, min_size=1, max_size=40))
def test_words_come_back_in_byte_order(words: set[str]) -> None:
    in_order = sorted(word.encode() for word in words)
    found = unpack_words(pack_words(in_order), len(in_order), "x")
    expected = [word.decode() for word in in_order]
    assert list(found) == expected == sorted(words)
    assert [found[place] for place in range(len(found))] == expected
    assert found[1:3] == expected[1:3]


def test_the_layout_is_the_one_of_the_docs() -> None:
    assert pack_words([b"ab", b"abc", b"b"]) == listed((0, b"ab"), (2, b"c"), (0, b"b"))
    long = b"z" * 40
    assert pack_words([long, long + b"a"]) == listed((0, long), (LONGEST_SHARED, b"z" * 9 + b"a"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([(0, b"b"), (0, b"a")], "order"),
        ([(0, b"a"), (0, b"a")], "order"),
        ([(0, b"ab"), (0, b"ac")], "order"),  # it could share more
        ([(0, b"a" * 40), (31, b"a" * 9)], "order"),
        ([(0, b"a" * 40), (31, b"a" * 8)], "order"),
        ([(0, b"a"), (2, b"b")], "shares"),
        ([(1, b"a")], "shares"),
        ([(0, b"a" * 60), (32, b"b")], "shares"),
        ([(0, b"a"), (1, b"")], "length"),
        ([(0, b"a b")], "white space"),
        ([(0, b"a\nb")], "white space"),
        ([(0, b"\xff")], "UTF-8"),
        ([(0, b"\xc3")], "UTF-8"),
        ([(0, b"\xed\xa0\x80")], "UTF-8"),
    ],
    ids=str,
)
def test_words_that_are_none(words: list[tuple[int, bytes]], told: str) -> None:
    assert told in refused(listed(*words), len(words))


def test_lists_that_are_cut_or_too_long() -> None:
    data = listed((0, b"ab"), (2, b"c"), (0, b"b"))
    for length in range(len(data)):
        refused(data[:length], 3)
    refused(data + b"z", 3)
    refused(data, 2**31)
    refused(b"\0" + b"\xff" * 8 + b"\x7f" + b"a", 1)  # a word of 2^63-1 bytes


@given(st.dictionaries(WORDS, st.integers(0, 5), min_size=1, max_size=40), st.sampled_from([TextRules(), BOTH]))
def test_vocabularies_come_back_by_falling_count(counts: dict[str, int], rules: TextRules) -> None:
    words = [*counts, *(word for word in rules.specials if word not in counts)]
    vocabulary = Vocabulary(words, np.array([counts.get(word, 7) for word in words], np.int64), rules)
    parts = pack_vocabulary(vocabulary)
    found, order = unpack_vocabulary(parts, len(words), rules, "x")
    expected = sorted(words, key=lambda word: (-counts.get(word, 7), word.encode()))
    assert list(found.words) == expected
    assert found.words == expected
    assert [found.words[word] for word in range(len(words))] == expected
    assert found.counts.tolist() == [counts.get(word, 7) for word in expected]
    assert [sorted(words, key=str.encode)[place] for place in order] == expected
    plain = Vocabulary(expected, found.counts, rules)
    assert (found.eos_id, found.unk_id, found.bos_id) == (plain.eos_id, plain.unk_id, plain.bos_id)
    assert found.digest == plain.digest
    asked = [*words, "never", "", "zz", "\U0010ffff"]
    assert found.encode(asked[-9:]).tolist() == plain.encode(asked[-9:]).tolist()
    assert found.encode(asked * 40).tolist() == plain.encode(asked * 40).tolist()
    assert [word in found for word in asked] == [word in plain for word in asked]
    for prefix in ("a", "é", "ab", "zz", "<"):
        assert found.begin_with(prefix).tolist() == [word.startswith(prefix) for word in expected]


def test_vocabularies_that_are_none() -> None:
    rules = TextRules()
    parts = pack_vocabulary(Vocabulary(["a", "</s>", "<unk>"], np.array([3, 2, 1]), rules))
    huge = pack_varints(np.array([1, 2**62, 3]))
    lacking = {"words": pack_words([b"a", b"b", b"c"]), "counts": parts["counts"]}
    for changed, told in (
        (parts | {"counts": parts["counts"] + b"\1"}, "follows its counts"),
        (parts | {"counts": parts["counts"][:2]}, "too short"),
        (parts | {"counts": huge}, "more often"),
        (lacking, "lacks '</s>'"),
    ):
        with pytest.raises(LightRNNError, match=f"^x is damaged: .*{told}"):
            unpack_vocabulary(changed, 3, rules, "x")
