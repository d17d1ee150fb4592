"""Users' functions as bytes, and which of their parts cannot be."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

_DEEPEST = 4


def dumps(value: Any, function: Callable[..., Any], where: str) -> bytes:
    """``value``, which holds ``function``, as bytes for another process.

    Raises:
        TypeError: a part of the function cannot be sent; the message says which.
    """
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        parts = ", ".join(culprits(function, _picklable)) or "something it refers to"
        raise TypeError(
            f"{where} cannot be sent to a worker process: {parts} cannot be pickled ({error}). "
            "Make it inside the function, or leave Options.python_workers at 'threads'."
        ) from error


def culprits(
    value: Any, picklable: Callable[[Any], bool], path: str = "", depth: int = 0
) -> Iterator[str]:
    """The smallest parts of ``value`` that cannot be pickled, by how one gets to them."""
    found = False
    for name, part in _parts(value):
        if depth < _DEEPEST and not picklable(part):
            found = True
            inner = f"{path}.{name}" if path else name
            yield from culprits(part, picklable, inner, depth + 1)
    if not found and path:
        yield f"{path} (a {type(value).__module__}.{type(value).__qualname__})"


def _picklable(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, types.FunctionType):
        variables = inspect.getclosurevars(value)
        yield from variables.nonlocals.items()
        yield from variables.globals.items()
        yield from ((f"default {i}", item) for i, item in enumerate(value.__defaults__ or ()))
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif not isinstance(value, type | types.ModuleType):
        yield from getattr(value, "__dict__", {}).items()
        args = getattr(value, "args", ())
        yield from _parts(list(args)) if isinstance(args, tuple) else ()
        if callable(getattr(value, "func", None)):
            yield "func", value.func
