"""``tf.print``, ``tf.py_function``, ``tf.numpy_function``; texts are those of TensorFlow 2.21."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from drumline.compat import tf
from drumline.compat.values.boundary import unwrap

PRINTED: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("a", 1, 2.5, True, None), {}, "a 1 2.5 True None\n"),
    (
        (tf.constant(1), tf.constant(1 / 3), tf.constant(1 / 3, tf.float64)),
        {},
        "1 0.333333343 0.33333333333333331\n",
    ),
    ((tf.constant("x"), tf.constant(["x", "y"]), tf.constant(True)), {}, '"x" ["x" "y"] 1\n'),
    ((tf.range(10),), {}, "[0 1 2 ... 7 8 9]\n"),
    ((tf.range(10),), {"summarize": -1, "sep": "|", "end": "!"}, "[0 1 2 3 4 5 6 7 8 9]!"),
    ((tf.constant([[1.0, 2.0], [3.0, 4.5]]),), {}, "[[1 2]\n [3 4.5]]\n"),
    ((tf.zeros([2, 2, 1]),), {}, "[[[0]\n  [0]]\n\n [[0]\n  [0]]]\n"),
    (
        ({"a": tf.constant([1, 2]), "b": (1, "s")}, ("x",)),
        {},
        "{'a': [1 2], 'b': (1, 's')} ('x',)\n",
    ),
    ((tf.constant(1e20), tf.constant(1e-7), tf.constant(float("nan"))), {}, "1e+20 1e-07 nan\n"),
]


@pytest.mark.parametrize(("values", "options", "text"), PRINTED)
def test_printed_texts(
    values: Any, options: Any, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tf.print(*values, **options)
    assert capsys.readouterr().err == text


def test_a_compiled_function_prints_each_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @tf.function
    def shown(x: Any) -> Any:
        tf.print("x is", x, output_stream=sys.stdout)
        tf.print(x, output_stream=f"file://{tmp_path}/log")
        return x + 1

    for value in (1, 2):
        assert int(shown(tf.constant([value]))[0]) == value + 1
    assert capsys.readouterr().out == "x is [1]\nx is [2]\n"
    assert (tmp_path / "log").read_text() == "[1]\n[2]\n"
    with pytest.raises(ValueError, match="Unknown output stream"):
        tf.print(1, output_stream="nowhere")


def test_python_in_maps_and_eager() -> None:
    assert tf.py_function(lambda a, b: a.numpy() + b, [1.0, 2.0], tf.float32).numpy() == 3.0
    two = tf.py_function(lambda a: (a, a + 1), [1], [tf.int32, tf.int64])
    assert [each.dtype for each in two] == [tf.int32, tf.int64]
    assert tf.py_function(lambda: None, [], []) == []
    assert tf.numpy_function(lambda: None, [], []) is None
    doubled = tf.numpy_function(lambda a: a * 2, [np.ones(2)], tf.float64)
    assert doubled.numpy().tolist() == [2.0, 2.0]
    names = tf.data.Dataset.from_tensor_slices(["a", "b"]).map(
        lambda name: tf.py_function(lambda n: n.numpy().upper() + b"!", [name], tf.string)
    )
    assert [name.numpy() for name in names] == [b"A!", b"B!"]
    with pytest.raises(ValueError, match="returns 1 values"):
        tf.py_function(lambda: [1], [], [tf.int32, tf.int32])


def test_functions_with_python_in_them_run_as_python() -> None:
    @tf.function
    def squared(x: Any) -> Any:
        return tf.py_function(lambda v: v * v, [x], tf.float32) + 1.0

    with pytest.warns(UserWarning, match=r"squared runs as Python.*tf\.py_function"):
        assert float(squared(tf.constant(3.0))) == 10.0
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = squared(x)
    assert float(tape.gradient(y, x)) == 6.0

    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with pytest.raises(TypeError, match="pure_callback"):
        strategy.run(lambda: tf.py_function(lambda: 1.0, [], tf.float32))


def test_every_call_prints_also_what_is_the_same_each_time_and_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @tf.function
    def count(n: Any) -> Any:
        tf.print("begin", output_stream=sys.stdout)
        for i in tf.range(n):
            if i > 0:
                tf.print("later", i, output_stream=sys.stdout)
            else:
                tf.print("first", output_stream=sys.stdout)
        tf.print("end", output_stream=sys.stdout)
        return n

    count(tf.constant(2))
    count(tf.constant(1))
    jax.effects_barrier()
    printed = capsys.readouterr().out.split("\n")
    wanted = ["begin", "first", "later 1", "end", "begin", "first", "end", ""]
    assert sorted(printed) == sorted(wanted)
    if jax.device_count() == 1:
        assert printed == wanted


def test_python_functions_by_decorator() -> None:
    @tf.py_function(Tout=tf.float32)
    def added(a, b):
        """Of tensors."""
        return a.numpy() + b

    assert (added.__name__, added.__doc__) == ("added", "Of tensors.")
    assert (added(1.0, 2.0).numpy(), added(1.0, 2.0).dtype) == (3.0, tf.float32)
    with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
        added(1.0, b=2.0)

    @tf.numpy_function(Tout=[tf.int64, tf.string], stateful=False)
    def doubled(a):
        assert isinstance(a, np.int64)
        return a * 2, b"x"

    number, text = doubled(np.int64(2**40))
    assert (number.numpy(), text.numpy()) == (2**41, b"x")
    numbers = tf.data.Dataset.range(2).map(doubled)
    assert [each.numpy() for each, _ in numbers] == [0, 2]
    with pytest.warns(UserWarning, match="pure_callback"):
        assert float(tf.function(added)(tf.constant(1.0), tf.constant(1.0))) == 2.0


@pytest.mark.parametrize("name", ["py_function", "numpy_function"])
def test_arguments_of_python_functions_that_are_missing(name: str) -> None:
    function = getattr(tf, name)
    with pytest.raises(TypeError, match=f"'Tout'.*@tf.{name}"):
        function(abs)
    with pytest.raises(TypeError, match="'Tout'"):
        function(abs, [1], None)
    with pytest.raises(TypeError, match="Missing argument `inp`"):
        function(abs, Tout=tf.int32)
    with pytest.raises(TypeError, match="Don't set the `inp`"):
        function(None, [1], tf.int32)


def explained(ds: Any) -> str:
    return str(unwrap(ds).explain())


@pytest.mark.parametrize("name", ["py_function", "numpy_function"])
def test_the_rest_of_a_map_is_compiled(name: str) -> None:
    call = getattr(tf, name)

    def turned(image: Any) -> Any:
        return np.asarray(image)[:, ::-1].astype(np.float32)

    def function(image: Any, label: Any) -> Any:
        shape = image.shape
        (image,) = call(turned, [image], [tf.float32])
        image.set_shape(shape)
        return image / 255.0, tf.one_hot(label, 3)

    images = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    ds = tf.data.Dataset.from_tensor_slices((images, [0, 2])).map(function)
    assert f"native tf.{name} (Python, row by row)" in explained(ds)
    assert ds.element_spec[0].shape == (4, 5, 3)
    made = list(ds.as_numpy_iterator())
    np.testing.assert_allclose([image for image, _ in made], images[:, :, ::-1] / 255, rtol=1e-6)
    assert [label.tolist() for _, label in made] == [[1, 0, 0], [0, 0, 1]]


def test_a_call_in_a_branch_runs_as_python() -> None:
    def function(i: Any) -> Any:
        if i > 2:
            i = tf.numpy_function(lambda v: -v, [i], tf.int64)
        return i

    ds = tf.data.Dataset.range(5).map(function)
    assert "runs as Python" in explained(ds)
    assert [int(i) for i in ds] == [0, 1, 2, -3, -4]


def test_shapes_are_promised_and_checked() -> None:
    def function(i: Any) -> Any:
        made = tf.numpy_function(lambda v: np.ones((2, 3 + (v > 20)), np.float32), [i], tf.float32)
        return tf.ensure_shape(made, [2, 3]) + 1.0

    rows = iter(tf.data.Dataset.range(30).map(function))
    for _ in range(21):
        next(rows)
    with pytest.raises(ValueError, match=r"\(2, 4\)"):
        next(rows)


def test_a_model_that_is_built_before_a_function_runs_as_python_is_trained():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_initializer="ones")])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
            tf.numpy_function(np.negative, [loss], tf.float32)  # of an unknown shape
        return tape.gradient(loss, model.trainable_variables)

    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            kernel, bias = step(tf.ones([1, 3]))
        assert kernel.numpy().tolist() == [[1, 1]] * 3 and bias.numpy().tolist() == [1, 1]
    value = model.layers[0].kernel
    assert value._value is not None and value.value is value.value
