"""Keeping XLA from computing a value again in everything that uses it.

XLA's CPU backend fuses whatever it takes for cheap into each of its users, and removes
optimization barriers before it does. A value that many elements of the result look at, or that is
read in another order than it is stored in, then costs many times its price. A concatenation is
where fusion stops: what it makes is stored.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp


def in_halves(function: Callable[[jax.Array], jax.Array], array: jax.Array) -> jax.Array:
    """``function(array)``, stored, of a function that treats the leading axis row by row.

    An array of fewer than two rows is passed on whole.
    """
    half = array.shape[0] // 2
    if half == 0:
        return function(array)
    return jnp.concatenate([function(array[:half]), function(array[half:])])
