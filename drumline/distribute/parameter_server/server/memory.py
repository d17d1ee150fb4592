"""Memory for values and tables: aligned, in huge pages where large, and shared with JAX.

Tables of many gigabytes must not be in memory twice: they are filled where JAX computed them
(`taken_over`, `run_initializer`), and compiled updates work in place through `Alias`. Whoever makes
a writable alias of a JAX array is its only user; nothing here can check that.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline._memory import ALIGNMENT, address_of, aligned_part, mapped_zeros
from drumline.distribute.parameter_server.compiler.exporting import unpack_checked

_LARGE = 4 << 20
_HUGE_PAGE = 2 << 20


def zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A writable, aligned array of zeros. A large one takes memory as it is first written."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes >= _LARGE:
        content = aligned_part(mapped_zeros(nbytes + _HUGE_PAGE), nbytes, _HUGE_PAGE)
    else:
        content = aligned_part(np.zeros(nbytes + ALIGNMENT, np.uint8), nbytes)
    return content.view(dtype).reshape(shape)


def filled(shape: tuple[int, ...], dtype: np.dtype, value: float) -> np.ndarray:
    """As `zeros`, with another value in all places."""
    array = zeros(shape, dtype)
    if value != 0:
        array[...] = value
    return array


def copied(value: np.ndarray) -> np.ndarray:
    """A copy of `value` as `zeros` makes arrays."""
    array = zeros(value.shape, value.dtype)
    array[...] = value
    return array


def on_cpu(value: np.ndarray) -> jax.Array:
    """A copy of `value` in memory of JAX's own, on the CPU."""
    # A device_put alone would read the numpy array where it is.
    return jnp.copy(jax.device_put(value, jax.devices("cpu")[0])).block_until_ready()


class Alias:
    """The memory of an array, as numpy sees it; the array lives as long, and this as its views.

    Args:
        array: of numpy, or of JAX: computed, on one CPU device.
        shape: that of the view.
        dtype: that of the view.
        writable: whether numpy may write. There may be no other user of a JAX array then.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_array")

    def __init__(
        self,
        array: jax.Array | np.ndarray,
        shape: tuple[int, ...],
        dtype: np.dtype,
        writable: bool,
    ) -> None:
        self._array = array
        self.__array_interface__: dict[str, Any] = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (_address(array), not writable),
            "version": 3,
        }


def _address(array: jax.Array | np.ndarray) -> int:
    if isinstance(array, np.ndarray):
        return address_of(array)
    return int(array.unsafe_buffer_pointer())


def writable_bytes(array: jax.Array, rows: int, width: int) -> np.ndarray:
    """The first bytes of a JAX array as `rows` rows of `width` bytes, which may be overwritten."""
    return np.asarray(Alias(array, (rows, width), np.dtype(np.uint8), writable=True))


def taken_over(array: jax.Array) -> np.ndarray:
    """The value of a JAX array without other users, writable, without a copy of a large one."""
    array.block_until_ready()
    if array.nbytes < _LARGE:
        return copied(np.asarray(array))
    content = np.asarray(Alias(array, (array.nbytes,), np.dtype(np.uint8), writable=True))
    return content.view(array.dtype).reshape(array.shape)


def run_initializer(program: bytes) -> np.ndarray:
    """The value that a program of `programs.export_initializer` makes, writable.

    A large one is left where JAX computed it, so that it is in memory once.
    """
    exported = jax.export.deserialize(bytearray(unpack_checked(program)))
    with jax.default_device(jax.devices("cpu")[0]):
        (value,) = jax.tree.leaves(jax.jit(exported.call)())
    return taken_over(value)
