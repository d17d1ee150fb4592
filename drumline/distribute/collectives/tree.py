"""All-reduce by trees: to one device and back, in two levels, and by recursive doubling."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from drumline.distribute.collectives.cross_device_ops import (
    CrossDeviceOps,
    ReplicaAxis,
    copies_at,
    copy_to_all,
    join,
    piece_bytes,
    split,
)
from drumline.distribute.collectives.devices import DeviceLike, device_name, resolve_device
from drumline.distribute.collectives.ring import Ring


class ReductionToOneDevice(CrossDeviceOps):
    """Copy all arrays to one device, add them there, and copy the sum to the others.

    As ``tf.distribute.ReductionToOneDevice``. The one device receives (N-1)S bytes and sends as
    many; each of the others sends S and receives S.

    Args:
        reduce_to_device: a device name or JAX device, which must run one of the replicas; by
            default the first of them.
        accumulation_fn: makes one array of the list of the replicas' arrays, of the same shape and
            dtype; by default their sum in the order of the replicas. It is traced on every device,
            and only what the one device computes is used. With a custom function, every
            array travels alone.
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    def __init__(
        self,
        reduce_to_device: DeviceLike | None = None,
        accumulation_fn: Callable[[Sequence[jax.Array]], jax.Array] | None = None,
        num_packs: int = 1,
        bytes_per_pack: int = 0,
    ) -> None:
        super().__init__(num_packs if accumulation_fn is None else 0, bytes_per_pack)
        self.reduce_to_device = reduce_to_device
        self.accumulation_fn = accumulation_fn or _add_n

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Accumulate on the one device."""
        root = self.root(axis)
        total = self.accumulation_fn(copies_at(array, axis, root))
        return copy_to_all(total, axis, root)

    def root(self, axis: ReplicaAxis) -> int:
        """The number of the replica that runs on the one device.

        Raises:
            ValueError: if none does, or if a device is given and replicas run in several processes.
        """
        if self.reduce_to_device is None:
            return 0
        if len({device.process_index for device in axis.devices}) > 1:
            raise ValueError(
                f"reduce_to_device={self.reduce_to_device!r} names a device of one process, but "
                "the replicas run in several; leave it out to reduce to the first replica."
            )
        device = resolve_device(self.reduce_to_device)
        if device not in axis.devices:
            raise ValueError(
                f"reduce_to_device={self.reduce_to_device!r} runs no replica; choose one of "
                f"{', '.join(repr(device_name(d)) for d in axis.devices)}."
            )
        return axis.devices.index(device)

    def check(self, axis: ReplicaAxis) -> None:
        """Raise ValueError as `root` does."""
        self.root(axis)

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int:
        """(N-1)S from the one device, S from each of the others."""
        size = piece_bytes(array, 1)
        return (axis.size - 1) * size if replica == self.root(axis) else size


def _add_n(arrays: Sequence[jax.Array]) -> jax.Array:
    return functools.reduce(operator.add, arrays)


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
