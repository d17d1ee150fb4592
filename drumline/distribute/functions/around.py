"""What the body of a loop takes from the function around it."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from drumline.distribute.arguments import Identity
from drumline.distribute.per_replica import PerReplica

_EMPTY = object()


def closure_values(body: Callable[..., Any]) -> list[Any]:
    """The values of a function's closure: arrays and numbers as they are, all else by identity."""
    cells = body.__closure__ or ()
    return [_value(cell) for cell in cells]


def with_closure(body: Callable[..., Any], values: Sequence[Any]) -> Callable[..., Any]:
    """`body` with other values in its closure, in the order of `closure_values`."""
    cells = [types.CellType() if value is _EMPTY else types.CellType(value) for value in values]
    return types.FunctionType(
        body.__code__,
        body.__globals__,
        body.__name__,
        None,
        tuple(cells),
    )


def _value(cell: types.CellType) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # a name that the function has not assigned yet
        return Identity(_EMPTY)
    known = (bool, int, float, complex, str, np.ndarray, np.generic, jax.Array, PerReplica)
    return value if isinstance(value, known) else Identity(value)
