"""N-gram models as packed files: there and back, cut, damaged, and made to deceive."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lightrnn
from helpers import Call, made_up_sentences, printed, random_sentences, refused, stream, vocabulary_of, vocabulary_with
from lightrnn.container import read_parts, write_parts
from lightrnn.errors import LightRNNError
from lightrnn.ngram.arpa import read_arpa, write_arpa
from lightrnn.ngram.kneser_ney import estimate
from lightrnn.ngram.model import NGram
from lightrnn.ngram.packed import pack, read_packed, unpack, write_packed
from lightrnn.text.corpus import Corpus

FLOAT32 = 2e-6  # log10: half a unit in the last place of what is stored, an order


def assert_same(one: NGram, other: NGram) -> None:
    """Scores and distributions by word, whatever the ids."""
    assert one.counts == other.counts
    assert sorted(one.vocabulary.words) == sorted(other.vocabulary.words)
    texts = [*made_up_sentences(300, seed=9), *random_sentences(30, one.vocabulary.words, seed=4)]
    (scores, orders), (again, orders_again) = (m.score_tokens(stream(texts, m.vocabulary)) for m in (one, other))
    np.testing.assert_allclose(again, scores, rtol=0, atol=FLOAT32)
    np.testing.assert_array_equal(orders_again, orders)
    for context in texts[:5]:
        states = [m.read(m.start_state(of_sentence=True), m.vocabulary.encode(context))[1] for m in (one, other)]
        first, second = (m.distribution(s) for m, s in zip((one, other), states, strict=True))
        words = sorted(one.vocabulary.words)
        np.testing.assert_allclose(
            second[other.vocabulary.encode(words)], first[one.vocabulary.encode(words)], rtol=0, atol=FLOAT32
        )


def test_there_and_back(small: NGram, tmp_path: Path) -> None:
    path = tmp_path / "kn.lightrnn"
    write_packed(small, path)
    again = read_packed(path)
    assert_same(small, again)
    assert again.discounts == small.discounts
    assert again.vocabulary.rules == small.vocabulary.rules
    counts = dict(zip(small.vocabulary.words, small.vocabulary.counts.tolist(), strict=True))
    assert dict(zip(again.vocabulary.words, again.vocabulary.counts.tolist(), strict=True)) == counts
    with pytest.raises(LightRNNError, match="exists; choose another"):
        write_packed(small, path)
    write_packed(again, path, force=True)
    assert_same(small, read_packed(path))
    assert [file.name for file in tmp_path.iterdir()] == ["kn.lightrnn"]


@pytest.mark.parametrize("order", [1, 2, 5])
def test_orders_pruned_and_with_ids_by_count(order: int, tmp_path: Path) -> None:
    sentences = made_up_sentences()
    vocabulary = vocabulary_with([word for sentence in sentences for word in sentence], None)
    ids = stream(sentences, vocabulary)
    vocabulary.counts = np.bincount(ids, minlength=len(vocabulary))
    model = estimate(ids, vocabulary, order, prune=[0, 1][:order])
    write_packed(model, tmp_path / "kn.lightrnn")
    again = read_packed(tmp_path / "kn.lightrnn")
    assert_same(model, again)
    assert (np.diff(again.vocabulary.counts) <= 0).all()
    write_arpa(model, tmp_path / "kn.arpa")
    write_arpa(again, tmp_path / "again.arpa")
    foreign = read_arpa(tmp_path / "kn.arpa")
    assert_same(foreign, read_arpa(tmp_path / "again.arpa"))
    write_packed(foreign, tmp_path / "foreign.lightrnn")
    assert_same(foreign, read_packed(tmp_path / "foreign.lightrnn"))


def test_ids_of_more_than_two_bytes(tmp_path: Path) -> None:
    vocabulary = vocabulary_of(66_000)
    model = estimate(np.array([65_999, 65_998, 65_999, vocabulary.eos_id], np.int32), vocabulary, 2)
    write_packed(model, tmp_path / "kn.lightrnn")
    again = read_packed(tmp_path / "kn.lightrnn")
    text = again.vocabulary.encode(["w65997", "w65996", "w65997", "</s>", "w3"])
    np.testing.assert_allclose(
        again.score_tokens(text)[0],
        model.score_tokens(vocabulary.encode(["w65997", "w65996", "w65997", "</s>", "w3"]))[0],
    )


@pytest.fixture(scope="module")
def tiny_file() -> bytes:
    vocabulary = vocabulary_with(["a", "b", "c"], None)
    return write_parts(pack(estimate(stream([("a", "b"), ("a",), ("b", "a", "b")], vocabulary), vocabulary, 3)))


def reads(path: Path, data: bytes) -> bool:
    """Whether a file is taken; if not, then with one sentence."""
    path.write_bytes(data)
    told = ""
    try:
        read_packed(path)
    except LightRNNError as error:
        told = str(error)
    assert not told or (str(path) in told and "\n" not in told)
    return not told


def test_every_byte_flipped_and_every_cut(tiny_file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kn.lightrnn"
    assert reads(path, tiny_file)
    for place in range(len(tiny_file)):
        for mask in (1, 0x80, 0xFF):
            flipped = bytearray(tiny_file)
            flipped[place] ^= mask
            assert not reads(path, bytes(flipped)), (place, mask)
        assert not reads(path, tiny_file[:place])
    assert not reads(path, tiny_file + b"x")


Parts = dict[str, bytes]


def about(parts: Parts, **fields: object) -> Parts:
    return parts | {"about": json.dumps(json.loads(parts["about"]) | fields).encode()}


def array(parts: Parts, name: str, sort: str, change: Callable[[np.ndarray], object]) -> Parts:
    values = np.frombuffer(parts[name], sort).copy()
    change(values)
    return parts | {name: values.tobytes()}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: array(p, "grams", "<u2", lambda a: a[6:].sort()), "are not in order"),
        (lambda p: array(p, "grams", "<u2", lambda a: a.__setitem__(slice(8, 9), a[7])), "not in order"),
        (lambda p: array(p, "grams", "<u2", lambda a: a.__setitem__(-1, 6)), "not in order"),
        (lambda p: array(p, "grams", "<u2", lambda a: a.__setitem__(0, 9)), "not in order"),
        (lambda p: array(p, "probs", "<f4", lambda a: a.__setitem__(3, np.nan)), "not finite"),
        (lambda p: array(p, "probs", "<f4", lambda a: a.__setitem__(0, -np.inf)), "not finite"),
        (lambda p: array(p, "probs", "<f4", lambda a: a.__setitem__(0, 0.5)), "above 0"),
        (lambda p: array(p, "backoffs", "<f4", lambda a: a.__setitem__(-1, np.inf)), "not finite"),
        (lambda p: array(p, "follow", "u1", lambda a: a.__setitem__(0, a[0] + 1)), "are not as many"),
        (lambda p: array(p, "follow", "u1", lambda a: a.__setitem__(0, 127)), "are not as many"),
        (lambda p: p | {"follow": b"\xff" * 8 + b"\x7f" + p["follow"][1:]}, "are not as many"),
        (lambda p: p | {"follow": p["follow"] + b"\0"}, "do not fit"),
        (lambda p: p | {"follow": p["follow"][:-1]}, "too short"),
        (lambda p: p | {"grams": p["grams"][:-2]}, "'grams' has not the length"),
        (lambda p: p | {"backoffs": p["backoffs"] + bytes(4)}, "'backoffs' has not the length"),
        (lambda p: about(p, ngrams=[2**40] * 5), "has not the length"),
        (lambda p: about(p, ngrams=[]), "ngrams must be a list"),
        (lambda p: about(p, ngrams=[1.5]), "ngrams[0] must be a whole number"),
        (lambda p: about(p, vocabulary_size=2**31), "fewer words"),
        (lambda p: about(p, vocabulary_size=4), "length"),
        (lambda p: about(p, kind="lightrnn"), "its parts are not"),
        (lambda p: about(p, discounts=[[1, 2]]), "discounts[0] must be"),
        (lambda p: about(p, rules={"eos": "a", "unk": "a"}), "must be different words"),
        (lambda p: about(p, rules={"bos": "<S>"}), "lacks '<S>'"),
        (lambda p: p | {"about": b"{"}, "is not valid JSON"),
        (lambda p: p | {"about": b"[]"}, "must be an object"),
        (lambda p: {name: part for name, part in p.items() if name != "about"}, "does not say what it is"),
        (lambda p: {name: part for name, part in p.items() if name != "probs"}, "its parts are not"),
        (lambda p: p | {"more": b""}, "its parts are not"),
    ],
)
def test_files_whose_checksums_are_right(
    tiny_file: bytes, tmp_path: Path, change: Callable[[Parts], Parts], told: str, call: Call
) -> None:
    (tmp_path / "kn.lightrnn").write_bytes(write_parts(change(read_parts(tiny_file, ""))))
    sentence = refused(call("score", "kn.lightrnn", stdin=b"a b\n"))
    assert told in sentence
    assert "kn.lightrnn" in sentence


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_changes_of_parts_are_refused_or_give_a_model(tiny_file: bytes, data: st.DataObject) -> None:
    parts = read_parts(tiny_file, "")
    for name in data.draw(st.lists(st.sampled_from(["grams", "follow", "probs", "backoffs", "words"]), min_size=1)):
        content = bytearray(parts[name])
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        parts[name] = bytes(content)
    try:
        model = unpack(parts, json.loads(parts["about"]), "it")
    except LightRNNError:
        return
    ids = np.arange(len(model.vocabulary), dtype=np.int32)
    assert np.isfinite(model.score_tokens(ids)[0]).all()
    assert np.isfinite(model.distribution(model.start_state(of_sentence=True))).all()


def test_commands_take_it(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    printed(call("ngram", tiny.path, "--order", "3", "--prune", "0 0 1", "-o", "kn.lightrnn"))
    printed(call("ngram", tiny.path, "--order", "3", "--prune", "0 0 1", "-o", "kn.arpa"))
    packed, arpa = (
        json.loads(printed(call("evaluate", name, tiny.path, "--json"))) for name in ("kn.lightrnn", "kn.arpa")
    )
    assert packed["tokens"] == arpa["tokens"]
    assert packed["perplexity"] == pytest.approx(arpa["perplexity"], rel=1e-6)
    word = tiny.vocabulary.words[-1]
    one, other = (
        [found["probability"] for found in json.loads(printed(call("next", name, word, "--json")))["words"]]
        for name in ("kn.lightrnn", "kn.arpa")
    )
    assert one == pytest.approx(other, rel=1e-6)  # in float32, and in eight digits
    printed(call("mix", "kn.lightrnn", "kn.arpa", "--tune", tiny.path, "-o", "mixed"))
    one, other = (lightrnn.load(tmp_path / name).score(word) for name in ("mixed", "kn.lightrnn"))
    assert one == pytest.approx(other, abs=1e-5)  # of two models that are the same


def test_a_packed_model_can_be_written_as_an_arpa_file(small: NGram, tmp_path: Path) -> None:
    write_packed(small, tmp_path / "kn.lightrnn")
    write_arpa(read_packed(tmp_path / "kn.lightrnn"), tmp_path / "kn.arpa")
    write_arpa(small, tmp_path / "straight.arpa")
    assert_same(read_arpa(tmp_path / "straight.arpa"), read_arpa(tmp_path / "kn.arpa"))
