"""Exchanges of whole sums between pairs of replicas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.pieces import piece_bytes
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis


class RecursiveDoublingAllReduce(CrossDeviceOps):
    """In each round every replica exchanges its sum with one that has summed others.

    log2(N) rounds for N replicas, where a ring takes 2(N-1): the fewest for small arrays, of which
    each round sends the whole. Between two replicas it is one exchange, of as many bytes as any
    other way. Where N is no power of two, those above the last one first give their values to a
    partner each, and get the sums from it in the end (Thakur, Rabenseifner and Gropp, 2005).

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum by exchanges; both of a pair add the same two numbers, so all get the same bits."""
        paired = _paired(axis)
        partners = [(replica, replica - paired) for replica in range(paired, axis.size)]
        total = array + lax.ppermute(array, axis.name, partners) if partners else array
        distance = 1
        while distance < paired:
            pairs = [(replica, replica ^ distance) for replica in range(paired)]
            total = total + lax.ppermute(total, axis.name, pairs)
            distance *= 2
        if not partners:
            return total
        back = lax.ppermute(total, axis.name, [(b, a) for a, b in partners])
        return jnp.where(axis.index < paired, total, back)

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int:
        """S a round from each that takes part; S to a partner, and S back."""
        paired = _paired(axis)
        size = piece_bytes(array, 1)
        if replica >= paired:
            return size
        return size * (paired.bit_length() - 1 + (replica < axis.size - paired))


def _paired(axis: ReplicaAxis) -> int:
    """How many replicas exchange in pairs: the greatest power of two there is."""
    return 1 << (axis.size.bit_length() - 1)
