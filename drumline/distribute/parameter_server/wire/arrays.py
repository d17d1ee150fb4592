"""Element types by name, as they stand in headers.

Memory for received arrays: aligned, and used again once nobody can see it.
"""

from __future__ import annotations

import functools
import re

import ml_dtypes
import numpy as np

from drumline._memory import SMALLEST_REUSED, BufferPool, aligned_empty
from drumline.distribute.parameter_server.errors import ProtocolError

_NUMBERS = {
    np.dtype(name).name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "longdouble", "complex64", "complex128"),
        "clongdouble",
    )
}
_ML_NUMBERS = {
    name: np.dtype(value)
    for name, value in vars(ml_dtypes).items()
    if isinstance(value, type) and issubclass(value, np.generic)
}
_BY_NAME = {**_NUMBERS, **_ML_NUMBERS}
_TEXT_OR_TIME = re.compile(r"\|S\d{1,9}|<U\d{1,9}|\|V\d{1,9}|<[mM]8(\[\d{0,9}[a-zA-Zμ]{1,2}\])?")


@functools.lru_cache(maxsize=1024)
def dtype_name(dtype: np.dtype) -> str:
    """The name of `dtype`.

    Raises:
        TypeError: if arrays of it cannot be sent: objects, structures, other byte orders, and what
            has no size.
    """
    if dtype.hasobject:
        raise TypeError(
            f"An array of dtype {dtype} holds Python objects, which are not sent to other "
            f"processes. Convert it to a dtype of fixed size, such as np.array(strings, 'S16')."
        )
    if dtype.names is not None or dtype.subdtype is not None:
        raise TypeError(
            f"An array of the structured dtype {dtype} cannot be sent. Send its fields as arrays."
        )
    if not dtype.itemsize:
        raise TypeError(f"An array of dtype {dtype.str} cannot be sent: its elements have no size.")
    if _BY_NAME.get(dtype.name) == dtype:
        return dtype.name
    if _TEXT_OR_TIME.fullmatch(dtype.str):
        return dtype.str
    raise TypeError(
        f"An array of dtype {dtype.str} ({dtype.name}) cannot be sent: its byte order or type is "
        f"not this machine's. Use array.astype(array.dtype.newbyteorder('=')) for the former."
    )


@functools.lru_cache(maxsize=1024)
def named_dtype(name: str) -> np.dtype:
    """The dtype that `dtype_name` calls `name`.

    Raises:
        ProtocolError: if there is none.
    """
    found = _BY_NAME.get(name)
    if found is None and _TEXT_OR_TIME.fullmatch(name):
        try:
            found = np.dtype(name)
        except (TypeError, ValueError):
            found = None
    if found is None or not found.itemsize:
        raise ProtocolError(f"there is no dtype {name[:100]!r} here")
    return found


def as_array(op: str, index: int, value: object) -> np.ndarray:
    """Array number `index` of a message, if it can be sent. numpy's scalars become arrays.

    Raises:
        TypeError: if not.
    """
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(
            f"Array {index} of the message {op!r} is a {type(value).__name__}; only numpy "
            f"arrays are sent. Use np.asarray."
        )
    array = np.asarray(value)
    dtype_name(array.dtype)
    return array


_POOLED = ((1 << 20, 64), (16 << 20, 24), (64 << 20, 8))
"""Up to how many bytes, and how many buffers of each such size are used again.

As many as a caller has in flight, or each reply would be read into memory fresh from the system,
which takes several times as long as reading it. Larger ones are few, as they stay allocated.
"""
_BYTES = np.dtype(np.uint8)


class Buffers:
    """Hands out byte arrays at 64-byte aligned addresses.

    Those of 16 kB to 64 MB come from pools.
    """

    def __init__(self) -> None:
        self._pools = [(most, BufferPool(max_buffers=count)) for most, count in _POOLED]

    def take(self, nbytes: int) -> np.ndarray:
        """`nbytes` bytes, uninitialised.

        Raises:
            MemoryError: if there are not as many.
        """
        if nbytes >= SMALLEST_REUSED:
            for most, pool in self._pools:
                if nbytes <= most:
                    return pool.empty((nbytes,), _BYTES)
        return aligned_empty((nbytes,), _BYTES)
