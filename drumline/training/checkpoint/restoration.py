"""Giving objects the values of a checkpoint, now and when they are built."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline._forks import finalize
from drumline.data.elements.precision import in_64_bits
from drumline.training.checkpoint.external_storage import is_away
from drumline.training.checkpoint.external_transfer import ExternalStoreReader
from drumline.training.checkpoint.snapshot import (
    CheckpointContents,
    TrackableChildren,
    is_built_optimizer,
    keeps_copies,
    trackable_children,
    variable_path,
)
from drumline.training.cut_values import held
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import keeps_64_bits


def after_build(value: Any, then: Callable[[Any], None]) -> None:
    """Call ``then(value)`` once, after ``value.build`` has made the variables."""
    build = value.build
    own = vars(value).get("build")

    @functools.wraps(build)
    def built(*args: Any, **kwargs: Any) -> Any:
        result = build(*args, **kwargs)
        if vars(value).get("build") is built:
            if own is None:
                del vars(value)["build"]
            else:
                vars(value)["build"] = own
        then(value)
        return result

    vars(value)["build"] = built


_log = logging.getLogger("drumline")


class Leftover:
    """What of a checkpoint no object has taken yet.

    Attributes:
        paths: where it is.
        expected: whether the user said that this is meant.
    """

    def __init__(self, name: str, paths: set[str]) -> None:
        self.name = name
        self.paths = paths
        self.expected = False

    def report(self) -> None:
        """Tell the user, when nothing more can be restored from the checkpoint."""
        if self.paths and not self.expected:
            _log.warning(
                "Values of the checkpoint %r were not used: %s. If that is meant, call "
                "expect_partial() on what restore() returns.",
                self.name,
                some(sorted(self.paths)),
            )


class Restoration:
    """One checkpoint on its way into the objects.

    Layers and optimizers that are not built yet get their values when they are; until then they
    keep this object alive.

    Args:
        name: the checkpoint's, for messages.
        snapshot: what it holds.

    Attributes:
        missing: variables and iterators that exist, but have no value in the checkpoint.
    """

    def __init__(self, name: str, snapshot: CheckpointContents) -> None:
        self._name = name
        self._snapshot = snapshot
        self._values = ExternalStoreReader(name, snapshot.kept)
        self.leftover = Leftover(name, snapshot.paths)
        self.missing: list[str] = []
        self._waiting: set[int] = set()
        self._optimizers: set[str] = set()
        finalize(self, self.leftover.report)

    @property
    def saved_paths(self) -> set[str]:
        """Where the checkpoint has values."""
        return self._snapshot.paths

    def found_at(self, path: str) -> str:
        """Where the checkpoint has what is found at `path` by the names of attributes."""
        found = ""
        for part in path.split("/"):
            found = f"{found}/{part}" if found else part
            found = self._snapshot.aliases.get(found, found)
        return found

    def restore(self, objects: dict[str, Any]) -> None:
        """Give what exists below `objects` its values: all of it or, on an error, none.

        Raises:
            ValueError: if a value has another shape or dtype than its variable.
        """
        plan = _Plan(self._snapshot, self._name)
        try:
            for path, value in objects.items():
                plan.add(value, path)
            self._carry_out(plan)
        except BaseException:
            self.leftover.expected = True  # the error says why nothing was used
            raise

    def _carry_out(self, plan: _Plan) -> None:
        optimizers = {p: o for p, o in plan.optimizers.items() if p not in self._optimizers}
        transfer = self._values.transfer(plan.assignments, optimizers)
        for iterator, path in plan.positions:
            iterator.restore(self._snapshot.states[path])
        transfer.run()
        for variable, path in plan.assignments:
            if path in self._snapshot.arrays:
                _give(variable, self._snapshot.arrays[path])
            elif path in transfer.read_here:
                _give(variable, self._values.read(path))
        transfer.end()
        self._optimizers.update(optimizers)
        self.leftover.paths -= plan.taken
        self.missing += plan.missing
        for value, path in plan.growing:
            if id(value) not in self._waiting:
                self._waiting.add(id(value))
                after_build(value, functools.partial(self._built, path))

    def _built(self, path: str, value: Any) -> None:
        plan = _Plan(self._snapshot, self._name)
        plan.add(value, path)
        self._waiting.discard(id(value))
        # What was there before has its value, and may have been trained since.
        plan.keep_only(self.leftover.paths)
        self._carry_out(plan)


class _Plan:
    """What is to be done with the objects as they are now."""

    def __init__(self, snapshot: CheckpointContents, name: str) -> None:
        self._snapshot = snapshot
        self._name = name
        self._seen: set[int] = set()
        self.assignments: list[tuple[Variable, str]] = []
        self.positions: list[tuple[Any, str]] = []
        self.growing: list[tuple[Any, str]] = []
        self.optimizers: dict[str, Any] = {}
        self.missing: list[str] = []

    @property
    def taken(self) -> set[str]:
        return {path for _, path in [*self.assignments, *self.positions]}

    def add(self, value: Any, path: str) -> None:
        path = self._snapshot.aliases.get(path, path)
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        parts = trackable_children(value, path)
        for index, variable in enumerate(parts.variables):
            self._add_variable(variable, variable_path(path, index))
        if parts.has_state:
            self._add_position(value, path)
        if is_built_optimizer(value):
            self.optimizers[path] = value
        self._require_made(value, path, parts)
        if parts.grows:
            self.growing.append((value, path))
        for name, child in parts.children.items():
            self.add(child, f"{path}/{name}")

    def keep_only(self, paths: set[str]) -> None:
        self.assignments = [(v, path) for v, path in self.assignments if path in paths]
        self.positions = []

    def _add_variable(self, variable: Variable, path: str) -> None:
        path = self._snapshot.aliases.get(path, path)
        if not self._snapshot.holds(path):
            self.missing.append(path)
            return
        saved_shape, saved_dtype = self._snapshot.spec(path)
        shape, dtype = tuple(variable.shape), np.dtype(jnp.dtype(variable.dtype))
        if keeps_copies(variable):
            shape = (len(variable.copies()), *shape)
        if saved_shape != shape or saved_dtype != dtype:
            raise ValueError(
                f"The checkpoint {self._name!r} holds at {path!r} an array of shape {saved_shape} "
                f"and dtype {saved_dtype}, but the variable {variable.path!r} is of shape {shape} "
                f"and dtype {dtype}. Nothing was restored: build the objects as they were saved."
            )
        self.assignments.append((variable, path))

    def _add_position(self, value: Any, path: str) -> None:
        if path in self._snapshot.states:
            self.positions.append((value, path))
        else:
            self.missing.append(path)

    def _require_made(self, value: Any, path: str, parts: TrackableChildren) -> None:
        next_path = variable_path(path, len(parts.variables))
        if isinstance(value, keras.metrics.Metric) and self._snapshot.holds(next_path):
            raise ValueError(
                f"The metric {value.name!r} at {path!r} has {len(parts.variables)} variables, and "
                f"the checkpoint {self._name!r} more. Metrics that make their variables when they "
                "are first updated cannot be restored before: call update_state once, then restore."
            )


def _give(variable: Variable, array: np.ndarray) -> None:
    value = np.array(array)
    # A trace in progress may have made it: it gets its first value afterwards.
    if not is_away(variable) and held(variable) is None:
        variable._initializer = lambda shape, dtype=None: _as_held(variable, value)
        return
    with jax.ensure_compile_time_eval():
        variable._direct_assign(_as_held(variable, value))


def _as_held(variable: Variable, value: np.ndarray) -> Any:
    return in_64_bits(value) if keeps_64_bits(variable) else jnp.array(value)


def some(names: list[str]) -> str:
    """A few of the names, and how many more there are."""
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
