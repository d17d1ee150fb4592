"""From a user's function of a state and an element to something that runs on blocks."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from drumline._function_identity import frozen
from drumline._lazy import jax, jnp
from drumline.data.elements import precision
from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.elements.ragged import has_ragged
from drumline.data.elements.spec import ElementSpec, TensorSpec, has_datasets, tuple_of
from drumline.data.functions.build import not_here
from drumline.data.functions.call import Position
from drumline.data.functions.closures import FlattenedClosure, Reuse, reuse_in_force
from drumline.data.functions.compiled import Guards, as_traced, guarded, row_error
from drumline.data.functions.lifted import LiftedValues, with_values
from drumline.data.functions.programs import (
    Computed,
    Constant,
    Passed,
    Route,
    block_length,
    calls_python,
    operations,
)
from drumline.data.functions.python_function import AnyShape, PythonRecurrence, spec_from_example
from drumline.data.functions.trace import NotTraceable, Trace, UserFunction, same_in_python, trace

_UNROLLED = 8
"""How many elements one turn of the loop takes where the function is small."""

_SMALL = 64
"""Operations."""


class LoopProgram:
    """The loop, compiled once for all iterators of a dataset.

    Rows past the block's end, and those after one that failed, leave the state as it is, so that it
    does not depend on how elements are grouped.

    Args:
        function: the user's.
        trace: of it, over a state, an element and ``values``.
        state: the spec of the state.
        source: the spec of an element.
        values: the specs of values that are the same for all elements of an iterator.
    """

    def __init__(
        self,
        function: UserFunction,
        trace: Trace,
        state: ElementSpec,
        source: ElementSpec,
        values: Sequence[TensorSpec] = (),
    ):
        self.function = function
        self.guards = Guards()
        self._trace = trace
        self._held = len(state.leaves)
        self._first_value = self._held + len(source.leaves)
        self._programs = [p for p in (trace.narrow, trace.wide) if p is not None]
        self.after = trace.routes[: self._held]
        self.results = trace.routes[self._held :]
        leaves = [*state.leaves, *source.leaves, *trace.spec.leaves]
        lengths = [block_length(leaves, program.jaxpr) for program in self._programs]
        self.block_length = min(lengths, default=1024)
        if any(calls_python(program.jaxpr) for program in self._programs):
            # The loop continues to the block's end: Python must not run for rows that are padding.
            self.block_length = 1
        work = sum(operations(program.jaxpr) for program in self._programs)
        self._unroll = min(_UNROLLED if work <= _SMALL else 1, self.block_length)
        # Under JAX's default types a 64-bit column that only passes through would lose bits.
        self._mode = (
            precision.wide
            if any(leaf.dtype.itemsize >= 8 for leaf in (*leaves, *values))
            else precision.narrow
        )
        # Columns that pass through untouched, strings among them, stay out of the loop.
        self.columns = [i - self._held for i in trace.inputs if self._held <= i < self._first_value]
        self._compiled = jax.jit(self._loop)

    def __call__(
        self,
        state: Sequence[np.ndarray],
        columns: Sequence[np.ndarray],
        values: Sequence[np.ndarray],
        n: int,
    ) -> tuple[list[np.ndarray], dict[int, np.ndarray], np.ndarray]:
        """The state after ``n`` rows, results by their position and each row's flag."""
        numbers = [v if v.dtype.kind in "biufc" else None for v in values]
        with self._mode():
            after, results, failed = self._compiled(
                list(state), list(columns), numbers, np.int32(n)
            )
        made = {i: np.asarray(value) for i, value in results.items()}
        return [np.asarray(leaf) for leaf in after], made, np.asarray(failed)

    def _loop(self, state: list[Any], columns: list[Any], beside: list[Any], n: Any) -> Any:
        rows = jnp.arange(self.block_length, dtype=jnp.int32)

        def turn(carry: Any, row: Any) -> Any:
            held, sound = carry
            number, leaves = row
            given = {self._held + i: leaf for i, leaf in zip(self.columns, leaves, strict=True)}
            given |= dict(enumerate(held)) | dict(enumerate(beside, self._first_value))
            values, flag = self._evaluated(given)
            sound = sound & ((flag == 0) | (number >= n))
            counts = sound & (number < n)
            after = [self._value(route, values, given) for route in self.after]
            kept = [
                jnp.where(counts, new.astype(old.dtype), old)
                for new, old in zip(after, held, strict=True)
            ]
            results = {
                i: self._value(route, values, given)
                for i, route in enumerate(self.results)
                if self.in_loop(route)
            }
            return (kept, sound), (results, flag)

        (after, _), (results, failed) = jax.lax.scan(
            turn, (state, jnp.bool_(True)), (rows, columns), unroll=self._unroll
        )
        return after, results, failed

    def _evaluated(self, given: dict[int, Any]) -> tuple[dict[Any, Any], Any]:
        inputs = [given[i] for i in self._trace.inputs]
        values: dict[Any, Any] = {}
        flag: Any = jnp.int32(0)
        for wide, program in ((False, self._trace.narrow), (True, self._trace.wide)):
            if program is None:
                continue
            outputs, found = guarded(program, as_traced(program, inputs), self.guards)
            flag = jnp.maximum(flag, found)
            values.update({(wide, i): output for i, output in enumerate(outputs)})
        return values, flag

    def in_loop(self, route: Route) -> bool:
        """Whether a result is computed in the loop rather than copied or constant."""
        passes_state = isinstance(route, Passed) and route.leaf < self._held
        return isinstance(route, Computed) or passes_state

    def _value(self, route: Route, values: dict[Any, Any], given: dict[int, Any]) -> Any:
        if isinstance(route, Computed):
            return values[(route.wide, route.output)].astype(route.dtype)
        if isinstance(route, Constant):
            return jnp.asarray(route.value)
        return given[route.leaf]

    def column(self, leaf: int, block: Block, values: Sequence[np.ndarray]) -> np.ndarray:
        """A result that no loop makes."""
        route = self.results[leaf]
        if isinstance(route, Passed) and route.leaf >= self._first_value:
            value = values[route.leaf - self._first_value]
            return np.broadcast_to(value, (block.n, *value.shape))
        if isinstance(route, Passed):
            return np.asarray(block.columns[route.leaf - self._held][: block.n])
        assert isinstance(route, Constant)
        return np.broadcast_to(route.value, (block.n, *route.value.shape))


