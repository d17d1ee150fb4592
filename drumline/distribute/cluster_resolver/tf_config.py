"""The environment variable ``TF_CONFIG``, checked as it is read."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any, NoReturn

import pydantic

from drumline.distribute.processes import addresses

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
        addresses.split(address)
    except ValueError:
        _refuse(f"gives {task} the address {address!r}, which lacks a port (1 to 65535): host:port")


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
