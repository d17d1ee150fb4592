"""Functions that are made anew in each call of another, as the step within a `dl.function` is."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, FunctionType
from typing import Any

_in_function: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "drumline_in_function", default=False
)

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


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

    None for other callables, and outside of a `dl.function`: there, what a function closes over
    may have changed inside between two calls.
    """
    if not _in_function.get() or not isinstance(fn, FunctionType):
        return None
    parts: list[Any] = []
    _collect(fn, parts, set())
    return _Parts(parts)


class _Parts:
    """Objects, compared one by one: constants by value, others by identity."""

    def __init__(self, parts: list[Any]) -> None:
        self._held = parts
        self._keys = tuple(
            (type(part), repr(part)) if isinstance(part, _CONSTANTS) else id(part) for part in parts
        )

    def __hash__(self) -> int:
        return hash(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts) and self._keys == other._keys


def _collect(value: Any, parts: list[Any], seen: set[int]) -> None:
    if not isinstance(value, FunctionType) or "<locals>" not in value.__qualname__:
        parts.append(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    parts += [value.__code__, value.__globals__]
    parts += [value.__globals__.get(name, _collect) for name in _names(value.__code__)]
    for held in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
        _collect(held, parts, seen)
    for cell in value.__closure__ or ():
        try:
            contents = cell.cell_contents
        except ValueError:  # not assigned yet
            contents = cell
        _collect(contents, parts, seen)


def _names(code: CodeType) -> list[str]:
    """The names that `code`, and what it defines, may read from the module."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [*code.co_names, *(name for one in inner for name in _names(one))]
