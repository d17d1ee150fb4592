"""The tasks of a cluster and their addresses."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any


class ClusterSpec:
    """Which addresses make up each job of a cluster.

    As ``tf.train.ClusterSpec``::

        ClusterSpec({"worker": ["a:2222", "b:2222"], "ps": {0: "c:2222"}})

    Args:
        cluster: another spec, or a mapping from job names to the addresses of their tasks: a list,
            or a mapping from task indices to addresses if only some are known.

    Raises:
        TypeError: if `cluster` is anything else, or holds anything but strings.
        ValueError: if a task index is not an integer.
    """

    def __init__(self, cluster: ClusterSpec | Mapping[str, Any]) -> None:
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_dict()
        if not isinstance(cluster, Mapping):
            raise TypeError(
                f"ClusterSpec takes a dictionary from job names to lists of addresses, as in "
                f'{{"worker": ["host:2222"]}}; got {type(cluster).__name__}'
            )
        self._jobs = {_text(job, "job name"): _tasks(job, cluster[job]) for job in cluster}

    @property
    def jobs(self) -> list[str]:
        """The jobs' names."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """How many tasks of the job are known.

        Raises:
            ValueError: if there is no such job.
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The indices of the job's known tasks, in order.

        Raises:
            ValueError: if there is no such job.
        """
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task.

        Raises:
            ValueError: if there is no such job or task.
        """
        job = self._job(job_name)
        if task_index not in job:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return job[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The job's addresses by task index, None where one is not known.

        Raises:
            ValueError: if there is no such job.
        """
        job = self._job(job_name)
        return [job.get(index) for index in range(max(job, default=-1) + 1)]

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """The jobs, each as a list of addresses, or as a dictionary where indices are missing."""
        return {job: _dense(tasks) or dict(tasks) for job, tasks in self._jobs.items()}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterSpec):
            return NotImplemented
        return self._jobs == other._jobs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))})"

    def _job(self, name: str) -> dict[int, str]:
        try:
            return self._jobs[name]
        except (KeyError, TypeError):
            raise ValueError(f"No such job in cluster: {name!r}") from None


def _tasks(job: str, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, (list, tuple)):
        tasks = dict(enumerate(tasks))
    elif not isinstance(tasks, Mapping):
        raise TypeError(
            f"The tasks of job {job!r} must be a list of addresses, or a dictionary from task "
            f"indices to addresses; got {tasks!r}"
        )
    return {_index(job, index): _text(tasks[index], "task address") for index in tasks}


def _index(job: str, index: Any) -> int:
    try:
        return int(index) if isinstance(index, str) else operator.index(index)
    except (TypeError, ValueError):
        raise ValueError(f"A task index of job {job!r} is not an integer: {index!r}") from None


def _text(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"A {what} must be a string, got {value!r}")
    return value


def _dense(tasks: dict[int, str]) -> list[str]:
    if set(tasks) != set(range(len(tasks))):
        return []
    return [tasks[index] for index in range(len(tasks))]
