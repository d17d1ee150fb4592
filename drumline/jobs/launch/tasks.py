"""The tasks of a cluster, on which host each runs, and the ``TF_CONFIG`` it is given."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping

Addresses = dict[str, list[str]]
"""Task type to ``"host:port"`` by task index, as ``"cluster"`` in ``TF_CONFIG``."""


@dataclasses.dataclass(frozen=True)
class LaunchedTask:
    """One process of the job: ``"worker:0"``."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"

    @property
    def file_stem(self) -> str:
        """Its name in file names: ``"worker-0"``."""
        return f"{self.type}-{self.index}"

    @property
    def trains(self) -> bool:
        """Whether it computes steps, as the chief and the workers do."""
        return self.type in ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Layout:
    """How many tasks of each type there are.

    Attributes:
        workers: on each host.
        ps: parameter servers on each host.
        chief: whether there is a chief beside the workers, on the first host.
        evaluator: whether there is an evaluator, on the first host.
        nodes: how many hosts.
        process_per_node: whether `workers` and `ps` are those of the whole job, and each host runs
            one process: in the order chief, workers, parameter servers, evaluator.
    """

    workers: int
    ps: int = 0
    chief: bool = False
    evaluator: bool = False
    nodes: int = 1
    process_per_node: bool = False

    @property
    def coordinated(self) -> bool:
        """Whether the chief leads workers and parameter servers, which serve as long as it runs."""
        return self.chief and self.ps > 0

    def must_finish(self, task: LaunchedTask) -> bool:
        """Whether the job is done only when `task` is."""
        return task.type == "chief" if self.coordinated else task.trains

    def tasks_of(self, node: int) -> list[LaunchedTask]:
        """The tasks that host number `node` runs: chief, workers, ps, evaluator."""
        if self.process_per_node:
            whole = dataclasses.replace(self, process_per_node=False)
            return whole.tasks_of(0)[node : node + 1]
        tasks = [LaunchedTask("chief", 0)] if self.chief and node == 0 else []
        tasks += [LaunchedTask("worker", node * self.workers + i) for i in range(self.workers)]
        tasks += [LaunchedTask("ps", node * self.ps + i) for i in range(self.ps)]
        return tasks + ([LaunchedTask("evaluator", 0)] if self.evaluator and node == 0 else [])


def has_address(task: LaunchedTask) -> bool:
    """Whether others connect to it. The evaluator stands beside the cluster, as in TensorFlow."""
    return task.type != "evaluator"


def offered(tasks: Iterable[LaunchedTask], addresses: Iterable[str]) -> Addresses:
    """The part of the cluster that one host makes up, from its tasks in order."""
    part: Addresses = {}
    for task, address in zip(filter(has_address, tasks), addresses, strict=True):
        part.setdefault(task.type, []).append(address)
    return part


def joined(parts: Iterable[Addresses]) -> Addresses:
    """The whole cluster from the hosts' parts, in the order of the hosts."""
    cluster: Addresses = {}
    for part in parts:
        for kind, addresses in part.items():
            cluster.setdefault(kind, []).extend(addresses)
    return cluster


def tf_config(cluster: Mapping[str, list[str]], task: LaunchedTask) -> str:
    """The value of ``TF_CONFIG`` for one task."""
    return json.dumps({"cluster": cluster, "task": {"type": task.type, "index": task.index}})
