"""Elements of different lengths: padded, stacked as ragged arrays, taken apart, batched anew.

Expected values are tf.data's.
"""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset, TensorSpec

ROWS = [[1, 2], [3], [], [4, 5, 6]]


def source(rows=ROWS):
    ragged = dl.RaggedArray.from_rows([np.array(row, np.int32) for row in rows] or [], np.int32)
    return Dataset.from_tensor_slices((ragged, np.arange(len(rows))))


def generated(rows=ROWS):
    signature = (dl.TensorSpec((None,), np.int32), dl.TensorSpec((), np.int64))
    pairs = [(np.array(row, np.int32), i) for i, row in enumerate(rows)]
    return Dataset.from_generator(lambda: iter(pairs), output_signature=signature)


def lists(ds):
    return [
        (a.to_list() if isinstance(a, dl.RaggedArray) else a.tolist(), b.tolist()) for a, b in ds
    ]


@pytest.mark.parametrize("make", [source, generated])
def test_padded_to_the_longest_of_each_batch(make):
    ds = make().padded_batch(3)
    assert lists(ds) == [([[1, 2], [3, 0], [0, 0]], [0, 1, 2]), ([[4, 5, 6]], [3])]
    assert ds.element_spec[0] == dl.TensorSpec((None, None), np.int32)
    assert ds.cardinality() in (2, -2)


@pytest.mark.parametrize("make", [source, generated])
def test_padded_to_a_shape_with_a_value(make):
    ds = make().padded_batch(2, ([4], []), (7, None), drop_remainder=True)
    assert lists(ds)[0] == ([[1, 2, 7, 7], [3, 7, 7, 7]], [0, 1])
    assert ds.element_spec == (dl.TensorSpec((2, 4), np.int32), dl.TensorSpec((2,), np.int64))
    assert len(lists(make().take(3).padded_batch(2, drop_remainder=True))) == 1


def test_padding_of_other_types_and_structures():
    ds = Dataset.from_tensor_slices({"a": [["x", "y"]], "b": [[True, False]], "c": [[1.5, 2.5]]})
    (batch,) = ds.padded_batch(2, {"a": [3], "b": [-1], "c": [3]}, {"a": "p", "b": None, "c": -1})
    assert batch["a"].tolist() == [[b"x", b"y", b"p"]]
    assert batch["b"].tolist() == [[True, False]]
    assert batch["c"].tolist() == [[1.5, 2.5, -1.0]]
    both = Dataset.from_tensor_slices(([[1]], [[2]])).padded_batch(1, ([2], [3]), 9)
    assert [[x.tolist() for x in e] for e in both] == [[[[1, 9]], [[2, 9, 9]]]]


def test_two_dimensions_that_vary():
    arrays = [np.full((i + 1, 2 - i), i, np.float32) for i in range(3)]
    ds = Dataset.from_generator(
        lambda: iter(arrays), output_signature=dl.TensorSpec((None, None), np.float32)
    )
    (batch,) = ds.padded_batch(3, padding_values=-1.0)
    assert batch.shape == (3, 3, 2)
    assert batch[1].tolist() == [[1, -1], [1, -1], [-1, -1]]
    (stacked,) = ds.ragged_batch(3)
    assert stacked.to_list() == [array.tolist() for array in arrays]
    assert stacked.ragged_rank == 2
    assert [a.to_list() for a in ds.ragged_batch(3).unbatch()] == [a.tolist() for a in arrays]


def test_what_cannot_be_padded_says_so():
    with pytest.raises(ValueError, match=re.escape("does not fit into (2,)")):
        Dataset.from_tensor_slices([[1, 2, 3]]).padded_batch(2, [2])
    with pytest.raises(ValueError, match="not as many dimensions"):
        source().padded_batch(2, ([], []))
    with pytest.raises(ValueError, match="structure"):
        source().padded_batch(2, [None])
    with pytest.raises(TypeError, match="cannot fill up leaf 0"):
        source().padded_batch(2, padding_values=(1.5, None))
    with pytest.raises(TypeError, match="does not fit"):
        source().padded_batch(2, padding_values=(2**40, None))
    with pytest.raises(TypeError, match="RaggedTensorSpec"):
        source().ragged_batch(2).padded_batch(2)


def test_an_element_that_is_too_long_fails_with_its_batch():
    iterator = iter(source().padded_batch(2, ([2], [])))
    next(iterator)
    with pytest.raises(ValueError, match=r"elements 2 to 3 is up to \(3,\)"):
        next(iterator)
    assert next(iterator, None) is None


def test_an_element_that_failed_takes_its_batch_along():
    def check(a, b):
        if int(b) == 1:
            raise KeyError("bad")
        return np.asarray(a), np.asarray(b)

    iterator = iter(source(ROWS + ROWS).map(check).padded_batch(3))
    with pytest.raises(KeyError):
        next(iterator)
    assert [b.tolist() for _, b in iterator] == [[2, 3, 4], [5, 6, 7]]


