"""A worker or a parameter server: a process, or a part of one, that others ask to do things.

`Server` listens from its construction and serves until the chief says that the job has finished
(`FinishTask`), or until the chief is lost for longer than `without_chief_seconds`, or has not come
within `first_chief_seconds`. `join` waits for that in the main thread; requests are handled in the
threads of the transport.

A process whose main thread joins a worker does nothing else: it takes its share of the machine's
cores, and keeps freed memory, as its arrays have the same sizes in every step.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from typing import Any

from drumline._addresses import on_host_of
from drumline._changes import note, set_variable
from drumline.distribute.cluster_resolver import ClusterSpec
from drumline.distribute.parameter_server import servers as peers
from drumline.distribute.parameter_server.errors import ChiefLostError
from drumline.distribute.parameter_server.server import ParameterServer
from drumline.distribute.parameter_server.servers import collect_only_what_is_new
from drumline.distribute.parameter_server.wire import (
    Handler,
    TransportServer,
    cluster_token,
)
from drumline.distribute.parameter_server.wire.messages import Done, FinishTask, ServeChief
from drumline.distribute.parameter_server.wire.schema import handlers_of
from drumline.distribute.parameter_server.worker import Worker

THREADS_VARIABLE = "NPROC"


def share_cores(processes: int) -> None:
    """Have XLA use this process's share of the cores, if it has not started yet.

    Otherwise every process has a thread for each core, and they pay for waiting and stealing work
    from each other. (Processes of collectives are better off with all threads: one that waits
    there does not slow the others.) ``NPROC`` in the environment, which XLA goes by,
    prevails.

    Args:
        processes: how many compute on this machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if processes > 1:
        if THREADS_VARIABLE not in os.environ:
            set_variable(
                THREADS_VARIABLE,
                str(max(1, (cores or 1) // processes)),
                "processes of a job share the cores of a machine",
                f"set {THREADS_VARIABLE} yourself",
            )


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as in glibc's malloc.h
_KEPT_BYTES = 128 << 20
_LARGEST_BYTES = 32 << 20  # the largest that glibc takes
_OWN_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next arrays; nothing with another C library.

    By default it returns most arrays to the kernel, and a step takes the same ones again: to fault
    in its gradients' pages costs more than to fill them. Settings in the environment prevail.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _OWN_SETTINGS):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    note(
        "process",
        "mallopt(M_MMAP_THRESHOLD) and mallopt(M_TRIM_THRESHOLD)",
        "glibc keeps freed memory for the next gradients of a parameter server or its worker",
        "set any of " + ", ".join(_OWN_SETTINGS),
    )


_JOBS = ("worker", "ps")


class Server:
    """One task of a parameter-server job, as ``tf.distribute.Server``.

    It listens on its own address of the cluster at once. Several can live in one process, beside
    the chief too.

    Args:
        server_or_cluster_def: the cluster, a `ClusterSpec` or a dictionary of its jobs.
        job_name: ``"worker"`` or ``"ps"``. Of other jobs nothing listens.
        task_index: the number of the task within its job.
        protocol: as in TensorFlow; only ``"grpc"`` is known, for whatever
            drumline itself speaks.
        config: as in TensorFlow, and unused: a process's devices are those that JAX finds.
        start: whether to listen at once.
        without_chief_seconds: how long `join` waits for a chief to come back that is lost, and then
            raises `ChiefLostError`. None waits for ever: a chief that starts again continues with
            the variables as they are.
        first_chief_seconds: how long `join` waits for a chief that has never come, and then raises
            `ChiefLostError`. None waits for ever.

    Raises:
        ValueError: if the cluster has no such task, or for another protocol.
        OSError: if the address is taken, or not this machine's.
    """

    def __init__(
        self,
        server_or_cluster_def: ClusterSpec | Mapping[str, Any],
        job_name: str,
        task_index: int,
        protocol: str | None = None,
        config: object = None,
        start: bool = True,
        *,
        without_chief_seconds: float | None = None,
        first_chief_seconds: float | None = None,
    ) -> None:
        if protocol not in (None, "grpc"):
            raise ValueError(f"Unknown protocol {protocol!r}: a Server speaks 'grpc'.")
        del config
        spec = ClusterSpec(server_or_cluster_def)
        self.address = spec.task_address(job_name, task_index)
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._finished = False
        self._chief_came = False
        self._chief_lane: int | None = None
        self._chief_lost: str | None = None
        self._without_chief_seconds = without_chief_seconds
        self._first_chief_seconds = first_chief_seconds
        self._task: ParameterServer | Worker | None = None
        self._transport: TransportServer | None = None
        self._name = f"{job_name}:{task_index}"
        self._workers_here = 0
        if job_name not in _JOBS:
            return
        if job_name == "ps":
            self._task = ParameterServer(task_index)
        else:
            servers = [str(address) for address in spec.job_tasks("ps")]
            self._task = Worker(task_index, servers, peers.connector)
            self._workers_here = on_host_of(self.address, map(str, spec.job_tasks("worker")))
        handlers: dict[str, Handler] = {
            **self._task.handlers(),
            **handlers_of({ServeChief: self._serve_chief, FinishTask: self._finish}),
        }
        self._transport = TransportServer(
            self.address, handlers, token=cluster_token(), client_left=self._client_left
        )
        if start:
            self.start()

    @property
    def target(self) -> str:
        """The task's address as ``grpc://host:port``."""
        return f"grpc://{self.address}"

    def start(self) -> None:
        """Listen; nothing if it does already."""
        if self._transport is not None:
            self._transport.start()

    def join(self) -> None:
        """Wait until the chief has finished its job, or for ever if it never does.

        A process whose main thread calls this of a worker is taken to do nothing else: it shares
        the machine's cores with the other workers of its host, and keeps freed memory.

        Raises:
            ChiefLostError: if the chief is lost and stays away for `without_chief_seconds`, or has
                not come within `first_chief_seconds`.
        """
        if threading.current_thread() is threading.main_thread():
            collect_only_what_is_new()
            if self._workers_here:
                share_cores(self._workers_here)
                keep_freed_memory()
        with self._changed:
            while not self._finished:
                self._wait_for_chief()
        self.close()

    def _wait_for_chief(self) -> None:
        lost, limit = self._chief_lost, None
        if lost is not None:
            limit = self._without_chief_seconds
        elif not self._chief_came:
            lost, limit = "it has never come", self._first_chief_seconds
        if not self._changed.wait(limit) and (self._chief_lost is not None or not self._chief_came):
            raise ChiefLostError(self._name, lost or "", limit or 0.0)

    def close(self) -> None:
        """Stop listening, and let go of what was kept. In a forked child nothing is done."""
        if os.getpid() != self._process:
            return
        self._end()
        if self._transport is not None:
            self._transport.close()
        if isinstance(self._task, Worker):
            self._task.close()

    def _serve_chief(self, request: ServeChief) -> Done:
        """The chief is at the other end of this lane."""
        with self._changed:
            self._chief_came = True
            self._chief_lane = None if request.lane is None else request.lane.number
            self._chief_lost = None
            self._changed.notify_all()
        return Done()

    def _client_left(self, lane: int, reason: str) -> None:
        with self._changed:
            if lane == self._chief_lane:
                self._chief_lost = reason
                self._changed.notify_all()

    def _finish(self, request: FinishTask) -> Done:
        self._end()
        return Done()

    def _end(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def __repr__(self) -> str:
        return f"Server({self._name} at {self.address})"
