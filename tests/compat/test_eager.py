"""Operations that are evaluated at once are computed, and recorded by tapes, as one."""

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.training.test_compiled_operation import recorded

SIDE = 4


def array(seed=0, dtype="float32"):
    return np.random.RandomState(seed).standard_normal((SIDE, SIDE)).astype(dtype)


LABELS = np.arange(SIDE, dtype=np.int32)
SHARES = np.eye(SIDE)

OPERATIONS = {
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "log_softmax": lambda x: tf.nn.log_softmax(x, axis=0),
    "leaky_relu": lambda x: tf.nn.leaky_relu(x, alpha=0.3),
    "gelu": lambda x: tf.nn.gelu(x, approximate=True),
    "sigmoid": tf.sigmoid,
    "x * x": lambda x: x * x,
    "x / 3": lambda x: x / 3.0,
    "x ** 2": lambda x: x**2,
    "maximum": lambda x: tf.maximum(x, 0.1),
    "matmul": lambda x: tf.matmul(x, x),
    "matmul, turned": lambda x: tf.matmul(x, x, transpose_a=True, adjoint_b=True),
    "einsum": lambda x: tf.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: tf.tensordot(x, x, [[0], [1]]),
    "reduce_sum": lambda x: tf.reduce_sum(x, axis=0, keepdims=True),
    "reduce_mean": tf.reduce_mean,
    "reduce_max": lambda x: tf.reduce_max(x, axis=[1]),
    "reduce_std": tf.math.reduce_std,
    "reduce_logsumexp": lambda x: tf.reduce_logsumexp(x, 1),
    "norm": tf.math.reduce_euclidean_norm,
    "l2_normalize": lambda x: tf.nn.l2_normalize(x, 1),
    "cumsum": lambda x: tf.cumsum(x, axis=1, exclusive=True, reverse=True),
    "expand_dims": lambda x: tf.expand_dims(x, -1),
    "squeeze": lambda x: tf.squeeze(x[None], 0),
    "reshape": lambda x: tf.reshape(x, [2, -1]),
    "transpose": lambda x: tf.transpose(x, [1, 0]),
    "tile": lambda x: tf.tile(x, [2, 1]),
    "pad": lambda x: tf.pad(x, [[1, 0], [0, 2]], constant_values=7.0),
    "reverse": lambda x: tf.reverse(x, [1]),
    "roll": lambda x: tf.roll(x, 1, 0),
    "gather": lambda x: tf.gather(x, [2, 0, 2], axis=1),
    "where": lambda x: tf.where(x > 0, x, -x),
    "clip_by_value": lambda x: tf.clip_by_value(x, -0.5, 0.5),
    "entropy of classes": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, x),
    "entropy of shares": lambda x: tf.nn.softmax_cross_entropy_with_logits(
        tf.constant(SHARES, x.dtype), x, axis=0
    ),
    "entropy of probabilities": lambda x: tf.nn.sigmoid_cross_entropy_with_logits(
        tf.constant(SHARES, x.dtype), x
    ),
    "weighted entropy": lambda x: tf.nn.weighted_cross_entropy_with_logits(
        tf.constant(SHARES, x.dtype), x, 2.0
    ),
    "poisson": lambda x: tf.nn.log_poisson_loss(tf.constant(SHARES, x.dtype), x, True),
    "concat": lambda x: tf.concat([x, x], 1),
    "stack": lambda x: tf.stack([x, x], 2),
    "split": lambda x: tf.split(x, [1, 3], axis=1)[1],
    "unstack": lambda x: tf.unstack(x, axis=1)[2],
}
ALONE = [name for name in OPERATIONS if name not in ("squeeze", "where", "clip_by_value")]
"""Those that are one operation of TensorFlow's, and so one equation."""


def with_gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = function(x)
        total = tf.reduce_sum(made * tf.ones_like(made))
    return made, tape.gradient(total, x)


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_are_those_of_compiled_functions(name):
    function = OPERATIONS[name]
    eager = with_gradient(function, tf.constant(array()))
    traced = tf.function(lambda x: with_gradient(function, x))(tf.constant(array()))
    for found, wanted in zip(eager, traced, strict=True):
        assert found.dtype == wanted.dtype == tf.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPERATIONS)
def test_64_bits_stay_in_values_and_gradients(name):
    function = OPERATIONS[name]
    wide = with_gradient(function, tf.constant(array(dtype="float64")))
    narrow = with_gradient(function, tf.constant(array()))
    alone = function(tf.constant(array(dtype="float64")))
    assert alone.dtype == tf.float64
    np.testing.assert_allclose(alone, wide[0], rtol=1e-12)
    for found, near in zip(wide, narrow, strict=True):
        assert found.dtype == tf.float64
        np.testing.assert_allclose(found, near, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", ALONE)
def test_a_tape_records_one_equation(name):
    x = tf.constant(array())
    with tf.GradientTape() as tape:
        tape.watch(x)
        OPERATIONS[name](x)
        assert recorded(tape) == ["compiled_operation"]


def test_64_bit_logits_keep_their_digits():
    logits = np.array([[1.0, 1.0 + 1e-9, 0.0]])
    for given in (logits, tf.Variable(logits)):
        found = tf.nn.sparse_softmax_cross_entropy_with_logits([1], given).numpy()
        wanted = np.log(np.exp(logits).sum()) - logits[0, 1]
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, [wanted], rtol=1e-14)
        other = tf.nn.sparse_softmax_cross_entropy_with_logits([0], given).numpy()
        np.testing.assert_allclose(other - found, [1e-9], rtol=1e-5)


def test_options_that_are_equal_but_of_other_types_stay_apart():
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]]) * 1.0
    assert tf.reduce_sum(x, axis=True).shape == tf.reduce_sum(x, axis=1).shape == (2,)
    assert tf.reduce_sum(x, axis=0, keepdims=False).shape == (2,)
    assert tf.reduce_sum(x, axis=False, keepdims=True).shape == (1, 2)


def test_a_layer_of_keras_has_the_gradient_of_its_compiled_call():
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(3, 2, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(2, activation="softmax"),
        ]
    )
    x = tf.constant(np.random.RandomState(0).standard_normal((2, 6, 6, 1)).astype("float32"))
    model(x)

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True)))
        return tape.gradient(loss, model.trainable_variables)

    for found, wanted in zip(gradients(), tf.function(gradients)(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)


def test_variables_are_not_changed_with_the_array_that_was_assigned():
    for side in (2, 1024):
        given = np.ones((side, side), np.float32)
        variable = tf.Variable(np.zeros((side, side), np.float32))
        variable.assign(given)
        given[:] = 5
        assert np.max(variable.numpy()) == 1


def test_a_shape_is_made_once():
    x = tf.constant([[1.0]])
    assert x.shape is x.shape
    assert isinstance(x.shape, tf.TensorShape)


def test_likenesses_of_variables_have_the_dtype_that_is_asked_for():
    variable = tf.Variable([1.0, 2.0])
    assert tf.zeros_like(variable).dtype == tf.float32
    assert tf.ones_like(variable, tf.int64).dtype == tf.int64
    assert tf.zeros_like(tf.Variable([1.0], dtype=tf.float64)).dtype == tf.float64
    assert tf.zeros_like(tf.Variable(np.zeros((99, 99)))).dtype == tf.float64
    assert tf.ones_like(tf.Variable(np.zeros((99, 99), np.float32))).numpy().sum() == 99**2
    assert tf.zeros_like(tf.constant(["a"])).numpy().tolist() == [b""]
