"""Small operations of TensorFlow's interface, one by one: by drumline's look-alike and TensorFlow.

Arrays are so small that what is measured surrounds the computation. Operations are on constants,
which the look-alike keeps as numpy's arrays, and on values of variables, which are JAX's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.parts import Part, check_parts, measured_parts
from benchmarks.harness.workload import Contender, Scale, Workload

SIDE = 8
CLASSES = 4
OURS = ("drumline", "jax", "keras")
THEIRS = ("tensorflow-cpu", "tensorflow", "keras")

Operations = dict[str, Callable[[], Any]]


def of_constants(tf: Any) -> Operations:
    """Operations on what ``tf.constant`` makes."""
    x, y = (tf.constant(_floats(seed)) for seed in (0, 1))
    numbers = tf.constant(np.arange(SIDE, dtype=np.int32))
    labels = tf.constant(np.arange(SIDE, dtype=np.int32) % CLASSES)
    return {
        "tf.constant(list)": lambda: tf.constant([1.0, 2.0, 3.0]),
        "tf.zeros": lambda: tf.zeros([SIDE, SIDE]),
        "x + y": lambda: x + y,
        "x * 2.0": lambda: x * 2.0,
        "x > y": lambda: x > y,
        "tf.matmul": lambda: tf.matmul(x, y),
        "tf.matmul, transposed": lambda: tf.matmul(x, y, transpose_b=True),
        "tf.reduce_sum": lambda: tf.reduce_sum(x),
        "tf.reduce_mean, axis": lambda: tf.reduce_mean(x, axis=1),
        "tf.argmax": lambda: tf.argmax(x, axis=1),
        "tf.cast": lambda: tf.cast(numbers, tf.float32),
        "x[0]": lambda: x[0],
        "x[:, 1:3]": lambda: x[:, 1:3],
        "tf.concat": lambda: tf.concat([x, y], 0),
        "tf.stack": lambda: tf.stack([x, y]),
        "tf.split": lambda: tf.split(x, 2),
        "tf.reshape": lambda: tf.reshape(x, [-1]),
        "tf.transpose": lambda: tf.transpose(x),
        "tf.expand_dims": lambda: tf.expand_dims(x, 0),
        "tf.one_hot": lambda: tf.one_hot(labels, CLASSES),
        "tf.gather": lambda: tf.gather(x, labels),
        "tf.where": lambda: tf.where(x > y, x, y),
        "tf.exp": lambda: tf.exp(x),
        "tf.nn.relu": lambda: tf.nn.relu(x),
        "tf.nn.softmax": lambda: tf.nn.softmax(x),
        "x.shape": lambda: tf.zeros(x.shape),
        "x.numpy()": lambda: x.numpy(),
        "tf.random.normal": lambda: tf.shape(tf.random.normal([SIDE, SIDE])),
    }


def of_variables(tf: Any) -> Operations:
    """Operations on variables and their values, and assignments."""
    v, w = (tf.Variable(_floats(seed)) for seed in (2, 3))
    state = tf.Variable(_floats(4))
    change = tf.constant(np.zeros((SIDE, SIDE), np.float32))
    a, b = v * 1.0, w * 1.0
    labels = tf.constant(np.arange(SIDE, dtype=np.int32) % SIDE)
    shares = tf.one_hot(labels, SIDE)
    return {
        "variable.read_value": lambda: v.read_value(),
        "variable.assign": lambda: state.assign(change),
        "variable.assign_add": lambda: state.assign_add(change),
        "variable + variable": lambda: v + w,
        "value + value": lambda: a + b,
        "value * 2.0": lambda: a * 2.0,
        "value @ value": lambda: a @ b,
        "tf.matmul of values, transposed": lambda: tf.matmul(a, b, transpose_b=True),
        "tf.reduce_sum of a value": lambda: tf.reduce_sum(a),
        "tf.reduce_mean of a value, axis": lambda: tf.reduce_mean(a, axis=1),
        "tf.argmax of a value": lambda: tf.argmax(a, axis=1),
        "tf.cast of a value": lambda: tf.cast(a, tf.int32),
        "value[0]": lambda: a[0],
        "value[:, 1:3]": lambda: a[:, 1:3],
        "tf.concat of values": lambda: tf.concat([a, b], 0),
        "tf.stack of values": lambda: tf.stack([a, b]),
        "tf.split of a value": lambda: tf.split(a, 2),
        "tf.reshape of a value": lambda: tf.reshape(a, [-1]),
        "tf.transpose of a value": lambda: tf.transpose(a),
        "tf.expand_dims of a value": lambda: tf.expand_dims(a, 0),
        "tf.gather of a value": lambda: tf.gather(a, labels),
        "tf.where of values": lambda: tf.where(a > b, a, b),
        "tf.square of a value": lambda: tf.square(a),
        "tf.ones_like of a value": lambda: tf.ones_like(a),
        "tf.nn.relu of a value": lambda: tf.nn.relu(a),
        "tf.nn.softmax of a value": lambda: tf.nn.softmax(a),
        "tf.nn.softmax_cross_entropy_with_logits": lambda: tf.nn.softmax_cross_entropy_with_logits(
            shares, a
        ),
        "tf.nn.sparse_softmax_cross_entropy_with_logits": lambda: (
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, a)
        ),
        "tf.clip_by_value": lambda: tf.clip_by_value(a, -0.5, 0.5),
        "value.shape": lambda: tf.zeros(a.shape),
        "value.numpy()": lambda: a.numpy(),
    }


def of_programs(tf: Any) -> Operations:
    """Gradients, and calls of compiled functions."""
    x = tf.constant(_floats(5))
    scale, shift = tf.constant(3.0), tf.constant(1.0)
    weights, bias = tf.Variable(_floats(6)), tf.Variable(np.zeros(SIDE, np.float32))
    labels = tf.constant(np.arange(SIDE, dtype=np.int32) % SIDE)
    layer = tf.keras.layers.Dense(SIDE, kernel_initializer="ones")
    layer.build((SIDE, SIDE))

    def square() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(scale)
            y = scale * scale
        return tape.gradient(y, scale)

    def dense() -> Any:
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ weights + bias)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        return tape.gradient(loss, [weights, bias])

    def keras_layer() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(layer(x)))
        return tape.gradient(loss, layer.trainable_variables)

    def composite() -> Any:
        with tf.GradientTape() as tape:
            parts = tf.split(tf.nn.softmax(tf.matmul(x, weights, transpose_b=True)), 2, axis=1)
            joined = tf.concat([tf.expand_dims(part, 0) for part in parts], 0)
            loss = tf.reduce_sum(joined * tf.ones_like(joined)) + tf.reduce_max(weights)
        return tape.gradient(loss, weights)

    @tf.function
    def compiled(value: Any) -> Any:
        return value * scale + shift

    @tf.function
    def with_variables(value: Any) -> Any:
        return tf.reduce_sum(value @ weights + bias)

    return {
        "tape of x * x": square,
        "tape of a layer and its loss": dense,
        "tape of a layer of Keras": keras_layer,
        "tape of composite operations": composite,
        "call of a tf.function": lambda: compiled(x),
        "call of a tf.function with variables": lambda: with_variables(x),
        "call of a layer of Keras": lambda: layer(x),
    }


def _floats(seed: int) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal((SIDE, SIDE)).astype(np.float32)


def _parts(tf: Any) -> list[Part]:
    found = {**of_constants(tf), **of_variables(tf), **of_programs(tf)}
    return [Part(name, call, functools.partial(_result, call)) for name, call in found.items()]


def _result(call: Callable[[], Any]) -> list[Any]:
    """Of each array that a call gives its shape, its sum, and its sum with weights."""
    made = call()
    arrays = [
        np.asarray(part).astype(np.float64)
        for part in (made if isinstance(made, (list, tuple)) else [made])
    ]
    weights = [np.cos(np.arange(array.size)) for array in arrays]
    return [
        [*array.shape, array.sum(), array.ravel() @ each]
        for array, each in zip(arrays, weights, strict=True)
    ]


def look_alike(scale: Scale) -> Callable[[], list[Part]]:
    """drumline's."""
    import drumline.compat.tf as tf

    tf.keras.layers.Dense  # noqa: B018  imports what the import of TensorFlow does
    return lambda: _parts(tf)


def tensorflow(scale: Scale) -> Callable[[], list[Part]]:
    """TensorFlow itself."""
    import tensorflow as tf

    tf.keras.layers.Dense  # noqa: B018
    return lambda: _parts(tf)


WORKLOAD = Workload(
    name="eager_operations",
    title="small operations of the look-alike and of TensorFlow, one by one, arrays of 8 x 8",
    unit="operations",
    baseline="TensorFlow",
    full=Scale(elements=200, batch_size=1, later_epochs=9),
    quick=Scale(elements=10, batch_size=1, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "import drumline.compat.tf as tf",
            OURS,
            measured_parts(look_alike, *OURS),
        ),
        Contender(
            "TensorFlow",
            "import tensorflow as tf",
            ("tensorflow",),
            measured_parts(tensorflow, *THEIRS),
        ),
    ),
    floors=(Floor("slowest", at_least=1 / 3, aim=1.0, against="TensorFlow"),),
    check=check_parts(tolerance=1e-4),
)
