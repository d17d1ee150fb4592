"""Row partitions and the shapes of ragged tensors, beside TensorFlow's."""

from __future__ import annotations

import re

import pytest

import drumline.compat.tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

_PARTITIONS = (
    "R.from_row_lengths([5, 3, 2])",
    "R.from_row_lengths([])",
    "R.from_row_lengths([0, 0])",
    "R.from_value_rowids([0, 0, 2], nrows=4)",
    "R.from_value_rowids([0, 0, 2])",
    "R.from_row_splits([0, 2, 5])",
    "R.from_row_starts([0, 2], nvals=5)",
    "R.from_row_limits([2, 5])",
    "R.from_uniform_row_length(2, nvals=6)",
    "R.from_uniform_row_length(0, nrows=3)",
    "R.from_row_lengths([1, 2], dtype=tf.int32)",
    "R.from_row_lengths([1, 2], dtype_hint=tf.int32)",
    "R.from_row_lengths(tf.constant([1, 2]))",
    "R.from_row_lengths(tf.constant([1, 2]), dtype_hint=tf.int64)",
)
_OF_PARTITIONS = [
    "row_splits()",
    "row_lengths()",
    "row_starts()",
    "row_limits()",
    "value_rowids()",
    "nrows()",
    "nvals()",
    "offsets_in_rows()",
    "uniform_row_length()",
    "is_uniform()",
    "static_nrows",
    "static_uniform_row_length",
    "dtype",
    "with_dtype(tf.int32).row_splits()",
]
_SHAPES = (
    "D([R.from_row_lengths([5, 3, 2])], [10, 8])",
    "D([], [2, 3])",
    "D.from_lengths([4, (2, 1, 0, 8), 12])",
    "D.from_lengths([2, 3])",
    "D.from_lengths([2, (1, 2), (3, 1, 2)])",
    "D.from_lengths([2, (1, 2), 3, 4], num_row_partitions=2)",
    "D.from_lengths([3, 2, 2], num_row_partitions=1)",
    "D.from_tensor(tf.ragged.constant([[1], [2, 3]]))",
    "D.from_tensor(tf.zeros([2, 3]))",
    "D.from_row_partitions([R.from_row_lengths([2, 0, 1])])",
    "tf.shape(tf.ragged.constant([[[1], [2, 3]], []]))",
)
_OF_SHAPES = [
    "rank",
    "num_row_partitions",
    "row_partitions",
    "inner_shape",
    "inner_rank",
    "static_lengths()",
    "dtype",
    "static_lengths(ragged_lengths=False)",
    "with_dtype(tf.int32).dtype",
    "[:1]",
    "[:2]",
    "[:3]",
    "[0]",
    "[-1]",
    "[1]",
    "[1:]",
    "is_uniform(0)",
    "is_uniform(1)",
]
_USES = (
    "tf.reshape(tf.range(6), S)",
    "tf.reshape(tf.range(5), S)",
    "tf.reshape(tf.constant([['a', 'b'], ['c', 'd'], ['e', 'f']]), S)",
    "tf.zeros(S)",
    "tf.ones(S, tf.int64)",
    "tf.fill(S, 'x')",
    "tf.broadcast_to(3, S)",
    "tf.broadcast_to([[1], [2], [3], [4]], S)",
    "tf.broadcast_to([[1, 2, 3]], S)",
    "tf.broadcast_dynamic_shape(S, tf.constant([4, 1]))",
    "tf.broadcast_dynamic_shape(S, S)",
    "S == S",
    "S == D.from_lengths([4, 2])",
)
_REFUSED = (
    "R.from_uniform_row_length(2, nvals=5)",
    "R.from_uniform_row_length(2)",
    "R.from_row_splits([1, 2])",
    "R.from_row_splits([0, 2, 1])",
    "R.from_row_lengths([-1])",
    "D.from_lengths([2, (1, 2, 3)])",
    "D.from_lengths([(1, 2), 2])",
    "D.from_row_partitions([])",
)


def _result(tf, expression):
    """What an expression gives, as text; or the kind of its error."""
    names = {"tf": tf, "R": tf.experimental.RowPartition, "D": tf.experimental.DynamicRaggedShape}
    if re.search(r"\bS\b", expression):
        names["S"] = tf.shape(tf.ragged.constant([[1], [2, 3, 4], [], [5, 6]]))
    try:
        # Some of TensorFlow's sizes are numpy's numbers.
        return re.sub(r"np\.int64\((\d+)\)", r"\1", repr(eval(expression, names)))
    except (ValueError, IndexError, tf.errors.InvalidArgumentError) as error:
        invalid = isinstance(error, tf.errors.InvalidArgumentError)
        return "InvalidArgumentError" if invalid else type(error).__name__


@pytest.mark.parametrize("shape", [*_PARTITIONS, *_SHAPES])
def test_properties(shape):
    of = _OF_PARTITIONS if shape in _PARTITIONS else _OF_SHAPES
    asked = ["", *(each if each.startswith("[") else f".{each}" for each in of)]
    found = {each: _result(ours, shape + each) for each in asked}
    assert found == {each: _result(theirs, shape + each) for each in asked}


@pytest.mark.parametrize("use", _USES)
def test_as_the_shape_of_tensors(use):
    assert _result(ours, use) == _result(theirs, use)


@pytest.mark.parametrize("expression", _REFUSED)
def test_what_does_not_fit_is_refused(expression):
    found = _result(ours, expression)
    assert found == _result(theirs, expression)
    assert found.endswith("Error")
