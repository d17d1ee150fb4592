"""Datasets over what other libraries hold: Arrow tables, and anything with a length and indices."""

import collections
import json

import numpy as np
import pyarrow as pa
import pytest

import drumline as dl
from drumline.data import Dataset, TensorSpec
from drumline.data.elements.arrow import arrow_columns


def rows(dataset):
    return [
        {key: leaf.tolist() if hasattr(leaf, "tolist") else leaf for key, leaf in row.items()}
        for row in dataset
    ]


class Squares:
    """A map-style dataset that counts what it is asked for."""

    def __init__(self, n=10):
        self.n = n
        self.asked = []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.asked.append(i)
        if i == 7:
            raise KeyError("the seventh is lost")
        return np.float32(i * i), f"item {i}"


class Fetching(Squares):
    """As Hugging Face's and torch's: many at once."""

    def __getitems__(self, keys):
        self.asked.append(tuple(keys))
        return [(np.float32(i * i), f"item {i}") for i in keys]


def test_arrow_columns():
    table = pa.table(
        {
            "number": pa.chunked_array([[1, 2], [3]]),
            "name": ["a", "bé", ""],
            "category": pa.array(["x", "y", "x"]).dictionary_encode(),
            "yes": [True, False, True],
            "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
            "many": [[1], [], [2, 3]],
            "nested": [{"a": 1, "b": "p"}, {"a": 2, "b": "q"}, {"a": 3, "b": "r"}],
        }
    )
    dataset = Dataset.from_arrow(table)
    assert dataset.cardinality() == 3
    assert dataset.element_spec["pair"] == TensorSpec((2,), np.float32)
    assert rows(dataset.skip(1)) == [
        {
            "number": 2,
            "name": "bé".encode(),
            "category": b"y",
            "yes": False,
            "pair": [3.0, 4.0],
            "many": [],
            "nested": {"a": 2, "b": b"q"},
        },
        {
            "number": 3,
            "name": b"",
            "category": b"x",
            "yes": True,
            "pair": [5.0, 6.0],
            "many": [2, 3],
            "nested": {"a": 3, "b": b"r"},
        },
    ]


def test_slices_of_arrow_tables_with_lists_start_where_they_start():
    table = pa.table(
        {
            "many": [[1], [], [2, 3], [4]],
            "pair": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.int8(), 2)),
            "nested": [{"a": i} for i in range(4)],
        }
    )
    assert rows(Dataset.from_arrow(table.slice(2, 2))) == [
        {"many": [2, 3], "pair": [5, 6], "nested": {"a": 2}},
        {"many": [4], "pair": [7, 8], "nested": {"a": 3}},
    ]


def test_numbers_of_arrow_are_not_copied():
    column = pa.array(np.arange(1000.0))
    assert np.shares_memory(arrow_columns(pa.table({"x": column}))["x"], column.to_numpy())


def test_whatever_exports_itself_as_arrow():
    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"x": [1, 2]}).__arrow_c_stream__(requested_schema)

    assert rows(Dataset.from_arrow(Frame())) == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pa.table({"x": [1, None, None]}), ValueError, "'x' has 2 nulls.*drop_null"),
        (pa.table({"p": [{"q": 1.0}, {"q": None}]}), ValueError, "'p.q' has 1 nulls"),
        (pa.table({"t": pa.array([0], pa.timestamp("s"))}), TypeError, "'t' has type timestamp"),
        (pa.table({}), ValueError, "no columns"),
        ({"x": [1]}, TypeError, "__arrow_c_stream__.*got dict"),
        (pa.Table.from_arrays([pa.array([1])] * 2, ["x", "x"]), ValueError, "several.*called x"),
    ],
)
def test_tables_that_are_none(table, error, message):
    with pytest.raises(error, match=message):
        Dataset.from_arrow(table)


def test_items_are_made_when_asked_for():
    source = Squares()
    dataset = Dataset.from_sequence(source)
    assert len(dataset) == 10 and source.asked == [0]
    assert dataset.element_spec == (TensorSpec((), np.float32), TensorSpec((), "string"))
    assert list(dataset.skip(4).take(2)) == [(16, b"item 4"), (25, b"item 5")]
    assert source.asked == [0, 4, 5]


