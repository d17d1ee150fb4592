"""A value that many read while updates change it."""

from __future__ import annotations

import weakref

import jax
import numpy as np

from drumline.distribute.parameter_server.server import memory


class HeldArray:
    """An array of which nobody sees a change: who was given it keeps the value of that time.

    Its memory is changed in place while nobody has it. Otherwise the next value gets memory of its
    own, which is that of an older one if there is one that nobody has any more. Calls must not
    overlap.

    Args:
        value: it is copied.
    """

    def __init__(self, value: np.ndarray) -> None:
        self._value: np.ndarray | jax.Array = memory.copied(value)
        self._alias: weakref.ref[memory.Alias] | None = None
        self._former: tuple[weakref.ref[memory.Alias], np.ndarray] | None = None

    @property
    def view(self) -> np.ndarray:
        """The value, read-only and unchanged for as long as it is referred to."""
        value = self._value
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
        """The value for a compiled function, which may be given its memory if `is_spare`."""
        return self._value

    @property
    def is_spare(self) -> bool:
        """Whether the memory is JAX's and nobody has the value: the next one can take it."""
        return not isinstance(self._value, np.ndarray) and self._is_unseen

    @property
    def _is_unseen(self) -> bool:
        return self._alias is None or self._alias() is None

    def writable(self) -> np.ndarray:
        """The value in memory that nobody else has, to be changed in place."""
        value = self._value
        if isinstance(value, np.ndarray) and self._is_unseen:
            return value
        target = self._former_memory()
        if target is None:
            target = memory.zeros(value.shape, np.dtype(value.dtype))
        target[...] = self.view
        if isinstance(value, np.ndarray) and self._alias is not None:
            self._former = self._alias, value
        self._value, self._alias = target, None
        return target

    def copy_to(self, out: np.ndarray) -> None:
        """Copy the value, as it is now."""
        out[...] = np.asarray(self._value)

    def replace(self, value: np.ndarray | jax.Array) -> None:
        """Set another value, a JAX array that was computed or a numpy array, which is copied."""
        self._alias = self._former = None
        self._value = memory.copied(value) if isinstance(value, np.ndarray) else value

    def _former_memory(self) -> np.ndarray | None:
        if self._former is None or self._former[0]() is not None:
            return None
        (_, array), self._former = self._former, None
        return array


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
