"""The values that a program's objects hold at one time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drumline.training.checkpoint.parts import parts_of
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import current_values


@dataclass
class Snapshot:
    """What a checkpoint holds, in memory.

    Attributes:
        arrays: the variables' values, by path.
        states: positions of iterators, by path; each can be written as JSON.
        aliases: for an object that is found at several paths, where its values are.
        save_counter: the number of the checkpoint, from 1.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    save_counter: int = 0


def take_snapshot(objects: dict[str, Any], save_counter: int) -> Snapshot:
    """Copy the values of all variables below `objects` to the host.

    Raises:
        TypeError: if something there cannot be saved.
    """
    snapshot = Snapshot(save_counter=save_counter)
    seen: dict[int, str] = {}
    for name, value in objects.items():
        _add(snapshot, seen, value, name)
    return snapshot


def _add(snapshot: Snapshot, seen: dict[int, str], value: Any, path: str) -> None:
    if id(value) in seen:
        snapshot.aliases[path] = seen[id(value)]
        return
    seen[id(value)] = path
    parts = parts_of(value, path)
    for index, variable in enumerate(parts.variables):
        snapshot.arrays[variable_path(path, index)] = _host_value(variable)
    if parts.has_state:
        snapshot.states[path] = value.state()
    for name, child in parts.children.items():
        _add(snapshot, seen, child, f"{path}/{name}")


def variable_path(path: str, index: int) -> str:
    """Where the variable of this number of the object at `path` is."""
    return f"{path}/variables/{index}"


def keeps_copies(variable: Variable) -> bool:
    """Whether it is saved as the values of all replicas: they have no aggregate."""
    return bool(getattr(variable, "has_copies", False)) and variable.aggregation == "none"


def _host_value(variable: Variable) -> np.ndarray:
    if keeps_copies(variable):
        (copies,) = current_values([variable])
        return np.array(copies)
    return np.array(variable.value)
