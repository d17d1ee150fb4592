"""The platform's own all-reduce."""

from __future__ import annotations

import jax
from jax import lax
from jax.typing import ArrayLike

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.pieces import piece_bytes
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis


class NcclAllReduce(CrossDeviceOps):
    """One all-reduce for each array or pack, by the platform's library: NCCL on GPUs.

    As ``tf.distribute.NcclAllReduce``. On TPUs it is XLA's own, and between CPUs shared memory or
    Gloo.

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum by `jax.lax.psum`."""
        return lax.psum(array, axis.name)

    def describe(self, axis: ReplicaAxis) -> str:
        """What sums on this platform."""
        platform = axis.devices[0].platform
        if platform in ("gpu", "cuda", "rocm"):
            return "NcclAllReduce"
        return f"NcclAllReduce, which is XLA's own all-reduce on {platform.upper()}s"

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int:
        """2(N-1) pieces of S/N bytes, the least that any all-reduce can do with.

        The program names the operation only. Which algorithm the library takes is not in it.
        """
        return 2 * (axis.size - 1) * piece_bytes(array, axis.size)
