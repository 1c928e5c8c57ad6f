"""One file of named parts: what `lightrnn pack` and `lightrnn ngram -o NAME.lightrnn` write. docs/packed-format.md.

    magic  version  number of parts  {name  encoding  stored length  raw length  CRC-32} …  CRC-32 of all of this
    part  part  …

Every byte is under a checksum, nothing lies between the parts or after the last, and lengths are known before anything
is read or inflated: a file that is cut, damaged, hostile or newer is refused with one sentence. Arrays in, bytes out.
"""

import struct
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .border import check, parse_json, record, text, whole
from .errors import LightRNNError

MAGIC = b"\x89LRNN\r\n\x1a"
VERSION = 1
STORED, DEFLATED = 0, 1
MOST_PARTS = 64
LARGEST = 1 << 36  # bytes of a part
MOST_INFLATED = 50  # times as many bytes as are stored
ABOUT = record({"kind": text(), "vocabulary_size": whole(2, 2**31), "rules": record({})})

_HEAD = struct.Struct("<8sII")  # magic, version, number of parts
_ENTRY = struct.Struct("<8sBQQI")  # name, encoding, stored length, raw length, CRC-32 of what is stored
_CHECK = struct.Struct("<I")
REMEDY = "copy it again or pack the model again"


def write_parts(parts: Mapping[str, bytes], stored: Collection[str] = ()) -> bytes:
    """The file of these parts, in this order; a part is deflated where that saves a fiftieth of it or more, and not so
    much that a reader would take it for a bomb; but for those that are to be `stored` as they are."""
    entries, bodies = [], []
    for name, raw in parts.items():
        deflated = raw if name in stored else zlib.compress(raw, 9)
        pays = 50 * len(deflated) <= 49 * len(raw) <= 49 * MOST_INFLATED * len(deflated)
        encoding, body = (DEFLATED, deflated) if pays else (STORED, raw)
        entries.append(_ENTRY.pack(name.encode(), encoding, len(body), len(raw), zlib.crc32(body)))
        bodies.append(body)
    head = _HEAD.pack(MAGIC, VERSION, len(parts)) + b"".join(entries)
    return b"".join([head, _CHECK.pack(zlib.crc32(head)), *bodies])


def is_packed(path: str | Path) -> bool:
    """Whether a file begins like one of parts, whole or not."""
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_parts(data: bytes, origin: str) -> dict[str, bytes]:
    """What `write_parts` was given, checked; `origin` names the file in the errors."""
    if not data.startswith(MAGIC):
        raise LightRNNError(f"{origin} is no packed model: it does not begin like one; give a file of lightrnn pack")
    if len(data) < _HEAD.size:
        raise damaged(origin, "it ends within its header")
    _, version, count = _HEAD.unpack_from(data)
    if version > VERSION:
        raise LightRNNError(
            f"{origin} was packed by a newer lightrnn (format {version}, this one reads up to {VERSION}); "
            "upgrade lightrnn"
        )
    head = _HEAD.size + _ENTRY.size * count
    if not version >= 1 or not 1 <= count <= MOST_PARTS or len(data) < head + _CHECK.size:
        raise damaged(origin, "its header is not whole")
    if _CHECK.unpack_from(data, head)[0] != zlib.crc32(data[:head]):
        raise damaged(origin, "the checksum of its header is wrong")
    parts: dict[str, bytes] = {}
    begin = head + _CHECK.size
    for entry in _ENTRY.iter_unpack(data[_HEAD.size : head]):
        field, encoding, stored, raw, checksum = entry
        name = field.rstrip(b"\0").decode("ascii", "replace")
        body = data[begin : begin + stored]
        begin += stored
        if len(body) < stored:
            raise damaged(origin, f"it ends within its part {name!r}")
        if zlib.crc32(body) != checksum:
            raise damaged(origin, f"the checksum of its part {name!r} is wrong")
        if encoding not in (STORED, DEFLATED) or raw > min(LARGEST, MOST_INFLATED * stored) or name in parts:
            raise damaged(origin, f"its part {name!r} is not described as it should be")
        parts[name] = _inflated(body, raw, name, origin) if encoding == DEFLATED else body
        if len(parts[name]) != raw:
            raise damaged(origin, f"its part {name!r} has not the length that it should have")
    if begin != len(data):
        raise damaged(origin, "something follows its last part")
    return parts


