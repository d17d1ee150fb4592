"""Which processes compute together, and in what order."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

_JOBS = ("chief", "master", "worker")


class Resolver(Protocol):
    """What is asked of a cluster resolver."""

    task_type: Any
    task_id: Any

    def cluster_spec(self) -> Any:
        """A `ClusterSpec`, or anything with its ``as_dict``."""


@dataclasses.dataclass(frozen=True)
class ProcessGroup:
    """The processes that compute together: the chief, if there is one, and the workers.

    Attributes:
        task_type: this process's task: ``"chief"``, ``"worker"`` or ``"evaluator"``.
        task_id: its index among the tasks of this type.
        process_index: its place in the group, from 0.
        tasks: the tasks by process index, as ``"worker:0"``.
        addresses: their addresses, ``host:port``; empty if this process is not in a cluster.
    """

    task_type: str
    task_id: int
    process_index: int
    tasks: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def num_processes(self) -> int:
        """How many processes there are."""
        return len(self.tasks)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes what is shared: process 0, and an evaluator for its own."""
        return self.process_index == 0

    @property
    def task(self) -> str:
        """This process's task, as ``"worker:0"``."""
        return f"{self.task_type}:{self.task_id}"

    def describe(self, process_index: int) -> str:
        """A process by name and address: ``"worker:1 (10.0.0.2:2222)"``."""
        return f"{self.tasks[process_index]} ({self.addresses[process_index]})"


def group_of(resolver: Resolver) -> ProcessGroup:
    """The group that `resolver`'s task belongs to; an evaluator is alone.

    Raises:
        ValueError: if the task is not said, not in the cluster, or a parameter server, or if the
            cluster leaves out some of its workers.
    """
    cluster: dict[str, Any] = resolver.cluster_spec().as_dict()
    task_type, task_id = resolver.task_type, resolver.task_id
    if not cluster:
        return ProcessGroup("worker", 0, 0, ("worker:0",), ())
    if task_type == "ps":
        raise ValueError(
            "A parameter server computes no steps together with workers. Run the server's own "
            "loop in tasks of the type 'ps', and a synchronous strategy in chief and workers."
        )
    if task_type == "evaluator":
        index = int(task_id or 0)
        return ProcessGroup(task_type, index, 0, (f"evaluator:{index}",), ())
    members = [
        (job, index, address)
        for job in _JOBS
        for index, address in enumerate(_dense(job, cluster.get(job, [])))
    ]
    places = [(job, index) for job, index, _ in members]
    if len(members) == 1 and task_type is None:
        task_type, task_id = places[0]
    this = (task_type, 0 if task_id is None else int(task_id))
    if this not in places:
        raise ValueError(
            f"This process's task is {task_type}:{task_id}, but the cluster's are "
            f"{', '.join(f'{job}:{index}' for job, index in places)}. Name one of these as the "
            f"task in TF_CONFIG, or as the resolver's task_type and task_id."
        )
    return ProcessGroup(
        task_type=this[0],
        task_id=this[1],
        process_index=places.index(this),
        tasks=tuple(f"{job}:{index}" for job, index in places),
        addresses=tuple(address for _, _, address in members),
    )


def _dense(job: str, tasks: Any) -> list[str]:
    if isinstance(tasks, dict):
        raise ValueError(
            f"The cluster gives only some addresses of the job {job!r}: {tasks}. Processes that "
            f"compute together need all of them: give a list."
        )
    return list(tasks)
