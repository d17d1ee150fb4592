"""The modes of ``--variable_update``: where variables live, and what brings them together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax

import drumline as dl
from drumline.cnn.updates.all_reduce_spec import all_reduce_of
from drumline.distribute.collectives import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
)
from drumline.distribute.collectives.cross_device_ops import Packing


@dataclasses.dataclass(frozen=True)
class Mode:
    """How variables are updated.

    Attributes:
        strategy: in whose scope the model is made.
        devices: of this process that compute, as the header names them.
        independent: replicas exchange nothing.
        delayed: gradients are applied a step later, and travel meanwhile.
        all_reduce: the algorithm, as the header names it; None without one.
        num_workers: processes that compute.
        is_chief: whether this process writes what there is one of.
    """

    strategy: dl.distribute.Strategy
    devices: tuple[str, ...]
    independent: bool = False
    delayed: bool = False
    all_reduce: str | None = None
    num_workers: int = 1
    is_chief: bool = True


@dataclasses.dataclass(frozen=True)
class GroupedPacking(Packing):
    """Arrays below a size travel in groups, as ``--agg_small_grads_max_bytes`` puts them.

    Attributes:
        max_bytes: arrays of so many bytes and more travel alone.
        max_group: the most arrays in a group.
    """

    max_bytes: int = 0
    max_group: int = 10

    def groups(self, arrays: Sequence[jax.Array]) -> list[list[int]]:
        """Return the positions in `arrays` of those that travel together, every one once."""
        of_dtype: dict[object, list[int]] = {}
        alone = []
        for position, array in enumerate(arrays):
            if array.nbytes < self.max_bytes:
                of_dtype.setdefault(array.dtype, []).append(position)
            else:
                alone.append([position])
        together = [
            positions[at : at + self.max_group]
            for positions in of_dtype.values()
            for at in range(0, len(positions), self.max_group)
        ]
        return together + alone


def cross_device_ops_of(flags: Any) -> CrossDeviceOps:
    """Return the algorithm that sums gradients, and how small ones are put together.

    Args:
        flags: `all_reduce_spec`, `hierarchical_copy`, `use_nccl`, `gradient_repacking`,
            `agg_small_grads_max_bytes`, `agg_small_grads_max_group` and `local_parameter_device`.

    Raises:
        ValueError: if the specification is malformed.
    """
    packing = Packing(num_packs=0)
    if flags.agg_small_grads_max_bytes:
        packing = GroupedPacking(
            max_bytes=flags.agg_small_grads_max_bytes, max_group=flags.agg_small_grads_max_group
        )
    elif flags.gradient_repacking:
        packing = Packing(num_packs=flags.gradient_repacking)
    elif not flags.all_reduce_spec:
        packing = Packing()
    if flags.all_reduce_spec:
        ops = all_reduce_of(flags.all_reduce_spec)
    elif flags.hierarchical_copy:
        ops = HierarchicalCopyAllReduce()
    elif flags.use_nccl:
        ops = NcclAllReduce()
    else:
        ops = all_reduce_of(f"ps{flags.local_parameter_device.lower()}")
    ops.packing = packing
    return ops


def mode_of(flags: Any, devices: Sequence[str], parameter_device: str) -> Mode:
    """Return the mode of the flags, on the devices of one process.

    Args:
        flags: checked by `drumline.cnn.consistency.check`.
        devices: that compute, as ``"gpu:0"`` or ``"cpu:1"``.
        parameter_device: on which variables live in mode ``parameter_server``.
    """
    name, names = flags.variable_update, tuple(devices)
    if flags.worker_hosts:
        return _over_hosts(flags, names)
    if name == "parameter_server":
        central = dl.distribute.experimental.CentralStorageStrategy(names, parameter_device)
        return Mode(central, names, delayed=flags.staged_vars)
    if name == "independent":
        return Mode(dl.distribute.MirroredStrategy(names), names, independent=True)
    ops = cross_device_ops_of(flags)
    strategy = dl.distribute.MirroredStrategy(names, cross_device_ops=ops)
    ops.check(_axis(strategy))
    described = flags.all_reduce_spec or ops.describe(_axis(strategy))
    delayed = flags.variable_consistency == "relaxed"
    return Mode(strategy, names, delayed=delayed, all_reduce=described)


def _axis(strategy: dl.distribute.Strategy) -> Any:
    from drumline.distribute.collectives import ReplicaAxis

    return ReplicaAxis("replica", strategy.replica_devices)


def _over_hosts(flags: Any, names: tuple[str, ...]) -> Mode:
    """All workers in step, each with copies of the variables on its devices."""
    hosts = [host for host in flags.worker_hosts.split(",") if host]
    resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(
        dl.distribute.ClusterSpec({"worker": hosts}),
        task_type="worker",
        task_id=flags.task_index,
    )
    ops = cross_device_ops_of(flags) if flags.all_reduce_spec else None
    strategy = dl.distribute.MultiWorkerMirroredStrategy(resolver)
    if ops is not None:
        ops.check(_axis(strategy))
        strategy.cross_device_ops = ops
    return Mode(
        strategy,
        names,
        delayed=flags.variable_consistency == "relaxed",
        all_reduce=flags.all_reduce_spec or strategy.cross_device_ops.describe(_axis(strategy)),
        num_workers=len(hosts),
        is_chief=strategy.is_chief,
    )