@pytest.mark.parametrize("kind", [Squares, Fetching])
def test_shuffled_and_resumed(kind):
    def build():
        return Dataset.from_sequence(kind(7)).shuffle(7, seed=1).map(lambda x, s: (x + 1, s))

    iterator = iter(build())
    first = [next(iterator) for _ in range(3)]
    state = json.loads(json.dumps(iterator.state()))
    rest = list(iterator)
    assert sorted(x for x, _ in first + rest) == [i * i + 1 for i in range(7)]
    again = iter(build())
    again.restore(state)
    assert list(again) == rest


def test_many_items_are_fetched_at_once():
    source = Fetching(64)
    assert [int(x) for x, _ in Dataset.from_sequence(source)] == [i * i for i in range(64)]
    assert max(len(keys) for keys in source.asked if isinstance(keys, tuple)) > 1


def test_an_item_that_fails_is_named_and_the_others_come():
    iterator = iter(Dataset.from_sequence(Squares()).skip(6))
    assert next(iterator)[0] == 36
    with pytest.raises(KeyError) as raised:
        next(iterator)
    assert "element 7 of from_sequence(Squares)" in raised.value.__notes__[0]
    assert next(iterator)[0] == 64


def test_items_of_other_shapes_need_a_signature():
    lists = [[1.0], [1.0, 2.0], [3.0, 4.0], [5.0]]

    class Lazy(collections.UserList):
        """Of which no item is asked for before its turn."""

    with pytest.raises(ValueError, match=r"shape \(2,\), the first element's spec says"):
        list(Dataset.from_sequence(Lazy(lists)))
    ragged = Dataset.from_sequence(Lazy(lists), TensorSpec((None,), np.float32))
    assert Dataset.from_sequence(lists).element_spec == ragged.element_spec
    assert [row.tolist() for row in ragged] == lists
    assert [b.tolist() for b in ragged.padded_batch(2)] == [[[1, 0], [1, 2]], [[3, 4], [5, 0]]]


def test_dicts_of_lists_as_hugging_face_gives_them():
    records = [{"text": "a", "ids": [1, 2]}, {"text": "b", "ids": [3, 4]}]
    assert rows(Dataset.from_sequence(records)) == [
        {"text": b"a", "ids": [1, 2]},
        {"text": b"b", "ids": [3, 4]},
    ]


def test_refusals():
    with pytest.raises(TypeError, match="from_generator for what can only be iterated"):
        Dataset.from_sequence(iter([1]))
    with pytest.raises(ValueError, match="is empty: give an output_signature"):
        Dataset.from_sequence([])
    with pytest.raises(TypeError, match="from_sequence: output_signature holds 3"):
        Dataset.from_sequence([1], 3)
    empty = Dataset.from_sequence([], dl.TensorSpec((), np.int32))
    assert list(empty) == []


@pytest.mark.parametrize(
    ("rows", "shapes"),
    [  # As tf.data's from_list.
        ([[[1]], [[2, 3]]], (1, None)),
        ([[1, 2], [3]], (None,)),
        ([np.zeros((2, 3)), np.zeros((4, 3))], (None, 3)),
        ((1, 2), ()),
    ],
)
def test_lists_whose_items_differ_in_shape(rows, shapes):
    ds = Dataset.from_sequence(rows)
    assert ds.element_spec.shape == shapes
    assert [x.tolist() for x in ds] == [np.asarray(row).tolist() for row in rows]


def test_items_that_differ_otherwise_raise_in_their_turn():
    iterator = iter(Dataset.from_sequence([[1], [2, 3], [[4]], 5.0, (1, 2), [6]]))
    assert [next(iterator).tolist() for _ in range(2)] == [[1], [2, 3]]
    for _ in range(3):
        with pytest.raises((TypeError, ValueError)):
            next(iterator)
    assert next(iterator).tolist() == [6]
