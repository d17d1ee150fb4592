"""A function with the variables it reads held at their present values.

``map`` means the function as it is when ``map`` is called, as in ``tf.data``; a shape that shows
up later is traced then, and must not see a loop variable that has moved on.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any


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
