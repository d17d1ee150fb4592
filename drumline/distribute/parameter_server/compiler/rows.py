"""Arrays of which a program knows only some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax import lax


@dataclass(frozen=True)
class Rows:
    """Some rows of an array.

    Attributes:
        value: these rows, an array ``(n, ...)``.
        shape: that of the whole array, ``(rows, ...)``.
        group: which rows they are; values of one group have the same rows.
        zero_elsewhere: whether all other rows are known to be zero, and also those of `value` that
            stand for none. Otherwise they are unknown.
        has_padding: whether rows of `value` that stand for none may be anything, even no numbers.
        is_added: whether it is what was added at the ids of a lookup, unchanged since.
    """

    value: Any
    shape: tuple[int, ...]
    group: str
    zero_elsewhere: bool
    has_padding: bool = False
    is_added: bool = False

    @property
    def count(self) -> int:
        """How many rows are known."""
        count: int = self.value.shape[0]
        return count


@dataclass(frozen=True)
class Uniform:
    """An array whose rows are all the same.

    Attributes:
        value: one row, an array ``(1, ...)``.
        shape: that of the whole array.
        is_zero: whether it is known to be zero.
    """

    value: Any
    shape: tuple[int, ...]
    is_zero: bool

    def rows(self, count: int) -> Any:
        """`count` of its rows."""
        shape = (count, *self.shape[1:])
        return lax.broadcast_in_dim(self.value, shape, tuple(range(len(shape))))

    def whole(self) -> Any:
        """The whole array."""
        return self.rows(self.shape[0])


def is_special(value: Any) -> bool:
    """Whether `value` stands for an array without being one."""
    return isinstance(value, (Rows, Uniform))
