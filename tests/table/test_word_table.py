"""The word table: shapes, bijection, text form."""

import io
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrnn.errors import LightRNNError
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable


@given(st.integers(2, 3000), st.integers(2, 5), st.integers(0, 5))
def test_any_table_is_a_bijection_onto_the_first_places(V: int, K: int, seed: int) -> None:
    table = WordTable.random(V, K, seed=seed)
    assert sorted(map(tuple, table.codes.tolist())) == sorted(
        map(tuple, np.argwhere(np.ones(table.shape))[:V].tolist())
    )
    assert (table.words[table.places] == np.arange(V)).all()
    assert table.is_full == (prod(table.shape) == V)
    assert table.last_place == tuple(np.argwhere(np.ones(table.shape))[V - 1])


@pytest.mark.parametrize(
    ("V", "shape"),
    [
        (10_000, (100, 100)),
        (10_001, (100, 101)),
        (793_881, (891, 891)),
        (2, (1, 2)),
        (3, (2, 2)),
        (137_000, (370, 371)),
    ],
)
def test_two_component_shapes(V: int, shape: tuple[int, int]) -> None:
    assert table_shape(V) == shape


@given(st.integers(2, 10**9), st.integers(2, 6))
def test_shapes_are_tight_and_even(V: int, K: int) -> None:
    shape = table_shape(V, K)
    assert prod(shape[1:]) * (shape[0] - 1) < V <= prod(shape)
    assert max(shape) <= int(np.ceil(V ** (1 / K) + 1e-6))  # roots of perfect powers in floating point


@given(st.integers(2, 10**9), st.integers(2, 6), st.integers(1, 10**6))
def test_shapes_of_so_many_rows(V: int, K: int, rows: int) -> None:
    shape = table_shape(V, K, rows)
    assert prod(shape[1:]) * (shape[0] - 1) < V <= prod(shape)
    assert shape[0] <= rows
    assert shape[1:] == table_shape(-(-V // rows), K - 1)


@pytest.mark.parametrize(
    ("V", "rows", "shape"),
    [
        *((10_000, 1000, (1000, 10)), (10_000, 400, (400, 25)), (10, 4, (4, 3)), (10, 99, (10, 1))),
        *((10_000, "auto", (400, 25)), (10, "auto", (10, 1)), (1, "auto", (1, 1))),
    ],
)
def test_shapes_of_so_many_rows_by_hand(V: int, rows: int | str, shape: tuple[int, int]) -> None:
    assert table_shape(V, rows=rows) == shape


def test_seeds_give_the_same_table_again() -> None:
    assert (WordTable.random(50, seed=1).codes == WordTable.random(50, seed=1).codes).all()
    assert (WordTable.random(50, seed=1).codes != WordTable.random(50, seed=2).codes).any()


@pytest.mark.parametrize("K", [2, 3])
def test_text_round_trip_in_any_order(tiny, tmp_path: Path, K: int) -> None:
    table = WordTable.random(len(tiny.vocabulary), K, seed=7)
    buffer = io.BytesIO()
    table.write(buffer, tiny.vocabulary)
    head, columns, *lines = buffer.getvalue().decode().splitlines()
    assert columns == ("word\trow\tcolumn" if K == 2 else "word\tcomponent1\tcomponent2\tcomponent3")
    path = tmp_path / "table.tsv"
    path.write_text("\n".join([head, columns, *reversed(lines)]) + "\n", encoding="utf-8")
    read = WordTable.read(path, tiny.vocabulary)
    assert (read.codes == table.codes).all()
    assert read.shape == table.shape


@pytest.mark.parametrize(
    ("codes", "shape", "message"),
    [
        ([[0, 0], [0, 0], [1, 0]], (2, 2), "no bijection"),
        ([[0, 0], [0, 1], [1, 1]], (2, 2), "no bijection"),  # the short last row begins at column 0
        ([[0, 0], [0, 1], [2, 0]], (2, 2), "outside"),
        ([[0, 0], [0, 1], [0, 2]], (2, 2), "outside"),
        ([[0, 0], [0, 1]], (2, 2), "cannot be for 2 words"),
    ],
)
def test_what_is_no_table_is_refused(codes: list[list[int]], shape: tuple[int, int], message: str) -> None:
    with pytest.raises(LightRNNError, match=message):
        WordTable(np.array(codes, np.int64), shape)


def test_a_table_wider_than_its_words_is_told_at_once() -> None:
    codes = np.stack([np.zeros(4, np.int64), np.array([0, 1, 2, 2**40])], axis=1)
    with pytest.raises(LightRNNError, match="cannot be for 4 words"):
        WordTable(codes, (1, 2**41))
    with pytest.raises(LightRNNError, match="cannot read a shape"):
        WordTable.parse(("# lightrnn table, shape " + "x".join("1" * 9999)).encode(), "t.tsv", None)  # type: ignore[arg-type]
