"""Two levels: within groups of replicas, and across the groups."""

from __future__ import annotations

import math

import jax
from jax.typing import ArrayLike

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.pieces import join, piece_bytes, split
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis
from drumline.distribute.cross_device_ops.ring import Ring


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """Reduce within groups, across groups, then broadcast within groups.

    As ``tf.distribute.HierarchicalCopyAllReduce``, for machines whose devices are better connected
    within groups than across them. As there, every replica leads its group for a part of the data.
    A group is a run of neighbouring replicas: 8 replicas make two groups of 4, as in TensorFlow,
    and N replicas make groups of the smallest divisor of N that is at least its square root. A
    prime number of replicas makes one group, which is a ring.

    With G groups of g, a replica sends 2(g-1) pieces of S/g bytes within its group and 2(G-1)
    pieces of S/N bytes to another group. That is as much as in a ring, in fewer steps and with
    only 2(G-1)/N of S going across.

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum first in each group, in the order of its ring, then the groups' sums."""
        groups = _groups(axis.size)
        within, across = Ring(axis, groups), Ring(axis, tuple(zip(*groups, strict=True)))
        pieces = split(array, axis.size).reshape(within.length, across.length, -1)
        total = across.sum_scatter(within.sum_scatter(pieces))
        return join(within.gather(across.gather(total)), array.shape)

    def pieces(self, axis: ReplicaAxis) -> int:
        """One for each replica."""
        return axis.size

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int:
        """2(g-1) pieces of S/g bytes within the group, 2(G-1) pieces of S/N bytes across."""
        within = _group_size(axis.size)
        across = axis.size // within
        piece = piece_bytes(array, axis.size)
        return 2 * (within - 1) * across * piece + 2 * (across - 1) * piece


def _group_size(replicas: int) -> int:
    smallest = math.isqrt(replicas - 1) + 1
    return next(size for size in range(smallest, replicas + 1) if replicas % size == 0)


def _groups(replicas: int) -> tuple[tuple[int, ...], ...]:
    size = _group_size(replicas)
    return tuple(tuple(range(first, first + size)) for first in range(0, replicas, size))
