"""Variables of a scope start with Keras's bits, made by few programs."""

from __future__ import annotations

import functools
import logging
from typing import Any

import jax
import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.keras import state

INITIALIZERS: dict[str, Any] = {
    "zeros": keras.initializers.Zeros,
    "ones": keras.initializers.Ones,
    "constant": lambda: keras.initializers.Constant(2.5),
    "rounded": lambda: keras.initializers.Constant(-1 / 3),
    "truth": lambda: keras.initializers.Constant(True),
    "uniform": lambda: keras.initializers.RandomUniform(-0.3, 0.7, seed=3),
    "normal": lambda: keras.initializers.RandomNormal(0.1, 2.0, seed=4),
    "truncated": lambda: keras.initializers.TruncatedNormal(0.1, 2.0, seed=5),
    "glorot": lambda: keras.initializers.GlorotUniform(seed=6),
    "he": lambda: keras.initializers.HeNormal(seed=7),
    "orthogonal": lambda: keras.initializers.Orthogonal(seed=8),
    "identity": keras.initializers.Identity,
}


def bits(initializer: str, shape: tuple[int, ...], dtype: str) -> tuple[Any, bytes]:
    made = INITIALIZERS[initializer]()
    value = keras.Variable(made, shape=shape, dtype=dtype).value
    return value.dtype, np.asarray(value).tobytes()


@pytest.mark.parametrize("initializer", INITIALIZERS)
@settings(max_examples=5)
@given(
    shape=st.lists(st.integers(1, 40), min_size=2, max_size=2)
    | st.lists(st.integers(0, 9), min_size=0, max_size=4),
    dtype=st.sampled_from(["float32", "bfloat16", "float16", "int32"]),
)
def test_the_bits_are_those_of_keras(initializer: str, shape: list[int], dtype: str) -> None:
    if initializer in ("orthogonal", "identity") and (len(shape) != 2 or 0 in shape):
        shape = [4, 7]
    if initializer in ("glorot", "he"):
        shape = [each or 1 for each in shape]
    if dtype == "int32" and initializer not in ("zeros", "ones", "constant", "rounded", "truth"):
        dtype = "float32"
    if initializer == "orthogonal":
        dtype = "float32"
    expected = bits(initializer, tuple(shape), dtype)
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        assert bits(initializer, tuple(shape), dtype) == expected


@pytest.mark.parametrize("initializer", ["normal", "truncated", "he"])
@settings(max_examples=10)
@given(
    rows=st.lists(st.integers(1, 9), min_size=0, max_size=3),
    columns=st.sampled_from([8, 15, 16, 17, 32, 48, 80, 112]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_normal_numbers_are_those_of_keras(
    initializer: str, rows: list[int], columns: int, dtype: str
) -> None:
    expected = bits(initializer, (*rows, columns), dtype)
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        assert bits(initializer, (*rows, columns), dtype) == expected


@pytest.mark.parametrize("shape", [(1023, 1024), (1025, 1024), (1025, 1021)])
def test_many_normal_numbers_are_those_of_keras(shape: tuple[int, int]) -> None:
    expected = bits("truncated", shape, "float32")
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        assert bits("truncated", shape, "float32") == expected


@pytest.mark.parametrize("size", [(1 << 20) - 3, (1 << 20) + 3])
def test_the_bits_of_many_numbers_are_those_of_keras(size: int) -> None:
    expected = bits("uniform", (size,), "float32")
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        assert bits("uniform", (size,), "float32") == expected


def test_more_numbers_than_that_are_drawn_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_DRAWN", 100)
    expected = bits("uniform", (101,), "float32")
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        assert bits("uniform", (101,), "float32") == expected


def test_numbers_that_depend_on_how_many_there_are() -> None:
    initializer = keras.initializers.RandomUniform(0, 1, seed=1)
    with jax.threefry_partitionable(False):
        expected = keras.random.uniform((5, 7), seed=1)
        with dl.distribute.OneDeviceStrategy("cpu:0").scope():
            found = keras.Variable(initializer, shape=(5, 7))
    np.testing.assert_array_equal(found.value, expected)


def test_what_is_no_single_constant_is_left_to_keras() -> None:
    """An array, which Keras takes although it documents numbers alone, and a class of one's own."""

    class Rising(keras.initializers.Constant):
        def __call__(self, shape: Any, dtype: Any = None) -> Any:
            return super().__call__(shape, dtype) + np.arange(shape[-1], dtype=dtype)

    for made in (keras.initializers.Constant(np.arange(3.0)), Rising(0.0)):
        with dl.distribute.OneDeviceStrategy("cpu:0").scope():
            found = keras.Variable(made, shape=(2, 3), dtype="float32")
        assert np.asarray(found.value).tolist() == [[0.0, 1.0, 2.0]] * 2


@pytest.mark.parametrize(
    ("initializer", "widths", "wider"),  # kernels of 4,096 to 16,384 numbers
    [
        ("glorot_uniform", [65, 70, 81, 93, 99, 111, 121], 1),
        ("he_normal", [80, 64, 96, 112], 16),
        (keras.initializers.RandomNormal(0.5, 2.0), [80, 64, 96, 112], 16),
    ],
)
def test_a_model_of_many_shapes_costs_few_programs(
    caplog: pytest.LogCaptureFixture, initializer: Any, widths: list[int], wider: int
) -> None:
    def programs_of(widths: list[int]) -> int:
        caplog.clear()
        dense = functools.partial(keras.layers.Dense, kernel_initializer=initializer)
        model = keras.Sequential([keras.Input((widths[0],)), *map(dense, widths[1:])])
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
        return sum("Compiling" in record.getMessage() for record in caplog.records)

    with (
        dl.distribute.OneDeviceStrategy("cpu:0").scope(),
        jax.log_compiles(True),
        caplog.at_level(logging.WARNING),
    ):
        assert programs_of(widths) <= 8
        assert programs_of([each + wider for each in widths]) == 0


@pytest.mark.parametrize("initializer", ["zeros", "ones", "constant"])
def test_a_shape_of_one_number_costs_no_program(
    caplog: pytest.LogCaptureFixture, initializer: str
) -> None:
    with (
        dl.distribute.OneDeviceStrategy("cpu:0").scope(),
        jax.log_compiles(True),
        caplog.at_level(logging.WARNING),
    ):
        bits(initializer, (3, 7), "float32")
        caplog.clear()
        for shape in ((3, 8), (1001,), (2, 3, 4)):
            bits(initializer, shape, "float32")
    assert [record for record in caplog.records if "Compiling" in record.getMessage()] == []


def test_outside_of_scopes_keras_does_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("called")

    monkeypatch.setattr(state, "_filled", refuse)
    monkeypatch.setattr(state, "_draws_by_position", refuse)
    initializers = ("zeros", "constant", "uniform", "normal", "truncated")
    for initializer in initializers:
        bits(initializer, (3, 16), "float32")
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        for initializer in initializers:
            with pytest.raises(AssertionError, match="called"):
                bits(initializer, (3, 16), "float32")
