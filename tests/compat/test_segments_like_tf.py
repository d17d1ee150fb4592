"""Segments' reductions, positions outside, and former arguments are TensorFlow's."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

DTYPES = [np.int32, np.int64, np.float32, np.float64]
ROWS = np.array([[3, -1], [4, 1], [-5, 9], [2, -6], [5, 3]])


def _get(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


def same(call):
    """What a function of both namespaces gives has the same values, dtype and shape."""
    mine, reference = call(ours), call(theirs)
    assert mine.dtype.name == reference.dtype.name
    assert tuple(mine.shape) == tuple(reference.shape)
    np.testing.assert_allclose(mine.numpy(), reference.numpy(), rtol=1e-6)


def same_error(call):
    """A function of both namespaces raises an error of the same class."""
    for namespace in (theirs, ours):
        with pytest.raises((namespace.errors.InvalidArgumentError, ValueError)):
            call(namespace)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("ids", [[0, 0, 1, 3, 3], [2, 2, 2, 2, 2], [0, 1, 2, 3, 4]])
def test_sorted_segments(kind, ids, dtype):
    same(lambda tf: getattr(tf.math, f"segment_{kind}")(ROWS.astype(dtype), ids))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod", "sqrt_n"])
@pytest.mark.parametrize("ids", [[1, 0, 1, -1, 4], [-1, -1, -1, -1, -1], [5, 4, 3, 2, 1]])
def test_unsorted_segments(kind, ids, dtype):
    if kind == "sqrt_n" and np.dtype(dtype).kind == "i":
        pytest.skip("there is no such function of integers")
    same(lambda tf: getattr(tf.math, f"unsorted_segment_{kind}")(ROWS.astype(dtype), ids, 6))


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
def test_unsorted_segments_of_many_dimensions_and_of_nothing(kind):
    name = f"unsorted_segment_{kind}"
    places = [[0, 2], [1, 0]]
    values = np.arange(12.0, dtype=np.float32).reshape(2, 2, 3)
    same(lambda tf: getattr(tf.math, name)(values, places, 3))
    same(lambda tf: getattr(tf.math, name)(np.zeros((0, 2), np.float32), np.zeros(0, int), 2))
    infinite = np.array([np.inf, -np.inf], np.float32)
    same(lambda tf: getattr(tf.math, name)(infinite, [0, 1], 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.math.segment_sum([1, 2, 3], [1, 0, 2]),
        lambda tf: tf.math.segment_sum([1, 2, 3], [-1, 0, 2]),
        lambda tf: tf.math.segment_sum([1, 2, 3], [0, 1]),
        lambda tf: tf.math.unsorted_segment_sum([1, 2, 3], [0, 1, 2], 2),
        lambda tf: tf.math.unsorted_segment_sum([1, 2, 3], [0, 1], 2),
        lambda tf: tf.math.unsorted_segment_sum([1, 2, 3], [0, 1, 1], -1),
        lambda tf: tf.slice([1, 2, 3], [2], [2]),
        lambda tf: tf.slice([1, 2, 3], [-1], [1]),
        lambda tf: tf.slice([[1, 2, 3]], [0], [1]),
        lambda tf: tf.gather([1, 2, 3], [3]),
        lambda tf: tf.gather([1, 2, 3], [-1]),
        lambda tf: tf.gather_nd([[1, 2], [3, 4]], [[0, 2]]),
        lambda tf: tf.gather_nd([[1, 2], [3, 4]], [[-1, 0]]),
        lambda tf: tf.scatter_nd([[4]], [1], [4]),
        lambda tf: tf.scatter_nd([[-1]], [1], [4]),
        lambda tf: tf.tensor_scatter_nd_update([1, 2], [[2]], [9]),
        lambda tf: tf.tensor_scatter_nd_add([1, 2], [[-1]], [9]),
        lambda tf: tf.tensor_scatter_nd_max([1, 2], [[5]], [9]),
    ],
)
def test_what_is_refused(call):
    same_error(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.gather_nd([[1, 2], [3, 4]], [[0, 2], [1, 1]], bad_indices_policy="IGNORE"),
        lambda tf: tf.tensor_scatter_nd_add([1, 2], [[-1], [0]], [9, 8], "IGNORE"),
        lambda tf: tf.scatter_nd([[5], [1]], [9, 8], [3], "IGNORE"),
        lambda tf: tf.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [-1, 2]),
        lambda tf: tf.slice(np.arange(3), [3], [0]),
        lambda tf: tf.atan2(x=[1.0, 2.0], y=[3.0, -4.0]),
        lambda tf: tf.math.nextafter(x1=[1.0], x2=[2.0]),
        lambda tf: tf.math.igamma(a=[1.0], x=[2.0]),
        lambda tf: tf.math.igammac(a=[1.0], x=[2.0]),
        lambda tf: tf.math.zeta(x=[3.0], q=[2.0]),
        lambda tf: tf.math.softplus(features=[1.0]),
        lambda tf: tf.nn.softsign(features=[1.0]),
        lambda tf: tf.math.real(input=[1 + 2j]),
        lambda tf: tf.math.imag(input=[1 + 2j]),
        lambda tf: tf.math.angle(input=[1 + 2j]),
        lambda tf: tf.linalg.matvec(a=[[1.0, 2.0]], b=[3.0, 4.0]),
        lambda tf: tf.compat.v1.nn.l2_normalize(np.array([[3.0, 4.0]]), dim=1),
    ],
)
def test_arguments(call):
    same(call)


BACKEND = [
    ("sum", {"x": ROWS, "axis": 0}),
    ("mean", {"x": [True, False, True, True]}),
    ("mean", {"x": ROWS.astype(np.float32), "axis": 1, "keepdims": True}),
    ("std", {"x": ROWS.astype(np.float32)}),
    ("var", {"x": ROWS.astype(np.float32), "axis": 0}),
    ("max", {"x": ROWS, "axis": 1}),
    ("min", {"x": ROWS}),
    ("prod", {"x": ROWS}),
    ("any", {"x": [[0, 1], [0, 0]], "axis": 1}),
    ("all", {"x": [[0, 1], [1, 1]], "axis": 1}),
    ("arange", {"start": 3}),
    ("arange", {"start": 1, "stop": 7, "step": 2, "dtype": "float32"}),
    ("zeros_like", {"x": ROWS, "dtype": "float32"}),
    ("ones_like", {"x": ROWS}),
    ("reshape", {"x": ROWS, "shape": (2, 5)}),
    ("tile", {"x": ROWS[0], "n": 2}),
    ("tile", {"x": ROWS, "n": [2, 1]}),
    ("transpose", {"x": ROWS}),
    ("reverse", {"x": ROWS, "axes": 0}),
    ("gather", {"reference": ROWS, "indices": [1, 3]}),
    ("shape", {"x": ROWS}),
    ("stop_gradient", {"variables": ROWS}),
    ("one_hot", {"indices": [1, 0], "num_classes": 3}),
    ("softplus", {"x": np.float32([1.0])}),
    ("softsign", {"x": np.float32([1.0])}),
    ("eye", {"size": 3}),
    ("bias_add", {"x": np.ones((2, 3, 4), np.float32), "bias": np.arange(4, dtype=np.float32)}),
    (
        "bias_add",
        {
            "x": np.ones((2, 3, 4), np.float32),
            "bias": np.arange(3, dtype=np.float32),
            "data_format": "channels_first",
        },
    ),
]


@pytest.mark.parametrize(("name", "arguments"), BACKEND)
def test_backend(name, arguments):
    arguments = {
        key: each if key not in ("x", "reference") else np.asarray(each)
        for key, each in arguments.items()
    }

    def call(tf):
        made = getattr(tf.keras.backend, name)(
            **{
                key: tf.constant(each) if isinstance(each, np.ndarray) else each
                for key, each in arguments.items()
            }
        )
        return tf.convert_to_tensor(made)

    same(call)


@pytest.mark.parametrize(
    ("x", "y", "axes"),
    [
        ((4, 3), (4, 3), None),
        ((4, 3), (4, 3), 1),
        ((4, 2, 3), (4, 3, 5), None),
        ((4, 2, 3), (4, 5, 3), (2, 2)),
        ((4, 2, 3), (4, 2, 3), 1),
        ((4, 2, 3), (4, 3), (2, 1)),
        ((4, 3), (4, 2, 3), (1, 2)),
        ((4, 2, 6, 3), (4, 3, 5), (-1, 1)),
    ],
)
def test_batch_dot(x, y, axes):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=x), generator.normal(size=y)
    same(lambda tf: tf.keras.backend.batch_dot(tf.constant(x), tf.constant(y), axes))


def test_choosing_stops_at_an_empty_dataset_only_where_tensorflow_does():
    def rows(tf, choose):
        datasets = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 14)]
        choices = tf.data.Dataset.from_tensor_slices(np.array([0, 0, 0, 1, 0, 1]))
        return [int(each) for each in choose(tf)(datasets, choices)]

    for choose in (
        lambda tf: tf.data.experimental.choose_from_datasets,
        lambda tf: tf.data.Dataset.choose_from_datasets,
    ):
        assert rows(ours, choose) == rows(theirs, choose)
