"""Running a loop over a dataset as compiled steps, several of them in one call where possible."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline._function_identity import copy_function
from drumline.autograph.runtime import NOTHING
from drumline.distribute.functions.batches import Batches, is_batches
from drumline.distribute.functions.program import FunctionProgram
from drumline.distribute.global_arrays import to_local_array
from drumline.distribute.replica import default_strategy
from drumline.distribute.step.arguments import ArgumentSpec, Identity, flatten_arguments
from drumline.distribute.step.central_programs import StepsApart
from drumline.distribute.step.cut_rows import CutScope
from drumline.distribute.values import PerReplica
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.outbox import Parcels, collecting
from drumline.training.state_scope import StateScope

_EMPTY = object()


def closure_values(body: Callable[..., Any]) -> list[Any]:
    """The values of a function's closure: arrays and numbers as they are, all else by identity."""
    cells = body.__closure__ or ()
    return [_value(cell) for cell in cells]


def with_closure(body: types.FunctionType, values: Sequence[Any]) -> Callable[..., Any]:
    """`body` with other values in its closure, in the order of `closure_values`."""
    cells = [types.CellType() if value is _EMPTY else types.CellType(value) for value in values]
    return copy_function(body, closure=tuple(cells))


def _value(cell: types.CellType) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # a name that the function has not assigned yet
        return Identity(_EMPTY)
    known = (bool, int, float, complex, str, np.ndarray, np.generic, jax.Array, PerReplica)
    # A pytree node that stands for an array, as a tensor of a look-alike does, is an argument, too.
    is_array = isinstance(value, known) or hasattr(type(value), "__jax_array__")
    return value if is_array else Identity(value)


class ScanProgram(FunctionProgram):
    """A loop's body over several stacked batches.

    ``fn(around, carried, batch)`` returns the new carried values; its arguments' arrays are those
    of ``around``, then of ``carried``, then of the batches, each stacked along a new first axis.

    Args:
        fn: the body.
        form: the form of its arguments for one batch.
        around: how many arrays come before those that are carried.
        carried: how many arrays are carried.
        keep_64_bits: see `CompiledStep`.
    """

    traces_once = False  # it is compiled for several batches, and traced for one

    def __init__(
        self,
        fn: Callable[..., Any],
        form: ArgumentSpec,
        around: int,
        carried: int,
        *,
        keep_64_bits: bool = False,
    ) -> None:
        super().__init__(default_strategy(), fn, form, keep_64_bits=keep_64_bits)
        self._first = around
        self._last = around + carried

    def discover(self, arrays: Sequence[Any]) -> StateScope:
        first = [*arrays[: self._last], *(array[0] for array in arrays[self._last :])]
        return super().discover(first)

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any, Parcels]:
        around = arrays[: self._first]

        def step(state: Any, batch: Any) -> Any:
            values, carried = state
            scope = CutScope([*self.written, *self.read], [*values, *read], sealed=True)
            with scope, collecting() as outbox:
                outputs = jax.tree.leaves(self.call([*around, *carried, *batch]))
                new = [self.left(scope, variable) for variable in self.written]
                parcels = outbox.parcels(self._parcels_sharding)
            return (new, _as_before(carried, outputs)), parcels

        carried, batches = arrays[self._first : self._last], arrays[self._last :]
        (new, outputs), parcels = jax.lax.scan(step, (written, carried), batches)
        return outputs, new, parcels.of_steps(len(jax.tree.leaves(batches)[0]))

    def finish(self, outputs: Any) -> Any:
        return jax.tree.map(to_local_array, outputs)


