"""A LightRNN as one file: it comes back as it was, or as near as its precision says; what is not whole is refused."""

import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import network_of, random_lightrnn, vocabulary_of
from lightrnn.container import part_sizes, read_parts, write_parts
from lightrnn.errors import LightRNNError
from lightrnn.inference.loading import load
from lightrnn.inference.network import NetworkLM
from lightrnn.packed.model import PARTS, Network, pack, read, write
from lightrnn.packed.weights import Layout, pack_weights, unpack_weights

V = 30


@pytest.fixture(scope="module")
def network() -> Network:
    return network_of(random_lightrnn(V=V, alone=4, tied=True, head=2), vocabulary_of(V))


def test_float32_comes_back_bit_for_bit(network: Network) -> None:
    found = read(write(network, "float32"), "x")
    ids = found.vocabulary.encode(network.vocabulary.words)
    np.testing.assert_array_equal(found.table.codes[ids], network.table.codes)
    np.testing.assert_array_equal(found.vocabulary.counts[ids], network.vocabulary.counts)
    assert found.table.shape == network.table.shape
    assert (found.config, found.training) == (network.config, network.training)
    assert found.vocabulary.rules == network.vocabulary.rules
    assert list(found.weights) == list(network.weights)
    for name, array in network.weights.items():
        np.testing.assert_array_equal(found.weights[name], array)


def test_a_packed_model_is_packed_to_the_same_bytes(network: Network) -> None:
    once = write(network, "int8")
    assert write(read(once, "x"), "int8") == once


@pytest.mark.parametrize("group", [0, 1, 2, 3, 5, 64])
def test_int8_is_at_most_half_a_step_away(network: Network, group: int) -> None:
    layouts, data = pack_weights(network.weights, "int8", group)
    assert sum(layout.bytes for layout in layouts) == len(data)
    found = unpack_weights(layouts, data, "x")
    for layout in layouts:
        array, size = network.weights[layout.name], layout.shape[-1]
        if len(layout.shape) == 1:
            np.testing.assert_array_equal(found[layout.name], array)
            continue
        assert layout.group == min(group or size, size)
        for begin in range(0, size, layout.group):
            some = slice(begin, begin + layout.group)
            step = np.abs(array[:, some]).max(axis=1, keepdims=True) / 127
            assert (np.abs(found[layout.name][:, some] - array[:, some]) <= 0.5001 * step).all()


def test_weights_of_nothing_and_of_zeros() -> None:
    arrays = {"a": np.zeros((3, 4), np.float32), "b": np.zeros((0, 5), np.float32), "c": np.zeros(0, np.float32)}
    for precision in ("float32", "float16", "int8"):
        layouts, data = pack_weights(arrays, precision)
        for name, array in unpack_weights(layouts, data, "x").items():
            np.testing.assert_array_equal(array, arrays[name])


def test_weights_too_large_for_half_precision_are_refused() -> None:
    with pytest.raises(LightRNNError, match="a holds weights too large for float16"):
        pack_weights({"a": np.full((1, 1), 1e6, np.float32)}, "float16")


def test_the_weights_lie_as_the_docs_say() -> None:
    array = np.array([[1.27, -0.5, 0.0], [0.0, 2.54, -2.54]], np.float32)
    layouts, data = pack_weights({"a": array}, "int8")
    assert [layout.to_dict() for layout in layouts] == [{"name": "a", "shape": [2, 3], "type": "int8", "group": 3}]
    np.testing.assert_allclose(np.frombuffer(data, "<f4", 2), [0.01, 0.02], rtol=1e-6)
    assert np.frombuffer(data, np.int8, offset=8).tolist() == [127, -50, 0, 0, 127, -127]


# --- damage


def refusal(data: bytes) -> str:
    with pytest.raises(LightRNNError, match=r"^x.{10,}") as refused:
        read(data, "x")
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_every_byte_that_changes_and_every_cut_is_refused(network: Network) -> None:
    data = write(network)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        refusal(bytes(damaged))
    for length in range(0, len(data), 7):
        refusal(data[:length])


def changed(network: Network, **parts: Callable[[bytes], bytes]) -> bytes:
    """The file with some parts changed, under checksums that are right."""
    before = pack(network)
    return write_parts(before | {name: change(before[name]) for name, change in parts.items()})


def told(**fields: Any) -> Callable[[bytes], bytes]:
    """Other fields of `about`; None removes one."""

    def change(data: bytes) -> bytes:
        about = json.loads(data) | fields
        return json.dumps({name: value for name, value in about.items() if value is not None}).encode()

    return change


def first_array(**fields: Any) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        about = json.loads(data)
        about["arrays"][0] |= fields
        return json.dumps(about).encode()

    return change


def setting(**fields: Any) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        return told(model=json.loads(data)["model"] | fields)(data)

    return change


