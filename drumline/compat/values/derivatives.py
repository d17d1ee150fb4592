"""Functions of JAX's whose derivatives are TensorFlow's where JAX's are others: at ties and at 0.

At 0, ``jax.numpy.abs`` has the slope 1; at a tie, ``jax.numpy.maximum`` gives half to either side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def absolute(x: Any) -> Any:
    """The absolute value of an array, whose slope at 0 is 0."""
    return _absolute(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.abs(x)


@jax.custom_jvp
def _absolute(x: Any) -> Any:
    return jnp.abs(x)


@_absolute.defjvp
def _slope(primals: Any, tangents: Any) -> Any:
    return jnp.abs(*primals), jnp.sign(*primals) * tangents[0]


def maximum(x: Any, y: Any) -> Any:
    """The greater of two arrays' elements; where they are equal, it is `x` that has the slope."""
    return _one_of(x, y, jnp.maximum, _greater)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of two arrays' elements; where they are equal, it is `x` that has the slope."""
    return _one_of(x, y, jnp.minimum, _smaller)


def _one_of(x: Any, y: Any, plain: Callable[..., Any], chosen: Callable[..., Any]) -> Any:
    floats = jnp.issubdtype(jnp.result_type(x, y), jnp.floating)
    return chosen(x, y) if floats else plain(x, y)


@jax.custom_jvp
def _greater(x: Any, y: Any) -> Any:
    return jnp.maximum(x, y)


@_greater.defjvp
def _slope_of_greater(primals: Any, tangents: Any) -> Any:
    x, y = primals
    return jnp.maximum(x, y), jnp.where(x >= y, *tangents)


@jax.custom_jvp
def _smaller(x: Any, y: Any) -> Any:
    return jnp.minimum(x, y)


@_smaller.defjvp
def _slope_of_smaller(primals: Any, tangents: Any) -> Any:
    x, y = primals
    return jnp.minimum(x, y), jnp.where(x <= y, *tangents)


def xlogy(x: Any, y: Any) -> Any:
    """``x * log(y)``; 0 where `x` is 0, and there without a slope."""
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x), x * jnp.log(jnp.where(zero, jnp.ones_like(y), y)))


def selu(x: Any) -> Any:
    """The activation, whose slope at 0 is that of its right side."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    below = alpha * jnp.expm1(jnp.where(x >= 0, jnp.zeros_like(x), x))
    return (scale * jnp.where(x >= 0, x, below)).astype(x.dtype)


def entropy_of_logits(z: Any, x: Any) -> Any:
    """The cross entropy of probabilities `z` and logits `x`, whose slope at 0 is ``0.5 - z``."""
    positive = x >= 0
    rest = jnp.log1p(jnp.exp(jnp.where(positive, -x, x)))
    return jnp.where(positive, x, jnp.zeros_like(x)) - x * z + rest
