"""Elements come back as the user built them."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, TensorSpec

Point = namedtuple("Point", ["x", "y"])


def structures():
    a, b = np.arange(6.0).reshape(3, 2), np.arange(3)
    return {
        "array": a,
        "tuple": (a, b),
        "one-tuple": (a,),
        "list of arrays": [a, b],
        "dict in the user's order": {"z": a, "a": b},
        "ordered dict": OrderedDict([("z", a), ("a", b)]),
        "namedtuple": Point(a, b),
        "nested": {"p": Point(a, (b, [a, {"k": b}])), "s": ["x", "y", "z"]},
        "none inside": (a, None),
    }


def row(value, i):
    if isinstance(value, dict):
        return type(value)((k, row(v, i)) for k, v in value.items())
    if isinstance(value, Point):
        return Point(*(row(v, i) for v in value))
    if isinstance(value, tuple):
        return tuple(row(v, i) for v in value)
    if isinstance(value, list) and not isinstance(value[0], str):
        return [row(v, i) for v in value]
    if value is None:
        return None
    return value[i].encode() if isinstance(value[i], str) else value[i]


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        return all(same(found[k], expected[k]) for k in expected)
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if expected is None or isinstance(expected, bytes):
        return found == expected
    return found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize(
    "through",
    [
        lambda ds: ds,
        lambda ds: ds.map(lambda *e: e if len(e) > 1 else e[0]),
        lambda ds: ds.batch(2).unbatch(),
        lambda ds: ds.shuffle(1, seed=0).cache().prefetch(1).take(3).skip(0),
        lambda ds: ds.filter(lambda *e: True),
        lambda ds: ds.concatenate(ds).take(3),
    ],
    ids=["source", "map", "batch", "buffers", "filter", "concatenate"],
)
def test_structure_survives(name, through):
    value = structures()[name]
    if name == "one-tuple":
        ds = Dataset.from_tensor_slices(value)
        assert all(same(e, row(value, i)) for i, e in enumerate(ds))
        return
    elements = list(through(Dataset.from_tensor_slices(value)))
    assert len(elements) == 3
    for i, element in enumerate(elements):
        assert same(element, row(value, i))


def test_map_may_return_any_structure():
    ds = Dataset.range(2).map(lambda v: {"b": [v, (v + 1,)], "a": Point(v, None)})
    assert list(ds)[1] == {"b": [1, (2,)], "a": Point(1, None)}
    assert list(ds.element_spec) == ["b", "a"]


def test_zip_takes_nested_structures_of_datasets():
    a, b = Dataset.range(3), Dataset.range(10, 13)
    assert list(Dataset.zip({"q": a, "p": (b, a)}))[2] == {"q": 2, "p": (12, 2)}
    assert next(iter(Dataset.zip(a, b))) == (0, 10)


def test_specs_have_unknown_dimensions_only_where_sizes_vary():
    ds = Dataset.from_tensor_slices(np.zeros((5, 2, 3), np.float32))
    assert ds.batch(2).element_spec == TensorSpec((None, 2, 3), np.float32)
    assert ds.batch(2, drop_remainder=True).element_spec == TensorSpec((2, 2, 3), np.float32)
    assert ds.batch(2).map(lambda x: x.sum(axis=1)).element_spec == TensorSpec(
        (None, 3), np.float32
    )


def test_strings_travel_beside_numbers():
    ds = Dataset.from_tensor_slices((["a", "bb", "é"], [1, 2, 3])).map(lambda s, n: (n + 1, s))
    assert list(ds) == [(2, b"a"), (3, b"bb"), (4, "é".encode())]
    _, strings = next(iter(ds.batch(3)))
    assert strings.dtype == object
    assert strings.tolist() == [b"a", b"bb", "é".encode()]


def test_python_sees_bytes_where_the_function_reads_strings():
    ds = Dataset.from_tensor_slices(["a", "bbb"]).map(lambda s: (len(s), s.upper()))
    assert list(ds) == [(1, b"A"), (3, b"BBB")]


def test_last_batch_is_short_and_empty_datasets_end():
    assert [len(b) for b in Dataset.range(7).batch(3)] == [3, 3, 1]
    assert [len(b) for b in Dataset.range(7).batch(3, drop_remainder=True)] == [3, 3]
    empty = Dataset.from_tensor_slices(np.zeros((0, 4), np.float32))
    assert list(empty.map(lambda x: x + 1).shuffle(3).batch(2).repeat()) == []
    assert empty.cardinality() == 0
    assert list(empty.map(lambda x: float(x.sum()))) == []


def test_zero_size_arrays_and_scalars():
    ds = Dataset.from_tensor_slices(np.zeros((4, 0, 3))).map(lambda x: x + 1).shuffle(4).batch(2)
    assert [b.shape for b in ds] == [(2, 0, 3), (2, 0, 3)]
    assert [b.shape for b in Dataset.from_tensors(np.float32(3)).batch(2)] == [(1,)]
    assert next(iter(Dataset.from_tensors((1, np.ones(2, np.int8)))))[1].shape == (2,)


def test_leaves_are_read_only():
    source = np.zeros((4, 3))
    for ds in (
        Dataset.from_tensor_slices(source),
        Dataset.from_tensor_slices(source).shuffle(4),
        Dataset.from_tensor_slices(source).map(lambda x: x + 1),
        Dataset.from_tensor_slices(source).batch(3).unbatch().batch(2),
    ):
        for leaf in ds:
            with pytest.raises(ValueError, match="read-only"):
                leaf[0] = 1
    source[0] = 1


def test_a_list_that_a_map_returns_is_a_tuple():
    ds = Dataset.range(3)
    assert list(ds.map(lambda x: [x, x + 1]).map(lambda a, b: a + b)) == [1, 3, 5]
    in_python = ds.map(lambda x: [np.asarray(x), int(x) + 1])
    assert list(in_python.map(lambda a, b: a + b)) == [1, 3, 5]
    assert [type(element) for element in in_python] == [tuple] * 3
    pair = (dl.TensorSpec((), np.int32),) * 2
    assert ds.map(lambda x: [1, 2]).element_spec == pair
    assert ds.map(lambda x: [x]).element_spec == (dl.TensorSpec((), np.int64),)
    nested = ds.map(lambda x: {"a": [x, x]}).element_spec
    assert isinstance(nested["a"], list)


def test_a_list_that_a_map_of_lists_returns_stays_one():
    rows = [np.arange(3), np.arange(3.0)]
    ds = Dataset.from_tensor_slices(rows)
    assert isinstance(ds.map(lambda x: x).element_spec, list)
    assert isinstance(ds.filter(lambda x: dl.random.bernoulli(0.5)).element_spec, list)
    assert isinstance(ds.map(lambda x: [x[1], x[0], x[0]]).element_spec, list)


def test_lists_in_scan_and_reduce():
    ds = Dataset.range(4)
    zero = np.int64(0)
    assert list(ds.scan(zero, lambda s, x: [s + x, s])) == [0, 0, 1, 3]
    assert list(ds.scan(zero, lambda s, x: [s + int(x), s])) == [0, 0, 1, 3]
    assert ds.reduce((zero, zero), lambda s, x: [s[0] + x, s[1] + 1]) == (6, 4)
    assert ds.reduce((zero, zero), lambda s, x: [s[0] + int(x), s[1] + 1]) == (6, 4)
