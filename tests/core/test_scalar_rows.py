"""ScalarRows against numpy tables of the same columns."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._core import ScalarRows

DTYPES = [np.dtype(name) for name in ("f4", "i8", "O", "?", "S3", "c16", "O", "M8[s]", ">i4")]


def columns(seed: int, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    made = []
    for dtype in DTYPES:
        if dtype.kind == "O":
            column = np.empty(count, object)
            column[:] = [b"%d" % n for n in generator.integers(0, 10**6, count)]
        else:
            width = dtype.itemsize
            column = generator.integers(0, 2, (count, width), np.uint8).view(dtype).reshape(count)
        made.append(column)
    return made


steps = st.lists(st.tuples(st.sampled_from(["put", "take", "forget"]), st.integers(0, 2**32)))


@given(steps)
def test_rows_are_those_of_numpy(steps: list[tuple[str, int]]) -> None:
    rows, size = ScalarRows(DTYPES), 0
    tables = [np.zeros(0, dtype) for dtype in DTYPES]
    for step, seed in steps:
        generator = np.random.default_rng(seed)
        if step == "put":
            size += int(generator.integers(0, 4))
            rows.grow(size)
            for i, table in enumerate(tables):
                tables[i] = np.zeros(size, table.dtype)
                tables[i][: len(table)] = table
                if table.dtype.kind == "O":
                    tables[i][len(table) :] = None
        places = generator.permutation(size)[: generator.integers(0, size + 1)]
        if step == "put":
            put = columns(seed, len(places))
            rows.put(places, put)
            for table, column in zip(tables, put, strict=True):
                table[places] = column
        elif step == "take":
            for taken, table in zip(rows.take(places), tables, strict=True):
                assert taken.dtype == table.dtype
                assert taken.tolist() == table[places].tolist()
                assert taken.flags.writeable == (table.dtype.kind == "O")
        else:
            rows.forget(places)
        if step != "put":
            for table in tables:
                if table.dtype.kind == "O":
                    table[places] = None


def test_objects_are_held_until_they_are_taken_or_forgotten() -> None:
    rows = ScalarRows([np.dtype(object)])
    rows.grow(3)
    text = b"a text of its own %d" % 1
    free = sys.getrefcount(text)
    column = np.full(3, None, object)
    column[:] = [text] * 3
    rows.put(np.arange(3), [column])
    del column
    assert sys.getrefcount(text) == free + 3
    (taken,) = rows.take(np.array([1]))
    assert sys.getrefcount(text) == free + 3
    del taken
    assert sys.getrefcount(text) == free + 2
    rows.forget(np.array([0]))
    assert sys.getrefcount(text) == free + 1
    rows.put(np.array([2]), [np.array([b"other"], object)])
    assert sys.getrefcount(text) == free
    rows.put(np.array([2]), [np.array([text], object)])
    del rows
    gc.collect()
    assert sys.getrefcount(text) == free


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    rows = ScalarRows([np.dtype(np.int32), np.dtype(object)])
    rows.grow(4)
    numbers, texts = np.arange(2, dtype=np.int32), np.array([b"a", b"b"], object)
    rows.put(np.array([0, 1]), [numbers, texts])
    for places in ([0, 4], [-1, 0]):
        with pytest.raises(IndexError, match="there are 4 rows"):
            rows.put(np.array(places), [numbers, texts])
        with pytest.raises(IndexError, match="there are 4 rows"):
            rows.take(np.array(places))
        with pytest.raises(IndexError, match="there are 4 rows"):
            rows.forget(np.array(places))
    two = np.array([0, 1])
    with pytest.raises(TypeError, match="column 0 is int64, not int32"):
        rows.put(two, [numbers.astype(np.int64), texts])
    with pytest.raises(TypeError, match="column 1 is int32, not object"):
        rows.put(two, [numbers + 5, numbers])
    with pytest.raises(ValueError, match="1 columns, not 2"):
        rows.put(two, [numbers + 5])
    for wrong in (np.arange(4, dtype=np.int32)[::2], numbers[:1], numbers.reshape(2, 1)):
        with pytest.raises(ValueError, match="column 0 has shape"):
            rows.put(two, [wrong, texts])
    with pytest.raises(MemoryError, match="no memory for"):
        rows.grow(2**60)
    with pytest.raises(TypeError, match="no scalars"):
        ScalarRows([np.dtype([("a", object)])])
    first, second = rows.take(two)
    assert (first.tolist(), second.tolist()) == ([0, 1], [b"a", b"b"])
