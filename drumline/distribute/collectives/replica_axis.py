"""The replicas among which a collective is traced, and pieces and copies that they send."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike


@dataclasses.dataclass(frozen=True)
class ReplicaAxis:
    """The mesh axis along which the replicas lie, one on each device.

    Attributes:
        name: the axis, bound while a step is traced by `jax.shard_map` with `check_vma=False`.
        devices: the replicas' devices, in the order of the axis.
    """

    name: str
    devices: tuple[jax.Device, ...]

    @property
    def size(self) -> int:
        """How many replicas there are."""
        return len(self.devices)

    @property
    def index(self) -> jax.Array:
        """The number of the replica that is being traced: an int32 scalar."""
        return jax.lax.axis_index(self.name)


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
