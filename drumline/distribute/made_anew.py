"""Functions that are made anew in each call of another, as the step within a `dl.function` is."""

from __future__ import annotations

import contextlib
import contextvars
import dis
import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import jax
import numpy as np

from drumline.distribute.per_replica import PerReplica

_in_function: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "drumline_in_function", default=False
)

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic)
_PASSABLE = (*_CONSTANTS, np.ndarray, jax.Array, PerReplica, list, dict, set)

MANY = 5
"""From how many functions of one definition on the user is warned."""

MOST_DEFINITIONS = 256
"""Of how many definitions it is counted how many functions they made."""


@contextlib.contextmanager
def in_function() -> Iterator[None]:
    """Within the block a `dl.function` runs, whose Python counts as run once."""
    token = _in_function.set(True)
    try:
        yield
    finally:
        _in_function.reset(token)


def recognized(fn: Callable[..., Any]) -> Hashable | None:
    """Equal for functions that one `def` in a `dl.function` made, if they see the same objects.

    A ``functools.partial`` is what it calls and what it passes. None for other callables, and
    outside of a `dl.function`: there, what a function closes over may have changed inside between
    two calls.
    """
    if not _in_function.get() or _definition(fn) is None:
        return None
    return _Parts(fn)


class Redefinitions:
    """Counts the functions that one definition made, each of which was compiled."""

    def __init__(self) -> None:
        self._made: OrderedDict[CodeType, dict[int, list[_Seen]]] = OrderedDict()

    def note(self, fn: Callable[..., Any]) -> str | None:
        """Say that `fn` is compiled.

        Returns:
            What to tell the user: `MANY` functions of one definition do the same, or differ in
            values that could be arguments. Else None.
        """
        definition = _definition(fn)
        if definition is None:
            return None
        code = definition.__code__
        made = self._made[code] = self._made.pop(code, {})
        if len(self._made) > MOST_DEFINITIONS:
            self._made.popitem(last=False)
        if id(fn) in made or len(made) >= MANY:
            return None
        made[id(fn)] = _Parts(fn).seen()
        return _advice(definition, list(made.values())) if len(made) == MANY else None


@dataclass(frozen=True)
class _Seen:
    """One of the objects that a function sees, which it does not hold.

    Attributes:
        name: what the function calls it.
        key: what it is compared by.
        passable: whether it could be an argument.
    """

    name: str
    key: Hashable
    passable: bool


def _advice(definition: FunctionType, made: list[list[_Seen]]) -> str | None:
    many = f"`run` has compiled {definition.__qualname__} {MANY} times, since"
    if any([part.name for part in seen] != [part.name for part in made[0]] for seen in made):
        return None
    columns = list(zip(*made, strict=True))
    differing = [column for column in columns if len({part.key for part in column}) > 1]
    if not differing:
        return (
            f"{many} it was another function each time, though with the same code and the same "
            "objects around it. Define it once, before the loop, or compile the function that "
            "defines it with `dl.function`."
        )
    if not all(part.passable for column in differing for part in column):
        return None
    names = ", ".join(dict.fromkeys(repr(column[0].name) for column in differing))
    return (
        f"{many} it saw other values of {names} each time. Values that a step closes over are "
        "constants of it: pass those that change from call to call as arguments, numbers as "
        "arrays such as np.float32(x)."
    )


class _Parts:
    """What a function sees, compared one by one: constants by value, others by identity."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._names: list[str] = []
        self._held: list[Any] = []
        self._collect("", fn, set())
        self._keys = tuple(map(_key, self._held))

    def __hash__(self) -> int:
        return hash(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and self._keys == other._keys

    def seen(self) -> list[_Seen]:
        """The objects, without holding them."""
        parts = zip(self._names, self._keys, self._held, strict=True)
        return [_Seen(name, key, isinstance(value, _PASSABLE)) for name, key, value in parts]

    def _add(self, name: str, value: Any) -> None:
        self._names.append(name)
        self._held.append(value)

    def _collect(self, name: str, value: Any, seen: set[int]) -> None:
        if isinstance(value, functools.partial):
            self._add(name, functools.partial)
            value = (value.func, value.args, tuple(value.keywords.items()))
        if isinstance(value, MethodType):
            self._add(name, MethodType)
            value = (value.__func__, value.__self__)
        if isinstance(value, tuple):
            self._add(name, type(value))
            self._add(name, len(value))
            for part in value:
                self._collect(name, part, seen)
            return
        if not isinstance(value, FunctionType) or "<locals>" not in value.__qualname__:
            self._add(name, value)
            return
        if id(value) in seen:
            return
        seen.add(id(value))
        self._collect_function(name, value, seen)

    def _collect_function(self, name: str, fn: FunctionType, seen: set[int]) -> None:
        code = fn.__code__
        self._add(name, code)
        self._add(name, fn.__globals__)
        for read in _globals_read(code):
            self._add(read, fn.__globals__.get(read, _Parts))
        keywords = fn.__kwdefaults__ or {}
        for parameter, held in zip(_with_defaults(fn), fn.__defaults__ or (), strict=True):
            self._collect(parameter, held, seen)
        for parameter, held in keywords.items():
            self._collect(parameter, held, seen)
        for variable, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:  # not assigned yet
                contents = cell
            self._collect(variable, contents, seen)


def _definition(fn: Callable[..., Any]) -> FunctionType | None:
    """The function that `fn` calls, if it is one of Python's."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if isinstance(fn, FunctionType) else None


def _key(value: Any) -> Hashable:
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    return (type(value), repr(value)) if isinstance(value, _CONSTANTS) else id(value)


def _with_defaults(fn: FunctionType) -> tuple[str, ...]:
    """The names of the positional parameters that have defaults."""
    code, defaults = fn.__code__, fn.__defaults__ or ()
    return code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]


@functools.lru_cache(maxsize=1024)
def _globals_read(code: CodeType) -> tuple[str, ...]:
    """The names that `code`, and what it defines, read from the module."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(_globals_read(constant))
    return tuple(sorted(names))
