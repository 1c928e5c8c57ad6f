"""Windows of token ids: every token once, in either convention."""

import itertools

import numpy as np
import pytest

from lightrnn.text.windows import sentence_windows, stream_windows


def test_stream_windows_cover_the_stream_once() -> None:
    ids = np.arange(1, 104, dtype=np.int32)
    tracks: list[list[int]] = [[] for _ in range(5)]
    for index, window in enumerate(stream_windows(ids, 0, 5, 7)):
        assert window.starts == (index == 0)
        for track, words in zip(tracks, window.words.tolist(), strict=True):
            assert words[0] == (track[-1] if track else words[1] - 1)
            track.extend(words[1:])
    assert list(itertools.chain(*tracks)) == list(range(1, 101))


def test_sentence_windows_cover_every_sentence_once() -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(5000) < 0.1, 0, rng.integers(2, 50, 5000)).astype(np.int32)
    ids[-1] = 0
    sentences = []
    current: list[list[int]] = []
    for window in sentence_windows(ids, 1, 0, 8, 6, np.random.default_rng(3)):
        if window.starts:
            sentences += current
            assert (window.words[:, 0] == 1).all()
            current = [[] for _ in window.words]
        for track, words, mask in zip(current, window.words[:, 1:], window.mask, strict=True):
            track.extend(words[mask].tolist())
    sentences += current
    expected = [s.tolist() for s in np.split(ids, np.flatnonzero(ids == 0) + 1) if len(s)]
    assert sorted(sentences) == sorted(expected)


@pytest.mark.parametrize("skip", [0, 1, 7, 31, 10**6])
def test_skipped_windows_are_the_first_ones(skip: int) -> None:
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(3000) < 0.1, 0, rng.integers(2, 50, 3000)).astype(np.int32)

    def listed(skipped: int) -> list[list[list[int]]]:
        stream = stream_windows(ids, 0, 5, 7, skipped)
        sentences = sentence_windows(ids, 1, 0, 8, 6, np.random.default_rng(3), skipped)
        return [[window.words.tolist() for window in windows] for windows in (stream, sentences)]

    assert listed(skip) == [windows[skip:] for windows in listed(0)]
