"""Sending whole arrays to one replica, and from one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis


def copies_at(array: jax.Array, axis: ReplicaAxis, root: int) -> list[jax.Array]:
    """Send every replica's array to the replica `root`, which gets them in their order.

    The other replicas get zeros for all arrays but one, which is their own.
    """
    return [
        array if sender == root else lax.ppermute(array, axis.name, [(sender, root)])
        for sender in range(axis.size)
    ]


def copy_to_all(array: jax.Array, axis: ReplicaAxis, root: int) -> jax.Array:
    """Return the array of the replica `root`, which sends it to each of the others."""
    result = array
    for receiver in range(axis.size):
        if receiver != root:
            sent = lax.ppermute(array, axis.name, [(root, receiver)])
            result = jnp.where(axis.index == receiver, sent, result)
    return result