class CompiledRecurrence:
    """Runs a loop, always on blocks of one length, and keeps the state between them.

    Args:
        program: the loop.
        state: before the first element.
        values: for the arguments of the function behind its state and its element.
    """

    def __init__(
        self, program: LoopProgram, state: list[np.ndarray], values: Sequence[np.ndarray] = ()
    ):
        self.state = state
        self._values = values
        self._program = program
        self.block_length = program.block_length

    def limit(self, wanted: int) -> int:
        return min(wanted, self.block_length)

    def __call__(self, block: Block, position: Position) -> Block:
        program, n = self._program, block.n
        padded = [self._padded(block.columns[i], n) for i in program.columns]
        self.state, made, failed = program(self.state, padded, self._values, n)
        rows, error = n, block.error
        if failed[:n].any():
            rows = int(np.argmax(failed[:n] != 0))
            error = row_error(program.guards, int(failed[rows]))
            at_element(error, position(rows), program.function.where)
        columns = [
            made[i][:rows] if i in made else program.column(i, block, self._values)[:rows]
            for i in range(len(program.results))
        ]
        return Block(columns, rows, error)

    def _padded(self, column: np.ndarray, n: int) -> np.ndarray:
        if n == self.block_length:
            return column
        out = np.zeros((self.block_length, *column.shape[1:]), column.dtype)
        out[:n] = column[:n]
        if n:
            out[n:] = column[0]
        return out

    def describe(self) -> str:
        return f"{self._program.function.name}: compiled as a loop over {self.block_length}"


class Recurrence(Protocol):
    """A function that carries a state from element to element.

    Attributes:
        state: the leaves of the state after the elements so far.
    """

    state: list[np.ndarray]

    @property
    def block_length(self) -> int:
        """The number of elements for which a call costs the least per element."""

    def limit(self, wanted: int) -> int:
        """How many elements to pass at once when ``wanted`` are asked for."""

    def __call__(self, block: Block, position: Position) -> Block:
        """The results for the rows of ``block``: all, or those before the first that failed."""

    def describe(self) -> str:
        """How it runs, for ``explain()``."""


