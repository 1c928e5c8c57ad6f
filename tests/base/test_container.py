"""One file of named parts: what goes in comes out, and what is not whole is told in one sentence."""

import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightrnn.container import (
    DEFLATED,
    MAGIC,
    MOST_INFLATED,
    bits_for,
    pack_bits,
    pack_varints,
    part_sizes,
    read_parts,
    unpack_bits,
    unpack_varints,
    write_parts,
)
from lightrnn.errors import LightRNNError

NAMES = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
BODIES = st.binary(max_size=300) | st.integers(0, 10**4).map(bytes) | st.integers(0, 2000).map(lambda n: b"abc" * n)
PARTS = {"about": b'{"a": 1}' * 9, "weights": bytes(range(256)), "empty": b""}


def refusal(data: bytes) -> str:
    with pytest.raises(LightRNNError, match=r"^x .{10,}; .{5,}") as refused:
        read_parts(data, "x")
    assert "\n" not in str(refused.value)
    return str(refused.value)


def entry(name: bytes, encoding: int, stored: int, raw: int, body: bytes) -> bytes:
    return struct.pack("<8sBQQI", name, encoding, stored, raw, zlib.crc32(body))


def file_of(entries: list[bytes], *bodies: bytes, version: int = 1, count: int | None = None) -> bytes:
    """A file with any header, under a checksum that is right."""
    head = struct.pack("<8sII", MAGIC, version, len(entries) if count is None else count) + b"".join(entries)
    return head + struct.pack("<I", zlib.crc32(head)) + b"".join(bodies)


@given(st.dictionaries(NAMES, BODIES, min_size=1, max_size=9))
@example({"header": b""})
def test_parts_come_back(parts: dict[str, bytes]) -> None:
    data = write_parts(parts)
    assert read_parts(data, "x") == parts
    assert list(read_parts(data, "x")) == list(parts)
    sizes = part_sizes(data)
    assert list(sizes) == ["its header", *parts]
    assert sum(sizes.values()) == len(data)


def test_the_layout_is_the_one_of_the_docs() -> None:
    body = b"as it is"
    assert write_parts({"part": body}) == file_of([entry(b"part", 0, 8, 8, body)], body)


@pytest.mark.parametrize("mask", [0xFF, 0x01, 0x80])
def test_every_byte_that_changes_is_seen(mask: int) -> None:
    data = write_parts(PARTS)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= mask
        refusal(bytes(damaged))


def test_every_cut_is_seen() -> None:
    data = write_parts(PARTS)
    for length in range(len(data)):
        refusal(data[:length])
    assert "follows its last part" in refusal(data + b"\0")


def bomb(times: int) -> bytes:
    body = zlib.compress(bytes(10**6), 9)
    return file_of([entry(b"bomb", DEFLATED, len(body), times * len(body), body)], body)


HOSTILE: dict[str, Callable[[], tuple[bytes, str]]] = {
    "newer": lambda: (file_of([entry(b"a", 0, 0, 0, b"")], version=2), "upgrade"),
    "version 0": lambda: (file_of([entry(b"a", 0, 0, 0, b"")], version=0), "header"),
    "no parts": lambda: (file_of([]), "header"),
    "too many parts": lambda: (file_of([entry(b"%d" % n, 0, 0, 0, b"") for n in range(65)]), "header"),
    "more parts than there are": lambda: (file_of([], count=2**32 - 1), "header"),
    "a part twice": lambda: (file_of([entry(b"a", 0, 1, 1, b"x")] * 2, b"xx"), "not described"),
    "unknown encoding": lambda: (file_of([entry(b"a", 2, 1, 1, b"x")], b"x"), "not described"),
    "longer than the file": lambda: (file_of([entry(b"a", 0, 2**63, 2**63, b"x")], b"x"), "ends within"),
    "raw is not stored": lambda: (file_of([entry(b"a", 0, 1, 2, b"x")], b"x"), "length"),
    "inflates to terabytes": lambda: (file_of([entry(b"a", 1, 1, 2**60, b"x")], b"x"), "not described"),
    "a bomb that tells": lambda: (bomb(1000), "not described"),
    "a bomb that does not": lambda: (bomb(MOST_INFLATED), "length"),
    "not zlib": lambda: (file_of([entry(b"a", 1, 5, 5, b"hello")], b"hello"), "inflated"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str) -> None:
    data, told = HOSTILE[name]()
    assert told in refusal(data)


def test_what_would_look_like_a_bomb_is_stored_as_it_is() -> None:
    parts = {"zeros": bytes(10**5)}
    assert part_sizes(write_parts(parts))["zeros"] == 10**5
    assert read_parts(write_parts(parts), "x") == parts


@given(st.integers(1, 56), st.data())
def test_bits_come_back(width: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, (1 << width) - 1), max_size=50))
    packed = pack_bits(np.array(values, np.int64), width)
    assert len(packed) == -(-len(values) * width // 8)
    assert unpack_bits(packed, len(values), width).tolist() == values
    assert sum(value << (width * place) for place, value in enumerate(values)) == int.from_bytes(packed, "little")


@given(st.lists(st.integers(0, 2**63 - 1), max_size=50), st.binary(max_size=5))
def test_varints_come_back(values: list[int], rest: bytes) -> None:
    packed = pack_varints(np.array(values, np.int64))
    found, used = unpack_varints(packed + rest, len(values), "x")
    assert (found.tolist(), used) == (values, len(packed))


def test_varints_that_are_none() -> None:
    for data, count in ((b"", 1), (b"\x01\x80", 2), (b"\xff" * 9 + b"\x01", 1)):
        with pytest.raises(LightRNNError, match="x is damaged"):
            unpack_varints(data, count, "x")


def test_bits_for_a_number() -> None:
    assert [bits_for(size) for size in (1, 2, 3, 4, 5, 256, 257)] == [1, 1, 2, 2, 3, 8, 9]
