"""What a function reads beside its arguments, in a form that can be compared.

A function that is defined again for each element differs from the one before in the numbers of its
closure only. Those that belong to the call that defined it (its arguments and local variables) can
become arguments of one compiled program; what is shared by all calls is compared by value. Tracing
and compiling ``flat_map(lambda x: Dataset.range(9).map(lambda y: y + x))``'s inner function for
every ``x`` would cost far more than the work itself.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from contextvars import ContextVar, Token
from typing import Any

import numpy as np

from drumline._function_identity import (
    Incomparable,
    ValueKeys,
    bytes_key,
    copy_function,
    in_libraries,
    read_values,
    shared_by,
)
from drumline._lazy import is_jax_array, jax
from drumline.data.elements.spec import TensorSpec, as_array, is_namedtuple

_MOST_VALUES = 16
_INT32 = range(-(2**31), 2**31)


@dataclasses.dataclass(frozen=True)
class Value:
    """A number, array or string that a function reads, and that other calls may have otherwise.

    Attributes:
        given: the user's object.
        array: the same as an array.
        weak: whether it is a number of Python's, which adopts the dtype of the other operand.
    """

    given: Any
    array: np.ndarray
    weak: bool

    @property
    def spec(self) -> TensorSpec:
        """Of the array."""
        return TensorSpec(self.array.shape, self.array.dtype)

    @property
    def kind(self) -> Hashable:
        """All that may differ in a program which has it as an argument."""
        return (type(self.given), self.array.dtype.str, self.array.shape)


@dataclasses.dataclass(frozen=True)
class FlattenedClosure:
    """A function, split into code and values.

    Attributes:
        function: the user's.
        skeleton: its code and all that it reads but ``values``; equal where these are.
        values: those numbers, arrays and strings that belong to the call which defined it.
        outer: the variables and functions that all calls share.
    """

    function: Callable[..., Any]
    skeleton: Hashable
    values: tuple[Value, ...]
    outer: frozenset[int]

    def key(self, lifted: Collection[int] = ()) -> Hashable:
        """Equal for functions that are the same, whatever the values numbered ``lifted`` are."""
        parts = [
            value.kind if i in lifted else (type(value.given), bytes_key(value.array))
            for i, value in enumerate(self.values)
        ]
        return (self.skeleton, *parts)

    def bound(self, others: dict[int, Any]) -> Callable[..., Any]:
        """The function with others in the place of some of its values, by their numbers."""
        function: Callable[..., Any] = _Replacing(self.outer, others).inside(
            self.function, id(self.function) not in self.outer
        )
        return function


class ClosureFlattener:
    """Splits the functions that one function of a user's defines into code and values.

    Args:
        outer: that function.
    """

    def __init__(self, outer: Callable[..., Any]):
        self._alive = outer
        self._outer = shared_by(outer)
        self._keys = ValueKeys((jax.Array,), self._outer, _value)

    def taken_apart(self, function: Callable[..., Any]) -> FlattenedClosure:
        """The parts of a function.

        Raises:
            Incomparable: it reads something that cannot be compared.
        """
        values: list[Value] = []
        skeleton = self._keys.key(function, values)
        if len(values) > _MOST_VALUES:
            raise Incomparable
        return FlattenedClosure(function, skeleton, tuple(values), self._outer)


def _value(value: Any) -> Value | None:
    """The value as an argument of a program, ``None`` for what can only be compared."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return Value(value, array, False) if array.dtype.kind in "biuf" else None
    if isinstance(value, int):
        return Value(value, np.asarray(value, np.int64), True) if value in _INT32 else None
    if isinstance(value, float):
        return Value(value, np.asarray(value, np.float64), True)
    if isinstance(value, str | bytes):
        return Value(value, as_array(value), False)
    if is_jax_array(value) and not isinstance(value, jax.core.Tracer):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return None
        return Value(value, np.asarray(value), bool(value.aval.weak_type))
    return None


class _Replacing:
    """Copies functions with other values; it visits what they hold as `ValueKeys` does."""

    def __init__(self, outer: frozenset[int], others: dict[int, Any]):
        self._outer = outer
        self._others = others
        self._number = 0

    def inside(self, value: Any, fresh: bool) -> Any:
        if fresh and _value(value) is not None:
            self._number += 1
            return self._others.get(self._number - 1, value)
        if isinstance(value, types.FunctionType):
            return value if in_libraries(value) else self._function(value, fresh)
        if is_namedtuple(value):
            return type(value)(*(self.inside(item, fresh) for item in value))
        if isinstance(value, tuple | list):
            return type(value)(self.inside(item, fresh) for item in value)
        if isinstance(value, dict):
            items = [self.inside(item, fresh) for item in value.values()]
            return type(value)(zip(value, items, strict=True))
        if type(value) is functools.partial:
            parts = (value.func, value.args, value.keywords)
            function, args, keywords = (self.inside(part, fresh) for part in parts)
            return functools.partial(function, *args, **keywords)
        return value

    def _function(self, function: types.FunctionType, fresh: bool) -> types.FunctionType:
        read = [self.inside(value, own) for value, own in read_values(function, fresh, self._outer)]
        parts = iter(read)
        cells, defaults = function.__closure__, function.__defaults__
        named = function.__kwdefaults__
        closure = cells and tuple(types.CellType(next(parts)) for _ in cells)
        given = defaults and tuple(next(parts) for _ in defaults)
        keywords = named and {name: next(parts) for name in named}
        return copy_function(function, closure=closure, defaults=given, kwdefaults=keywords)


_MOST_KEPT = 256


class Reuse:
    """Results kept for functions that are the same.

    Two functions are the same if their code is, and all that it can read: closures, defaults and
    globals are compared by value. One that reads an object whose value cannot be compared is never
    known again.

    Args:
        outer: the user's function that defines the others.
    """

    def __init__(self, outer: Callable[..., Any]) -> None:
        self._outer = outer
        self._closures: ClosureFlattener | None = None
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was kept under ``key``, or else what ``make`` makes now."""
        try:
            self._kept.move_to_end(key)
            return self._kept[key]
        except KeyError:
            made = self._kept[key] = make()
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return made

    def closure(self, function: Callable[..., Any]) -> FlattenedClosure | None:
        """Split a function into code and values; ``None`` if it cannot be compared."""
        if self._closures is None:
            self._closures = ClosureFlattener(self._outer)
        try:
            return self._closures.taken_apart(function)
        except Incomparable:
            return None

    def in_force(self) -> InForce:
        """Lets `reuse_in_force` give it, in this thread."""
        return InForce(self)


class InForce:
    """A context in which a ``Reuse`` is in force: entered for each element, hence no generator."""

    __slots__ = ("_reuse", "_token")

    def __init__(self, reuse: Reuse):
        self._reuse = reuse

    def __enter__(self) -> None:
        self._token: Token[Reuse | None] = reuse_in_force.set(self._reuse)

    def __exit__(self, *error: object) -> None:
        reuse_in_force.reset(self._token)


reuse_in_force: ContextVar[Reuse | None] = ContextVar("drumline_reuse", default=None)
"""The `Reuse` of the user's function that runs in this thread, if one does."""
