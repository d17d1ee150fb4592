"""A value that many read while updates replace it."""

from __future__ import annotations

import weakref

import jax
import numpy as np

from drumline.distribute.parameter_server.owner import memory


class HeldArray:
    """An array that is never written once it was given out.

    An update makes a new array, except where nobody has the old one any more: that one's memory
    takes the new value. Calls must not overlap.

    Args:
        value: it is copied.
    """

    def __init__(self, value: np.ndarray) -> None:
        self._value: np.ndarray | jax.Array = _frozen(memory.copied(value))
        self._alias: weakref.ref[memory.Alias] | None = None

    @property
    def view(self) -> np.ndarray:
        """The value, read-only and unchanged for as long as it is referred to."""
        value = self._value
        if isinstance(value, np.ndarray):
            return value
        if value.size == 0:
            return _frozen(np.zeros(value.shape, value.dtype))
        alias = self._alias and self._alias()
        if alias is None:
            alias = memory.Alias(value, value.shape, np.dtype(value.dtype), writable=False)
            self._alias = weakref.ref(alias)
        array = np.asarray(alias)
        return array if array.dtype == value.dtype else array.view(value.dtype)

    @property
    def operand(self) -> np.ndarray | jax.Array:
        """The value for a compiled function, which may be given its memory if `is_unseen`."""
        return self._value

    @property
    def is_unseen(self) -> bool:
        """Whether nobody has the value, so that its memory can be used for the next one."""
        if isinstance(self._value, np.ndarray):
            return False
        return self._alias is None or self._alias() is None

    def replace(self, value: np.ndarray | jax.Array) -> None:
        """Set another value, a JAX array that was computed or a numpy array, which is copied."""
        self._alias = None
        if isinstance(value, np.ndarray):
            self._value = _frozen(memory.copied(value))
        else:
            self._value = value


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
