"""Reduce-scatter and all-gather around one ring."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.pieces import join, piece_bytes, split
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis
from drumline.distribute.cross_device_ops.ring import Ring


class RingAllReduce(CrossDeviceOps):
    """The replicas form a ring, and each only sends to the next.

    N-1 steps sum a piece of the array on each of N replicas, and N-1 more carry the sums around. An
    array of S bytes is cut into N pieces, padded if need be, so that each replica sends 2(N-1)
    pieces of S/N bytes, whatever their number. ``tf.distribute`` has the like as
    ``CommunicationImplementation.RING``.

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum by sending pieces around the ring; they are added in the order of the ring."""
        ring = Ring(axis, (tuple(range(axis.size)),))
        total = ring.sum_scatter(split(array, axis.size))
        return join(ring.gather(total), array.shape)

    def pieces(self, axis: ReplicaAxis) -> int:
        """One for each replica."""
        return axis.size

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int:
        """2(N-1) pieces of S/N bytes."""
        return 2 * (axis.size - 1) * piece_bytes(array, axis.size)
