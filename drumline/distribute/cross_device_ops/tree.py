"""Gather on one device, add there, and copy back."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

import jax
from jax.typing import ArrayLike

from drumline.distribute.cross_device_ops.copies import copies_at, copy_to_all
from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.pieces import piece_bytes
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis
from drumline.distribute.devices import DeviceLike, device_name, resolve_device


class ReductionToOneDevice(CrossDeviceOps):
    """Copy all arrays to one device, add them there, and copy the sum to the others.

    As ``tf.distribute.ReductionToOneDevice``. The one device receives (N-1)S bytes and sends as
    many; each of the others sends S and receives S.

    Args:
        reduce_to_device: a device name or JAX device, which must run one of the replicas; by
            default the first of them.
        accumulation_fn: makes one array of the list of the replicas' arrays, of the same shape and
            dtype; by default their sum in the order of the replicas. It is traced on every device,
            and only what the one device computes is used. With a function of one's own, every
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
