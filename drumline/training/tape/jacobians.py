"""All derivatives of an array, from its gradients for one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def unit_cotangents(target: jax.Array) -> jax.Array:
    """For each element of `target`, an array of its shape that is one there and zero elsewhere."""
    size = math.prod(target.shape)
    return jnp.eye(size, dtype=target.dtype).reshape(size, *target.shape)


def batch_unit_cotangents(target: jax.Array) -> jax.Array:
    """As `basis` for the elements of one example, the same for every example of the batch."""
    size = math.prod(target.shape[1:])
    stacked_gradients = jnp.eye(size, dtype=target.dtype).reshape(size, 1, *target.shape[1:])
    return jnp.broadcast_to(stacked_gradients, (size, *target.shape))


def stacked_gradients(
    gradients: Callable[[jax.Array], list[Any]], cotangents: jax.Array, together: bool
) -> list[Any]:
    """`gradients` of every cotangent, stacked along a first axis; None where they are None."""
    if together:
        return jax.vmap(gradients)(cotangents)
    each = [gradients(cotangent) for cotangent in cotangents]
    return [None if parts[0] is None else jnp.stack(parts) for parts in zip(*each, strict=True)]


def check_batch(target: jax.Array, source: jax.Array) -> None:
    """Raise ``ValueError`` unless both arrays have the same batch dimension."""
    if not (target.shape and source.shape) or target.shape[0] != source.shape[0]:
        raise ValueError(
            "batch_jacobian needs a target and a source with the same first dimension, the "
            f"batch, but their shapes are {tuple(target.shape)} and {tuple(source.shape)}."
        )
