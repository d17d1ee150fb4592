"""The two libraries, behind one set of names that programs use.

Functions of a program are written once, as expressions; a side renders them with its own
operations: TensorFlow's, or what users of drumline write (operators, numpy and jax.numpy,
``dl.strings``).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import drumline as dl


class Ours:
    """drumline."""

    name = "drumline"
    D = dl.data.Dataset
    data = dl.data
    AUTOTUNE = dl.data.AUTOTUNE

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return self._module(condition, x, y).where(condition, x, y)

    def stack(self, values: list[Any]) -> Any:
        return self._module(*values).stack(values)

    def maximum(self, x: Any, y: Any) -> Any:
        return self._module(x, y).maximum(x, y)

    def full(self, n: Any, value: Any) -> Any:
        return np.full(int(n), value, np.int64)

    def sum(self, x: Any) -> Any:
        return self.cast(x, "int64").sum()

    def size(self, x: Any) -> Any:
        return np.int64(x.size)

    def both(self, x: Any, y: Any) -> Any:
        return self._module(x, y).logical_and(x, y)

    def negate(self, x: Any) -> Any:
        return self._module(x).logical_not(x)

    def equal(self, x: Any, y: Any) -> Any:
        return x == y

    def join(self, parts: list[Any]) -> Any:
        return dl.strings.join(parts, separator="-")

    def as_string(self, x: Any) -> Any:
        return dl.strings.as_string(x)

    def upper(self, x: Any) -> Any:
        return dl.strings.upper(x)

    def substr(self, x: Any, start: int, n: int) -> Any:
        return dl.strings.substr(x, start, n)

    def length(self, x: Any) -> Any:
        return self.cast(dl.strings.length(x), "int64")

    def uniform(self, shape: tuple[int, ...]) -> Any:
        return dl.random.uniform(shape)

    def array(self, value: Any, dtype: str) -> Any:
        return np.array(value, object) if dtype == "string" else np.array(value, dtype)[()]

    def spec(self, shape: Any, dtype: str) -> Any:
        return dl.TensorSpec(shape, dtype)

    def from_list(self, items: list[Any]) -> Any:
        return self.D.from_sequence(items)

    def at(self, ds: Any, position: int) -> Any:
        return ds.index(position)

    def has_no_access(self, error: Exception) -> bool:
        return isinstance(error, TypeError) and str(error).startswith("index: ")

    def _module(self, *values: Any) -> Any:
        traced = any(isinstance(value, jax.core.Tracer) for value in values)
        return jnp if traced else np


class Theirs:
    """TensorFlow."""

    name = "tf.data"

    def __init__(self, tf: Any):
        self.tf = tf
        self.D = tf.data.Dataset
        self.data = tf.data
        self.AUTOTUNE = tf.data.AUTOTUNE

    def cast(self, x: Any, dtype: str) -> Any:
        return self.tf.cast(x, dtype)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return self.tf.where(condition, x, y)

    def stack(self, values: list[Any]) -> Any:
        return self.tf.stack(values)

    def maximum(self, x: Any, y: Any) -> Any:
        return self.tf.maximum(x, y)

    def full(self, n: Any, value: Any) -> Any:
        return self.tf.fill([n], value)

    def sum(self, x: Any) -> Any:
        return self.tf.reduce_sum(self.tf.cast(x, "int64"))

    def size(self, x: Any) -> Any:
        return self.tf.size(x, out_type=self.tf.int64)

    def both(self, x: Any, y: Any) -> Any:
        return self.tf.logical_and(x, y)

    def negate(self, x: Any) -> Any:
        return self.tf.logical_not(x)

    def equal(self, x: Any, y: Any) -> Any:
        return self.tf.equal(x, y)

    def join(self, parts: list[Any]) -> Any:
        return self.tf.strings.join(parts, separator="-")

    def as_string(self, x: Any) -> Any:
        return self.tf.strings.as_string(x)

    def upper(self, x: Any) -> Any:
        return self.tf.strings.upper(x)

    def substr(self, x: Any, start: int, n: int) -> Any:
        return self.tf.strings.substr(x, start, n)

    def length(self, x: Any) -> Any:
        return self.tf.cast(self.tf.strings.length(x), "int64")

    def uniform(self, shape: tuple[int, ...]) -> Any:
        return self.tf.random.uniform(shape)

    def array(self, value: Any, dtype: str) -> Any:
        return self.tf.constant(value, dtype)

    def spec(self, shape: Any, dtype: str) -> Any:
        return self.tf.TensorSpec(shape, dtype)

    def from_list(self, items: list[Any]) -> Any:
        return self.tf.data.experimental.from_list(items)

    def at(self, ds: Any, position: int) -> Any:
        return self.tf.data.experimental.at(ds, position)

    def has_no_access(self, error: Exception) -> bool:
        errors = self.tf.errors
        return isinstance(error, errors.UnimplementedError | errors.FailedPreconditionError)