def read_about(parts: Mapping[str, bytes], origin: str) -> dict[str, Any]:
    """What the part "about" says of the file, whatever kind of model is in it."""
    if "about" not in parts:
        raise damaged(origin, "it does not say what it is")
    about: dict[str, Any] = check(parse_json(parts["about"], origin, REMEDY), ABOUT, origin, REMEDY)
    return about


def part_sizes(data: bytes) -> dict[str, int]:
    """The stored bytes of each part of a file that is sound; what describes them is "its header", longer than a part's
    name can be."""
    count = _HEAD.unpack_from(data)[2]
    head = _HEAD.size + _ENTRY.size * count
    entries = _ENTRY.iter_unpack(data[_HEAD.size : head])
    return {"its header": head + _CHECK.size} | {entry[0].rstrip(b"\0").decode(): entry[2] for entry in entries}


def damaged(origin: str, reason: str) -> LightRNNError:
    return LightRNNError(f"{origin} is damaged: {reason}; {REMEDY}")


def _inflated(body: bytes, raw: int, name: str, origin: str) -> bytes:
    """At most one byte more than there should be, whatever the part would come to."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(body, raw + 1)
    except zlib.error:
        raise damaged(origin, f"its part {name!r} cannot be inflated") from None
    if not inflater.eof and len(found) <= raw:
        raise damaged(origin, f"its part {name!r} ends too early")
    if inflater.unused_data:
        raise damaged(origin, f"something follows the end of its part {name!r}")
    return found


def pack_bits(values: NDArray[np.int64], width: int) -> bytes:
    """Whole numbers ≥ 0 of `width` bits each, one after the other, least significant bit first."""
    shifts = np.arange(width, dtype=np.int64)
    blocks = []
    for some in np.array_split(values, max(1, -(-len(values) // (1 << 17)))) if len(values) else []:
        blocks.append(((some[:, None] >> shifts) & 1).astype(np.uint8).ravel())
    return np.packbits(np.concatenate([np.zeros(0, np.uint8), *blocks]), bitorder="little").tobytes()


def unpack_bits(data: bytes, count: int, width: int) -> NDArray[np.int64]:
    """The first `count` of them, from a part long enough; width at most 56."""
    padded = np.frombuffer(data + bytes(8), np.uint8)
    starts = np.arange(count, dtype=np.int64) * width
    words = np.zeros(count, np.uint64)
    for byte in range(8):
        words |= padded[(starts >> 3) + byte].astype(np.uint64) << np.uint64(8 * byte)
    return ((words >> (starts & 7).astype(np.uint64)) & np.uint64((1 << width) - 1)).astype(np.int64)


def bits_for(size: int) -> int:
    """The bits of a number below `size`."""
    return max(int(size - 1).bit_length(), 1)


def pack_varints(values: NDArray[np.int64]) -> bytes:
    """LEB128: whole numbers ≥ 0 in groups of seven bits, least significant first, the high bit saying that more
    follow."""
    lengths = np.ones(len(values), np.int64)
    for group in range(1, 9):
        lengths += values >= (1 << (7 * group))
    starts = np.cumsum(lengths) - lengths
    found = np.zeros(int(lengths.sum()), np.uint8)
    for group in range(9):
        some = lengths > group
        more = (lengths[some] > group + 1).astype(np.uint8) << 7
        found[starts[some] + group] = ((values[some] >> (7 * group)) & 127).astype(np.uint8) | more
    return found.tobytes()


def unpack_varints(data: bytes, count: int, origin: str) -> tuple[NDArray[np.int64], int]:
    """`count` of them from the beginning of some bytes, and how many bytes they took."""
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array < 128)[:count]
    if len(ends) < count:
        raise damaged(origin, "a list of numbers in it is too short")
    starts = np.concatenate([[0], ends[:-1] + 1]) if count else ends
    lengths = ends - starts + 1
    if count and lengths.max() > 9:
        raise damaged(origin, "a number in it has more than 63 bits")
    values = np.zeros(count, np.int64)
    for group in range(int(lengths.max()) if count else 0):
        some = lengths > group
        values[some] |= (array[starts[some] + group].astype(np.int64) & 127) << (7 * group)
    return values, int(ends[-1]) + 1 if count else 0
