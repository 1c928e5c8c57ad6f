"""Files of token ids: .npy files of int32, written and read as streams, so that they stay out of the memory."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ..errors import LightRNNError

CHUNK = 1 << 20  # token ids handled at once when streaming over a file of them
HEADER = re.compile(  # of a .npy file, with the number of ids
    rb"\x93NUMPY\x01\x00(..)\{'descr': '<i4', 'fortran_order': False, 'shape': \((\d{1,15}),\), \} *\n", re.DOTALL
)


def write_header(file: IO[bytes], length: int) -> None:
    """A .npy header; numpy pads it so that one with another length takes the same room."""
    file.seek(0)
    npy_format.write_array_header_1_0(file, {"descr": "<i4", "fortran_order": False, "shape": (length,)})


def write_ids(path: Path, blocks: Iterable[NDArray[np.int32]]) -> int:
    """Stream ids into a .npy file whose length is known only at the end; returns the length."""
    length = 0
    with path.open("wb") as file:
        write_header(file, length)
        for block in blocks:
            file.write(block.astype("<i4", copy=False).tobytes())
            length += len(block)
        write_header(file, length)
        file.flush()
        os.fsync(file.fileno())
    return length


def open_ids(path: Path) -> IO[bytes]:
    """A .npy file of ids, positioned at the first. Read in chunks, it stays out of the process's memory."""
    file = path.open("rb")
    npy_format.read_magic(file)
    npy_format.read_array_header_1_0(file)
    return file


def check_header(path: Path, tokens: int) -> None:
    """Refuse a file that is not as `write_ids` writes it, with so many ids."""
    with path.open("rb") as file:
        match = HEADER.match(file.read(1 << 10))
    if match is None or int.from_bytes(match[1], "little") != match.end() - 10:
        raise LightRNNError(f"{path} is no list of token ids; prepare the text again")
    if int(match[2]) != tokens or path.stat().st_size != match.end() + 4 * tokens:
        raise LightRNNError(
            f"{path} does not hold the {tokens:,} tokens that data.json tells of; prepare the text again"
        )


def id_chunks(path: Path) -> Iterator[NDArray[np.int32]]:
    with open_ids(path) as file:
        yield from chunks_of(file)


def chunks_of(file: IO[bytes], most: int = sys.maxsize) -> Iterator[NDArray[np.int32]]:
    """The ids that follow in an open file, so many at most."""
    while data := file.read(4 * min(CHUNK, most)):
        yield np.frombuffer(data, "<i4")
        most -= len(data) // 4


def bincount(path: Path, size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, np.int64)
    for chunk in id_chunks(path):
        counts += np.bincount(chunk, minlength=size)
    return counts
