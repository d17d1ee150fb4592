"""``tf.experimental.numpy.random``: numpy's names for the draws of ``tf.random``."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.ops.numpy.base import array_of, cast, default_float, numpy_type, result
from drumline.compat.ops.random import sampling as draws
from drumline.compat.values.convert import static, static_shape
from drumline.compat.values.tensor import Tensor


def _size(size: Any) -> tuple[int, ...]:
    return () if size is None else static_shape(size)


def seed(s: Any) -> None:
    """Seed the draws, as ``tf.random.set_seed``.

    Raises:
        ValueError: it is no integer.
    """
    try:
        number = int(s)
    except TypeError:
        raise ValueError(
            f"Argument `s` got an invalid value {s}. Only integers are supported."
        ) from None
    draws.set_seed(number)


def standard_normal(size: Any = None) -> Tensor:
    """Draws from a normal distribution of mean 0 and deviation 1."""
    return draws.normal(_size(size), dtype=default_float())


def randn(*args: Any) -> Tensor:
    """Draws from a normal distribution, of a shape given as its dimensions."""
    return standard_normal(args)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Tensor:
    """Draws between ``low`` and ``high``; of the shape of these without ``size``."""
    kind = default_float()
    a, b = array_of(low, kind), array_of(high, kind)
    shape = np.broadcast_shapes(a.shape, b.shape) if size is None else _size(size)
    unit = draws.uniform(shape, dtype=kind)._value
    return result(cast(unit * (b - a) + a, kind))


def random(size: Any = None) -> Tensor:
    """Draws between 0 and 1."""
    return uniform(0.0, 1.0, size)


def rand(*size: Any) -> Tensor:
    """Draws between 0 and 1, of a shape given as its dimensions."""
    return uniform(0.0, 1.0, size)


def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Tensor:
    """Draws of integers from ``low`` up to ``high``, without it; from 0 up to ``low`` alone.

    Raises:
        ValueError: ``dtype`` is neither int32 nor int64.
    """
    first, last = (0, low) if high is None else (low, high)
    kind = numpy_type(dtype)
    if kind not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise ValueError(
            f"Argument `dtype` got an invalid value {dtype}. Only those convertible to "
            "int32 and int64 are supported."
        )
    return draws.uniform(_size(size), int(static(first)), int(static(last)), kind)


def poisson(lam: Any = 1.0, size: Any = None) -> Tensor:
    """Draws of a Poisson distribution, as int64."""
    return draws.poisson(_size(size), lam, np.int64)
