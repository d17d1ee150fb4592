"""The replicas among which a collective is traced."""

from __future__ import annotations

import dataclasses

import jax


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
