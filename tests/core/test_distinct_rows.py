"""DistinctRows and unique_ids against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._core import DistinctRows, unique_ids

INTEGERS = st.sampled_from([np.int32, np.int64])


def rows_of_bytes(rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(rows + width).integers(0, 256, (rows, width), dtype=np.uint8)


@given(st.integers(1, 40), st.integers(0, 20), INTEGERS, st.data())
def test_pieces_of_rows_are_gathered_and_scattered(
    rows: int, width: int, dtype: type, data: st.DataObject
) -> None:
    ids = np.array(data.draw(st.lists(st.integers(0, rows - 1), unique=True)), dtype)
    table = rows_of_bytes(rows, width)
    distinct = DistinctRows(ids, rows)
    start = data.draw(st.integers(0, len(ids)))
    stop = data.draw(st.integers(start, len(ids)))
    chosen = ids[start:stop]
    out = np.empty((stop - start, width), np.uint8)
    distinct.gather(table, out, start)
    np.testing.assert_array_equal(out, table[chosen])
    expected = table.copy()
    expected[chosen] = out + 1
    distinct.scatter(out + 1, table, start)
    np.testing.assert_array_equal(table, expected)
    assert len(distinct) == len(ids)


@pytest.mark.parametrize("width", [1, 64, 3136])
def test_large_copies_in_parallel(width: int) -> None:
    rows = 5 * 2**20 // width
    table = rows_of_bytes(rows, width)
    ids = np.random.default_rng(width).permutation(rows)[: rows // 2]
    out = np.empty((len(ids), width), np.uint8)
    DistinctRows(ids, rows).gather(table, out)
    np.testing.assert_array_equal(out, table[ids])
    expected = table.copy()
    expected[ids] = 255 - out
    DistinctRows(ids, rows).scatter(255 - out, table)
    np.testing.assert_array_equal(table, expected)


@given(st.lists(st.integers(-1, 9), max_size=12), INTEGERS)
def test_ids_outside_or_twice_are_refused(ids: list[int], dtype: type) -> None:
    array = np.array(ids, dtype)
    if any(not 0 <= each < 9 for each in ids[: _first_repeat(ids)]):
        with pytest.raises(IndexError, match=r"an id lies in \[0, 9\)"):
            DistinctRows(array, 9)
    elif len(set(ids)) < len(ids):
        with pytest.raises((ValueError, IndexError)):
            DistinctRows(array, 9)
    else:
        assert len(DistinctRows(array, 9)) == len(ids)


def _first_repeat(ids: list[int]) -> int:
    return next((i for i in range(len(ids)) if ids[i] in ids[:i]), len(ids))


def test_arrays_that_do_not_fit_are_refused() -> None:
    table, out = rows_of_bytes(6, 4), np.empty((2, 4), np.uint8)
    distinct = DistinctRows(np.array([4, 1]), 6)
    with pytest.raises(ValueError, match="table has 5 rows; the ids were checked against 6"):
        distinct.gather(table[:5], out)
    for other, start in ((np.empty((3, 4), np.uint8), 0), (out, 1), (out[:, :3].copy(), 0)):
        with pytest.raises(ValueError, match="from position"):
            distinct.gather(table, other, start)
        with pytest.raises(ValueError, match="from position"):
            distinct.scatter(other, table, start)
    with pytest.raises(ValueError, match="overlaps|share memory"):
        distinct.gather(table, table[:2])
    table.flags.writeable = False
    with pytest.raises(ValueError, match="table is read-only"):
        distinct.scatter(out, table)
    with pytest.raises(TypeError, match="int32 or int64"):
        DistinctRows(np.zeros(2, np.float32), 6)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 29)), st.lists(st.integers(0, 30), max_size=4), INTEGERS)
def test_unique_ids_are_those_of_numpy(ids: list[int], cuts: list[int], dtype: type) -> None:
    batch, bounds = np.array(ids, dtype), [0, *sorted(cuts), 30]
    local, inverse, counts = unique_ids(batch, bounds)
    parts = np.repeat(np.arange(len(counts)), counts)
    whole = local + np.array(bounds)[parts]
    assert inverse.dtype == np.int32
    np.testing.assert_array_equal(whole[inverse], batch)
    np.testing.assert_array_equal(np.sort(whole), np.unique(batch))
    assert all(bounds[p] <= row < bounds[p + 1] for p, row in zip(parts, whole, strict=True))


def test_ids_in_no_part_and_bounds_out_of_order_are_refused() -> None:
    with pytest.raises(IndexError, match=r"ids\[1\] is 9; an id lies in \[3, 9\)"):
        unique_ids(np.array([3, 9]), [3, 9])
    for bounds in ([], [1], [3, 2]):
        with pytest.raises(ValueError, match="bounds is"):
            unique_ids(np.array([0]), bounds)
