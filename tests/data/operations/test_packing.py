"""Sequences packed into rows of one length."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset


def source(rows):
    ragged = dl.RaggedArray.from_rows([np.array(row, np.int32) for row in rows] or [], np.int32)
    return Dataset.from_tensor_slices({"x": ragged, "y": pairs(ragged)})


def pairs(ragged):
    values = np.stack([ragged.values, -ragged.values], axis=1).astype(np.float32)
    return dl.RaggedArray(values, ragged.row_splits)


def sequences(packed):
    """The sequences of rows, by segment ids, checked against the positions."""
    for row in packed:
        ids, positions = row.segment_ids, row.positions
        for number in range(1, ids.max(initial=0) + 1):
            where = np.flatnonzero(ids == number)
            assert np.array_equal(where, np.arange(where[0], where[-1] + 1))
            assert positions[where].tolist() == list(range(len(where)))
            x = row.values["x"][where]
            assert np.array_equal(row.values["y"][where], np.stack([x, -x], axis=1))
            yield x.tolist()
        assert (row.values["x"][ids == 0] == 99).all() and not positions[ids == 0].any()


def test_first_fit():
    ds = source([[1, 2, 3], [4, 5], [6], [], [7, 8, 9, 10], [11]]).pack(5, padding_values=99)
    rows = list(ds)
    assert [row.values["x"].tolist() for row in rows] == [
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
        [11, 99, 99, 99, 99],
    ]
    assert rows[0].segment_ids.tolist() == [1, 1, 1, 2, 2]
    assert rows[0].positions.tolist() == [0, 1, 2, 0, 1]
    assert isinstance(rows[0], dl.data.Packed)
    spec = ds.element_spec
    assert spec.values["y"] == dl.TensorSpec((5, 2), np.float32)
    assert spec.segment_ids == dl.TensorSpec((5,), np.int32)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=20),
    st.integers(1, 8),
    st.integers(0, 12),
)
def test_every_sequence_comes_once_and_states_are_exact(rows, lookahead, stop):
    ds = source(rows).pack(6, lookahead=lookahead, padding_values=99)
    found = list(ds)
    assert sorted(sequences(found)) == sorted(row for row in rows if row)
    iterator = iter(ds)
    for _ in range(stop):
        next(iterator, None)
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert list(map(repr, again)) == list(map(repr, found[stop:]))


def test_states_within_the_rows_of_one_window():
    ds = source([[n] * 4 for n in range(9)]).pack(6, padding_values=99)
    found = list(map(repr, ds))
    assert len(found) == 9
    for stop in range(9):
        iterator = iter(ds)
        for _ in range(stop):
            next(iterator)
        again = iter(ds)
        again.restore(json.loads(json.dumps(iterator.state())))
        assert list(map(repr, again)) == found[stop:]


def test_sequences_that_are_too_long():
    rows = [[1], [1, 2, 3, 4, 5], [2]]
    cut = source(rows).pack(2, overlong="truncate", padding_values=99)
    assert list(sequences(cut)) == [[1], [2], [1, 2]]
    split = source(rows).pack(2, overlong="split", padding_values=99)
    assert list(sequences(split)) == [[1], [5], [1, 2], [3, 4], [2]]
    iterator = iter(source(rows).pack(2, padding_values=99))
    assert next(iterator).values["x"].tolist() == [1, 99]
    with pytest.raises(ValueError, match="element 1 has length 5"):
        next(iterator)
    assert next(iterator).values["x"].tolist() == [2, 99]
    assert next(iterator, None) is None


def test_what_cannot_be_packed_says_so():
    with pytest.raises(ValueError, match="takes sequences"):
        Dataset.range(3).pack(4)
    with pytest.raises(ValueError, match="overlong"):
        source([[1]]).pack(4, overlong="drop")
    with pytest.raises(TypeError, match="cannot fill up leaf 0"):
        source([[1]]).pack(4, padding_values={"x": 1.5, "y": 0.0})
    uneven = Dataset.from_tensor_slices((np.zeros((2, 3)), np.zeros((2, 2))))
    with pytest.raises(ValueError, match=r"element 0 has leaves of different lengths: \[3, 2\]"):
        list(uneven.pack(4))
