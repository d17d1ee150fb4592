"""An array as equal pieces, one for each step of a ring."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike


def piece_length(size: int, count: int) -> int:
    """How many elements each of `count` pieces of an array of `size` elements has."""
    return -(-size // count)


def split(array: jax.Array, count: int) -> jax.Array:
    """Cut the flattened array into `count` rows, the last ones padded with zeros."""
    flat = array.reshape(-1)
    padding = count * piece_length(flat.size, count) - flat.size
    if padding:
        flat = jnp.pad(flat, (0, padding))
    return flat.reshape(count, -1)


def join(pieces: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Undo `split`: the array of `shape` whose pieces these are."""
    return jax.lax.slice(pieces.reshape(-1), (0,), (int(np.prod(shape)),)).reshape(shape)


def piece_bytes(array: ArrayLike | jax.ShapeDtypeStruct, count: int) -> int:
    """The bytes of one of `count` pieces of `array`, padding included."""
    size, itemsize = int(np.prod(np.shape(array))), np.dtype(jnp.result_type(array)).itemsize
    return piece_length(size, count) * itemsize
