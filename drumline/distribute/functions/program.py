"""A function compiled once for one argument spec, and the placement of its arrays on devices."""

from __future__ import annotations

import contextlib
import dataclasses
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
from drumline.distribute.step.cut_rows import CutScope, values_taken
from drumline.distribute.step.outputs import unwrap, wrap
from drumline.distribute.variable import strategy_of_variable
from drumline.training.jax_internals import (
    Tracer,
    is_evaluating,
    late_argument,
    run_program,
    type_of,
)
from drumline.training.keras_internals import (
    Variable,
    get_stateless_scope,
    uninitialized_variables,
)
from drumline.training.outbox import Parcels, collecting
from drumline.training.state_scope import StateScope

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
    if owner is not None and owner._planner is not None:  # all is on this process's CPU
        return list(arrays)
    fixed = [array for array in arrays if isinstance(array, jax.Array) and array.committed]
    devices = dict.fromkeys(device for array in fixed for device in _devices(array))
    if owner is not None:
        devices = dict.fromkeys(owner.replica_devices)
    if all(array.sharding.device_set == devices.keys() for array in fixed):
        return list(arrays)
    everywhere = tuple(devices)
    local = copies_on(own_devices(everywhere)) if owner is None else owner._arrays.local_sharding
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
    (value,) = values_taken([variable])
    placed = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return value.sharding.device_set if placed else None


def _whose(variable: Variable) -> str:
    owner = strategy_of_variable(variable)
    return "no strategy" if owner is None else repr(owner)


@dataclasses.dataclass(frozen=True)
class FirstTrace:
    """The program that was traced while the variables of a function were found.

    Its Python need not run again to be compiled, so what it prints is printed once.

    Attributes:
        program: of the arrays of the arguments, with a late argument for each variable.
        types: of the arrays and of the variables, for which it was traced.
        variables: whose values are its late arguments.
        written: whose new values it gives behind the outputs.
        outputs: the structure of them with the parcels.
    """

    program: Any
    types: list[Any]
    variables: list[Variable]
    written: list[Variable]
    outputs: Any

    def run(
        self, values: dict[int, Any], arrays: Sequence[Any]
    ) -> tuple[Any, dict[int, Any]] | None:
        """Outputs with parcels, and new values of variables; None if it was traced for other types.

        Args:
            values: of the variables, by their ids.
            arrays: of the arguments.
        """
        late = [values[id(variable)] for variable in self.variables]
        if [type_of(each) for each in (*arrays, *late)] != self.types:
            return None
        found = run_program(self.program, late, arrays)
        count = len(found) - len(self.written)
        new = {id(v): value for v, value in zip(self.written, found[count:], strict=True)}
        return jax.tree.unflatten(self.outputs, found[:count]), new


class FunctionProgram(WholeProgram):
    """``fn`` as it is, seen from outside of the replicas; steps that it runs become part of it.

    Attributes:
        traces_once: whether it is compiled from the trace that found its variables, where it runs
            for the types of that: without variables that it creates and steps on replicas.
    """

    traces_once = True
    is_one_because = "a `dl.function` is one program here; call `strategy.run` outside of one"
    _first_trace: FirstTrace | None = None

    def discover(self, arrays: Sequence[Any]) -> StateScope:
        self._first_trace = None
        inside = not self.traces_once or get_stateless_scope() is not None or not is_evaluating()
        if inside or any(isinstance(array, Tracer) for array in arrays):
            return super().discover(arrays)
        scopes: list[CutScope] = []
        types: list[Any] = []
        structures: list[Any] = []

        def symbol_of(value: Any, trace: Any) -> Any:
            symbol = late_argument(value, len(types), trace)
            if symbol is not None:
                types.append(type_of(value))
            return symbol

        def trace(arrays: Sequence[Any]) -> Any:
            scopes.append(CutScope(symbol_of=symbol_of))
            scopes[-1].may_be_left = self.may_be_left
            with scopes[-1] as scope, collecting() as outbox:
                outputs = self.call(arrays)
                new = [self.left(scope, variable) for variable in scope.written]
                leaves, structure = jax.tree.flatten((outputs, outbox.parcels()))
                structures.append(structure)  # that of shapes may be another one
                return leaves, new

        program = jax.make_jaxpr(trace)(list(arrays))
        scope = scopes[-1]
        # Sums of several processes are numbered when the program is compiled, and variables that
        # were created have had no value yet.
        if not (scope.taking_part or scope.needs_values or uninitialized_variables()):
            self._first_trace = FirstTrace(
                program,
                [*map(type_of, arrays), *types],
                scope.lifted,
                scope.written,
                structures[-1],
            )
        return scope

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any, Parcels]:
        if self._first_trace is not None and not self._spans_processes:
            variables = [*self.written, *self.read]
            values = {id(v): value for v, value in zip(variables, [*written, *read], strict=True)}
            found = self._first_trace.run(values, arrays)
            if found is not None:
                (outputs, parcels), new = found
                return outputs, [new[id(variable)] for variable in self.written], parcels
        return super().program(written, read, arrays)

    @property
    def takes_rows(self) -> bool:
        return True

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        return brought_together(arrays, [*self.written, *self.read])

    def finish(self, outputs: Any) -> Any:
        return unwrap(outputs, to_local_array)

    def moving(self) -> Strategy | None:
        variables = [*self.written, *self.read]
        return next((each for each in self._strategies() if each._arrays.moves(variables)), None)

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
