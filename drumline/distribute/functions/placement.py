"""Bringing a program's arrays to the devices it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from drumline.distribute.adoption import owner_of
from drumline.training.keras_internals import Variable


def brought_together(arrays: Sequence[Any], variables: Sequence[Variable]) -> list[Any]:
    """`arrays`, those that lie on some of the program's devices alone copied to all of them.

    Values of a `PerReplica` whose shares differ in size lie on one device each.

    Args:
        arrays: what the program is called with.
        variables: what the program reads and writes, all of one strategy, whose devices are the
            program's. Without any they are all those on which an array lies.
    """
    owner = owner_of(variables[0]) if variables else None
    fixed = [array for array in arrays if isinstance(array, jax.Array) and array.committed]
    devices = dict.fromkeys(device for array in fixed for device in _devices(array))
    if owner is not None:
        devices = dict.fromkeys(owner.replica_devices)
    if all(array.sharding.device_set == devices.keys() for array in fixed):
        return list(arrays)
    everywhere = _everywhere(list(devices)) if owner is None else owner.variable_sharding
    apart = {id(array) for array in fixed if array.sharding.device_set != devices.keys()}
    return [jax.device_put(a, everywhere) if id(a) in apart else a for a in arrays]


def _devices(array: jax.Array) -> list[jax.Device]:
    return sorted(array.sharding.device_set, key=lambda device: device.id)


def _everywhere(devices: list[jax.Device]) -> NamedSharding:
    return NamedSharding(Mesh(np.array(devices), ("replica",)), PartitionSpec())
