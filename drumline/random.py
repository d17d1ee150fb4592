"""Random numbers in functions of a dataset, as ``tf.random``: reproducible, element by element.

In a function given to ``map`` or ``filter`` a draw depends on the seed, the operation, the epoch,
the position of the element and how many draws the function made before: never on threads, timing
or interruptions. Each operation has a seed of its own, drawn from Python's ``random`` when it is
built (``keras.utils.set_random_seed`` seeds that); a ``seed`` given to a draw takes its place.
Outside of both, draws are different each time. Inside of ``jax.lax`` loops, which trace their
bodies once, draw before the loop, or `split` and use ``jax.random``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline._lazy import jax, jnp
from drumline.data.elements.spec import as_array
from drumline.data.functions.trace import drawn

Shape = Sequence[int]

__all__ = ["bernoulli", "normal", "shuffle", "split", "truncated_normal", "uniform"]


def uniform(
    shape: Shape = (),
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers from ``minval`` (included) to ``maxval`` (excluded), as ``tf.random.uniform``.

    Args:
        shape: of the result.
        minval: a number or an array that broadcasts to ``shape``.
        maxval: likewise; 1 by default for floats.
        dtype: a float or integer type.
        seed: in place of the operation's.

    Raises:
        ValueError: integers are asked for without ``maxval``.
    """
    kind = jnp.dtype(dtype)
    if not jnp.issubdtype(kind, jnp.integer):
        high = 1 if maxval is None else maxval
        draw = functools.partial(
            _uniform, shape=tuple(shape), dtype=kind, minval=minval, maxval=high
        )
        return drawn(draw, seed)
    if maxval is None:
        raise ValueError(f"dl.random.uniform: give maxval for integers ({kind})")
    whole = functools.partial(
        jax.random.randint, shape=tuple(shape), minval=minval, maxval=maxval, dtype=kind
    )
    return drawn(whole, seed)


def normal(
    shape: Shape = (),
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Normally distributed numbers, as ``tf.random.normal``."""
    return _scaled(jax.random.normal, shape, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Shape = (),
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = np.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Normally distributed numbers within two ``stddev``, as ``tf.random.truncated_normal``."""
    within_two = functools.partial(jax.random.truncated_normal, lower=-2.0, upper=2.0)
    return _scaled(within_two, shape, mean, stddev, dtype, seed)


def bernoulli(p: Any = 0.5, shape: Shape | None = None, seed: int | None = None) -> Any:
    """Bools that are true with probability ``p``, a number or an array that gives the shape."""
    size = None if shape is None else tuple(shape)
    return drawn(lambda key: jax.random.bernoulli(key, p, size), seed)


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """The rows of ``value`` (n, ...) in random order, as ``tf.random.shuffle``.

    Rows are numbers, or strings where no traced function computes with them.
    """
    if isinstance(value, jax.Array):
        return drawn(lambda key: jax.random.permutation(key, value), seed)
    rows = as_array(value)
    order = drawn(lambda key: jax.random.permutation(key, len(rows)), seed)
    return jnp.asarray(rows)[order] if isinstance(order, jax.Array) else rows[order]


def split(num: int = 2, seed: int | None = None) -> Any:
    """Keys (num,) to use with ``jax.random``."""
    return drawn(lambda key: jax.random.split(key, num), seed)


def _scaled(
    standard: Callable[..., Any], shape: Shape, mean: Any, stddev: Any, dtype: Any, seed: int | None
) -> Any:
    kind = jnp.dtype(dtype)

    def draw(key: Any) -> Any:
        values = standard(key, shape=tuple(shape), dtype=kind)
        return values * jnp.asarray(stddev, kind) + jnp.asarray(mean, kind)

    return drawn(draw, seed)


def _uniform(key: Any, shape: Shape, dtype: Any, minval: Any, maxval: Any) -> Any:
    return jax.random.uniform(
        key, shape, dtype, minval=jnp.asarray(minval, dtype), maxval=jnp.asarray(maxval, dtype)
    )
