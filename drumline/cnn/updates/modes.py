"""The modes of ``--variable_update``: where variables live, and what brings them together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

import drumline as dl
from drumline.cnn.updates import parameter_servers
from drumline.cnn.updates.all_reduce_spec import all_reduce_of
from drumline.distribute.collectives import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    ReplicaAxis,
)
from drumline.distribute.collectives.cross_device_ops import Packing
from drumline.distribute.collectives.devices import device_name


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
        connections: to tasks that wait for this one, until its step is made.
    """

    strategy: dl.distribute.Strategy
    devices: tuple[str, ...]
    independent: bool = False
    delayed: bool = False
    all_reduce: str | None = None
    num_workers: int = 1
    is_chief: bool = True
    connections: tuple[Any, ...] = ()


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
    if flags.all_reduce_spec:
        ops = all_reduce_of(flags.all_reduce_spec)
    elif flags.hierarchical_copy:
        ops = HierarchicalCopyAllReduce()
    elif flags.use_nccl:
        ops = NcclAllReduce()
    else:
        ops = all_reduce_of(f"ps{flags.local_parameter_device.lower()}")
    ops.packing = _packing_of(flags)
    return ops


def _packing_of(flags: Any) -> Packing:
    """How small gradients are put together: by the flags, or without a specification all."""
    if flags.agg_small_grads_max_bytes:
        return GroupedPacking(
            max_bytes=flags.agg_small_grads_max_bytes, max_group=flags.agg_small_grads_max_group
        )
    if flags.gradient_repacking:
        return Packing(num_packs=flags.gradient_repacking)
    return Packing(num_packs=0) if flags.all_reduce_spec else Packing()


def has_servers(flags: Any) -> bool:
    """Whether variables live on tasks of ``--ps_hosts``."""
    return bool(flags.job_name) and flags.variable_update in (
        "parameter_server",
        "distributed_replicated",
    )


def is_served(flags: Any) -> bool:
    """Whether this process does what the first worker asks of it."""
    return has_servers(flags) and (flags.job_name == "ps" or flags.task_index > 0)


def mode_of(flags: Any, say: Callable[[str], None]) -> Mode:
    """Return the mode of the flags, on the devices of this process.

    Call it before JAX starts, whose CPU devices it makes.

    Args:
        flags: checked by `drumline.cnn.consistency.check`.
        say: prints a line.

    Raises:
        ValueError: if there are fewer devices than asked for.
        OSError: if other processes do not come in time.
    """
    if has_servers(flags):
        devices, _ = _compute_devices(flags, say)
        strategy, connections = parameter_servers.strategy_of(flags, say)
        return Mode(
            strategy,
            devices,
            num_workers=len(strategy.worker_addresses),
            connections=tuple(connections),
        )
    if flags.worker_hosts:
        return _over_hosts(flags, say)
    devices, home = _compute_devices(flags, say)
    if flags.variable_update == "parameter_server":
        central = dl.distribute.experimental.CentralStorageStrategy(devices, home)
        return Mode(central, devices, delayed=flags.staged_vars)
    if flags.variable_update == "independent":
        return Mode(dl.distribute.MirroredStrategy(devices), devices, independent=True)
    ops = cross_device_ops_of(flags)
    mirrored = dl.distribute.MirroredStrategy(devices, cross_device_ops=ops)
    return Mode(
        mirrored,
        devices,
        delayed=flags.variable_consistency == "relaxed",
        all_reduce=flags.all_reduce_spec or ops.describe(_axis(mirrored)),
    )


def _axis(strategy: dl.distribute.Strategy) -> ReplicaAxis:
    return ReplicaAxis("replica", strategy.replica_devices)


def _over_hosts(flags: Any, say: Callable[[str], None]) -> Mode:
    """All workers in step, each with copies of the variables on its devices."""
    hosts = [host.strip() for host in flags.worker_hosts.split(",")]
    resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(
        dl.train.ClusterSpec({"worker": hosts}), task_type="worker", task_id=flags.task_index
    )
    indices = _indices(flags)
    dl.config.set_logical_devices("cpu", len(indices))
    options = dl.distribute.CommunicationOptions(
        cross_device_ops=cross_device_ops_of(flags) if flags.all_reduce_spec else None
    )
    try:
        strategy = dl.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except RuntimeError as error:
        raise ConnectionError(f"--worker_hosts={flags.worker_hosts}: {error}") from error
    devices = tuple(device_name(device) for device in strategy.local_replica_devices)
    if len(devices) != flags.num_gpus:
        raise ValueError(
            f"--num_gpus={flags.num_gpus}: this process has {len(devices)} devices, and all of "
            "them take part. Give as many, or show it fewer, as by CUDA_VISIBLE_DEVICES."
        )
    _say_what_stands_for_gpus(flags, devices, say)
    strategy.cross_device_ops.packing = _packing_of(flags)
    if flags.all_reduce_spec:
        strategy.cross_device_ops.check(_axis(strategy))
    return Mode(
        strategy,
        devices,
        delayed=flags.variable_consistency == "relaxed",
        all_reduce=flags.all_reduce_spec or strategy.cross_device_ops.describe(_axis(strategy)),
        num_workers=len(hosts),
        is_chief=strategy.is_chief,
    )


def _indices(flags: Any) -> list[int]:
    given = [int(index) for index in flags.gpu_indices.split(",") if index]
    return given or list(range(flags.num_gpus))


def _compute_devices(flags: Any, say: Callable[[str], None]) -> tuple[tuple[str, ...], str]:
    """Return the names of the devices that compute, and of that of variables.

    Where the flags ask for GPUs and there is no accelerator, as many logical CPU devices stand for
    them, which is said.

    Raises:
        ValueError: if there are fewer devices than asked for.
    """
    indices = _indices(flags)
    apart = flags.variable_update == "parameter_server" and not flags.job_name
    home_is_cpu = apart and flags.local_parameter_device.lower() == "cpu"
    # JAX makes its CPU devices once, when it starts.
    dl.config.set_logical_devices("cpu", max(indices) + 1 + home_is_cpu)
    platform = jax.default_backend()
    if flags.device.lower() == "cpu" or platform == "cpu":
        names = tuple(f"cpu:{index + home_is_cpu}" for index in indices)
        _say_what_stands_for_gpus(flags, names, say)
        return names, "cpu:0" if home_is_cpu else names[0]
    available = len(jax.local_devices())
    if max(indices) >= available:
        raise ValueError(
            f"--num_gpus={flags.num_gpus}: there are {available} {platform} device(s) here. Give "
            "as many, or --device=cpu for logical CPU devices."
        )
    names = tuple(f"{platform}:{index}" for index in indices)
    return names, "cpu:0" if home_is_cpu else names[0]


def _say_what_stands_for_gpus(
    flags: Any, names: tuple[str, ...], say: Callable[[str], None]
) -> None:
    if flags.device.lower() == "cpu" or not names[0].startswith("cpu"):
        return
    gpus = [f"gpu:{index}" for index in _indices(flags)]
    if len(names) == 1:
        say(f"There is no GPU here: {names[0]} stands for {gpus[0]}.")
    else:
        say(
            f"There is no GPU here: the logical CPU devices {names[0]} to {names[-1]} stand for "
            f"{gpus[0]} to {gpus[-1]}."
        )
