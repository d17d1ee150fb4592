"""Derivatives at ties and at 0 are TensorFlow's, where it is installed; so are named results."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

MIXED = [0.0, -1.0, 2.0, 0.5, 6.0, 3.0, -3.0]
FUNCTIONS = {
    "abs": (MIXED, lambda tf, x: tf.abs(x)),
    "operator": (MIXED, lambda tf, x: abs(x)),
    "maximum": (MIXED, lambda tf, x: tf.maximum(x, 0.0)),
    "minimum": (MIXED, lambda tf, x: tf.minimum(x, 0.0)),
    "maximum of the second": (MIXED, lambda tf, x: tf.maximum(0.0, x)),
    "minimum of the second": (MIXED, lambda tf, x: tf.minimum(0.0, x)),
    "maximum of rows": (MIXED, lambda tf, x: tf.maximum(x, tf.zeros([2, 1]))),
    "clip_by_value": (MIXED, lambda tf, x: tf.clip_by_value(x, 0.0, 2.0)),
    "bounds that cross": (MIXED, lambda tf, x: tf.clip_by_value(x, 2.0, 0.5)),
    "relu": (MIXED, lambda tf, x: tf.nn.relu(x)),
    "leaky_relu": (MIXED, lambda tf, x: tf.nn.leaky_relu(x)),
    "selu": (MIXED, lambda tf, x: tf.nn.selu(x)),
    "reduce_max": ([3.0, 1.0, 3.0], lambda tf, x: tf.reduce_max(x)),
    "xlogy": ([0.0, 1.0, 2.0], lambda tf, x: tf.math.xlogy(x, x)),
    "norm": ([0.0, -1.0, 0.0], lambda tf, x: tf.norm(x, ord=1)),
    "clip_by_norm of zeros": ([0.0, 0.0], lambda tf, x: tf.clip_by_norm(x, 1.0)),
    "clip_by_norm at the bound": ([3.0, 4.0], lambda tf, x: tf.clip_by_norm(x, 5.0)),
    "sigmoid_cross_entropy": (
        MIXED,
        lambda tf, x: tf.nn.sigmoid_cross_entropy_with_logits(labels=[0.3] * 7, logits=x),
    ),
    "weighted_cross_entropy": (
        MIXED,
        lambda tf, x: tf.nn.weighted_cross_entropy_with_logits([0.3] * 7, x, 2.0),
    ),
    "hinge_loss": (
        [0.0, 1.0, -1.0],
        lambda tf, x: tf.compat.v1.losses.hinge_loss([1.0, 1.0, 0.0], x),
    ),
    "total_variation": (
        [1.0] * 4,
        lambda tf, x: tf.image.total_variation(tf.reshape(x, [2, 2, 1])),
    ),
}


def differentiated(tf, name, compiled, dtype):
    values, function = FUNCTIONS[name]

    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(tf, x)
        return y, tape.gradient(y, x)

    return (tf.function(both) if compiled else both)(tf.constant(values, dtype))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_at_ties(name, compiled):
    mine = differentiated(ours, name, compiled, ours.float32)
    other = differentiated(theirs, name, compiled, theirs.float32)
    for ours_is, theirs_is in zip(mine, other, strict=True):
        np.testing.assert_allclose(ours_is.numpy(), theirs_is.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["abs", "maximum", "minimum", "selu"])
def test_of_64_bits(name):
    for mine, other in zip(
        *(differentiated(tf, name, False, tf.float64) for tf in (ours, theirs)), strict=True
    ):
        assert mine.dtype.name == other.dtype.name == "float64"
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-7)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_what_is_no_number_stays(name):
    def given(tf):
        x, y = tf.constant([np.nan, 1.0, np.inf]), tf.constant([1.0, np.nan, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            return getattr(tf, name)(x, y).numpy()

    np.testing.assert_array_equal(given(ours), given(theirs))


RESULTS = {
    "top_k": lambda tf: tf.math.top_k(tf.constant([1.0, 3.0, 2.0]), 2),
    "unique": lambda tf: tf.unique([3, 1, 3]),
    "unique_with_counts": lambda tf: tf.unique_with_counts([3, 1, 3]),
    "qr": lambda tf: tf.linalg.qr([[1.0, 2.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_names(name):
    mine, other = RESULTS[name](ours), RESULTS[name](theirs)
    assert type(mine).__name__ == type(other).__name__
    assert mine._fields == other._fields
    for ours_is, theirs_is in zip(mine, other, strict=True):
        assert ours_is.dtype.name == theirs_is.dtype.name
        np.testing.assert_allclose(np.abs(ours_is.numpy()), np.abs(theirs_is.numpy()), rtol=1e-5)