def fold(recurrence: Recurrence, block: Block, first: int) -> None:
    """Run a recurrence over the elements of a block, whose first has the position ``first``.

    Raises:
        Exception: what the function raised for one of them, or what the block ends with.
    """
    start = 0
    while start < block.n:
        stop = start + recurrence.limit(block.n - start)
        done = recurrence(block.slice(start, stop), functools.partial(operator.add, first + start))
        if done.error is not None:
            raise done.error
        start = stop
    if block.error is not None:
        raise block.error


Origin = tuple[Callable[..., Any], str, Sequence[np.ndarray], ElementSpec, ElementSpec, bool]


@dataclasses.dataclass(frozen=True)
class BuiltRecurrence:
    """A function of a state and an element, ready to run.

    Attributes:
        state: the spec of the state; ``None`` in a shape where it varies.
        spec: of the results, beside the new state; without leaves for ``reduce``.
        start: creates another one, with the initial state.
        is_python: whether it runs as Python.
        origin: if not, what an equal one is built of in another process.
        user: the user's function, with the variables it reads held as they were.
    """

    state: ElementSpec
    spec: ElementSpec
    start: Callable[[], Recurrence]
    is_python: bool
    user: UserFunction
    origin: Origin | None = None


def recurrence_again(origin: Origin) -> BuiltRecurrence:
    """The function of another process, where it could be compiled."""
    function, operation, initial, state, source, keyed = origin
    return build_recurrence(function, operation, initial, state, source, not_here, keyed)


def build_recurrence(
    function: Callable[..., Any],
    operation: str,
    initial: Sequence[np.ndarray],
    state: ElementSpec,
    source: ElementSpec,
    first_element: Callable[[], Any],
    keyed: bool = False,
) -> BuiltRecurrence:
    """Traces ``function(state, element)``, or arranges for it to run as Python.

    Args:
        function: the user's; for ``scan`` it returns the new state and a result, for ``reduce`` the
            new state.
        operation: ``"scan"`` or ``"reduce"``.
        initial: the leaves of the initial state.
        state: their spec.
        source: the spec of the elements.
        first_element: returns one, in case the function cannot be traced.
        keyed: whether elements have a random key beside them, by which the function draws.

    Raises:
        TypeError: the new state has another structure or other dtypes than the initial one.
        Exception: what the function itself raises on the first element.
    """
    user = UserFunction(function, operation, keyed)
    held = dataclasses.replace(user, function=frozen(function))
    both = ElementSpec(
        tuple_of([state.structure, source.structure]), (*state.leaves, *source.leaves)
    )
    try:
        _check_traceable(both, state)
        with same_in_python(user):
            reuse = reuse_in_force.get()
            closure = None if reuse is None else reuse.closure(function)
            values: tuple[np.ndarray, ...] = ()
            if reuse is None or closure is None:
                spec, program = _compiled(user, both, state, source)
            else:
                redefined = _RedefinedRecurrence(reuse, closure, user, both, state, source)
                (spec, program), values = redefined.built()
        return BuiltRecurrence(
            state,
            spec,
            lambda: CompiledRecurrence(program, list(initial), values),
            is_python=False,
            user=held,
            origin=(held.function, operation, list(initial), state, source, keyed),
        )
    except NotTraceable as reason:
        result = _example(user, both, initial, first_element())
        after, spec = _parted(result, state, user)
        merged = state.with_leaves(
            [
                a.merged(b) or AnyShape(a.shape, a.dtype)
                for a, b in zip(state.leaves, after.leaves, strict=True)
            ]
        )
        why = str(reason)
        return BuiltRecurrence(
            merged,
            spec,
            lambda: PythonRecurrence(user, source, merged, spec, list(initial), why),
            is_python=True,
            user=held,
        )