@pytest.mark.parametrize("make", [source, generated])
def test_ragged_batches_and_their_rows(make):
    ds = make().ragged_batch(3)
    assert lists(ds) == [([[1, 2], [3], []], [0, 1, 2]), ([[4, 5, 6]], [3])]
    assert ds.element_spec[0] == dl.RaggedTensorSpec((None, None), np.int32, 1)
    assert lists(ds.unbatch()) == lists(make())
    assert ds.unbatch().element_spec == make().element_spec
    dense = make().ragged_batch(2, drop_remainder=True).map(lambda a, b: (a.to_tensor(), a))
    assert dense.element_spec[1] == dl.RaggedTensorSpec((None, None), np.int32, 1)
    assert [(a.tolist(), r.to_list()) for a, r in dense][1] == (
        [[0, 0, 0], [4, 5, 6]],
        [[], [4, 5, 6]],
    )


def test_a_ragged_array_is_an_element_too():
    ragged = dl.RaggedArray.from_rows([[1], [2, 3]])
    ds = Dataset.from_tensors((ragged, 5)).repeat(2).shuffle(2, seed=1).cache().prefetch(1)
    assert [(a.to_list(), int(b)) for a, b in ds] == [([[1], [2, 3]], 5)] * 2
    deeper = dl.RaggedArray.from_rows([[[1], []], [[2, 3]]])
    assert [a.to_list() for a in Dataset.from_tensor_slices(deeper)] == [[[1], []], [[2, 3]]]
    with pytest.raises(TypeError, match="to_tensor"):
        ds.batch(2).element_spec  # noqa: B018


def test_batches_of_rows_of_one_length_only():
    assert lists(source([[1, 2], [3, 4], [5]]).take(2).batch(2)) == [([[1, 2], [3, 4]], [0, 1])]
    with pytest.raises(ValueError, match="different shapes"):
        list(source().batch(2))


def test_rebatch():
    ds = Dataset.range(8).batch(3)
    assert [b.tolist() for b in ds.rebatch([2, 3])] == [[0, 1], [2, 3, 4], [5, 6], [7]]
    assert [b.tolist() for b in ds.rebatch([2, 3], drop_remainder=True)] == [
        [0, 1],
        [2, 3, 4],
        [5, 6],
    ]
    assert [b.tolist() for b in ds.rebatch(4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert ds.rebatch(4, drop_remainder=True).element_spec.shape == (4,)
    even = Dataset.range(12).batch(4, drop_remainder=True)
    assert even.rebatch([5, 2]).cardinality() == len(list(even.rebatch([5, 2]))) == 3
    for none, message in [(0, "at least 1"), ([0], "at least 1"), ([0, 0], "never end")]:
        with pytest.raises(ValueError, match=message):
            ds.rebatch(none)
    whole = [b.tolist() for b in ds.rebatch([2, 3])]
    for stop in range(4):
        iterator = iter(ds.rebatch([2, 3]))
        for _ in range(stop):
            next(iterator)
        again = iter(ds.rebatch([2, 3]))
        again.restore(json.loads(json.dumps(iterator.state())))
        assert [b.tolist() for b in again] == whole[stop:]


@pytest.mark.parametrize(
    ("sizes", "drop", "expected"),
    [  # As tf.data's.
        ([0, 1], False, [[], [0], [], [1], [], [2], [], [3], [], [4], []]),
        ([0, 1], True, [[], [0], [], [1], [], [2], [], [3], [], [4], []]),
        ([2, 0, 2], False, [[0, 1], [], [2, 3], [4]]),
        ([2, 0], True, [[0, 1], [], [2, 3], []]),
        ([0, 2], False, [[], [0, 1], [], [2, 3], [], [4]]),
        ([3, 0, 0, 2], False, [[0, 1, 2], [], [], [3, 4]]),
    ],
)
def test_batches_without_rows(sizes, drop, expected):
    rows = Dataset.range(5).map(lambda v: {"x": v, "y": np.ones((2,), np.float32)})

    def build():
        return rows.batch(4).rebatch(sizes, drop_remainder=drop)

    assert [b["x"].tolist() for b in build()] == expected
    assert all(b["y"].shape == (len(b["x"]), 2) for b in build())
    assert all(b["x"].dtype == np.int64 and b["y"].dtype == np.float32 for b in build())
    known = Dataset.range(5).batch(5, drop_remainder=True).rebatch(sizes, drop_remainder=drop)
    assert known.cardinality() == len(list(known)) == len(expected)
    for stop in range(len(expected) + 1):
        iterator = iter(build())
        for _ in range(stop):
            next(iterator)
        again = iter(build())
        again.restore(json.loads(json.dumps(iterator.state())))
        assert [b["x"].tolist() for b in again] == expected[stop:]


@pytest.mark.parametrize(
    ("sizes", "drop", "expected"),
    [  # As tf.data's.
        (2, False, 2),
        ([2, 2], False, 2),
        (4, False, 4),
        (3, False, None),
        (8, False, None),
        ([1, 2], False, None),
        (3, True, 3),
        ([1, 3], True, None),
    ],
)
def test_rebatch_knows_sizes_that_divide_the_batches(sizes, drop, expected):
    ds = Dataset.range(8).batch(4, drop_remainder=True).rebatch(sizes, drop_remainder=drop)
    assert ds.element_spec.shape == (expected,)
    assert expected is None or {len(b) for b in ds} == {expected}
    varying = Dataset.range(8).batch(4).rebatch(sizes)
    assert varying.element_spec.shape == (None,)


def test_padding_values_of_none_for_a_part_of_the_structure():
    ds = Dataset.range(1, 3).map(lambda v: (np.ones(1, np.int64), {"s": v, "t": (v, v)}))
    padded = ds.padded_batch(2, ((3,), {"s": (), "t": ((), ())}), padding_values=(-1, None))
    ((x, rest),) = padded
    assert x.tolist() == [[1, -1, -1]] * 2
    assert rest["s"].tolist() == rest["t"][1].tolist() == [1, 2]
    with pytest.raises(ValueError, match="a shape has an integer or None for each dimension"):
        ds.map(lambda x, _: x).padded_batch(2, padded_shapes=[[[4]]])


operations = st.sampled_from(
    [
        "shuffle",
        "repeat",
        "cache",
        "skip",
        "concatenate",
        "shard",
        "filter",
        "prefetch",
        "enumerate",
        "map",
    ]
)


def applied(ds, name):
    match name:
        case "shuffle":
            return ds.shuffle(3, seed=4)
        case "repeat":
            return ds.repeat(2)
        case "cache":
            return ds.cache()
        case "skip":
            return ds.skip(1)
        case "concatenate":
            return ds.concatenate(source([[8], [], [9, 9, 9, 9]]))
        case "shard":
            return ds.shard(2, 0)
        case "filter":
            return ds.filter(lambda a, b: np.asarray(b).item() % 3 != 1)
        case "prefetch":
            return ds.prefetch(2)
        case "enumerate":
            return ds.enumerate().map(lambda i, e: (np.asarray(e[0]), np.asarray(e[1])))
    return ds.map(lambda a, b: (np.asarray(a) + 0, np.asarray(b).item()))


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12),
    st.lists(operations, max_size=3),
    st.sampled_from(["padded_batch", "ragged_batch", "unbatch"]),
    st.integers(1, 5),
    st.integers(0, 6),
)
def test_ragged_sources_behave_as_generators_do(rows, names, last, size, stop):
    """Blocks of many rows and blocks of one row give the same, and resume the same."""
    found = []
    for make in (source, generated):
        ds = make(rows)
        for name in names:
            ds = applied(ds, name)
        finish = {
            "padded_batch": lambda ds: ds.padded_batch(size),
            "ragged_batch": lambda ds: ds.ragged_batch(size),
            "unbatch": lambda ds: ds.ragged_batch(size).unbatch(),
        }[last]
        iterator = iter(finish(ds))
        head = [element for _, element in zip(range(stop), iterator, strict=False)]
        again = iter(finish(ds))
        again.restore(json.loads(json.dumps(iterator.state())))
        rest = lists(iterator)
        assert lists(again) == rest
        found.append(lists(head) + rest)
    assert found[0] == found[1]


