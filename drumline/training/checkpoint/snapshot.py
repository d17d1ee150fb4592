"""The values that a program's objects hold at one time, found by traversing the objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from drumline._resumable import Resumable
from drumline.training.checkpoint.external_storage import ExternalStore, ExternalValues, store_of
from drumline.training.keras_internals import (
    Variable,
    own_variables,
    seed_generators,
    sublayers,
    submetrics,
)
from drumline.training.state_scope import current_values


@dataclass
class TrackableChildren:
    """What an object consists of.

    Attributes:
        variables: its own variables, in the order in which it made them.
        children: the objects it holds, by name.
        has_state: whether its position is saved, by ``state()`` and ``restore(state)``.
        grows: whether it makes variables when it is built, and is not built yet.
    """

    variables: list[Variable] = field(default_factory=list)
    children: dict[str, Any] = field(default_factory=dict)
    has_state: bool = False
    grows: bool = False


class HostArray:
    """An array of the host's that is saved and restored as a variable is, and lies on no device.

    Args:
        value: the array; one of the right shape and dtype where it is to be restored.
    """

    keeps_64_bits = True
    has_copies = False

    def __init__(self, value: np.ndarray) -> None:
        self._value = value
        self.path = "array"

    @property
    def value(self) -> np.ndarray:
        """The array."""
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._value.shape

    @property
    def dtype(self) -> np.dtype:
        """Its dtype."""
        return self._value.dtype

    def _direct_assign(self, value: Any) -> None:
        self._value = np.asarray(value)


def trackable_children(value: Any, path: str) -> TrackableChildren:
    """Take `value` apart.

    The order of variables and layers is that in which the program makes them, so that the same
    program finds them again whatever names Keras has given them.

    Raises:
        TypeError: if it is nothing that can be saved; the message names `path`.
    """
    if isinstance(value, Variable | HostArray):
        return TrackableChildren([value])
    if isinstance(value, keras.random.SeedGenerator):
        return TrackableChildren([value.state])
    if isinstance(value, keras.optimizers.Optimizer):
        inner = _held(value, keras.optimizers.Optimizer)
        return TrackableChildren(own_variables(value), inner, grows=not value.built)
    if isinstance(value, keras.Layer):
        return TrackableChildren(own_variables(value), _of_layer(value), grows=not value.built)
    if isinstance(value, keras.metrics.Metric):
        return TrackableChildren(own_variables(value), _numbered("metrics", submetrics(value)))
    if isinstance(value, Mapping):
        return TrackableChildren(children={str(key): child for key, child in value.items()})
    if isinstance(value, (list, tuple)):
        return TrackableChildren(children={str(index): child for index, child in enumerate(value)})
    if hasattr(value, "checkpointed_objects"):
        return TrackableChildren(children=value.checkpointed_objects())
    if isinstance(value, Resumable):
        return TrackableChildren(has_state=True)
    raise TypeError(
        f"A checkpoint cannot save {path!r}: {type(value).__name__} is no Keras model, layer, "
        "optimizer, metric, variable, seed generator or iterator of a dataset, and no dict, list "
        "or Checkpoint of these. Keep a number in a variable: dl.Variable(0)."
    )


def _of_layer(layer: Any) -> dict[str, Any]:
    children = _numbered("layers", sublayers(layer))
    children |= _numbered("metrics", submetrics(layer))
    children |= _numbered("seed_generators", seed_generators(layer))
    optimizer = getattr(layer, "optimizer", None) if isinstance(layer, keras.Model) else None
    if isinstance(optimizer, keras.optimizers.Optimizer):
        children["optimizer"] = optimizer
    return children


def _numbered(name: str, values: Iterable[Any]) -> dict[str, Any]:
    return {f"{name}/{index}": value for index, value in enumerate(values)}


def _held(value: Any, kind: type) -> dict[str, Any]:
    """Its attributes of a type, by name."""
    return {name: held for name, held in vars(value).items() if isinstance(held, kind)}


@dataclass
class CheckpointContents:
    """What a checkpoint holds, in memory.

    Attributes:
        arrays: the variables' values, by path.
        states: positions of iterators, by path; each can be written as JSON.
        aliases: for an object that is found at several paths, where its values are.
        save_counter: the number of the checkpoint, from 1.
        numbered: whether the index lists it, as one of those with a number.
        kept: where the values are that are not here; None if there are none.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    save_counter: int = 0
    numbered: bool = False
    kept: ExternalValues | None = None

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
class SavedObjects:
    """What there is to save.

    Attributes:
        variables: by path.
        positions: the iterators by path.
        optimizers: those that are built, by path.
        aliases: as in a `CheckpointContents`.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    positions: dict[str, Any] = field(default_factory=dict)
    optimizers: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def find(objects: dict[str, Any]) -> SavedObjects:
    """All variables and iterators below `objects`.

    Raises:
        TypeError: if something there cannot be saved.
    """
    found = SavedObjects()
    seen: dict[int, str] = {}
    for name, value in objects.items():
        _add(found, seen, value, name)
    return found


def take_snapshot(
    found: SavedObjects, save_counter: int, keeper: ExternalStore | None = None
) -> CheckpointContents:
    """Copy the values that were found to the host, but for those that `keeper` keeps."""
    arrays = {
        path: _host_value(variable)
        for path, variable in found.variables.items()
        if keeper is None or store_of(variable) is not keeper or not keeper.holds(variable)
    }
    states = {path: value.state() for path, value in found.positions.items()}
    return CheckpointContents(arrays, states, found.aliases, save_counter)


def _add(found: SavedObjects, seen: dict[int, str], value: Any, path: str) -> None:
    if id(value) in seen:
        found.aliases[path] = seen[id(value)]
        return
    seen[id(value)] = path
    parts = trackable_children(value, path)
    for index, variable in enumerate(parts.variables):
        found.variables[variable_path(path, index)] = variable
    if parts.has_state:
        found.positions[path] = value
    if is_built_optimizer(value):
        found.optimizers[path] = value
    for name, child in parts.children.items():
        _add(found, seen, child, f"{path}/{name}")
    if isinstance(value, keras.Layer):
        _add_names(found, seen, value, parts, path)


def _add_names(
    found: SavedObjects, seen: dict[int, str], layer: Any, parts: TrackableChildren, path: str
) -> None:
    """Note the names of a layer's variables and of its attributes that are layers.

    A checkpoint of parts, as ``Checkpoint(net=Checkpoint(hidden=Checkpoint(bias=...)))``, finds
    their values by these.
    """
    for index, variable in enumerate(parts.variables):
        named = variable_path(f"{path}/{variable.path.rpartition('/')[2]}", 0)
        found.aliases.setdefault(named, variable_path(path, index))
    for name, held in vars(layer).items():
        if isinstance(held, keras.Layer) and id(held) in seen and name not in parts.children:
            found.aliases.setdefault(f"{path}/{name}", seen[id(held)])


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
