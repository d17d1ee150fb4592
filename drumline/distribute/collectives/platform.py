"""The platform's own all-reduce (`NcclAllReduce`), Gloo between CPUs, and the choice by name.

`CommunicationOptions` are how a user says it for several processes.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from drumline.distribute.collectives.cross_device_ops import (
    CrossDeviceOps,
    ReplicaAxis,
    piece_bytes,
)
from drumline.distribute.collectives.tree import RecursiveDoublingAllReduce


class NcclAllReduce(CrossDeviceOps):
    """One all-reduce for each array or pack, by the platform's library: NCCL on GPUs.

    As ``tf.distribute.NcclAllReduce``. On TPUs it is XLA's own, and between CPUs shared memory or
    Gloo.

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    cuts = True

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


SMALL_BYTES = 64 * 1024
"""Up to here an array's time is that of the messages' number; above, that of their bytes."""


class GlooAllReduce(CrossDeviceOps):
    """The quickest way over Gloo's connections, which carry all messages between CPU processes.

    Two replicas exchange their arrays. Among more of them, arrays and packs of up to 64 KiB take
    `RecursiveDoublingAllReduce` and larger ones Gloo's own ring; an array may there be summed in
    another order in a pack than alone.

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
        because: why no other way was taken, for `describe`.
    """

    def __init__(self, num_packs: int = 1, bytes_per_pack: int = 0, because: str = "") -> None:
        super().__init__(num_packs, bytes_per_pack)
        self._because = because

    cuts = True
    _few_messages = RecursiveDoublingAllReduce()
    _few_bytes = NcclAllReduce()

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum by the way for an array of this size."""
        return self._way(array, axis).sum_array(array, axis)

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int | None:
        """What the way for an array of this size sends."""
        return self._way(array, axis).bytes_sent(array, axis, replica)

    def sum_scatter(self, rows: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Exchange rows, and add those of the replicas in their order.

        As many bytes as by Gloo's own reduce-scatter, which slows down all later collectives of a
        connection. The order is that of sums in shared memory, and those of float16 and bfloat16
        are formed as float32 as well.
        """
        return _sum_scatter(rows, axis.name)

    def gather_scattered(self, row: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Gather by Gloo; the gradient is `sum_scatter`."""
        return _gather_scattered(row, axis.name)

    def describe(self, axis: ReplicaAxis) -> str:
        """The ways, and for what each is taken."""
        name = type(self).__name__ + (f" ({self._because})" if self._because else "")
        if axis.size == 2:
            return f"{name}: the two replicas exchange arrays, as the fewest messages take least"
        return (
            f"{name}: recursive doubling up to {SMALL_BYTES // 1024} KiB, as the fewest messages "
            "take least; Gloo's ring above, which sends the fewest bytes"
        )

    def _way(self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis) -> CrossDeviceOps:
        if axis.size == 2 or piece_bytes(array, 1) <= SMALL_BYTES:
            return self._few_messages
        return self._few_bytes


def _sum_scatter(rows: jax.Array, name: str) -> jax.Array:
    of_replicas = lax.all_to_all(rows, name, 0, 0, tiled=True)
    if rows.dtype in (jnp.float16, jnp.bfloat16):
        of_replicas = of_replicas.astype(jnp.float32)
    total = of_replicas[:1]
    for replica in range(1, of_replicas.shape[0]):
        total = total + of_replicas[replica : replica + 1]
    return total.astype(rows.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _gather_scattered(row: jax.Array, name: str) -> jax.Array:
    return lax.all_gather(row, name, tiled=True)


def _gather_forward(row: jax.Array, name: str) -> tuple[jax.Array, None]:
    return _gather_scattered(row, name), None


def _gather_backward(name: str, _: None, slopes: jax.Array) -> tuple[jax.Array]:
    return (_sum_scatter(slopes, name),)


_gather_scattered.defvjp(_gather_forward, _gather_backward)


def resolve_cross_device_ops(value: CrossDeviceOps | None) -> CrossDeviceOps:
    """Return `value`, or `NcclAllReduce()` for None.

    Raises:
        TypeError: if it is something else.
    """
    if value is None:
        return NcclAllReduce()
    if isinstance(value, CrossDeviceOps):
        return value
    if isinstance(value, type) and issubclass(value, CrossDeviceOps):
        raise TypeError(
            f"cross_device_ops takes an instance, not a class: write {value.__name__}()."
        )
    raise TypeError(
        "cross_device_ops must be a CrossDeviceOps such as NcclAllReduce(), RingAllReduce(), "
        f"HierarchicalCopyAllReduce() or ReductionToOneDevice(), not {value!r}."
    )


class CommunicationImplementation(enum.Enum):
    """Which algorithm, as ``tf.distribute.experimental.CommunicationImplementation``.

    Attributes:
        AUTO: the platform's own, NCCL between GPUs and XLA's between TPUs; between CPUs memory that
            the processes share if all are on one machine, and else whatever is quickest over
            Gloo's connections for the number of replicas and an array's size.
            `MultiWorkerMirroredStrategy.describe` says what it is.
        RING: drumline's ring of point-to-point messages, on any platform.
        NCCL: NCCL, on GPUs alone.
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


CollectiveCommunication = CommunicationImplementation
"""The older name, as ``tf.distribute.experimental.CollectiveCommunication``."""


@dataclass(frozen=True)
class CommunicationOptions:
    """Options of collectives, as ``tf.distribute.experimental.CommunicationOptions``.

    Attributes:
        bytes_per_pack: the most bytes of small arrays (256 KiB at most each) that travel as one; 0
            for no limit.
        timeout_seconds: how long a step may take before the process reports its stacks and ends;
            None for no limit. A peer that has died ends the step sooner, whatever this is.
        implementation: a `CommunicationImplementation`, or its name.
        cross_device_ops: the algorithm itself, such as ``RingAllReduce()`` or one of your own, in
            the place of an implementation and its packs; None for that. TensorFlow's have none.

    Raises:
        ValueError: for a negative number, an unknown implementation, or an algorithm beside an
            implementation or packs.
        TypeError: if the algorithm is something else.

    Example:
        >>> ring = dl.distribute.RingAllReduce(num_packs=4)
        >>> options = dl.distribute.CommunicationOptions(cross_device_ops=ring)
        >>> dl.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        MultiWorkerMirroredStrategy(worker:0 of 1 processes, 4 replicas)
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CommunicationImplementation = CommunicationImplementation.AUTO
    cross_device_ops: CrossDeviceOps | None = None

    def __post_init__(self) -> None:
        if self.bytes_per_pack < 0:
            raise ValueError(f"bytes_per_pack must be 0 or more, got {self.bytes_per_pack}.")
        if self.timeout_seconds is not None and self.timeout_seconds <= 0:
            raise ValueError(
                f"timeout_seconds must be above 0, or None, got {self.timeout_seconds}."
            )
        object.__setattr__(self, "implementation", _implementation(self.implementation))
        if self.cross_device_ops is None:
            return
        resolve_cross_device_ops(self.cross_device_ops)
        if self.implementation is not CommunicationImplementation.AUTO or self.bytes_per_pack:
            raise ValueError(
                "cross_device_ops is the algorithm itself, with its packs: leave out "
                "implementation and bytes_per_pack."
            )

    @classmethod
    def of(cls, options: Any) -> CommunicationOptions:
        """`options`, an implementation as options, or the defaults for None.

        Raises:
            TypeError: if it is something else.
        """
        if options is None:
            return cls()
        if isinstance(options, CommunicationImplementation):
            return cls(implementation=options)
        if not isinstance(options, cls):
            raise TypeError(
                "communication_options must be a CommunicationOptions, got "
                f"{type(options).__name__}."
            )
        return options


def _implementation(value: Any) -> CommunicationImplementation:
    if isinstance(value, CommunicationImplementation):
        return value
    try:
        return CommunicationImplementation[str(value).upper()]
    except KeyError:
        names = ", ".join(member.name for member in CommunicationImplementation)
        raise ValueError(f"implementation must be one of {names}, got {value!r}.") from None