@dataclasses.dataclass(frozen=True)
class _RedefinedRecurrence:
    """A function that another function of the user's may define again for each element.

    As for maps, whether a value that it reads is an argument of the program or a constant in it is
    decided by the program alone, not by which of the functions came first.
    """

    reuse: Reuse
    closure: FlattenedClosure
    user: UserFunction
    both: ElementSpec
    state: ElementSpec
    source: ElementSpec

    def built(self) -> tuple[_Compiled, tuple[np.ndarray, ...]]:
        """The loop, with as many values of the closure as arguments as can be, and these.

        Raises:
            NotTraceable: it cannot be compiled.
        """
        every = tuple(range(len(self.closure.values)))
        numbers = self.reuse.get(("arguments", self._key(every)), self._liftable) if every else ()
        made, lifted = self.reuse.get(self._key(numbers), lambda: self._made(numbers))
        return made, () if lifted is None else lifted.arrays(self.closure)

    def _key(self, numbers: tuple[int, ...]) -> Hashable:
        others = (self.user.operation, self.state, self.source, self.user.keyed)
        return (self.closure.key(numbers), numbers, others)

    def _made(self, numbers: tuple[int, ...]) -> tuple[_Compiled, LiftedValues | None]:
        plain = _compiled(self.user, self.both, self.state, self.source)
        return (self._lifted(numbers, plain[0]) if numbers else None) or (plain, None)

    def _liftable(self) -> tuple[int, ...]:
        """The values that can be arguments together."""
        spec, _ = _compiled(self.user, self.both, self.state, self.source)
        every = tuple(range(len(self.closure.values)))
        if self._lifted(every, spec) is not None:
            return every
        numbers: tuple[int, ...] = ()
        for number in every if len(every) > 1 else ():
            if self._lifted((*numbers, number), spec) is not None:
                numbers = (*numbers, number)
        return numbers

    def _lifted(
        self, numbers: tuple[int, ...], spec: ElementSpec
    ) -> tuple[_Compiled, LiftedValues] | None:
        """The loop with these values as arguments, if its results then have the same types."""
        for narrow in (False, True):
            values = LiftedValues(self.closure, numbers, narrow, len(self.both.leaves))
            user = dataclasses.replace(self.user, lifted=values)
            try:
                made = _compiled(user, self.both, self.state, self.source, values.specs())
            except (NotTraceable, TypeError, ValueError):
                continue
            if made[0] == spec:
                return made, values
        return None


_Compiled = tuple[ElementSpec, LoopProgram]
"""A loop, and the spec of its results."""


def _compiled(
    user: UserFunction,
    both: ElementSpec,
    state: ElementSpec,
    source: ElementSpec,
    values: Sequence[TensorSpec] = (),
) -> _Compiled:
    traced = trace(user, with_values(both, values) if values else both)
    if traced.natives:
        raise NotTraceable("it calls native operations", traced.spec)
    after, spec = _parted(traced.spec, state, user)
    if after != state:
        raise NotTraceable("the shape of its state changes", traced.spec)
    return spec, LoopProgram(user, traced, state, source, values)


def _check_traceable(both: ElementSpec, state: ElementSpec) -> None:
    if has_datasets(both) or has_ragged(both):
        raise NotTraceable("it takes a dataset or a ragged array")
    if not all(leaf.is_static for leaf in both.leaves):
        raise NotTraceable("elements vary in shape")
    if any(leaf.is_string for leaf in state.leaves):
        raise NotTraceable("its state holds strings")


def _example(
    user: UserFunction, both: ElementSpec, initial: Sequence[np.ndarray], element: Any
) -> ElementSpec:
    state = both.structure.children[0]
    before = state.unflatten([leaf[()] for leaf in initial])
    return spec_from_example(user, both, (before, element), static=False)


def _parted(
    result: ElementSpec, state: ElementSpec, user: UserFunction
) -> tuple[ElementSpec, ElementSpec]:
    """The specs of the new state and of what comes beside it.

    Raises:
        TypeError: there are no such parts, or the state's dtypes differ.
    """
    structure, count = result.structure, state.structure.num_leaves
    nothing = ElementSpec(tuple_of([]), ())
    if user.operation == "reduce":
        after, rest = result, nothing
    elif structure.kind == "tuple" and len(structure.children) == 2:
        first, second = structure.children
        split = first.num_leaves
        after = ElementSpec(first, result.leaves[:split])
        rest = ElementSpec(second, result.leaves[split:])
    else:
        raise TypeError(f"{user.where} must return (new state, result), it returns {structure}")
    if after.structure != state.structure or len(after.leaves) != count:
        raise TypeError(
            f"{user.where} returns a state of structure {after.structure}, the initial state has "
            f"{state.structure}"
        )
    for i, (new, old) in enumerate(zip(after.leaves, state.leaves, strict=True)):
        if new.dtype != old.dtype:
            raise TypeError(
                f"{user.where} makes leaf {i} of the state {new}, the initial state has {old}; "
                f"give an initial state of that type, such as np.{new.dtype}(...)"
            )
    return after, rest
