"""Files of token ids: .npy files of int32, written and read as streams, so that they stay out of the memory."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ..errors import LightRNNError
from ..runtime import Progress

CHUNK = 1 << 22  # token ids handled at once when streaming over a file of them
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


def cut_ids(path: Path, length: int) -> None:
    """Shorten a .npy file of ids."""
    with path.open("r+b") as file:
        write_header(file, length)
        file.truncate(file.tell() + 4 * length)


def open_ids(path: Path, mode: str) -> IO[bytes]:
    """A .npy file of ids, positioned at the first. Read in chunks, it stays out of the process's memory."""
    file = cast(IO[bytes], path.open(mode))
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


def id_chunks(path: Path, start: int = 0) -> Iterator[NDArray[np.int32]]:
    with open_ids(path, "rb") as file:
        file.seek(4 * start, os.SEEK_CUR)
        while data := file.read(4 * CHUNK):
            yield np.frombuffer(data, "<i4")


def renumber(path: Path, numbers: NDArray[np.int32], progress: Progress) -> None:
    """Replace every id i of the file by numbers[i], in place."""
    done = 0
    with open_ids(path, "r+b") as file:
        while data := file.read(4 * CHUNK):
            file.seek(-len(data), os.SEEK_CUR)
            file.write(numbers[np.frombuffer(data, "<i4")].tobytes())
            done += len(data) // 4
            progress("numbering", done)


def bincount(path: Path, size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, np.int64)
    for chunk in id_chunks(path):
        counts += np.bincount(chunk, minlength=size)
    return counts
