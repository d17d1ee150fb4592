"""The public base of all strategies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from drumline.distribute import scope
from drumline.distribute.devices import DeviceLike, device_name, resolve_devices
from drumline.distribute.distributed_dataset import DistributedDataset
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import ReduceOp

REPLICA_AXIS = "replica"


class Strategy:
    """Three answers: where variables live, where replicas run, how values meet.

    A strategy of one's own overrides the answer that differs: `variable_sharding` (over the
    devices of `replica_devices`), `replica_devices` or `all_reduce`.

    Args:
        devices: the devices on which replicas run, one replica each, as accepted by
            `MirroredStrategy`.
        check_agreement: after each training step, compare the replicas' copies of every
            variable and raise `drumline.keras.ReplicaDivergenceError` naming those that differ.
            It reads each variable once a step and waits for the step to end.

    Raises:
        ValueError: if a device does not exist or is given twice.
    """

    def __init__(self, devices: Iterable[DeviceLike], *, check_agreement: bool = False) -> None:
        self._devices = resolve_devices(devices)
        self.check_agreement = check_agreement
        self._mesh = Mesh(
            np.array(self.replica_devices), (REPLICA_AXIS,), axis_types=(AxisType.Auto,)
        )

    @property
    def replica_devices(self) -> tuple[jax.Device, ...]:
        """Where replicas run: one device for each replica."""
        return self._devices

    @property
    def variable_sharding(self) -> Sharding:
        """Where variables live: by default a copy on every replica's device."""
        if self.num_replicas_in_sync == 1:
            return SingleDeviceSharding(self.replica_devices[0])
        return NamedSharding(self._mesh, PartitionSpec())

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        """How values meet: reduce the replicas' values of a pytree, seen alike by all of them.

        Called while a replica's step is traced, where the mesh axis `replica` is bound.
        """
        if ReduceOp.of(op) is ReduceOp.SUM:
            return jax.lax.psum(value, REPLICA_AXIS)
        return jax.lax.pmean(value, REPLICA_AXIS)

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas share a global batch."""
        return len(self.replica_devices)

    @property
    def mesh(self) -> Mesh:
        """The devices as a JAX mesh with the one axis `replica`."""
        return self._mesh

    @property
    def batch_sharding(self) -> NamedSharding:
        """Where a global batch lives: its first dimension cut over the replicas."""
        return NamedSharding(self._mesh, PartitionSpec(REPLICA_AXIS))

    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """Put this strategy in force: what is created inside the block belongs to it.

        Raises:
            RuntimeError: when entered inside another strategy's scope.
        """
        return scope.enter(self)

    def place_variable(self, value: jax.typing.ArrayLike) -> jax.Array:
        """Return `value` placed where this strategy's variables live; no copy if it is there."""
        sharding = self.variable_sharding
        if isinstance(value, jax.Array):
            if value.sharding == sharding and value.committed:
                return value
        return jax.device_put(value, sharding)

    def experimental_distribute_dataset(self, dataset: Iterable[Any]) -> DistributedDataset:
        """Return an iterable of `dataset`'s global batches, cut over the replicas.

        Args:
            dataset: an iterable of batches, usually a `drumline.data.Dataset` batched by the
                global batch size. Iterating the result again iterates `dataset` again.
        """
        return DistributedDataset(dataset, self)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of this process's replicas: one, if `value` is not per replica."""
        return value.values if isinstance(value, PerReplica) else (value,)

    def describe(self) -> str:
        """A text that says where variables live, where replicas run and how values meet."""
        names = ", ".join(map(device_name, self.replica_devices))
        return "\n".join(
            [
                f"{type(self).__name__}: {self.num_replicas_in_sync} replica(s) in sync",
                f"  replicas run on: {names}",
                f"  mesh: {REPLICA_AXIS}={self.num_replicas_in_sync}",
                f"  variables live: {self._describe_variables()}",
                f"  values meet: {self._describe_meeting()}",
            ]
        )

    def _describe_variables(self) -> str:
        sharding = self.variable_sharding
        if len(sharding.device_set) == 1:
            (device,) = sharding.device_set
            return f"on {device_name(device)}"
        kind = "a copy on each of" if sharding.is_fully_replicated else "split over"
        return f"{kind} {len(sharding.device_set)} devices"

    def _describe_meeting(self) -> str:
        if self.num_replicas_in_sync == 1:
            return "nothing to reduce, there is one replica"
        checked = "checked after each step" if self.check_agreement else "not checked"
        return (
            f"gradients by all-reduce (mean) over mesh axis '{REPLICA_AXIS}'; "
            f"agreement of the replicas: {checked}"
        )

    def __repr__(self) -> str:
        names = ", ".join(repr(device_name(device)) for device in self.replica_devices)
        return f"{type(self).__name__}([{names}])"
