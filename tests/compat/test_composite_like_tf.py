"""Ragged and sparse tensors give what TensorFlow's give, where it is installed."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

DIGITS = [[3, 1, 4, 1], [], [5, 9, 2], [6], []]
NESTED = [[[1, 2], [3]], [], [[], [4, 5, 6]]]
WORDS = [["So", "long"], ["thanks", "for", "all", "the", "fish"], []]


def digits(tf):
    return tf.ragged.constant(DIGITS)


def floats(tf):
    return tf.ragged.constant([[1.0, 2.0], [3.0], []])


def nested(tf):
    return tf.ragged.constant(NESTED)


def sparse(tf):
    return tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.5, -2.0, 3.0], [2, 4])


RAGGED = {
    "constant": digits,
    "nested": nested,
    "empty": lambda tf: tf.ragged.constant([[], []]),
    "inner_shape": lambda tf: tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1),
    "row_splits": lambda tf: tf.RaggedTensor.from_row_splits([3, 1, 4, 2], [0, 2, 2, 4]),
    "row_lengths": lambda tf: tf.RaggedTensor.from_row_lengths([3, 1, 4], [0, 3]),
    "row_starts": lambda tf: tf.RaggedTensor.from_row_starts([3, 1, 4], [0, 0, 2]),
    "row_limits": lambda tf: tf.RaggedTensor.from_row_limits([3, 1, 4], [1, 1, 3]),
    "rowids": lambda tf: tf.RaggedTensor.from_value_rowids([3, 1, 4], [0, 0, 2], nrows=4),
    "uniform": lambda tf: tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2),
    "from_tensor": lambda tf: tf.RaggedTensor.from_tensor([[1, 2, 0], [3, 0, 0]], padding=0),
    "cut": lambda tf: tf.RaggedTensor.from_tensor([[1, 2, 0], [3, 0, 0]], lengths=[1, 3]),
    "add": lambda tf: digits(tf) + 3,
    "reflected": lambda tf: 10 - digits(tf),
    "two": lambda tf: digits(tf) * digits(tf),
    "column": lambda tf: digits(tf) + tf.constant([[10], [20], [30], [40], [50]]),
    "broadcast row": lambda tf: digits(tf) + tf.constant([[10]]),
    "compare": lambda tf: digits(tf) == 1,
    "divide": lambda tf: floats(tf) / 2.0,
    "negative": lambda tf: -digits(tf),
    "sqrt": lambda tf: tf.sqrt(floats(tf)),
    "cast": lambda tf: tf.cast(digits(tf), tf.float32),
    "sum of rows": lambda tf: tf.reduce_sum(digits(tf), axis=1),
    "sum of columns": lambda tf: tf.reduce_sum(digits(tf), axis=0),
    "sum": lambda tf: tf.reduce_sum(digits(tf)),
    "sum kept": lambda tf: tf.reduce_sum(digits(tf), axis=1, keepdims=True),
    "nested sum": lambda tf: tf.reduce_sum(nested(tf), axis=2),
    "nested sum 1": lambda tf: tf.reduce_sum(nested(tf), axis=1),
    "nested sum 0": lambda tf: tf.reduce_sum(nested(tf), axis=0),
    "two axes": lambda tf: tf.reduce_sum(nested(tf), axis=[1, 2]),
    "mean": lambda tf: tf.reduce_mean(floats(tf), axis=1),
    "mean of integers": lambda tf: tf.reduce_mean(digits(tf), axis=1),
    "max": lambda tf: tf.reduce_max(digits(tf), axis=1),
    "min": lambda tf: tf.reduce_min(digits(tf), axis=0),
    "prod": lambda tf: tf.reduce_prod(digits(tf), axis=-1),
    "any": lambda tf: tf.reduce_any(digits(tf) > 4, axis=1),
    "all": lambda tf: tf.reduce_all(digits(tf) > 0, axis=1),
    "concat 0": lambda tf: tf.concat([digits(tf), [[5, 3]]], axis=0),
    "concat 1": lambda tf: tf.concat([digits(tf), [[5, 3]] * 5], axis=1),
    "concat nested": lambda tf: tf.concat([nested(tf), nested(tf)], axis=2),
    "stack": lambda tf: tf.stack([digits(tf), digits(tf)]),
    "stack 1": lambda tf: tf.stack([digits(tf), digits(tf)], axis=1),
    "ragged.stack": lambda tf: tf.ragged.stack([tf.constant([1, 2]), tf.constant([3])]),
    "tile": lambda tf: tf.tile(digits(tf), [2, 3]),
    "expand_dims 0": lambda tf: tf.expand_dims(digits(tf), 0),
    "expand_dims 1": lambda tf: tf.expand_dims(digits(tf), 1),
    "expand_dims 2": lambda tf: tf.expand_dims(digits(tf), 2),
    "squeeze": lambda tf: tf.squeeze(tf.expand_dims(digits(tf), 1), [1]),
    "reverse": lambda tf: tf.reverse(digits(tf), [0, 1]),
    "gather": lambda tf: tf.gather(digits(tf), [2, 0]),
    "gather ragged": lambda tf: tf.gather(
        tf.constant([7, 8, 9]), tf.ragged.constant([[2], [0, 1]])
    ),
    "gather batch": lambda tf: tf.gather(
        digits(tf), tf.ragged.constant([[1], [], [2, 0], [], []], dtype=tf.int32), batch_dims=1
    ),
    "boolean_mask": lambda tf: tf.ragged.boolean_mask(digits(tf), digits(tf) > 2),
    "boolean_mask dense": lambda tf: tf.ragged.boolean_mask(
        tf.constant([[1, 2], [3, 4]]), tf.constant([[True, False], [True, True]])
    ),
    "where": lambda tf: tf.where(digits(tf) > 2, digits(tf), -digits(tf)),
    "range": lambda tf: tf.ragged.range([3, 0, 8], [6, 0, 2], [1, 1, -2]),
    "map_flat_values": lambda tf: tf.ragged.map_flat_values(lambda x: x * x, digits(tf)),
    "to_tensor": lambda tf: digits(tf).to_tensor(-1),
    "to_tensor shape": lambda tf: digits(tf).to_tensor(shape=[None, 2]),
    "to_tensor nested": lambda tf: nested(tf).to_tensor(),
    "to_sparse": lambda tf: nested(tf).to_sparse(),
    "from_sparse": lambda tf: tf.RaggedTensor.from_sparse(digits(tf).to_sparse()),
    "row": lambda tf: digits(tf)[2],
    "element": lambda tf: digits(tf)[0, 2],
    "rows": lambda tf: digits(tf)[1:4],
    "stepped": lambda tf: digits(tf)[::-2],
    "columns": lambda tf: digits(tf)[:, 1:],
    "last columns": lambda tf: digits(tf)[:, -2:],
    "inner": lambda tf: nested(tf)[:, :, :1],
    "newaxis": lambda tf: digits(tf)[:, tf.newaxis],
    "ellipsis": lambda tf: nested(tf)[..., 1:],
    "row_lengths of 2": lambda tf: nested(tf).row_lengths(axis=2),
    "value_rowids": lambda tf: digits(tf).value_rowids(),
    "bounding_shape": lambda tf: nested(tf).bounding_shape(),
    "segment ids": lambda tf: tf.ragged.row_splits_to_segment_ids([0, 3, 3, 5]),
    "splits of ids": lambda tf: tf.ragged.segment_ids_to_row_splits([0, 0, 2]),
    "partitions": lambda tf: tf.ragged.stack_dynamic_partitions([1, 2, 3], [1, 0, 1], 3),
    "substr": lambda tf: tf.strings.substr(tf.ragged.constant(WORDS), 0, 2),
    "length": lambda tf: tf.strings.length(tf.ragged.constant(WORDS)),
    "upper": lambda tf: tf.strings.upper(tf.ragged.constant(WORDS)),
    "softmax": lambda tf: tf.nn.softmax(tf.ragged.constant([[1.0, 2.0], [3.0]])),
    "size": lambda tf: tf.size(digits(tf)),
    "compiled": lambda tf: tf.function(lambda x: tf.reduce_sum(x * 2, axis=1))(digits(tf)),
}
SPARSE = {
    "sparse": sparse,
    "dense": lambda tf: tf.sparse.to_dense(sparse(tf), -1.0),
    "from_dense": lambda tf: tf.sparse.from_dense([[0, 3], [4, 0]]),
    "reorder": lambda tf: tf.sparse.reorder(tf.SparseTensor([[1, 0], [0, 1]], [1, 2], [2, 2])),
    "reshape": lambda tf: tf.sparse.reshape(sparse(tf), [4, -1]),
    "slice": lambda tf: tf.sparse.slice(sparse(tf), [0, 1], [2, 2]),
    "split": lambda tf: tf.sparse.split(sparse(tf), 3, axis=1)[0],
    "sparse concat": lambda tf: tf.sparse.concat(1, [sparse(tf), sparse(tf)]),
    "expand_dims": lambda tf: tf.sparse.expand_dims(sparse(tf), 1),
    "transpose": lambda tf: tf.sparse.transpose(sparse(tf)),
    "retain": lambda tf: tf.sparse.retain(sparse(tf), [True, False, True]),
    "fill_empty_rows": lambda tf: tf.sparse.fill_empty_rows(
        tf.SparseTensor([[1, 0]], [1], [3, 2]), 7
    )[0],
    "map_values": lambda tf: tf.sparse.map_values(tf.add, sparse(tf), 5.0),
    "sparse add": lambda tf: tf.sparse.add(sparse(tf), tf.SparseTensor([[0, 0]], [4.0], [2, 4])),
    "add dense": lambda tf: tf.sparse.add(sparse(tf), tf.ones([2, 4])),
    "maximum": lambda tf: tf.sparse.maximum(sparse(tf), tf.SparseTensor([[1, 0]], [4.0], [2, 4])),
    "matmul": lambda tf: tf.sparse.sparse_dense_matmul(
        sparse(tf), tf.reshape(tf.range(8, dtype=tf.float32), [4, 2])
    ),
    "matmul of transposed": lambda tf: tf.sparse.sparse_dense_matmul(
        sparse(tf), tf.ones([2, 3]), adjoint_a=True
    ),
    "reduce_sum": lambda tf: tf.sparse.reduce_sum(sparse(tf), axis=1),
    "reduce_sum of all": lambda tf: tf.sparse.reduce_sum(sparse(tf)),
    "reduce_max": lambda tf: tf.sparse.reduce_max(sparse(tf), axis=0, keepdims=True),
    "sparse softmax": lambda tf: tf.sparse.softmax(sparse(tf)),
    "eye": lambda tf: tf.sparse.eye(2, 3),
    "times": lambda tf: sparse(tf) * 2.0,
    "abs": lambda tf: tf.abs(sparse(tf)),
    "sparse shape": lambda tf: tf.shape(sparse(tf)),
    "indicator": lambda tf: tf.sparse.to_indicator(tf.SparseTensor([[0, 0]], [2], [2, 2]), 3),
    "batches": lambda tf: [*tf.data.Dataset.from_tensor_slices(sparse(tf)).batch(2)][0],
    "ragged batches": lambda tf: [*tf.data.Dataset.from_tensor_slices(digits(tf)).batch(3)][0],
}


@pytest.mark.parametrize("name", [*RAGGED, *SPARSE])
def test_results_are_equal(name):
    program = RAGGED.get(name) or SPARSE[name]
    _equal(program(ours), program(theirs))


def _equal(a, b):
    assert type(a).__name__.endswith(type(b).__name__.removeprefix("Eager").removeprefix("_"))
    assert a.dtype.name == b.dtype.name
    assert a.shape.as_list() == b.shape.as_list()
    if isinstance(b, theirs.RaggedTensor):
        assert a.ragged_rank == b.ragged_rank
        assert a.row_splits.dtype.name == b.row_splits.dtype.name
        np.testing.assert_array_equal(a.row_splits.numpy(), b.row_splits.numpy())
        _equal(a.values, b.values)
    elif isinstance(b, theirs.SparseTensor):
        np.testing.assert_array_equal(a.indices.numpy(), b.indices.numpy())
        _equal(a.values, b.values)
    elif b.dtype == theirs.string:
        assert a.numpy().tolist() == b.numpy().tolist()
    else:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


WRONG = {
    "columns of rows": lambda tf: digits(tf)[:, 1],
    "rows differ": lambda tf: digits(tf) + tf.ragged.constant([[1, 2], [], [1], [1], []]),
    "splits decrease": lambda tf: tf.RaggedTensor.from_row_splits([1, 2], [0, 2, 1]),
    "depths differ": lambda tf: tf.ragged.constant([[1], 2]),
    "unordered": lambda tf: tf.sparse.to_dense(tf.SparseTensor([[1], [0]], [1, 2], [3])),
    "out of bounds": lambda tf: tf.sparse.to_dense(tf.SparseTensor([[5]], [1], [3])),
    "shapes": lambda tf: tf.SparseTensor([[0, 1]], [1, 2], [2, 2]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_of_the_same_kind(name):
    with pytest.raises((ValueError, TypeError, theirs.errors.OpError)) as theirs_found:
        WRONG[name](theirs)
    with pytest.raises((ValueError, TypeError, ours.errors.OpError)) as found:
        WRONG[name](ours)
    kind = theirs_found.type
    expected = getattr(ours.errors, kind.__name__, None) or kind
    assert issubclass(found.type, (expected, ValueError))
