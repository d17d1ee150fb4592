"""Python functions among the native operations of a traced function.

A traced function can hand values of an element to a Python function, which runs row by row, while
the rest is compiled (`call_in_python`). What it returns is known only from examples: the user's
function runs as Python for the first elements, within `PythonCalls`, which notes what each call
returned; it is then traced again with these types and ranks. Dimensions are left open: they follow
from the examples alone, and `ensured_shape` says which are the same for all elements.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from drumline._lazy import jax
from drumline.data.elements.precision import gives_arrays_of_jax, is_tracing
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.spec import (
    LEAF_STRUCTURE,
    ElementSpec,
    TensorSpec,
    as_array,
    tuple_of,
)
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.symbol import Reshape, Symbol, ValueNeedsPython, record
from drumline.data.plan.digest import Digest, put

PythonRow = Callable[..., Sequence[np.ndarray]]
"""A function of one element's values, numpy arrays, to the arrays that it makes of them."""

Guard = Callable[[Callable[[], Any]], Any]


class PythonCallMet(ValueNeedsPython):
    """A traced function calls Python, and what that returns is not known."""


@dataclasses.dataclass(frozen=True)
class _Noted:
    """A call, as the examples had it."""

    label: str
    leaves: tuple[TensorSpec, ...]

    def merged(self, other: _Noted) -> _Noted | None:
        """A call that both are examples of, if there is one."""
        if (self.label, len(self.leaves)) != (other.label, len(other.leaves)):
            return None
        same = all(
            (a.dtype, len(a.shape)) == (b.dtype, len(b.shape))
            for a, b in zip(self.leaves, other.leaves, strict=True)
        )
        return self if same else None


class PythonCalls:
    """The calls that a user's function makes, in their order, noted of examples and then traced.

    Args:
        draws: how many random numbers were drawn so far for the present element. What a call draws
            would be drawn by another key if the rest were compiled.
        guard: calls a function of no arguments as the user's functions are called that run as
            Python.
    """

    def __init__(self, draws: Callable[[], int], guard: Guard):
        self._draws = draws
        self._guard = guard
        self._runs: list[list[_Noted]] = []
        self._noted: list[_Noted] = []
        self._known: list[_Noted] | None = None
        self._next = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The user's function, whose calls are noted or known here."""

        @functools.wraps(function)
        def counted(*arguments: Any) -> Any:
            self._next, self._noted = 0, []
            token = _current.set(self)
            try:
                made = function(*arguments)
            finally:
                _current.reset(token)
            # What a call makes of JAX's arrays has other types.
            if self._known is None and not gives_arrays_of_jax():
                self._runs.append(self._noted)
            return made

        return counted

    @property
    def examples(self) -> int:
        """For how many elements the calls were noted."""
        return len(self._runs)

    def settle(self) -> bool:
        """Take what was noted for what is known; False if the examples do not agree."""
        first, *others = self._runs or [[]]
        for run in others:
            if len(run) != len(first):
                return False
            merged = [a.merged(b) for a, b in zip(first, run, strict=True)]
            if None in merged:
                return False
        self._known = first
        return bool(first)

    def run(self, function: PythonRow, arguments: Sequence[Any], label: str) -> list[np.ndarray]:
        """Call a function and note what it returns."""
        before = self._draws()
        made = [as_array(each) for each in function(*arguments)]
        # What draws, or returns nothing, is called by no native operation.
        known = made and self._draws() == before
        leaves = tuple(_open(each) for each in made) if known else ()
        self._noted.append(_Noted(label, leaves))
        return made

    def trace(self, function: PythonRow, arguments: Sequence[Any], label: str) -> list[Any]:
        """Put a call into the program that is traced."""
        number, known = self._next, self._known
        self._next += 1
        if known is None:
            raise ValueNeedsPython(
                f"{label} is called inside of jax.jit, cond, scan or the like, where no Python runs"
            )
        if number >= len(known) or known[number].label != label or not known[number].leaves:
            raise ValueNeedsPython(f"the function does not always call {label} alike")
        if any(isinstance(getattr(each, "spec", None), RaggedTensorSpec) for each in arguments):
            raise ValueNeedsPython(f"the function gives {label} a ragged array")
        operation = CallPython(function, label, known[number].leaves, self._guard)
        return list(record(operation, arguments))


_current: ContextVar[PythonCalls | None] = ContextVar("drumline_python_calls", default=None)


