"""What a function reads beside its arguments, in a form that can be compared.

A function that is defined anew for each element differs from the one before in the numbers of its
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
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextvars import ContextVar, Token
from typing import Any

import jax
import numpy as np

from drumline.data.elements.spec import TensorSpec, as_array
from drumline.data.elements.structure import is_namedtuple


def frozen(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a Python function with its closure and the globals it names held fixed.

    Objects are not copied, only the names' bindings; other callables are returned as they are.
    """
    if not isinstance(function, types.FunctionType):
        return function
    names = set(names_in(function.__code__))
    bindings = {k: v for k, v in function.__globals__.items() if k in names or k.startswith("__")}
    cells = function.__closure__
    closure = None if cells is None else tuple(_copied(cell) for cell in cells)
    copy = types.FunctionType(
        function.__code__, bindings, function.__name__, function.__defaults__, closure
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    return copy


def names_in(code: types.CodeType) -> Iterator[str]:
    """All names that a function's code, and code inside it, looks up as globals or attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def _copied(cell: types.CellType) -> types.CellType:
    try:
        return types.CellType(cell.cell_contents)
    except ValueError:
        return cell


_PLAIN = (bool, int, str, bytes, type(None))
_LIBRARIES = ("jax", "jaxlib", "numpy", "ml_dtypes", "drumline", "builtins", "math")
_SMALL = 4096
"""Bytes of arrays that are part of a key; of larger ones a copy is kept to compare with."""

_DEEPEST = 8
_MOST_VALUES = 16
_INT32 = range(-(2**31), 2**31)


class Unknown(Exception):
    """Something of which it cannot be told whether it is the same, later."""


@dataclasses.dataclass(frozen=True)
class Value:
    """A number, array or string that a function reads, and that other calls may have otherwise.

    Attributes:
        given: the user's object.
        array: the same as an array.
        weak: whether it is a number of Python's, which adopts the dtype of what it meets.
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
class Closure:
    """A function taken apart.

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
            value.kind if i in lifted else (type(value.given), _bytes_of(value.array))
            for i, value in enumerate(self.values)
        ]
        return (self.skeleton, *parts)

    def bound(self, others: dict[int, Any]) -> Callable[..., Any]:
        """The function with others in the place of some of its values, by their numbers."""
        function: Callable[..., Any] = _Replacing(self.outer, others).inside(
            self.function, id(self.function) not in self.outer
        )
        return function


class Closures:
    """Takes apart the functions that one function of a user's defines.

    Args:
        outer: that function.
    """

    def __init__(self, outer: Callable[..., Any]):
        self._alive = outer
        found: set[int] = set()
        _visit(outer, found, 0)
        self._outer = frozenset(found)
        self._copies: dict[int, tuple[np.ndarray, np.ndarray, Hashable]] = {}

    def taken_apart(self, function: Callable[..., Any]) -> Closure:
        """The parts of a function.

        Raises:
            Unknown: it reads something that cannot be compared.
        """
        values: list[Value] = []
        skeleton = self._key(function, 0, id(function) not in self._outer, values)
        if len(values) > _MOST_VALUES:
            raise Unknown
        return Closure(function, skeleton, tuple(values), self._outer)

    def _key(self, value: Any, depth: int, fresh: bool, values: list[Value]) -> Hashable:
        """Something equal for equal values, which holds on to what it compares by identity.

        Args:
            value: what a function reads, or the function.
            depth: in how many others it is.
            fresh: whether it belongs to one call of the outer function.
            values: where those are put that may become arguments.
        """
        if depth > _DEEPEST:
            raise Unknown
        if fresh and (found := _value(value)) is not None:
            values.append(found)
            return Value
        if isinstance(value, _PLAIN):
            return (type(value), value)
        if isinstance(value, float | complex):
            return (type(value), repr(value))
        if isinstance(value, np.ndarray | np.generic):
            return self._key_of_array(value)
        if isinstance(value, types.FunctionType):
            if _of_library(value):
                return _Same(value)
            read = _read(value, fresh, self._outer)
            return (value.__code__, *(self._key(v, depth + 1, own, values) for v, own in read))
        if isinstance(value, types.ModuleType | type | np.dtype) or _of_library(value):
            return _Same(value)
        if isinstance(value, jax.Array):
            return _Same(value)
        if isinstance(value, tuple | list):
            return (type(value), *(self._key(item, depth + 1, fresh, values) for item in value))
        if isinstance(value, dict):
            keys = [self._key(key, depth + 1, False, values) for key in value]
            items = [self._key(item, depth + 1, fresh, values) for item in value.values()]
            return (type(value), *keys, *items)
        if type(value) is functools.partial:
            parts = (value.func, value.args, value.keywords)
            return (type(value), *(self._key(part, depth + 1, fresh, values) for part in parts))
        if not fresh and _is_frozen_record(value):
            fields = vars(value).values()
            return (_Same(type(value)), *(self._key(f, depth + 1, False, values) for f in fields))
        raise Unknown

    def _key_of_array(self, value: Any) -> Hashable:
        array = np.asarray(value)
        if array.dtype == object or array.nbytes <= _SMALL:
            return _bytes_of(array)
        known = self._copies.get(id(value))
        if known is None or not _same_bytes(array, known[1]):
            # The first is kept alive, so that no other gets its id.
            known = self._copies[id(value)] = (value, array.copy(), _Same(object()))
        return known[2]


def _is_frozen_record(value: Any) -> bool:
    """Whether it is of a frozen dataclass, and its attributes are its fields and nothing more."""
    kind = type(value)
    parameters = vars(kind).get("__dataclass_params__")
    if parameters is None or not parameters.frozen or not hasattr(value, "__dict__"):
        return False
    fields = [field.name for field in dataclasses.fields(kind)]
    # What else a class has may be computed, of something that changes.
    own = (name for base in kind.__mro__[:-1] for name in vars(base) if name not in fields)
    return list(vars(value)) == fields and all(name in _OF_RECORDS for name in own)


@dataclasses.dataclass(frozen=True)
class _Record:
    """A class that has what every frozen dataclass has."""


_OF_RECORDS = frozenset((*vars(_Record), "__match_args__", "__annotations__", "__replace__"))


def _visit(value: Any, found: set[int], depth: int) -> None:
    """Adds the ids of the variables and functions that a function reads, and its own."""
    if depth > _DEEPEST or id(value) in found:
        return
    if isinstance(value, functools.partial):
        for item in (value.func, *value.args, *value.keywords.values()):
            _visit(item, found, depth + 1)
    elif isinstance(value, types.MethodType):
        _visit(value.__func__, found, depth + 1)
    elif isinstance(value, types.FunctionType) and not _of_library(value):
        found.add(id(value))
        for cell in value.__closure__ or ():
            found.add(id(cell))
            try:
                _visit(cell.cell_contents, found, depth + 1)
            except ValueError:  # assigned later
                continue
        for item in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            _visit(item, found, depth + 1)


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
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return None
        return Value(value, np.asarray(value), bool(value.aval.weak_type))
    return None


def _read(
    function: types.FunctionType, fresh: bool, outer: frozenset[int]
) -> Iterator[tuple[Any, bool]]:
    """What a function reads, and whether that belongs to one call of the outer function."""
    own = fresh and id(function) not in outer
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents, own and id(cell) not in outer
        except ValueError:
            raise Unknown from None
    for value in function.__defaults__ or ():
        yield value, own
    for value in (function.__kwdefaults__ or {}).values():
        yield value, own
    for name in _globals_of(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name], False


@functools.lru_cache(1024)
def _globals_of(code: types.CodeType) -> Sequence[str]:
    return sorted(set(names_in(code)))


class _Replacing:
    """Copies functions with other values; it visits what they hold as ``Closures`` does."""

    def __init__(self, outer: frozenset[int], others: dict[int, Any]):
        self._outer = outer
        self._others = others
        self._number = 0

    def inside(self, value: Any, fresh: bool) -> Any:
        if fresh and _value(value) is not None:
            self._number += 1
            return self._others.get(self._number - 1, value)
        if isinstance(value, types.FunctionType):
            return value if _of_library(value) else self._function(value, fresh)
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
        read = [self.inside(value, own) for value, own in _read(function, fresh, self._outer)]
        parts = iter(read)
        cells, defaults = function.__closure__, function.__defaults__
        named = function.__kwdefaults__
        closure = cells and tuple(types.CellType(next(parts)) for _ in cells)
        given = defaults and tuple(next(parts) for _ in defaults)
        copy = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, given, closure
        )
        copy.__kwdefaults__ = named and {name: next(parts) for name in named}
        copy.__qualname__ = function.__qualname__
        copy.__module__ = function.__module__
        return copy


def _bytes_of(array: np.ndarray) -> Hashable:
    if array.dtype != object:
        return (np.ndarray, array.dtype.str, array.shape, array.tobytes())
    if array.size > _SMALL or not all(isinstance(item, bytes) for item in array.flat):
        raise Unknown
    return (np.ndarray, array.shape, tuple(array.flat))


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(_bits(a), _bits(b)))


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _of_library(value: Any) -> bool:
    """Whether it is a function or class of a library, which does not change."""
    module = getattr(value, "__module__", None)
    named = isinstance(getattr(value, "__name__", None), str)
    return named and isinstance(module, str) and module.split(".")[0] in _LIBRARIES


@dataclasses.dataclass(frozen=True, eq=False)
class _Same:
    """Equal to another of the same object, which stays alive with it."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


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
        self._closures: Closures | None = None
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

    def closure(self, function: Callable[..., Any]) -> Closure | None:
        """All that a function reads, taken apart; ``None`` if it cannot be compared."""
        if self._closures is None:
            self._closures = Closures(self._outer)
        try:
            return self._closures.taken_apart(function)
        except Unknown:
            return None

    def in_force(self) -> InForce:
        """Lets ``reuse_in_force`` find it, in this thread."""
        return InForce(self)


class InForce:
    """A context in which a ``Reuse`` is in force: entered for each element, hence no generator."""

    __slots__ = ("_reuse", "_token")

    def __init__(self, reuse: Reuse):
        self._reuse = reuse

    def __enter__(self) -> None:
        self._token: Token[Reuse | None] = _current.set(self._reuse)

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)


_current: ContextVar[Reuse | None] = ContextVar("drumline_reuse", default=None)


def reuse_in_force() -> Reuse | None:
    """The ``Reuse`` of the user's function that runs in this thread, if one does."""
    return _current.get()


def reused(function: Callable[..., Any], others: Hashable, make: Callable[[], Any]) -> Any:
    """What ``make`` makes of a function, kept in the ``Reuse`` in force, if there is one.

    Args:
        function: a user's.
        others: what else the result depends on.
        make: makes it.
    """
    reuse = _current.get()
    closure = None if reuse is None else reuse.closure(function)
    if reuse is None or closure is None:
        return make()
    return reuse.get((closure.key(), others), make)
