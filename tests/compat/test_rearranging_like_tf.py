"""Blocks, partitions, histograms, sets and nested values are TensorFlow's, with their errors."""

import collections

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import compare, named

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

IMAGE = np.arange(2 * 4 * 6 * 4, dtype=np.float32).reshape(2, 4, 6, 4)
VOLUME = np.arange(2 * 5 * 4 * 3 * 2, dtype=np.float32).reshape(2, 5, 4, 3, 2)
CASES = {
    "space_to_batch": lambda tf, x: tf.space_to_batch(x, [2, 3], [[1, 1], [0, 0]]),
    "space_to_batch_nd": lambda tf, x: tf.space_to_batch_nd(x, [2], [[2, 0]]),
    "batch_to_space": lambda tf, x: tf.batch_to_space(x, [1, 2], [[1, 0], [0, 3]]),
    "batch_to_space_nd": lambda tf, x: tf.compat.v1.batch_to_space_nd(x, [2], [[0, 1]]),
    "space_to_depth": lambda tf, x: tf.nn.space_to_depth(x, 2),
    "depth_to_space": lambda tf, x: tf.nn.depth_to_space(x, 2),
    "reverse_sequence": lambda tf, x: tf.reverse_sequence(x, [3, 1], 2, 0),
    "reverse_sequence batch": lambda tf, x: tf.reverse_sequence(x, [0, 2, 4, 1], 2, 1),
    "strided_slice": lambda tf, x: tf.strided_slice(
        x, [0, 0, 1, 5], [0, 0, 9, 0], [1, 1, 2, -2], 0, 8, 1, 2, 0
    ),
    "strided_slice shrink": lambda tf, x: tf.strided_slice(
        x, [1, 1, 0], [0, 3, 0], [1, 1, 1], 0, 4, 0, 0, 1
    ),
    "dynamic_partition": lambda tf, x: tf.concat(tf.dynamic_partition(x, [1, 0], 3), 0),
    "dynamic_stitch": lambda tf, x: tf.dynamic_stitch([[2], [0]], [x[:1], x[1:]]),
}
COMPILED = CASES.keys() - {"dynamic_partition"}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case):
    def run(tf, compiled):
        x = tf.constant(IMAGE)

        def call(x):
            return CASES[case](tf, x)

        call = tf.function(call) if compiled else call
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = call(x)
            loss = tf.reduce_sum(made * made)
        return [made, tape.gradient(loss, x)]

    expected = run(theirs, False)
    for compiled in (False, True) if case in COMPILED else (False,):
        for mine, other in zip(run(ours, compiled), expected, strict=True):
            compare(mine, other)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_patches_of_volumes(padding):
    sizes, steps = [1, 2, 3, 2, 1], [1, 2, 1, 1, 1]
    compare(*(tf.extract_volume_patches(VOLUME, sizes, steps, padding) for tf in (ours, theirs)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.array([1.5, -2.0], np.float32), "int32"),
        (np.array([1.5, -2.0], np.float64), "uint8"),
        (np.arange(8, dtype=np.uint8).reshape(2, 4), "uint32"),
        (np.array([[1, 2]], np.int32), "int64"),
    ],
)
def test_bits(value, kind):
    compare(*(tf.bitcast(tf.constant(value), kind) for tf in (ours, theirs)))
    if kind != "int64":
        mine = ours.function(lambda x: ours.bitcast(x, kind))(ours.constant(value))
        assert mine.numpy().tolist() == theirs.bitcast(value, kind).numpy().tolist()


def test_stitched_rows_that_are_missing_or_twice():
    indices, data = [[4, 1], [1, [0][0]]], [[1.0, 2.0], [3.0, 4.0]]
    mine, other = (tf.dynamic_stitch(indices, data) for tf in (ours, theirs))
    present = sorted({0, 1, 4})
    assert mine.numpy()[present].tolist() == other.numpy()[present].tolist()
    assert mine.shape.as_list() == other.shape.as_list()


def test_partitions_of_strings_and_none():
    for tf in (ours, theirs):
        found = tf.dynamic_partition(tf.constant(["a", "b", "c"]), [1, 1, 0], 3)
        assert [part.numpy().tolist() for part in found] == [[b"c"], [b"a", b"b"], []]


def test_histograms():
    values = np.array([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0, 4.999], np.float32)
    for name in ("histogram_fixed_width", "histogram_fixed_width_bins"):
        for kind in ("int32", "int64"):
            compare(*(named(tf, name)(values, [0.0, 5.0], 5, kind) for tf in (ours, theirs)))
        compiled = ours.function(lambda x, name=name: named(ours, name)(x, [0.0, 5.0], 5))
        compare(compiled(values), named(theirs, name)(values, [0.0, 5.0], 5))