def call_in_python(function: PythonRow, arguments: Sequence[Any], label: str) -> Sequence[Any]:
    """What a Python function makes of one element's values, row by row in a compiled map.

    Args:
        function: takes numpy arrays, gives a list of them: as many, with the types and ranks, for
            every element.
        arguments: arrays; tracers and symbols in a function of a dataset that is traced.
        label: how users know the call, for messages and ``explain()``.

    Returns:
        Arrays; in a function that is traced, tracers for scalars, and symbols for strings and for
        arrays, of whose shape only the rank is known (`ensured_shape`).

    Raises:
        ValueNeedsPython: the function is traced, and what this returns is not known from examples:
            the whole function is to run as Python.
    """
    calls = _current.get()
    traced = any(isinstance(each, Symbol | jax.core.Tracer) for each in arguments)
    if traced or is_tracing():
        if calls is None:
            raise PythonCallMet(f"the function calls {label}")
        return calls.trace(function, arguments, label)
    given = [as_array(value) for value in arguments]
    return function(*given) if calls is None else calls.run(function, given, label)


def _open(array: np.ndarray) -> TensorSpec:
    return TensorSpec((None,) * array.ndim, array.dtype)


def _identity(function: PythonRow) -> Any:
    """What is equal for functions that are defined again, and do the same.

    One that reads values of the trace is never equal to another: there is no digest of these.
    """
    digest = Digest()
    try:
        put(function, digest)
    except TypeError:
        return id(function)
    return digest.result()


@dataclasses.dataclass(frozen=True)
class CallPython(NativeOperation):
    """A Python function, row by row.

    Attributes:
        function: it.
        label: how users know the call.
        leaves: what it returns, as examples have it.
        guard: around its calls.
        identity: what tells it from other functions.
    """

    row_by_row: ClassVar[bool] = True

    function: PythonRow = dataclasses.field(compare=False)
    label: str
    leaves: tuple[TensorSpec, ...]
    guard: Guard = dataclasses.field(compare=False)
    identity: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", _identity(self.function))

    @property
    def name(self) -> str:
        return self.label

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return ElementSpec(tuple_of([LEAF_STRUCTURE] * len(self.leaves)), self.leaves)

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        rows: list[list[np.ndarray]] = []
        error = self.guard(functools.partial(self._fill, rows, columns, n))
        made = zip(*rows, strict=True) if rows else itertools.repeat((), len(self.leaves))
        return OperationResult(
            [_column(list(values), leaf) for values, leaf in zip(made, self.leaves, strict=True)],
            error,
        )

    def _fill(
        self, rows: list[list[np.ndarray]], columns: Sequence[Column], n: int
    ) -> Exception | None:
        """Add what the function makes of rows until one fails; return why."""
        for row in range(n):
            try:
                values = self.function(*(as_array(column[row]) for column in columns))
                rows.append(self._checked([as_array(value) for value in values]))
            except Exception as error:
                return error
        return None

    def _checked(self, values: list[np.ndarray]) -> list[np.ndarray]:
        if len(values) != len(self.leaves):
            raise ValueError(
                f"{self.label} returns {len(values)} values, and returned {len(self.leaves)} for "
                "the first elements"
            )
        for value, leaf in zip(values, self.leaves, strict=True):
            if value.ndim != len(leaf.shape) or value.dtype != leaf.dtype:
                raise ValueError(
                    f"{self.label} returns an array of shape {value.shape} and dtype "
                    f"{value.dtype}, where those for the first elements were of {len(leaf.shape)} "
                    f"dimensions and dtype {leaf.dtype}: have it return one kind of array"
                )
        return values


def _column(values: list[np.ndarray], leaf: TensorSpec) -> Column:
    if not leaf.shape:
        made = np.empty(len(values), leaf.dtype)
        for i, value in enumerate(values):
            made[i] = value[()]
        return made
    if len(leaf.shape) == 1:
        flat = np.concatenate(values) if values else np.empty(0, leaf.dtype)
        return RaggedArray.from_row_lengths(flat, [len(value) for value in values])
    return values


@dataclasses.dataclass(frozen=True)
class EnsureShape(NativeOperation):
    """Values whose shape is the same for all elements from here on, or an error.

    Attributes:
        shape: of the results.
        dtype: theirs.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def name(self) -> str:
        return f"ensure_shape{self.shape}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec(self.shape, self.dtype),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (column,) = columns
        rows: list[np.ndarray] = []
        error: Exception | None = None
        for row in itertools.islice(column, n):
            value = np.asarray(row)
            if value.shape != self.shape:
                error = ValueError(
                    f"an array has the shape {value.shape}, and was said to have {self.shape}"
                )
                break
            rows.append(value)
        made = np.stack(rows) if rows else np.empty((0, *self.shape), self.dtype)
        return OperationResult([made], error)


def ensured_shape(symbol: Symbol, shape: Sequence[int]) -> Any:
    """The values of a symbol whose shape varies, as a tracer of a shape that all elements have.

    Raises:
        ValueError: the symbol's known dimensions are others.
    """
    dims = tuple(shape)
    if not symbol.spec.accepts(dims, symbol.spec.dtype):
        raise ValueError(f"{symbol.spec} cannot have the shape {dims}")
    if len(dims) == 1:
        return record(Reshape(dims), (symbol,))
    return record(EnsureShape(dims, symbol.spec.dtype), (symbol,))