@pytest.mark.parametrize(
    "change",
    [
        {"about": lambda data: b"[]"},
        {"about": lambda data: data[:-1]},
        {"about": lambda data: b"\xff"},
        {"about": lambda data: b"[" * 100_000},
        {"about": told(kind="full")},
        {"about": told(kind="newer")},
        {"about": told(kind=7)},
        {"about": told(kind=None)},
        {"about": told(vocabulary_size=2**31)},
        {"about": told(vocabulary_size=V - 1)},
        {"about": told(vocabulary_size=V + 1)},
        {"about": told(vocabulary_size=-1)},
        {"about": told(vocabulary_size=True)},
        {"about": told(rules={"eos": "w1", "unk": "w1"})},
        {"about": told(rules={"eos": "nowhere"})},
        {"about": told(rules={"later": 1})},
        {"about": told(rules=None)},
        {"about": told(table_shape=[10, 10])},
        {"about": told(table_shape=[10**9, 10**9])},
        {"about": told(table_shape=[5])},
        {"about": told(table_shape=[1, 1, 1])},
        {"about": told(table_shape=None)},
        {"about": told(alone=5)},
        {"about": told(alone=2**31)},
        {"about": told(training=None)},
        {"about": told(arrays=[])},
        {"about": told(arrays=None)},
        {"about": first_array(shape=[2**40, 2**40])},
        {"about": first_array(shape=[])},
        {"about": first_array(type="int4")},
        {"about": first_array(type="float32")},
        {"about": first_array(group=1)},
        {"about": first_array(group=0)},
        {"about": first_array(name="rest_bias")},
        {"about": setting(hidden_size=65536)},
        {"about": setting(hidden_size=10**9)},
        {"about": setting(layers=2)},
        {"about": setting(cell="gru")},
        {"about": setting(cell="nowhere")},
        {"about": setting(alone="auto")},
        {"about": setting(tied=False)},
        {"about": setting(later=1)},
        {"words": lambda data: data[:-1]},
        {"words": lambda data: data + b"x"},
        {"words": lambda data: b""},
        {"counts": lambda data: data + b"\1"},
        {"counts": lambda data: b""},
        {"places": lambda data: data[:-1]},
        {"places": lambda data: data + b"\0"},
        {"places": lambda data: bytes(len(data))},  # a place many times
        {"places": lambda data: b"\xff" * len(data)},  # a place that is none
        {"weights": lambda data: data[:-1]},
        {"weights": lambda data: data + b"\0"},
        {"weights": lambda data: b"\xff" * len(data)},  # scales that are no numbers
        {"weights": lambda data: np.array([-1.0], "<f4").tobytes() + data[4:]},
        {"weights": lambda data: np.array([np.inf], "<f4").tobytes() + data[4:]},
        {"weights": lambda data: np.array([3e38], "<f4").tobytes() + data[4:]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_files_that_contradict_themselves(network: Network, change: dict[str, Callable[[bytes], bytes]]) -> None:
    refusal(changed(network, **change))


def test_parts_that_are_missing_or_too_many(network: Network) -> None:
    parts = pack(network)
    for name in PARTS:
        refusal(write_parts({other: data for other, data in parts.items() if other != name}))
    refusal(write_parts(parts | {"more": b""}))


def mutations(parts: dict[str, bytes], count: int) -> Iterator[dict[str, bytes]]:
    """Parts with some bytes of one of them replaced, cut out or doubled, at random."""
    random = np.random.default_rng(7)
    for _ in range(count):
        name = PARTS[random.integers(len(PARTS))]
        data = bytearray(parts[name])
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(len(data)))
            match random.integers(3):
                case 0:
                    data[place] = int(random.integers(256))
                case 1:
                    del data[place : place + int(random.integers(1, 9))]
                case _:
                    data[place:place] = data[place : place + int(random.integers(1, 9))]
            if not data:
                break
        yield parts | {name: bytes(data)}


def test_thousands_of_mutations_are_refused_or_answer(network: Network) -> None:
    """Under checksums that are right, so that what is behind them is met."""
    answered = refused = 0
    for parts in mutations(pack(network), 3000):
        try:
            found = read(write_parts(parts), "x")
        except LightRNNError:
            refused += 1
            continue
        answered += 1
        probabilities = NetworkLM.of_packed(found).distribution("w1")
        assert probabilities.sum() == pytest.approx(1, abs=1e-3)
    assert answered > 100  # other weights, counts and names are a model too
    assert refused > 1000


def test_what_is_told_does_not_make_it_allocate(network: Network) -> None:
    """Weights are weighed before anything is made of them."""
    hostile = changed(network, about=setting(hidden_size=65536, embedding_size=65536))
    tracemalloc.start()
    refusal(hostile)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4e6


# --- through load()


def test_a_file_is_known_by_how_it_begins(network: Network, tmp_path: Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(write(network))
    lm = load(path)
    assert lm.next_words("w1", 1)
    path.write_bytes(write(network)[:100])
    with pytest.raises(LightRNNError, match=r"any\.name is damaged"):
        load(path)


def test_the_file_is_about_as_long_as_its_numbers(network: Network) -> None:
    data = write(network)
    sizes = part_sizes(data)
    parts = read_parts(data, "x")
    assert sizes["places"] <= -(-V * 5 // 8)
    assert len(parts["weights"]) == sum(
        Layout(a["name"], tuple(a["shape"]), a["type"], a.get("group", 0)).bytes
        for a in json.loads(parts["about"])["arrays"]
    )
    assert len(zlib.compress(data, 9)) > 0.7 * len(data)  # nothing is there twice
