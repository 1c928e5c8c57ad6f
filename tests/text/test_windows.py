"""Windows of token ids: every token once, in either convention."""

import itertools

import numpy as np
import pytest

from lightrnn.text.spelling import Spelling
from lightrnn.text.windows import STRETCH, sampled, sentence_windows, stream_windows


def test_stream_windows_cover_the_stream_once() -> None:
    ids = np.arange(1, 104, dtype=np.int32)
    tracks: list[list[int]] = [[] for _ in range(5)]
    for index, window in enumerate(stream_windows(ids, Spelling(), 0, 5, 7)):
        assert window.starts == (index == 0)
        for track, words in zip(tracks, window.codes.tolist(), strict=True):
            assert words[0] == (track[-1] if track else words[1] - 1)
            track.extend(words[1:])
    assert list(itertools.chain(*tracks)) == list(range(1, 101))


def test_a_sample_is_stretches_from_all_over_the_text() -> None:
    ids = np.arange(30 * STRETCH + 77, dtype=np.int32)
    some = sampled(ids, 5 * STRETCH).reshape(-1, STRETCH)
    assert (some == some[:, :1] + np.arange(STRETCH)).all()
    assert len(some) == 5
    assert some[0, 0] == 0
    assert some[-1, -1] == ids[-1]
    assert np.ptp(np.diff(some[:, 0])) <= 1
    for whole in (0, len(ids) - 1, len(ids), len(ids) + 1):
        assert sampled(ids, whole) is ids
    assert (sampled(ids[:100], 50) == ids[:100]).all()  # less than a stretch


def test_sentence_windows_cover_every_sentence_once() -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(5000) < 0.1, 0, rng.integers(2, 50, 5000)).astype(np.int32)
    ids[-1] = 0
    sentences = []
    current: list[list[int]] = []
    for window in sentence_windows(ids, Spelling(), 1, 0, 8, 6, np.random.default_rng(3)):
        if window.starts:
            sentences += current
            assert (window.codes[:, 0] == 1).all()
            current = [[] for _ in window.codes]
        for track, words, mask in zip(current, window.codes[:, 1:], window.mask, strict=True):
            track.extend(words[mask].tolist())
    sentences += current
    expected = [s.tolist() for s in np.split(ids, np.flatnonzero(ids == 0) + 1) if len(s)]
    assert sorted(sentences) == sorted(expected)


def spelling_of(size: int) -> Spelling:
    """Words of one code, two and three in turns: w; w, 50 + w; w, 50 + w, 100 + w."""
    words = np.arange(size)
    codes = np.full((size, 3), -1)
    codes[:, 0] = words
    codes[1::3, :2] = np.stack([words, 50 + words], axis=1)[1::3]
    codes[2::3] = np.stack([words, 50 + words, 100 + words], axis=1)[2::3]
    return Spelling(codes, size)


@pytest.mark.parametrize(("batch_size", "window"), [(1, 1), (1, 10**6), (5, 7), (3, 1), (7, 100)])
def test_windows_of_codes_cover_the_stream_once_and_cut_words(batch_size: int, window: int) -> None:
    ids = np.random.default_rng(1).integers(50, size=999).astype(np.int32)
    spelling = spelling_of(50)
    written = [code for word in ids for code in spelling.codes[word] if code >= 0]
    front = [code for code in spelling.codes[0] if code >= 0]
    tracks: list[list[int]] = [[] for _ in range(batch_size)]
    tokens, cut = 0, 0
    for part in stream_windows(ids, spelling, 0, batch_size, window):
        for number, codes in enumerate(part.codes.tolist()):
            begin = number * (len(written) * (999 // batch_size) // 999) + len(tracks[number])
            before = [-1, -1, -1, *front, *written][begin + len(front) : begin + len(front) + 3]
            assert codes[:3] == before
            tracks[number].extend(codes[3:])
            tokens += sum(code < 50 for code in codes[3:])
            cut += codes[3] >= 50
        assert part.tokens == (part.codes[:, 3:] < 50).sum()
    read = list(itertools.chain(*tracks))
    assert read == written[: len(read)]
    assert len(written) - len(read) < 2 * batch_size + len(written) % 999
    assert cut or window > 999  # some windows begin inside a word


def test_sentences_of_codes_are_whole_and_start_afresh() -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(2000) < 0.1, 0, rng.integers(2, 50, 2000)).astype(np.int32)
    ids[-1] = 0
    spelling = spelling_of(50)
    sentences, current = [], []  # type: ignore[var-annotated]
    for window in sentence_windows(ids, spelling, 1, 0, 8, 6, np.random.default_rng(3)):
        if window.starts:
            sentences += current
            assert (window.codes[:, :3] == [-1, 1, 51]).all()  # bos has two codes
            current = [[] for _ in window.codes]
        for track, codes, mask in zip(current, window.codes[:, 3:], window.mask, strict=True):
            track.extend(codes[mask].tolist())
    sentences += current
    expected = [spelling.spell(s).tolist() for s in np.split(ids, np.flatnonzero(ids == 0) + 1) if len(s)]
    assert sorted(sentences) == sorted(expected)


def test_a_stream_of_codes_is_what_its_words_spell() -> None:
    ids = np.random.default_rng(2).integers(50, size=5000).astype(np.int32)
    spelling = spelling_of(50)
    written = spelling.spell(ids)
    stream = spelling.stream(ids)
    assert len(stream) == len(written)
    for begin, stop in np.sort(np.random.default_rng(3).integers(len(written) + 1, size=(200, 2)), axis=1).tolist():
        assert stream[begin:stop].tolist() == written[begin:stop].tolist()
    parts = np.arange(len(written), dtype=np.float32)[:, None]
    by_word = spelling.by_word(parts, ids)
    assert (by_word[spelling.codes[ids] >= 0] == parts[:, 0]).all()
    assert (spelling.ends(ids)[1:-1] == by_word[1:, 0]).all()


@pytest.mark.parametrize("spelling", [Spelling(), spelling_of(50)], ids=["words", "codes"])
@pytest.mark.parametrize("skip", [0, 1, 7, 31, 10**6])
def test_skipped_windows_are_the_first_ones(skip: int, spelling: Spelling) -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(3000) < 0.1, 0, rng.integers(2, 50, 3000)).astype(np.int32)

    def listed(skipped: int) -> list[list[list[int]]]:
        stream = stream_windows(ids, spelling, 0, 5, 7, skipped)
        sentences = sentence_windows(ids, spelling, 1, 0, 8, 6, np.random.default_rng(3), skipped)
        return [[window.codes.tolist() for window in windows] for windows in (stream, sentences)]

    assert listed(skip) == [windows[skip:] for windows in listed(0)]
