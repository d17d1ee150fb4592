"""spread_rows and sum_rows against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._core import spread_rows, sum_rows

FLOATS = st.sampled_from([np.float32, np.float64])
SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any)


def places_of(data: st.DataObject, rows: int) -> np.ndarray:
    return np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=12)), np.int32)


def blocks_of(sizes: list[int], width: int, dtype: type) -> list[np.ndarray]:
    random = np.random.default_rng(width)
    return [(1000 * random.random((size, width))).astype(dtype) for size in sizes]


@given(SIZES, st.integers(0, 9), st.data())
def test_every_place_gets_its_row(sizes: list[int], width: int, data: st.DataObject) -> None:
    blocks = blocks_of(sizes, width, np.uint8)
    places = places_of(data, sum(sizes))
    out = np.empty((len(places), width), np.uint8)
    spread_rows(blocks, places, out)
    np.testing.assert_array_equal(out, np.concatenate(blocks)[places])


@given(SIZES, st.integers(0, 9), FLOATS, st.data())
def test_sums_are_those_of_numpy(
    sizes: list[int], width: int, dtype: type, data: st.DataObject
) -> None:
    places = places_of(data, sum(sizes))
    (values,) = blocks_of([len(places)], width, dtype)
    out = blocks_of(sizes, width, dtype)
    sum_rows(values, places, out)
    expected = np.zeros((sum(sizes), width), dtype)
    np.add.at(expected, places, values)
    np.testing.assert_array_equal(np.concatenate(out), expected)


def test_what_does_not_fit_is_refused() -> None:
    rows, two = np.ones((3, 2), np.float32), np.array([0, 2], np.int32)
    data = rows.view(np.uint8)
    with pytest.raises(IndexError, match=r"places\[1\] is 2, but there are 2 rows"):
        sum_rows(rows[:2], two, [np.empty((2, 2), np.float32)])
    with pytest.raises(IndexError, match=r"places\[0\] is -1, but there are 3 rows"):
        spread_rows([data], np.array([-1]), np.empty((1, 8), np.uint8))
    with pytest.raises(ValueError, match="2 places for 3 rows"):
        sum_rows(rows, two, [rows.copy()])
    with pytest.raises(ValueError, match="rows of 2 and of 3 elements"):
        sum_rows(np.ones((2, 3), np.float32), two, [rows.copy()])
    with pytest.raises(ValueError, match="share memory"):
        sum_rows(rows[:2], two, [rows])
    with pytest.raises(ValueError, match="share memory"):
        sum_rows(rows[:2].copy(), two, [rows, rows[1:]])
    with pytest.raises(ValueError, match="share memory"):
        spread_rows([data], two, data[1:])
    with pytest.raises(TypeError, match="values must be a 2-dimensional float32"):
        sum_rows(rows.astype(np.float16), two, [rows.astype(np.float16)])
    rows.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        sum_rows(rows[:2].copy(), two, [rows])
