"""Who takes part over hosts: by the flags, or by what a launcher says; and whether all are there.

Of hosts with parameter servers the first worker leads. It asks for all others before anything is
built, and names whom it did not find and the flag that has his address. The others wait for it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from drumline.distribute.cluster_resolver import ClusterSpec, TFConfigClusterResolver
from drumline.distribute.parameter_server.errors import CallTimeoutError, PeerUnavailableError
from drumline.distribute.parameter_server.servers import call
from drumline.distribute.parameter_server.wire import Connection, cluster_token
from drumline.distribute.parameter_server.wire.messages import ServeChief

HOSTS_SECONDS = 300.0
"""How long to wait for processes that have not started yet, as strategies over processes do."""

_FIRST_LINE_SECONDS = 5.0
_LINE_SECONDS = 30.0
_TRY_SECONDS = 2.0
_REST_SECONDS = 0.2
_ANSWER_SECONDS = 30.0


class HostTask(NamedTuple):
    """A process that takes part.

    Attributes:
        job: ``"worker"`` or ``"ps"``.
        number: its ``--task_index``.
        address: its ``HOST:PORT``.
    """

    job: str
    number: int
    address: str

    def __str__(self) -> str:
        return f"--{self.job}_hosts: {self.job} {self.number} at {self.address}"


def with_launcher(flags: Any) -> Any:
    """Return the flags, with hosts, job and number of ``TF_CONFIG`` where they name none.

    A chief is the first worker. A cluster of one process is none.

    Args:
        flags: the command line's; they stay as they are.

    Raises:
        ValueError: if the variable is malformed, or this is a task that the program does not have.
    """
    if flags.job_name or flags.worker_hosts or flags.ps_hosts:
        return flags
    resolver = TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    if sum(cluster.num_tasks(job) for job in cluster.jobs) < 2 and resolver.task_type != "ps":
        return flags
    if resolver.task_type == "evaluator" and flags.eval:
        return flags
    if resolver.task_type == "evaluator":
        raise ValueError(
            "TF_CONFIG says that this process is an evaluator: leave it out (--evaluator of "
            "`drumline launch`), and give --eval --train_dir=DIRECTORY to a process of its own."
        )
    first = [job for job in ("chief", "master") if job in cluster.jobs]
    found = copy.copy(flags)
    found.worker_hosts = _addresses(cluster, (*first, "worker"))
    found.ps_hosts = _addresses(cluster, ("ps",))
    found.job_name = "ps" if resolver.task_type == "ps" else "worker"
    found.task_index = int(resolver.task_id or 0)
    if resolver.task_type == "worker":
        found.task_index += len(first)
    return found


def _addresses(cluster: ClusterSpec, jobs: Sequence[str]) -> str:
    """Those of all tasks of the jobs, with commas between them."""
    found = [each for job in jobs if job in cluster.jobs for each in cluster.job_tasks(job)]
    if None in found:
        raise ValueError(f"TF_CONFIG gives only some addresses of {' and '.join(jobs)}: give all.")
    return ",".join(map(str, found))


def tasks_of(flags: Any) -> list[HostTask]:
    """Return the workers and parameter servers of the flags."""
    return [
        HostTask(job, index, host.strip())
        for job, hosts in (("worker", flags.worker_hosts), ("ps", flags.ps_hosts))
        for index, host in enumerate(filter(None, hosts.split(",")))
    ]


def cluster_of(flags: Any) -> ClusterSpec:
    """Return the workers and parameter servers of the flags, as a cluster."""
    jobs: dict[str, list[str]] = {}
    for task in tasks_of(flags):
        jobs.setdefault(task.job, []).append(task.address)
    return ClusterSpec(jobs)


def wait_for_others(
    flags: Any, say: Callable[[str], None], seconds: float = HOSTS_SECONDS
) -> list[Connection]:
    """Wait until all other tasks are there, and let them know that the first worker is.

    Args:
        flags: of the first worker.
        say: prints a line.
        seconds: how long to wait.

    Returns:
        A connection to each: a task for which the last one ends has lost its leader.

    Raises:
        TimeoutError: names a task that does not answer, and the flag that has its address.
        drumline.distribute.parameter_server.AuthenticationError: if they have another token.
    """
    until = time.monotonic() + seconds
    missing = tasks_of(flags)[1:]  # the first is this one
    found: list[Connection] = []
    lines = _LinesOfWaiting(say)
    try:
        while missing:
            reasons = {task: _reason_or_found(task, until, found) for task in missing}
            missing = [task for task, reason in reasons.items() if reason]
            if missing and time.monotonic() >= until:
                raise TimeoutError(_not_found(missing[0], reasons[missing[0]], seconds))
            if missing:
                lines.note(missing[0], reasons[missing[0]])
                time.sleep(_REST_SECONDS)
    except BaseException:
        for connection in found:
            connection.close()
        raise
    return found


class _LinesOfWaiting:
    """Say whom we wait for: soon, and then seldom."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._due = time.monotonic() + _FIRST_LINE_SECONDS

    def note(self, task: HostTask, reason: str) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _LINE_SECONDS
            self._say(f"Waiting for {task.job} {task.number} at {task.address}: {reason}.")


def _reason_or_found(task: HostTask, until: float, found: list[Connection]) -> str:
    """Add a connection to the task, or return why there is none."""
    try:
        found.append(_lead(task, max(0.1, min(_TRY_SECONDS, until - time.monotonic()))))
        return ""
    except PeerUnavailableError as error:
        return error.reason
    except CallTimeoutError as error:
        return str(error)


def _not_found(task: HostTask, reason: str, seconds: float) -> str:
    return (
        f"{task} was waited for {seconds:.0f} s, and does not answer: {reason}. Start the command "
        f"there with --job_name={task.job} --task_index={task.number}, and check that this host "
        "reaches that address."
    )


def _lead(task: HostTask, seconds: float) -> Connection:
    connection = Connection(task.address, token=cluster_token(), timeout_seconds=seconds)
    try:
        call(connection, ServeChief(), _ANSWER_SECONDS)
    except BaseException:
        connection.close()
        raise
    return connection