def test_distances():
    def run(tf, normalize):
        guess = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "b", "c"], [3, 2])
        true = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0]], ["a", "d", "c", "e"], [3, 2])
        return tf.edit_distance(guess, true, normalize)

    for normalize in (False, True):
        compare(run(ours, normalize), run(theirs, normalize))


def test_shapes():
    compare(*(tf.broadcast_dynamic_shape([1, 4], tf.constant([3, 1])) for tf in (ours, theirs)))
    for x, y in [([2, 1], [3]), ([None, 3], [5, 3]), ([None], [1]), ([1, 2], [None, 1])]:
        mine, other = (
            tf.broadcast_static_shape(tf.TensorShape(x), tf.TensorShape(y)) for tf in (ours, theirs)
        )
        assert mine.as_list() == other.as_list()
    for a, b in zip(*(tf.shape_n([IMAGE, VOLUME]) for tf in (ours, theirs)), strict=True):
        compare(a, b)
    compare(*(tf.unravel_index([1, 7, 22], [4, 6]) for tf in (ours, theirs)))
    pads = [
        tf.required_space_to_batch_paddings([5, 7], [2, 3], [[1, 0], [0, 0]])
        for tf in (ours, theirs)
    ]
    for a, b in zip(*pads, strict=True):
        compare(ours.constant(a), theirs.constant(b))


@pytest.mark.parametrize("name", ["intersection", "union", "difference"])
@pytest.mark.parametrize("sparse", [False, True])
def test_sets(name, sparse):
    def run(tf):
        a = tf.constant([[[1, 2, 2], [3, 9, 3]]], tf.int64)
        b = tf.constant([[[2, 5, 1], [4, 4, 4]]], tf.int64)
        if sparse:
            b = tf.sparse.from_dense(b)
        return named(tf.sets, name)(a, b)

    mine, other = run(ours), run(theirs)
    for part in ("indices", "values", "dense_shape"):
        compare(ours.constant(getattr(mine, part)), getattr(other, part))
    compare(ours.sets.size(mine), theirs.sets.size(other))


def test_nested_values():
    Point = collections.namedtuple("Point", "x y")
    structure = {"b": [1, (2, 3)], "a": Point(4, {"c": 5})}
    for tf in (ours, theirs):
        packed = tf.nest.pack_sequence_as(structure, [10, 20, 30, 40, 50])
        assert packed == {"a": Point(10, {"c": 20}), "b": [30, (40, 50)]}
        assert tf.nest.pack_sequence_as(1, [7]) == 7
        assert [tf.nest.is_nested(each) for each in ([], (), {}, 1, "ab", Point(1, 2))] == [
            True,
            True,
            True,
            False,
            False,
            True,
        ]
        assert tf.nest.flatten(structure) == [4, 5, 1, 2, 3]
        mapped = tf.nest.map_structure(lambda a, b: 10 * a + b, structure, structure)
        assert mapped == {"b": [11, (22, 33)], "a": Point(44, {"c": 55})}
        assert list(mapped) == ["b", "a"]
        tf.nest.assert_same_structure(structure, packed)
        tf.nest.assert_same_structure([1, 2], (1, 2), check_types=False)
        with pytest.raises(TypeError, match="same sequence type|type"):
            tf.nest.assert_same_structure([1, 2], (1, 2))
        for wrong in ([1, [2]], [1], 3, {"a": 1, "b": 2}):
            with pytest.raises((ValueError, TypeError)):
                tf.nest.assert_same_structure([1, 2], wrong)
        with pytest.raises(ValueError, match="Could not pack|pack"):
            tf.nest.pack_sequence_as(structure, [1, 2])


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.space_to_batch(IMAGE, [3, 3], [[0, 0], [0, 0]]),
        lambda tf: tf.batch_to_space(IMAGE, [3, 3], [[0, 0], [0, 0]]),
        lambda tf: tf.nn.space_to_depth(IMAGE, 5),
        lambda tf: tf.nn.depth_to_space(IMAGE, 3),
        lambda tf: tf.dynamic_partition([1.0, 2.0], [0, 5], 2),
        lambda tf: tf.dynamic_partition([1.0, 2.0], [0], 2),
        lambda tf: tf.dynamic_stitch([[0, 1]], [[1.0]]),
        lambda tf: tf.histogram_fixed_width([1.0], [2.0, 2.0]),
        lambda tf: tf.reverse_sequence(IMAGE, [9, 1], 2, 0),
        lambda tf: tf.unravel_index([30], [4, 6]),
        lambda tf: tf.broadcast_dynamic_shape([2], [3]),
        lambda tf: tf.broadcast_static_shape(tf.TensorShape([2]), tf.TensorShape([3])),
        lambda tf: tf.bitcast(tf.constant([1, 2, 3]), "int64"),
    ],
)
def test_errors(call):
    for tf in (ours, theirs):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            call(tf)
