"""Operations give what TensorFlow's give: values, dtypes and shapes, where it is installed."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import named

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

FLOATS = np.array([[0.5, -1.25, 2.0], [3.5, 0.0, -0.75]], np.float32)
POSITIVE = np.abs(FLOATS) + 0.25
INTS = np.array([[7, -3, 2], [5, 4, -9]], np.int32)
BOOLS = np.array([True, False, True])

UNARY = [
    "abs",
    "sign",
    "square",
    "exp",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "atan",
    "floor",
    "math.ceil",
    "math.rint",
    "round",
    "math.expm1",
    "sigmoid",
    "math.softplus",
    "math.softsign",
    "math.erf",
    "math.erfc",
    "math.is_nan",
    "math.is_inf",
    "math.is_finite",
    "math.log_sigmoid",
    "negative",
    "nn.relu",
    "nn.relu6",
    "nn.elu",
    "nn.selu",
    "nn.silu",
    "nn.gelu",
    "nn.leaky_relu",
    "nn.softmax",
    "nn.log_softmax",
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_logsumexp",
    "math.reduce_variance",
    "math.reduce_std",
    "math.reduce_euclidean_norm",
    "math.count_nonzero",
    "math.zero_fraction",
    "argmax",
    "argmin",
    "cumsum",
    "math.cumprod",
    "sort",
    "argsort",
    "transpose",
    "size",
    "rank",
    "shape",
    "zeros_like",
    "ones_like",
    "norm",
    "squeeze",
    "linalg.matrix_transpose",
    "math.bessel_i0",
    "nn.l2_loss",
]
OF_POSITIVE = [
    "sqrt",
    "math.rsqrt",
    "math.log",
    "math.log1p",
    "math.reciprocal",
    "math.lgamma",
    "math.digamma",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "math.floormod",
    "math.squared_difference",
    "math.divide_no_nan",
    "math.multiply_no_nan",
]
OF_INTEGERS = [
    "add",
    "multiply",
    "truediv",
    "math.floordiv",
    "math.floormod",
    "truncatemod",
    "bitwise.bitwise_and",
    "bitwise.bitwise_or",
    "bitwise.bitwise_xor",
    "maximum",
    "equal",
    "divide",
]


def compare(mine, other, rtol=2e-5):
    if isinstance(other, (list, tuple)):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            compare(a, b, rtol)
        return
    assert mine.dtype.name == other.dtype.name
    assert list(mine.shape) == other.shape.as_list()
    a, b = mine.numpy(), other.numpy()
    if other.dtype.is_floating or other.dtype.is_complex:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(a, b)


def both(make, rtol=2e-5):
    compare(make(ours), make(theirs), rtol)


@pytest.mark.parametrize("name", UNARY)
def test_of_floats(name):
    both(lambda tf: named(tf, name)(tf.constant(FLOATS)))


@pytest.mark.parametrize("name", OF_POSITIVE)
def test_of_positive_floats(name):
    both(lambda tf: named(tf, name)(tf.constant(POSITIVE)))


@pytest.mark.parametrize("name", BINARY)
def test_of_two_floats(name):
    both(lambda tf: named(tf, name)(tf.constant(FLOATS), tf.constant(POSITIVE)))


@pytest.mark.parametrize("name", OF_INTEGERS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_of_integers(name, dtype):
    if (name, dtype) == ("truncatemod", "uint8"):
        pytest.skip("TensorFlow has no such kernel")
    a, b = np.abs(INTS), np.abs(INTS.T.reshape(2, 3))
    if dtype != "uint8":
        a, b = INTS, b
    both(lambda tf: named(tf, name)(tf.constant(a, dtype), tf.constant(b, dtype)))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axis", [None, 0, -1, [0, 1], []])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    for value in (FLOATS, INTS, INTS.astype(np.int64)):
        both(lambda tf, v=value: getattr(tf, f"reduce_{name}")(tf.constant(v), axis, keepdims))


CASES = {
    "constant": lambda tf: tf.constant([[1, 2], [3, 4]], tf.float64),
    "constant_shape": lambda tf: tf.constant(1.5, shape=[2, 2]),
    "strings": lambda tf: tf.constant([["a", "bc"]]),
    "range": lambda tf: [tf.range(5), tf.range(1, 6, 2), tf.range(0.0, 1.0, 0.25)],
    "range_wide": lambda tf: tf.range(tf.constant(3, tf.int64)),
    "linspace": lambda tf: tf.linspace(0.0, 1.0, 5),
    "fill": lambda tf: tf.fill([2, 3], 7),
    "eye": lambda tf: [tf.eye(2), tf.eye(2, 3, batch_shape=[2], dtype=tf.int32)],
    "reshape": lambda tf: tf.reshape(tf.range(6), [-1, 2]),
    "transpose": lambda tf: tf.transpose(tf.reshape(tf.range(6), [1, 2, 3]), [2, 0, 1]),
    "concat": lambda tf: tf.concat([tf.constant(FLOATS), tf.constant(POSITIVE)], 1),
    "stack": lambda tf: tf.stack([tf.constant([1, 2]), [3, 4]], axis=1),
    "unstack": lambda tf: tf.unstack(tf.constant(FLOATS), axis=1),
    "split": lambda tf: tf.split(tf.constant(FLOATS), 3, axis=1),
    "split_sizes": lambda tf: tf.split(tf.constant(FLOATS), [1, -1], axis=1),
    "tile": lambda tf: tf.tile(tf.constant([[1, 2]]), [2, 2]),
    "repeat": lambda tf: tf.repeat(tf.constant([1, 2]), [2, 3]),
    "pad": lambda tf: tf.pad(tf.constant(FLOATS), [[1, 0], [0, 2]], constant_values=9.0),
    "pad_reflect": lambda tf: tf.pad(tf.constant(FLOATS), [[1, 1], [2, 2]], "REFLECT"),
    "reverse": lambda tf: tf.reverse(tf.constant(FLOATS), [1]),
    "roll": lambda tf: tf.roll(tf.constant([1, 2, 3]), 1, 0),
    "slice": lambda tf: tf.slice(tf.constant(FLOATS), [0, 1], [-1, 2]),
    "gather": lambda tf: tf.gather(tf.constant(FLOATS), [2, 0], axis=1),
    "gather_batch": lambda tf: tf.gather(tf.constant(FLOATS), [[2, 0], [1, 1]], batch_dims=1),
    "gather_nd": lambda tf: tf.gather_nd(tf.constant(FLOATS), [[0, 1], [1, 2]]),
    "scatter_nd": lambda tf: tf.scatter_nd([[1], [1], [3]], [5, 6, 7], [4]),
    "update": lambda tf: tf.tensor_scatter_nd_update(tf.zeros([3]), [[1]], [2.0]),
    "where": lambda tf: tf.where(tf.constant(FLOATS) > 0, 1.0, tf.constant(FLOATS)),
    "where_positions": lambda tf: tf.where(tf.constant(BOOLS)),
    "boolean_mask": lambda tf: tf.boolean_mask(tf.constant(FLOATS), BOOLS, axis=1),
    "one_hot": lambda tf: [tf.one_hot([0, 2, -1], 3), tf.one_hot([1], 2, 5, 3, axis=0)],
    "sequence_mask": lambda tf: tf.sequence_mask([1, 3]),
    "unique": lambda tf: list(tf.unique(tf.constant([3, 1, 3, 2]))),
    "meshgrid": lambda tf: tf.meshgrid([1, 2], [3, 4, 5]),
    "searchsorted": lambda tf: tf.searchsorted([1.0, 3.0], [0.5, 2.0, 3.0], side="right"),
    "top_k": lambda tf: list(tf.math.top_k(tf.constant(FLOATS), 2)),
    "in_top_k": lambda tf: tf.math.in_top_k([1, 0], tf.constant(FLOATS), 2),
    "cumsum": lambda tf: tf.cumsum(tf.constant(INTS), 1, exclusive=True, reverse=True),
    "bincount": lambda tf: tf.math.bincount([1, 1, 3]),
    "segments": lambda tf: tf.math.segment_sum(tf.constant(FLOATS), [0, 0]),
    "unsorted": lambda tf: tf.math.unsorted_segment_mean(tf.constant(FLOATS), [1, 1], 3),
    "clip": lambda tf: tf.clip_by_value(tf.constant(FLOATS), -1, 1),
    "clip_by_norm": lambda tf: tf.clip_by_norm(tf.constant(FLOATS), 2.0),
    "global_norm": lambda tf: list(tf.clip_by_global_norm([tf.constant(FLOATS)], 1.0)),
    "argsort": lambda tf: tf.argsort([2, 3, 1, 3], direction="DESCENDING", stable=True),
    "cast": lambda tf: [tf.cast(tf.constant([1.9, -1.9]), t) for t in ("int32", "int64", "bool")],
    "saturate": lambda tf: tf.saturate_cast(tf.constant([300, -5]), tf.uint8),
    "pow": lambda tf: tf.pow(tf.constant([2, 3]), 2),
    "complex": lambda tf: tf.math.real(tf.complex(1.0, 2.0)),
    "polyval": lambda tf: tf.math.polyval([1.0, 2.0, 3.0], tf.constant(2.0)),
    "matmul": lambda tf: tf.matmul(tf.constant(FLOATS), tf.constant(FLOATS), transpose_b=True),
    "matvec": lambda tf: tf.linalg.matvec(tf.constant(FLOATS), [1.0, 2.0, 3.0]),
    "einsum": lambda tf: tf.einsum("ij,kj->ik", tf.constant(FLOATS), tf.constant(FLOATS)),
    "tensordot": lambda tf: tf.tensordot(tf.constant(FLOATS), tf.constant(FLOATS), [[1], [1]]),
    "inv": lambda tf: tf.linalg.inv([[2.0, 1.0], [0.0, 4.0]]),
    "solve": lambda tf: tf.linalg.solve([[2.0, 1.0], [0.0, 4.0]], [[1.0], [2.0]]),
    "det": lambda tf: tf.linalg.det([[2.0, 1.0], [0.0, 4.0]]),
    "diag": lambda tf: tf.linalg.diag([[1.0, 2.0]]),
    "diag_part": lambda tf: tf.linalg.diag_part(tf.constant(FLOATS)),
    "band_part": lambda tf: tf.linalg.band_part(tf.constant(FLOATS), 0, 1),
    "singular": lambda tf: tf.linalg.svd(tf.constant(FLOATS), compute_uv=False),
    "norm_axis": lambda tf: tf.norm(tf.constant(FLOATS), ord=1, axis=1),
    "l2_normalize": lambda tf: tf.math.l2_normalize(tf.constant(FLOATS), axis=1),
    "sparse_loss": lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits([1, 0], FLOATS),
    "loss": lambda tf: tf.nn.softmax_cross_entropy_with_logits(POSITIVE, FLOATS),
    "binary_loss": lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(POSITIVE, FLOATS),
    "moments": lambda tf: list(tf.nn.moments(tf.constant(FLOATS), [0])),
    "bias_add": lambda tf: tf.nn.bias_add(tf.constant(FLOATS), [1.0, 2.0, 3.0]),
    "conv2d": lambda tf: tf.nn.conv2d(
        tf.reshape(tf.range(32.0), [1, 4, 4, 2]), tf.ones([2, 2, 2, 3]), [1, 2, 2, 1], "SAME"
    ),
    "max_pool": lambda tf: tf.nn.max_pool2d(
        tf.reshape(tf.range(16.0), [1, 4, 4, 1]), 2, 2, "VALID"
    ),
    "avg_pool": lambda tf: tf.nn.avg_pool2d(tf.reshape(tf.range(9.0), [1, 3, 3, 1]), 2, 1, "SAME"),
    "operators": lambda tf: [
        tf.constant(INTS) // 2,
        tf.constant(INTS) % 4,
        -tf.constant(INTS),
        2 - tf.constant(INTS),
        tf.constant(FLOATS) ** 2,
        tf.constant(BOOLS) & True,
        ~tf.constant(BOOLS),
        tf.constant(INTS)[:, ::-1],
        tf.constant("a") + "b",
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    both(CASES[name])


WRONG = {
    "dtypes": lambda tf: tf.constant(1) + tf.constant(1.0),
    "float_to_int": lambda tf: tf.constant(1) + 1.5,
    "shapes": lambda tf: tf.constant([1, 2]) + tf.constant([1, 2, 3]),
    "matmul": lambda tf: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])),
    "reshape": lambda tf: tf.reshape(tf.range(6), [4]),
    "gather": lambda tf: tf.gather([1, 2], [5]),
    "concat": lambda tf: tf.concat([tf.ones([2, 2]), tf.ones([3, 3])], 0),
    "division": lambda tf: tf.constant(1) // tf.constant(0),
    "ragged_list": lambda tf: tf.constant([[1, 2], [3]]),
    "split": lambda tf: tf.split(tf.range(5), 2),
    "none": lambda tf: tf.convert_to_tensor(None),
    "sqrt_of_ints": lambda tf: tf.sqrt(tf.constant(4)),
    "squeeze": lambda tf: tf.squeeze(tf.ones([2, 1]), [0]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_of_the_same_kind(name):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        WRONG[name](theirs)
    with pytest.raises(Exception) as found:  # noqa: PT011
        WRONG[name](ours)
    kinds = (TypeError, ValueError)
    same = type(found.value).__name__ == type(expected.value).__name__
    assert same or (isinstance(found.value, kinds) and isinstance(expected.value, kinds))
