"""A function compiled once for one argument spec, and the placement of its arrays on devices."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline.distribute.collectives.collective_channels import allocate_channels
from drumline.distribute.global_arrays import (
    copies_on,
    own_devices,
    to_global_array,
    to_local_array,
)
from drumline.distribute.step.arguments import called
from drumline.distribute.step.compiled_step import InFlight, WholeProgram, in_flight_of
from drumline.distribute.step.outputs import unwrap, wrap
from drumline.distribute.variable import strategy_of_variable
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import current_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def brought_together(arrays: Sequence[Any], variables: Sequence[Variable]) -> list[Any]:
    """`arrays`, those that lie on some of the program's devices alone copied to all of them.

    Values of a `PerReplica` whose shares differ in size lie on one device each. Where the program
    runs on the devices of several processes, each copies what it has to its own.

    Args:
        arrays: what the program is called with.
        variables: what the program reads and writes, all of one strategy, whose devices are the
            program's. Without any they are all those on which an array lies.
    """
    owner = strategy_of_variable(variables[0]) if variables else None
    fixed = [array for array in arrays if isinstance(array, jax.Array) and array.committed]
    devices = dict.fromkeys(device for array in fixed for device in _devices(array))
    if owner is not None:
        devices = dict.fromkeys(owner.replica_devices)
    if all(array.sharding.device_set == devices.keys() for array in fixed):
        return list(arrays)
    everywhere = tuple(devices)
    local = copies_on(own_devices(everywhere)) if owner is None else owner.variable_sharding
    spans = own_devices(everywhere) != everywhere

    def brought(array: Any) -> Any:
        if not isinstance(array, (jax.Array, np.ndarray, np.generic)):
            return array
        there = isinstance(array, jax.Array) and array.sharding.device_set == devices.keys()
        if there or (not spans and not (isinstance(array, jax.Array) and array.committed)):
            return array
        placed = jax.device_put(array, local)
        return to_global_array(placed, copies_on(everywhere)) if spans else placed

    return [brought(array) for array in arrays]


def _devices(array: jax.Array) -> list[jax.Device]:
    return sorted(array.sharding.device_set, key=lambda device: device.id)


def require_one_place(variables: Sequence[Variable]) -> None:
    """Refuse variables of different strategies, or of none, that lie on different devices.

    Raises:
        RuntimeError: if there are such; the message names two.
    """
    for other in variables[1:]:
        first = variables[0]
        same_strategy = strategy_of_variable(other) is strategy_of_variable(first)
        if not same_strategy and _lies_on(other) != _lies_on(first):
            raise RuntimeError(
                f"A compiled function uses the variables {first.path!r} of {_whose(first)} and "
                f"{other.path!r} of {_whose(other)}, on other devices. Make both in the scope of "
                "one strategy, or call a function for each and pass the value on."
            )


def _lies_on(variable: Variable) -> Any:
    (value,) = current_values([variable])
    placed = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return value.sharding.device_set if placed else None


def _whose(variable: Variable) -> str:
    owner = strategy_of_variable(variable)
    return "no strategy" if owner is None else repr(owner)


class FunctionProgram(WholeProgram):
    """``fn`` as it is, seen from outside of the replicas; steps that it runs become part of it."""

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        return brought_together(arrays, [*self.written, *self.read])

    def finish(self, outputs: Any) -> Any:
        return unwrap(outputs, to_local_array)

    def spanning(self) -> Strategy | None:
        return next((strategy for strategy in self._strategies() if strategy.spans_processes), None)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def in_flight(self) -> list[InFlight]:
        variables = [*self.written, *self.read]
        require_one_place(variables)
        own = {id(guard): guard for v in variables if (guard := in_flight_of(v)) is not None}
        return [*(strategy._in_flight for strategy in self._strategies()), *own.values()]

    def _strategies(self) -> list[Strategy]:
        """Those whose variables or replicas the program uses."""
        owners = map(strategy_of_variable, [*self.written, *self.read])
        found = [strategy for strategy in (*owners, *self.taking_part) if strategy is not None]
        return list({id(strategy): strategy for strategy in found}.values())

    def call(self, arrays: Sequence[Any]) -> Any:
        args, kwargs = self.form.arguments(arrays)
        with allocate_channels():
            return wrap(called(self.fn, args, kwargs), lambda leaf: leaf)
