"""Values that are cut over replicas: each one's device has a row of them, and nothing else.

The value, flattened and padded with zeros, is an array ``(replicas, length)``, of which each device
has a row. So whatever its shape is, every device has the same share of it, up to the padding. A
variable that is cut holds a `CutValue`; whoever reads the variable gets the value.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ALIGNMENT = 8
"""Rows are multiples of so many elements: a CPU's vector of float32, and 32 bytes on a GPU.

The last elements of an array, which fill no vector, may be rounded otherwise than the rest, and an
array of one element is to XLA a number. So rows are whole vectors. The padding is less than a tenth
of a device's share of ResNet-50 over 1,024 replicas.
"""

_CUT = "_drumline_cut"
SLOT = "_drumline_slot"
"""Where a variable has the buffer that holds its value, and its position there."""


def is_cut(variable: Any) -> bool:
    """Whether each replica's device holds a row of the variable's value alone."""
    return bool(vars(variable).get(_CUT))


def cut_from_now_on(variable: Any) -> None:
    """Let `variable`, which has no value yet, be cut."""
    vars(variable)[_CUT] = True


def row_length(size: int, replicas: int) -> int:
    """How many elements each of `replicas` rows of a value of `size` elements has."""
    return -(-size // (replicas * ALIGNMENT)) * ALIGNMENT


def rows_shape(variable: Any, replicas: int) -> tuple[int, int]:
    """The shape of the array whose rows are the value of `variable`."""
    return replicas, row_length(math.prod(variable.shape), replicas)


def cut(value: jax.Array, replicas: int) -> jax.Array:
    """Return the rows ``(replicas, length)`` of `value`."""
    flat = value.reshape(-1)
    padding = replicas * row_length(flat.size, replicas) - flat.size
    if padding:
        flat = jnp.pad(flat, (0, padding))
    return flat.reshape(replicas, -1)


def row_of(value: Any, replicas: int, index: int) -> np.ndarray:
    """One of the rows of `cut`, on the host."""
    flat = np.asarray(value).reshape(-1)
    length = row_length(flat.size, replicas)
    row = flat[index * length : (index + 1) * length]
    return np.pad(row, (0, length - row.size))


def uncut(rows: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Undo `cut`: the value of `shape` of which these are the rows."""
    return jax.lax.slice(rows.reshape(-1), (0,), (math.prod(shape),)).reshape(shape)


@dataclass(frozen=True, slots=True)
class CutValue:
    """Stands in a variable for its value, which is nowhere whole.

    Attributes:
        rows: the array whose rows are the value.
        whole: computes the value of them.
    """

    rows: jax.Array
    whole: Callable[[jax.Array], jax.Array]


def held(variable: Any) -> Any:
    """What the variable holds, which may be a `CutValue`: what is assigned to ``_value`` again."""
    slot = vars(variable).get(SLOT)
    if slot is not None:
        return slot[0].value(slot[1])
    value = vars(variable).get("_value")
    return value if type(value) is CutValue else variable._value


_as_rows = contextvars.ContextVar("drumline_as_rows", default=False)


@contextlib.contextmanager
def reading_rows() -> Iterator[None]:
    """Within the block a variable that holds a `CutValue` is read as its rows."""
    token = _as_rows.set(True)
    try:
        yield
    finally:
        _as_rows.reset(token)


def as_read(value: CutValue) -> jax.Array:
    """What a variable that holds `value` is read as."""
    return value.rows if _as_rows.get() else value.whole(value.rows)
