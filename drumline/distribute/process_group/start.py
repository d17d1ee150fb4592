"""Becoming one of several processes that compute together."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jax.experimental import multihost_utils

from drumline import _addresses
from drumline._forks import at_exit
from drumline._jax_start import jax_has_started
from drumline.config import cluster
from drumline.config.jax_internals import write_cache_from_every_process
from drumline.distribute.cluster_resolver import (
    ClusterResolver,
    ClusterSpec,
    SimpleClusterResolver,
    tpu,
)
from drumline.distribute.process_group import environment, jax_internals, shm_all_reduce
from drumline.distribute.process_group.control_channel import ControlChannel
from drumline.distribute.process_group.coordination import KeyValueStore
from drumline.distribute.process_group.group import ProcessGroup, Resolver, group_of
from drumline.distribute.process_group.health import Monitor, Pending, Watchdog
from drumline.distribute.process_group.one_writer import OneWriter
from drumline.distribute.process_group.peers import Membership
from drumline.distribute.process_group.rendezvous import Rendezvous, meet
from drumline.distribute.process_group.shutdown import Ending
from drumline.training.checkpoint.checkpoint import save_together


@dataclasses.dataclass(frozen=True)
class _Running:
    group: ProcessGroup
    watchdog: Watchdog
    membership: Membership


_running: _Running | None = None
_planned: Callable[[], tuple[jax.Device, ...]] | None = None
_ALONE = ProcessGroup("worker", 0, 0, ("worker:0",), ())


def plan_for(devices: Callable[[], tuple[jax.Device, ...]] | None) -> None:
    """From here on join no other process: what is started is planned for devices not there.

    Args:
        devices: gives the devices of the hardware that is planned for; None ends it.
    """
    global _planned
    _planned = devices


def start(
    resolver: Resolver,
    *,
    heartbeat_timeout_seconds: int = 25,
    initialization_timeout_seconds: int = 300,
    collective_timeout_seconds: int | None = None,
) -> ProcessGroup:
    """Join the processes of the resolver's cluster, and start JAX on the devices of all.

    Process 0 is the chief, or the first worker where there is no chief; JAX's coordination service
    listens on its address in the cluster. Collectives on CPUs (Gloo) listen on a free port of each
    process's host in the cluster; those on GPUs (NCCL) and TPUs go their own ways. From here on

    - an uncaught Python exception ends the process within a second, and its peers with it;
    - a peer that sends no heartbeat (killed, stopped, unreachable) ends this process;
    - a process that ends waits for no other for long, but for process 0, which stays to the last.

    Each leaves a failure record (`drumline.failure_record`) and a line that names the peer.

    Starting again for the same cluster does nothing. A cluster of one process, or none, and an
    evaluator start nothing: only ``DRUMLINE_CPU_DEVICES`` and ``DRUMLINE_COMPILATION_CACHE`` are
    honoured.

    Args:
        resolver: a cluster resolver: its ``cluster_spec()``, ``task_type`` and ``task_id`` count.
        heartbeat_timeout_seconds: how long a peer may be silent.
        initialization_timeout_seconds: how long to wait for the others to start.
        collective_timeout_seconds: how long a collective on CPUs may wait for a peer, which may
            just be slow, before it raises `PeerLostError`; by default XLA's limit (30 minutes).

    Raises:
        RuntimeError: if JAX has started, or has joined other processes, already; if process 0
            cannot listen on its address; if others do not come in time, or were given another
            cluster; if a limit for collectives is asked of a jaxlib that has none.
        ValueError: if the cluster or the task is not one to compute with.
    """
    global _running
    if _planned is not None:
        return _ALONE
    group = group_of(resolver)
    if _running is not None:
        if _running.group != group:
            raise RuntimeError(
                f"This process is {_running.group.task} of the processes {_running.group.tasks} "
                f"at {_running.group.addresses}; it cannot join another cluster as well."
            )
        return group
    if group.num_processes == 1:
        environment.apply_launcher_settings()
        return group
    _require_fresh_jax()
    environment.apply_launcher_settings()
    if collective_timeout_seconds is not None:
        environment.limit_collectives(collective_timeout_seconds)
    meeting = meet(group, initialization_timeout_seconds)
    membership = _join(group, meeting, heartbeat_timeout_seconds, initialization_timeout_seconds)
    ending = Ending(membership)
    watchdog_of_steps = Watchdog(ending)
    lines = ControlChannel(meeting.connections, heartbeat_timeout_seconds)
    monitor = Monitor(membership, lines, ending, watchdog_of_steps)
    ending.install()
    monitor.start()
    at_exit(_leave, monitor, ending)
    jax.devices()
    _running = _Running(group, watchdog_of_steps, membership)
    save_together(OneWriter(group, membership.coordination))
    return group


@contextlib.contextmanager
def watchdog(step: int | None = None, timeout_seconds: float | None = None) -> Iterator[None]:
    """Watch a block that takes one step on the devices of all processes, and waits for its results.

    If the block takes longer than `timeout_seconds`, the stacks of all threads go to standard
    error, here and in the other processes, and all end; to blame is the one that has not come to
    the step, which its failure record says. If the block fails because a peer is gone,
    `PeerLostError` names the peer. In a process that `start` has not joined to others nothing is
    watched.

    Input, callbacks and whatever else may be late belong outside of the block.

    Args:
        step: the step's number, for messages.
        timeout_seconds: None watches for lost peers only.
    """
    if _running is None:
        yield
        return
    with _running.watchdog.step(step, timeout_seconds):
        yield


def watch_pending(source: Pending, timeout_seconds: float | None) -> None:
    """Watch steps that have been started, until the end of the process.

    As `watchdog`, but whatever the program does while they run. In a process that `start` has not
    joined to others nothing is watched.

    Args:
        source: gives the oldest step that has not ended.
        timeout_seconds: how long a step may take; None for no limit.
    """
    if _running is not None:
        _running.watchdog.pending.add(source, timeout_seconds)


def joined() -> tuple[ProcessGroup, KeyValueStore] | None:
    """The group of several processes that this one has joined, and its blackboard."""
    if _running is None:
        return None
    return _running.group, _running.membership.coordination


def any_process(here: bool) -> bool:
    """Whether it is so in any of the processes, which call this together."""
    if _running is None:
        return here
    with watchdog():
        return bool(np.any(multihost_utils.process_allgather(np.array([here], np.uint8))))


@functools.cache
def share_memory(process_of_rank: tuple[int, ...]) -> str:
    """Share memory in which the CPU devices of all processes sum, if all are of one machine.

    All processes that `start` has joined call this together, and all get the same answer.

    Args:
        process_of_rank: the process of each device.

    Returns:
        Why memory is not shared; empty if it is.
    """
    if _running is None:
        return "this process is alone"
    return shm_all_reduce.share(_running.membership, process_of_rank)


def connect_to_cluster(
    cluster_spec_or_resolver: ClusterSpec | ClusterResolver,
    job_name: str | None = None,
    task_index: int | None = None,
) -> None:
    """Join the processes of a cluster, as a strategy over several processes does when it is made.

    A cluster with parameter servers is left to `ParameterServerStrategy`: its processes compute no
    steps together. Joining the same cluster again does nothing.

    Args:
        cluster_spec_or_resolver: the cluster.
        job_name: this process's job, for a `ClusterSpec`, which does not say it.
        task_index: likewise, its index in this job.

    Raises:
        RuntimeError, ValueError: see `start`; or if it is not said which task this is.
        TPUNotFoundError: for a TPU's machines where JAX has no TPU support.
        TypeError: if the first argument is no cluster.
    """
    given = cluster_spec_or_resolver
    if isinstance(given, ClusterSpec):
        if job_name is None or task_index is None:
            raise ValueError(
                "experimental_connect_to_cluster of a ClusterSpec needs job_name and task_index, "
                f"this process's task; its jobs are {given.jobs}."
            )
        given = SimpleClusterResolver(given, task_type=job_name, task_id=task_index)
    elif not isinstance(given, ClusterResolver):
        raise TypeError(
            "experimental_connect_to_cluster takes a ClusterSpec or a ClusterResolver, got "
            f"{given!r}"
        )
    elif (job_name, task_index) != (None, None):
        raise ValueError(
            "experimental_connect_to_cluster of a resolver takes no job_name and task_index: the "
            "resolver's task_type and task_id say which task this is."
        )
    if isinstance(given, tpu.TPUClusterResolver):
        join_tpu(given)
    elif "ps" not in given.cluster_spec().jobs:
        start(given)


def initialize_tpu_system(cluster_resolver: tpu.TPUClusterResolver | None = None) -> tpu.Topology:
    """Join the machines of a TPU, start JAX on its devices, and return where they lie.

    Follows ``tf.tpu.experimental.initialize_tpu_system``. Doing so again changes nothing, arrays
    on the TPU among it, and returns the same places. It need not be called: a `TPUStrategy` does
    the same.

    Args:
        cluster_resolver: says which machines these are; by default ``TPUClusterResolver()``.

    Raises:
        RuntimeError: see `drumline.distribute.MultiWorkerMirroredStrategy`; or if JAX numbers the
            machines otherwise than the resolver.
        TPUNotFoundError: if JAX finds no TPU; the message names the platforms that it has.
        TypeError: if `cluster_resolver` is none of a TPU.
        ValueError: without a resolver, if no TPU is named.

    Example:
        >>> resolver = dl.distribute.cluster_resolver.TPUClusterResolver("local")
        >>> try:
        ...     topology = dl.tpu.experimental.initialize_tpu_system(resolver)
        ... except dl.distribute.cluster_resolver.TPUNotFoundError:
        ...     strategy = dl.distribute.MirroredStrategy()
    """
    resolver, group = join_tpu(cluster_resolver)
    topology = tpu.topology_of_tpus(devices_of_tpu(resolver, group))
    resolver.set_tpu_topology(topology.serialized())
    return topology


def shutdown_tpu_system(cluster_resolver: tpu.TPUClusterResolver | None = None) -> None:
    """Let JAX forget the programs that it has compiled.

    Follows ``tf.tpu.experimental.shutdown_tpu_system``, but for the TPU itself and the arrays on
    it, which belong to this process until it ends.

    Args:
        cluster_resolver: by default ``TPUClusterResolver()``.

    Raises:
        TPUNotFoundError: if JAX finds no TPU.
        TypeError: if `cluster_resolver` is none of a TPU.
        ValueError: without a resolver, if no TPU is named.

    Example:
        >>> resolver = dl.distribute.cluster_resolver.TPUClusterResolver("local")
        >>> try:
        ...     dl.tpu.experimental.shutdown_tpu_system(resolver)
        ... except dl.distribute.cluster_resolver.TPUNotFoundError as error:
        ...     print(str(error)[:16])
        No TPU was found
    """
    _of_tpu(cluster_resolver)
    tpu.tpu_devices()
    jax.clear_caches()


def join_tpu(
    resolver: tpu.TPUClusterResolver | None = None, *, heartbeat_timeout_seconds: int = 25
) -> tuple[tpu.TPUClusterResolver, ProcessGroup]:
    """Join the machines of a TPU, of ``TPUClusterResolver()`` by default.

    Returns:
        The resolver, and the machines as a group of processes.

    Raises:
        RuntimeError: see `start`.
        TPUNotFoundError: if JAX has no TPU support.
        TypeError: if `resolver` is none of a TPU.
        ValueError: without a resolver, if no TPU is named; or see `start`.
    """
    resolver = _of_tpu(resolver)
    if _planned is not None:
        return resolver, _ALONE
    tpu.require_tpu_support()
    group = start(resolver.as_workers(), heartbeat_timeout_seconds=heartbeat_timeout_seconds)
    return resolver, group


def devices_of_tpu(resolver: tpu.TPUClusterResolver, group: ProcessGroup) -> tuple[jax.Device, ...]:
    """Return the TPU devices of all processes of a group that was joined, process by process.

    Raises:
        RuntimeError: if JAX numbers the machines otherwise than the resolver.
        TPUNotFoundError: if JAX finds no TPU.
    """
    if _planned is not None:
        return _planned()
    devices = tpu.tpu_devices()
    processes = {device.process_index for device in devices}
    if len(processes) != group.num_processes or jax.process_index() != group.process_index:
        raise RuntimeError(
            f"The TPU that JAX has is of {len(processes)} machines, of which this is number "
            f"{jax.process_index()}, and the resolver's is of {group.num_processes}, of which this "
            f"is number {group.process_index} ({resolver.master() or 'a local TPU'}). Check "
            "TPU_WORKER_HOSTNAMES and TPU_WORKER_ID; leave tpu= out on a TPU VM."
        )
    return devices


def _of_tpu(resolver: tpu.TPUClusterResolver | None) -> tpu.TPUClusterResolver:
    if resolver is None:
        return tpu.TPUClusterResolver()
    if not isinstance(resolver, tpu.TPUClusterResolver):
        raise TypeError(f"cluster_resolver must be a TPUClusterResolver, got {resolver!r}")
    return resolver


tpu.register_initializer(initialize_tpu_system)
cluster.register_connector(connect_to_cluster)


def _require_fresh_jax() -> None:
    if jax_internals.is_connected():
        raise RuntimeError(
            "jax.distributed.initialize() was called before: leave it out, as drumline joins the "
            "processes of the cluster itself."
        )
    if jax_has_started():
        raise RuntimeError(
            "JAX has started before this process joined its cluster, and its devices are fixed. "
            "Create the strategy at the beginning of the program, before anything computes, "
            "lists devices or loads a model (in a notebook: restart the kernel first)."
        )


def _join(
    group: ProcessGroup, meeting: Rendezvous, heartbeat: int, initialization: int
) -> Membership:
    jax_internals.listen_on(_addresses.split(group.addresses[group.process_index])[0])
    write_cache_from_every_process()
    client = jax_internals.connect(
        group.addresses[0],
        group.num_processes,
        group.process_index,
        heartbeat=heartbeat,
        initialization=initialization,
    )
    return Membership(group, KeyValueStore(client, group), meeting.processes, heartbeat)


def _leave(monitor: Monitor, ending: Ending) -> None:
    ending.finish_computations()
    monitor.stop()
    ending.leave()
    monitor.join()
