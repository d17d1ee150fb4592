"""The cluster that the environment variable ``TF_CONFIG`` describes, checked when it is read."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any, NoReturn

import pydantic

from drumline import _addresses
from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec

VARIABLE = "TF_CONFIG"
TASK_TYPES = ("chief", "master", "worker", "ps", "evaluator")

_EXAMPLE = (
    '{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)


class TFConfigError(ValueError):
    """``TF_CONFIG`` is not what it should be; the message says where, and shows the right form."""


class Task(pydantic.BaseModel):
    """Which task of the cluster a process is; the resolver's arguments may say the rest."""

    type: pydantic.StrictStr | None = None
    index: int | None = None

    @pydantic.field_validator("index", mode="before")
    @classmethod
    def _no_boolean(cls, index: Any) -> Any:
        if isinstance(index, bool):
            raise ValueError("must be an integer, not a boolean")
        return index


class TFConfig(pydantic.BaseModel):
    """What ``TF_CONFIG`` says. Entries that nothing here uses are passed over."""

    cluster: dict[str, list[pydantic.StrictStr] | dict[int, pydantic.StrictStr]] = {}
    task: Task = Task()
    rpc_layer: pydantic.StrictStr | None = None
    session_master: pydantic.StrictStr | None = None


def read(task_type: str | None = None, task_id: int | None = None) -> TFConfig:
    """What ``TF_CONFIG`` says, with the given parts of the task put in place of its own.

    A variable that is unset or blank describes a process of its own.

    Raises:
        TFConfigError: if it is not valid JSON, has not the right form, or contradicts itself.
    """
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        return TFConfig(task=Task(type=task_type, index=task_id))
    config = _parsed(text)
    task = Task(
        type=config.task.type if task_type is None else task_type,
        index=config.task.index if task_id is None else task_id,
    )
    config = config.model_copy(update={"task": task})
    _check_cluster(config)
    _check_task(config)
    return config


def _parsed(text: str) -> TFConfig:
    try:
        return TFConfig.model_validate(json.loads(text))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in _UNION_BRANCHES)
        _refuse(f"has a wrong entry{f' at {place!r}' if place else ''}: {first['msg']}")
    except RecursionError:
        _refuse("is nested too deeply")
    except ValueError as error:
        _refuse(f"is not valid JSON: {error}")


_UNION_BRANCHES = (
    "list[constrained-str]",
    "list[str]",
    "dict[int,constrained-str]",
    "dict[int,str]",
)


def _check_cluster(config: TFConfig) -> None:
    everybody = []
    for job, tasks in config.cluster.items():
        if job not in TASK_TYPES:
            _refuse(f"names the unknown job {job!r}; the jobs are {', '.join(TASK_TYPES)}")
        for index, address in tasks.items() if isinstance(tasks, dict) else enumerate(tasks):
            if index < 0:
                _refuse(f"gives {job} the negative index {index}")
            _check_address(f"{job}:{index}", address)
            everybody.append(address)
    for address, times in Counter(everybody).items():
        if times > 1:
            _refuse(f"gives the address {address!r} to {times} tasks; each needs its own")
    chiefs = [job for job in ("chief", "master") for _ in config.cluster.get(job, [])]
    if len(chiefs) > 1:
        _refuse(
            f"has {len(chiefs)} chiefs ({', '.join(chiefs)}; 'master' is the old name); one leads"
        )


def _check_address(task: str, address: str) -> None:
    if "://" in address:
        _refuse(
            f"gives {task} the address {address!r}; leave out what stands before and with '://'"
        )
    try:
        _addresses.split(address)
    except ValueError:
        _refuse(
            f"gives {task} the address {address!r}, which lacks a port (1 to 65535), or has an "
            f"IPv6 address without brackets: host:port, as in '10.0.0.1:2222' or '[fd00::1]:2222'"
        )


def _check_task(config: TFConfig) -> None:
    kind, index, cluster = config.task.type, config.task.index, config.cluster
    if kind is not None and kind not in TASK_TYPES:
        _refuse(f"has the unknown task type {kind!r}; the types are {', '.join(TASK_TYPES)}")
    if index is not None and index < 0:
        _refuse(f"has the negative task index {index}")
    places = sum(len(tasks) for tasks in cluster.values())
    if places > 1 and (kind is None or index is None):
        missing = " and ".join(
            name for name, value in (("'type'", kind), ("'index'", index)) if value is None
        )
        _refuse(
            f"describes a cluster of {places} tasks, but its 'task' lacks {missing}: this process "
            f"cannot know which one it is"
        )
    if not cluster or kind is None or index is None:
        return
    if kind == "evaluator" and kind not in cluster:
        return  # an evaluator works beside the cluster
    if kind not in cluster:
        _refuse(f"says that this task is {kind}:{index}, but its cluster has no job {kind!r}")
    tasks = cluster[kind]
    if index not in (tasks if isinstance(tasks, dict) else range(len(tasks))):
        _refuse(
            f"says that this task is {kind}:{index}, but its cluster has {len(tasks)} task(s) of "
            f"the job {kind!r}; indices start at 0"
        )


def _refuse(what: str) -> NoReturn:
    raise TFConfigError(f"{VARIABLE} {what}. The right form: {VARIABLE}='{_EXAMPLE}'") from None


class TFConfigClusterResolver(ClusterResolver):
    """Reads ``TF_CONFIG``, each time it is asked.

    As ``tf.distribute.cluster_resolver.TFConfigClusterResolver``::

        TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
                    "task": {"type": "worker", "index": 0}}'

    Whatever is asked, the whole variable is checked, and `TFConfigError` (a ``ValueError``) says
    what is wrong with it. Without the variable the cluster is empty: a process of its own.

    Args:
        task_type: in place of the variable's.
        task_id: in place of the variable's.
        rpc_layer: in place of the variable's.
        environment: what `environment` answers.
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._environment = environment

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; empty if the variable names none.

        Raises:
            TFConfigError: if the variable is not what it should be.
        """
        return ClusterSpec(self._read().cluster)

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of a task, by default this one's; empty in a cluster of one task or none.

        Raises:
            TFConfigError: if the variable is not what it should be.
            ValueError: if the cluster has no such task.
        """
        config = self._read()
        if config.session_master is not None:
            return config.session_master
        if sum(len(tasks) for tasks in config.cluster.values()) <= 1:
            return ""
        return super().master(task_type, task_id, rpc_layer)

    @property
    def task_type(self) -> str | None:
        """This process's job; None if neither the variable nor an argument says."""
        return self._read().task.type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """This process's index within its job; None if neither says."""
        return self._read().task.index

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def environment(self) -> str | None:
        """What was given."""
        return self._environment

    @property
    def rpc_layer(self) -> str | None:
        """The protocol before ``://`` in `master`."""
        return self._read().rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    def _read(self) -> TFConfig:
        return read(self._task_type, self._task_id)
