"""Files: compressed ones of every make, and digests that are worked out once for each change."""

import os
from pathlib import Path

import numpy as np
import pytest
import zstandard

from helpers import flip_bit, made_up_text
from lightrnn import files
from lightrnn.errors import LightRNNError
from lightrnn.files import read_blocks
from lightrnn.text.corpus import Corpus


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
                assert max(map(len, blocks), default=0) <= 1 << 17  # what zstandard gives at a time
                for cut in (1, 3, len(pack(data)) // 2):
                    path.write_bytes(packed[:-cut])
                    with pytest.raises(LightRNNError, match=r"not a complete \.zst file"):
                        list(read_blocks(path))


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Small files are remembered too, in a cache of the test; the files that were read through to be hashed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "REMEMBERED_BYTES", 0)
    hashed: list[Path] = []
    hash_file = files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: (hashed.append(path), hash_file(path))[1])
    return hashed


def test_a_file_is_hashed_once_for_each_change(
    data: Path, remembering: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    Corpus.load(data)
    Corpus.load(data)
    assert len(remembering) == 6  # too new to be remembered
    remembering.clear()
    clock = files.time.time
    monkeypatch.setattr(files.time, "time", lambda: clock() + 100)
    Corpus.load(data)
    Corpus.load(data)
    assert len(remembering) == 3
    times = (data / "train.npy").stat()
    flip_bit(data / "train.npy", -4)
    os.utime(data / "train.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(LightRNNError, match=r"train\.npy is damaged"):
            Corpus.load(data)
    flip_bit(data / "train.npy", -4)
    Corpus.load(data)


def test_a_cache_that_cannot_be_written_is_done_without(
    data: Path, remembering: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.time, "time", lambda: 1e12)
    (tmp_path / "cache").write_text("no folder")
    Corpus.load(data)
    Corpus.load(data)
    assert len(remembering) == 6


def test_zstandard_files_that_take_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.zst"
    path.write_bytes(
        b"\x28\xb5\x2f\xfd" + bytes([0, 18 << 3]) + (1 | 2 << 3).to_bytes(3, "little") + b"a\n"
    )  # --long=28
    with pytest.raises(LightRNNError, match=r"takes more than 128 MB to unfold, .* compress it without that"):
        list(read_blocks(path))
