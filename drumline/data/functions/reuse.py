"""Functions known again that a user's function defines anew for each element.

``interleave(lambda path: TFRecordDataset(path).map(parse))`` gives ``parse`` to a new ``map`` for
every file. Tracing and compiling it each time would cost far more than reading the file.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Hashable
from contextvars import ContextVar, Token
from typing import Any

import numpy as np

from drumline.data.functions.frozen import names_in

_PLAIN = (bool, int, str, bytes, type(None))
_LIBRARIES = ("jax", "jaxlib", "numpy", "ml_dtypes", "drumline", "builtins", "math")
_MOST_BYTES = 4096
_DEEPEST = 6
_MOST_KEPT = 256


class _Unknown(Exception):
    """Something of which it cannot be told whether it is the same, later."""


class Reuse:
    """Results kept for functions that are the same.

    Two functions are the same if their code is, and all that it can read: closures, defaults and
    globals are compared by value. One that reads an object whose value cannot be told is never
    known again.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was kept under ``key``, or else what ``make`` makes now."""
        if key not in self._kept:
            made = make()
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = made
        return self._kept[key]

    def in_force(self) -> InForce:
        """Lets ``reused`` look here, in this thread."""
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


def reused(function: Callable[..., Any], others: Hashable, make: Callable[[], Any]) -> Any:
    """What ``make`` makes of a function, kept in the ``Reuse`` in force, if there is one.

    Args:
        function: a user's.
        others: what else the result depends on.
        make: makes it.
    """
    reuse = _current.get()
    if reuse is None:
        return make()
    try:
        key = (_key(function, 0), others)
    except _Unknown:
        return make()
    return reuse.get(key, make)


def _key(value: Any, depth: int) -> Hashable:
    """Something that is equal for equal values, and holds on to what it compares by identity."""
    if depth > _DEEPEST:
        raise _Unknown
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if isinstance(value, float | complex):
        return (type(value), repr(value))
    if isinstance(value, np.ndarray | np.generic):
        return _key_of_array(np.asarray(value))
    if isinstance(value, types.FunctionType):
        return _Same(value) if _of_library(value) else _key_of_function(value, depth)
    if isinstance(value, types.ModuleType | type | np.dtype) or _of_library(value):
        return _Same(value)
    if isinstance(value, tuple | list):
        return (type(value), *(_key(item, depth + 1) for item in value))
    if isinstance(value, dict):
        return (type(value), *((_key(k, depth + 1), _key(v, depth + 1)) for k, v in value.items()))
    raise _Unknown


def _key_of_array(array: np.ndarray) -> Hashable:
    if array.dtype == object or array.nbytes > _MOST_BYTES:
        raise _Unknown
    return (np.ndarray, array.dtype.str, array.shape, array.tobytes())


def _key_of_function(function: types.FunctionType, depth: int) -> Hashable:
    names = sorted(set(names_in(function.__code__)) & set(function.__globals__))
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        raise _Unknown from None
    read = [
        *cells,
        *(function.__globals__[name] for name in names),
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
    ]
    return (function.__code__, *(_key(value, depth + 1) for value in read))


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
