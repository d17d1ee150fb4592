"""Edges, variation and confusion are TensorFlow's, where it is installed."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

PICTURES = np.random.default_rng(0).random((2, 5, 6, 3)).astype(np.float32)
LABELS, FOUND = np.array([0, 2, 2, 1, 0]), np.array([0, 2, 1, 1, 3])

CASES = {
    "sobel_edges": lambda tf: tf.image.sobel_edges(tf.constant(PICTURES)),
    "sobel_edges, float64": lambda tf: tf.image.sobel_edges(tf.constant(PICTURES, tf.float64)),
    "total_variation": lambda tf: tf.image.total_variation(tf.constant(PICTURES)),
    "total_variation of one": lambda tf: tf.image.total_variation(tf.constant(PICTURES[0])),
    "total_variation of integers": lambda tf: tf.image.total_variation(tf.ones((3, 3, 1), "int32")),
    "total_variation of a matrix": lambda tf: tf.image.total_variation(tf.constant(PICTURES[0, 0])),
    "confusion": lambda tf: tf.math.confusion_matrix(LABELS, FOUND),
    "confusion of columns": lambda tf: tf.math.confusion_matrix(LABELS[:, None], FOUND),
    "confusion of lists": lambda tf: tf.math.confusion_matrix([1, 2], [2, 2]),
    "confusion, classes": lambda tf: tf.math.confusion_matrix(LABELS, FOUND, 6),
    "confusion, int64": lambda tf: tf.math.confusion_matrix(LABELS, FOUND, dtype=tf.int64),
    "confusion, weights": lambda tf: tf.math.confusion_matrix(
        LABELS, FOUND, weights=[0.5, 1.0, 2.0, 4.0, 8.0], dtype=tf.float32
    ),
    "confusion, too few classes": lambda tf: tf.math.confusion_matrix(LABELS, FOUND, 3),
    "confusion of negative classes": lambda tf: tf.math.confusion_matrix([-1, 0], [0, 0]),
    "confusion in a function": lambda tf: tf.function(
        lambda a, b: tf.math.confusion_matrix(a, b, num_classes=4)
    )(LABELS, FOUND),
    "contrast, no range": lambda tf: tf.image.stateless_random_contrast(PICTURES, 2.0, 1.0, (1, 2)),
    "brightness, negative": lambda tf: tf.image.stateless_random_brightness(PICTURES, -1.0, (1, 2)),
}


def _outcome(program, tf):
    try:
        return program(tf)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("case", CASES)
def test_values_dtypes_shapes_and_errors(case):
    wanted, got = _outcome(CASES[case], theirs), _outcome(CASES[case], ours)
    if isinstance(wanted, str) or isinstance(got, str):
        assert got == wanted
        return
    assert (got.dtype.name, tuple(got.shape)) == (wanted.dtype.name, tuple(wanted.shape))
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)
