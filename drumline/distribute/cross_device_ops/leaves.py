"""The arrays of a pytree that replicas exchange."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef


def numbers(values: Any, *, booleans: bool = False) -> tuple[list[jax.Array], PyTreeDef]:
    """Flatten a pytree into arrays of numbers.

    Args:
        values: the pytree.
        booleans: keep boolean arrays; otherwise they become int32.

    Raises:
        TypeError: if a leaf is something else; the message names it.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(values)
    return [_number(path, leaf, booleans) for path, leaf in leaves], tree


def _number(path: tuple[Any, ...], leaf: Any, booleans: bool) -> jax.Array:
    try:
        array = jnp.asarray(leaf)
    except TypeError:
        array = None
    if array is not None and array.dtype == jnp.bool_:
        return array if booleans else array.astype(jnp.int32)
    if array is None or not jnp.issubdtype(array.dtype, jnp.number):
        kind = type(leaf).__name__ if array is None else f"an array of {array.dtype}"
        raise TypeError(
            f"Replicas exchange arrays of numbers, but the value{jax.tree_util.keystr(path)} is "
            f"{kind}."
        )
    return array
