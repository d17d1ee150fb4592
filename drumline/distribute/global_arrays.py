"""Arrays of this process's devices, and the same arrays seen by the programs of all processes.

A program that runs on the devices of several processes takes and returns arrays that lie on all of
them, of which each process can read only its own part. What a user holds lies on the devices of
the user's process alone, so that whatever is done with it involves no other process. Going from
the one to the other copies nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from drumline.distribute.reduce_op import REPLICA_AXIS


@functools.lru_cache(maxsize=64)
def mesh_of(devices: tuple[jax.Device, ...]) -> Mesh:
    """The mesh with the one axis `replica` over `devices`."""
    return Mesh(np.array(devices), (REPLICA_AXIS,), axis_types=(AxisType.Auto,))


@functools.lru_cache(maxsize=64)
def copies_on(devices: tuple[jax.Device, ...]) -> jax.sharding.Sharding:
    """A copy on each of `devices`."""
    if len(devices) == 1:
        return SingleDeviceSharding(devices[0])
    return NamedSharding(mesh_of(devices), PartitionSpec())


def to_global_array(value: jax.Array, sharding: jax.sharding.Sharding) -> jax.Array:
    """`value`, of which this process's devices hold copies, as an array of all processes'.

    The processes hold the same value; this is not checked.

    Args:
        value: as `to_local_array` returns it; what lies on all processes already stays.
        sharding: a copy on each device of all processes, `value`'s among them.
    """
    if not value.is_fully_addressable or sharding.is_fully_addressable:
        return value
    return jax.make_array_from_single_device_arrays(value.shape, sharding, _parts(value))


def to_local_array(value: Any) -> Any:
    """`value` as this process's devices hold it.

    What is no array of several processes stays, and so does one that is divided between them.
    """
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return value
    if value.is_fully_addressable or not value.is_fully_replicated:
        return value
    parts = _parts(value)
    if len(parts) == 1:
        return parts[0]
    devices = tuple(device for part in parts for device in part.devices())
    return jax.make_array_from_single_device_arrays(value.shape, copies_on(devices), parts)


def shard(tree: Any, mesh: Mesh, axis: int = 0) -> Any:
    """A pytree that all processes have, the `axis` of its arrays cut over the mesh's devices."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, REPLICA_AXIS))
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)
    return jax.tree.map(
        lambda leaf: jax.make_array_from_callback(leaf.shape, sharding, leaf.__getitem__), tree
    )


def joined_rows(rows: Sequence[Any], mesh: Mesh) -> jax.Array:
    """The array ``(replicas, ...)`` of which this process has the rows of its own replicas."""
    sharding = NamedSharding(mesh, PartitionSpec(REPLICA_AXIS))
    devices = own_devices(tuple(mesh.devices.flat))
    placed = [jax.device_put(row[None], d) for row, d in zip(rows, devices, strict=True)]
    shape = (mesh.size, *placed[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, placed)


def own_devices(devices: tuple[jax.Device, ...]) -> tuple[jax.Device, ...]:
    """Those of `devices` that are this process's, in their order."""
    process = jax.process_index()
    return tuple(device for device in devices if device.process_index == process)


def _parts(value: jax.Array) -> list[jax.Array]:
    return [shard.data for shard in value.addressable_shards]