def test_an_empty_list_is_of_any_type():
    rows = [[1], [], [2, 3]]
    ds = Dataset.from_generator(lambda: iter(rows), output_types=np.int32, output_shapes=(None,))
    assert [b.tolist() for b in ds.padded_batch(3)] == [[[1, 0], [0, 0], [2, 3]]]
    words = Dataset.from_generator(
        lambda: iter([[], ["a"]]), output_types=str, output_shapes=(None,)
    )
    assert [b.tolist() for b in words.padded_batch(2)] == [[[b""], [b"a"]]]


def test_errors_of_rebatch_name_it():
    with pytest.raises(ValueError, match="^rebatch: a leaf has no first dimension"):
        Dataset.range(5).rebatch(2)
    uneven = Dataset.from_tensor_slices((np.zeros((4, 2)), np.zeros((4, 3))))
    with pytest.raises(ValueError, match="^rebatch: first dimensions differ"):
        uneven.rebatch(2)
    spec = (TensorSpec((None,)), TensorSpec((None,)))
    pairs = [(np.zeros(2, np.float32), np.zeros(2, np.float32))] * 2
    pairs.append((np.zeros(2, np.float32), np.zeros(3, np.float32)))
    later = Dataset.from_generator(lambda: iter(pairs), output_signature=spec)
    for sizes in (2, [2, 1]):
        with pytest.raises(ValueError, match="^rebatch needs leaves with equal .*element 2 has"):
            list(later.rebatch(sizes))
    wide = [np.zeros((1, width), np.float32) for width in (2, 2, 3)]
    rows = Dataset.from_generator(lambda: iter(wide), output_signature=TensorSpec((None, None)))
    for sizes in (3, [3, 1]):
        with pytest.raises(ValueError, match=r"^rebatch\(3\) cannot stack .* element 2"):
            list(rows.rebatch(sizes))
    with pytest.raises(ValueError, match="^unbatch needs leaves .*element 2"):
        list(later.unbatch())
