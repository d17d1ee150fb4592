"""The values that a program's objects hold at one time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from drumline.training.checkpoint.external_storage import Keeper, Kept, keeper_of
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
        kept: where the values are that are not here; None if there are none.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    save_counter: int = 0
    kept: Kept | None = None

    @property
    def paths(self) -> set[str]:
        """Where the objects' values and positions are."""
        return {*self.arrays, *self.states, *(self.kept.entries if self.kept else ())}

    def holds(self, path: str) -> bool:
        """Whether there is a value for the variable at `path`."""
        return path in self.arrays or (self.kept is not None and path in self.kept.entries)

    def spec(self, path: str) -> tuple[tuple[int, ...], np.dtype]:
        """The shape and dtype of the value for the variable at `path`."""
        if path in self.arrays:
            return self.arrays[path].shape, self.arrays[path].dtype
        assert self.kept is not None
        entry = self.kept.entries[path]
        return tuple(entry["shape"]), np.dtype(jnp.dtype(entry["dtype"]))


@dataclass
class Found:
    """What there is to save.

    Attributes:
        variables: by path.
        positions: the iterators by path.
        optimizers: those that are built, by path.
        aliases: as in a `Snapshot`.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    positions: dict[str, Any] = field(default_factory=dict)
    optimizers: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def find(objects: dict[str, Any]) -> Found:
    """All variables and iterators below `objects`.

    Raises:
        TypeError: if something there cannot be saved.
    """
    found = Found()
    seen: dict[int, str] = {}
    for name, value in objects.items():
        _add(found, seen, value, name)
    return found


def take_snapshot(found: Found, save_counter: int, keeper: Keeper | None = None) -> Snapshot:
    """Copy the values that were found to the host, but for those that `keeper` keeps."""
    arrays = {
        path: _host_value(variable)
        for path, variable in found.variables.items()
        if keeper is None or keeper_of(variable) is not keeper or not keeper.holds(variable)
    }
    states = {path: value.state() for path, value in found.positions.items()}
    return Snapshot(arrays, states, found.aliases, save_counter)


def _add(found: Found, seen: dict[int, str], value: Any, path: str) -> None:
    if id(value) in seen:
        found.aliases[path] = seen[id(value)]
        return
    seen[id(value)] = path
    parts = parts_of(value, path)
    for index, variable in enumerate(parts.variables):
        found.variables[variable_path(path, index)] = variable
    if parts.has_state:
        found.positions[path] = value
    if is_built_optimizer(value):
        found.optimizers[path] = value
    for name, child in parts.children.items():
        _add(found, seen, child, f"{path}/{name}")


def is_built_optimizer(value: Any) -> bool:
    """Whether it is a Keras optimizer that knows its variables."""
    return isinstance(value, keras.optimizers.Optimizer) and bool(value.built)


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