def _as_before(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """`after`, which must be of the shapes and dtypes of `before`, as strongly typed as it."""
    return [
        jax.lax.convert_element_type(new, old.dtype) for old, new in zip(before, after, strict=True)
    ]


class LoopOverData(BaseException):
    """A function that is being traced loops over a dataset: it must run as Python around it.

    Not an ``Exception``, so that no handler of the user's swallows it on its way.
    """


class Loops:
    """The loops of one function; see `with_loops`.

    Args:
        name: the function's, for messages.
        keep_64_bits: whether its batches' 64-bit numbers keep their bits.

    Attributes:
        steps_apart: whether loops run step by step, as steps of their bodies are programs of
            their own.
    """

    unset = NOTHING

    def __init__(self, name: str, *, keep_64_bits: bool = False) -> None:
        self._name = name
        self._keep_64_bits = keep_64_bits
        self._programs: dict[Hashable, Any] = {}
        self._told: set[str] = set()
        self.steps_apart = False

    def over_data(self, iterable: Any) -> bool:
        """Whether the loop goes over a dataset, and so is to be staged.

        Raises:
            LoopOverData: if the function is being traced.
        """
        if not is_batches(iterable):
            return False
        if isinstance(get_stateless_scope(), StateScope):
            raise LoopOverData()
        return not self.steps_apart

    def values(self, scope: dict[str, Any], names: Sequence[str]) -> list[Any]:
        """What the names hold before the loop."""
        return [scope.get(name, self.unset) for name in names]

    def step_by_step(self, reason: str) -> None:
        """Tell, once, that a loop over a dataset runs as Python, and why."""
        if reason not in self._told:
            self._told.add(reason)
            warnings.warn(
                f"A loop over a dataset in {self._name} runs step by step in Python: {reason}. The "
                "result is the same; steps that strategy.run runs are still compiled.",
                stacklevel=4,
            )

    def staged(
        self, iterable: Any, body: types.FunctionType, names: Sequence[str], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Run `body` on every batch, and return what the names hold after the loop.

        Raises:
            TypeError: if a step after the first changes a name's structure, shape or dtype.
        """
        batches = Batches(iterable)
        first = batches.first()
        if first is None:
            return values
        fresh = [value is self.unset for value in values]
        loop = _RunningLoop(self._programs, body, names, fresh, keep_64_bits=self._keep_64_bits)
        try:
            state = loop.first_step([_as_array(value) for value in values], batches.place(first))
        except (
            jax.errors.ConcretizationTypeError,
            jax.errors.TracerArrayConversionError,
            jax.errors.TracerIntegerConversionError,
        ) as error:
            reason = str(error).partition("\n")[0]
            self.step_by_step(f"its body needs a concrete value ({reason})")
            return _in_python(body, values, first, batches)
        except StepsApart:
            self.steps_apart = True
            return _in_python(body, values, first, batches)
        if not loop.stacks(state):
            for batch in _one_by_one(batches):
                state = loop.checked_step(state, batch)
            return state
        settled = False
        for steps, batch in batches.rest(like=first):
            if steps == 1:
                state = loop.checked_step(state, batch) if settled else loop.step(state, batch)
                settled = True
            else:
                state = loop.steps(state, batch)
        return state


class _RunningLoop:
    """One loop, running.

    Args:
        programs: the compiled steps of all loops of the function.
        body: the body, a function of a batch and the values of the names.
        names: the names it assigns.
        fresh: for each name, whether it has no value before the loop; it then has none at the
            start of any step.
        keep_64_bits: see `Loops`.
    """

    def __init__(
        self,
        programs: dict[Hashable, Any],
        body: types.FunctionType,
        names: Sequence[str],
        fresh: Sequence[bool],
        *,
        keep_64_bits: bool,
    ) -> None:
        self._keep_64_bits = keep_64_bits
        self._programs = programs
        self._body = body
        self._names = names
        self._fresh = tuple(fresh)
        self._around = closure_values(body)

    def first_step(self, state: Sequence[Any], batch: Any) -> list[Any]:
        """One step.

        Raises:
            StepsApart: if steps that it runs are to be programs of their own.
        """
        return self.step(state, batch, may_be_left=not self._keep_64_bits)

    def step(self, state: Sequence[Any], batch: Any, *, may_be_left: bool = False) -> list[Any]:
        """One step."""
        given = [
            Identity(Loops.unset) if fresh else value
            for fresh, value in zip(self._fresh, state, strict=True)
        ]
        form, arrays = flatten_arguments((self._around, given, batch), {})
        key = (self._body.__code__, form)
        if key not in self._programs:
            self._programs[key] = FunctionProgram(
                default_strategy(), self._call, form, keep_64_bits=self._keep_64_bits
            )
        self._programs[key].may_be_left = may_be_left
        return list(self._programs[key](arrays))

    def checked_step(self, state: Sequence[Any], batch: Any) -> list[Any]:
        """One step, which leaves what it was given with the structure, shapes and dtypes it had."""
        after = self.step(state, batch)
        for name, fresh, old, new in zip(self._names, self._fresh, state, after, strict=True):
            if not fresh and _kind(old) != _kind(new):
                raise TypeError(
                    f"The loop changes {name!r} from {_kind(old)} to {_kind(new)}. What a loop in "
                    "a compiled function carries from step to step keeps its structure, shape and "
                    "dtype; start it with a value of the final kind."
                )
        return after

    def steps(self, state: Sequence[Any], batches: Any) -> list[Any]:
        """As many steps as batches are stacked."""
        state = _of_all(list(state))  # batches that are stacked have rows for all replicas
        form, arrays = flatten_arguments((self._around, list(state), batches), {})
        key = ("several", self._body.__code__, form)
        around, carried = len(flatten_arguments((self._around,), {})[1]), jax.tree.leaves(state)
        if key not in self._programs:
            self._programs[key] = ScanProgram(
                self._call, form, around, len(carried), keep_64_bits=self._keep_64_bits
            )
        leaves = self._programs[key](arrays)
        return list(jax.tree.unflatten(jax.tree.structure(state), leaves))

    def stacks(self, state: Sequence[Any]) -> bool:
        """Whether all that is carried are arrays, so that several steps can be one program."""
        return all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))

    def _call(self, around: Sequence[Any], given: Sequence[Any], batch: Any) -> Any:
        values = [
            Loops.unset if fresh else value for fresh, value in zip(self._fresh, given, strict=True)
        ]
        return with_closure(self._body, around)(batch, *values)


def _one_by_one(batches: Batches) -> Any:
    while (batch := batches.first()) is not None:
        yield batches.place(batch)


def _in_python(
    body: Callable[..., Any], values: Sequence[Any], first: Any, batches: Batches
) -> Sequence[Any]:
    values = body(batches.place(first), *values)
    for batch in _one_by_one(batches):
        values = body(batch, *values)
    return values


def _as_array(value: Any) -> Any:
    number = isinstance(value, (int, float, complex)) and not isinstance(value, bool)
    return jnp.asarray(value) if number else value


def _of_all(tree: Any) -> Any:
    """`tree` with each stacked `PerReplica` as one that all replicas took part in."""
    return jax.tree.map(
        lambda node: node.of_all() if isinstance(node, PerReplica) and node.is_stacked else node,
        tree,
        is_leaf=lambda node: isinstance(node, PerReplica),
    )


def _kind(value: Any) -> Any:
    leaves, treedef = jax.tree.flatten(_of_all(value))
    kinds = [
        f"{leaf.dtype}{list(leaf.shape)}" if isinstance(leaf, jax.Array) else type(leaf).__name__
        for leaf in leaves
    ]
    return kinds[0] if len(kinds) == 1 else (str(treedef), *kinds)
