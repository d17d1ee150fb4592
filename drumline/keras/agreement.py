"""Do the replicas still hold the same variables?"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.strategy import REPLICA_AXIS


class ReplicaDivergenceError(RuntimeError):
    """Replicas that must hold the same values do not."""


def disagreement(values: Sequence[jax.Array]) -> jax.Array:
    """Traced on each replica: for each value, whether the replicas' copies differ.

    Returns a bool array with one entry a value. Copies are compared by a checksum of their bits,
    so that one pass over the values and one small exchange suffice, and NaN equals NaN.
    """
    if not values:
        return jnp.zeros((0,), bool)
    sums = jnp.stack([_checksum(value) for value in values])
    return jax.lax.pmax(sums, REPLICA_AXIS) != jax.lax.pmin(sums, REPLICA_AXIS)


def require_agreement(differs: jax.Array, paths: Sequence[str]) -> None:
    """Raise if any entry of `differs` is set.

    Raises:
        ReplicaDivergenceError: naming the variables that differ.
    """
    names = [path for path, differ in zip(paths, np.asarray(differs), strict=True) if differ]
    if names:
        raise ReplicaDivergenceError(
            f"The replicas hold different values of {', '.join(names)} after a training step. "
            "Something writes a different value on each replica: give the variable an "
            "`aggregation`, or reduce the value over the replicas before it is written."
        )


def _checksum(value: jax.Array) -> jax.Array:
    if value.dtype == jnp.bool_:
        value = value.astype(jnp.uint8)
    bits = value.ravel().view(_UNSIGNED[value.dtype.itemsize]).astype(jnp.uint32)
    odd_weights = jnp.arange(bits.size, dtype=jnp.uint32) * jnp.uint32(2654435762) + jnp.uint32(1)
    return jnp.sum(bits * odd_weights, dtype=jnp.uint32)


_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}
