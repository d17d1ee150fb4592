"""Turning what users hand over (numbers, lists, arrays, strings) into columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.data.spec import STRING, as_dtype

_INT32 = np.iinfo(np.int32)


def is_array_literal(value: Any) -> bool:
    """Whether a list is a literal of numbers or strings, so that it means one array.

    A list that holds arrays, tuples or dicts is a structure of the user's instead.
    """
    if type(value) is not list:
        return False
    return all(
        isinstance(item, bool | int | float | complex | str | bytes | np.generic)
        or is_array_literal(item)
        for item in value
    )


def as_array(value: Any, exact: bool = False) -> np.ndarray:
    """Returns ``value`` as a numpy array with the dtype a column of it has.

    Arrays keep their dtype; Python integers become int32 (int64 where they do not fit), Python
    floats float32, complex numbers complex64, ``str`` is encoded as UTF-8: the rules of
    ``tf.convert_to_tensor``.

    Args:
        value: of the user's.
        exact: whether Python's numbers are to keep all their digits, for a cast to a dtype that is
            known: they become int64, float64 and complex128.

    Raises:
        TypeError: the value is no number, string or array of these.
        ValueError: a nested list is not rectangular.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        # XLA knows the machine's own byte order only.
        return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, bytes | str):
        return _encoded(np.array(value, dtype=object))
    if isinstance(value, bool | int | float | complex | list | tuple):
        return _from_python(value, exact)
    array = np.asarray(value)
    if array.dtype.kind in "SUO":
        return _encoded(array)
    as_dtype(array.dtype)
    return array


def within(error: Exception, place: str) -> Exception:
    """An error of ``as_array`` that says where the value was; of a kind that takes a message."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{place}: {error}")


def _from_python(value: Any, exact: bool) -> np.ndarray:
    try:
        array = np.array(value, dtype=object) if _holds_strings(value) else np.array(value)
    except ValueError as error:
        raise _uneven() from error
    kind = array.dtype.kind
    if kind in "SUO":
        return _encoded(array)
    if exact or _holds_numpy(value):
        return array
    if kind == "i":
        fits = array.size == 0 or (array.min() >= _INT32.min and array.max() <= _INT32.max)
        return array.astype(np.int32) if fits else array
    if kind == "f":
        return array.astype(np.float32)
    return array.astype(np.complex64) if kind == "c" else array


def _first(value: Any) -> Any:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return value


def _holds_strings(value: Any) -> bool:
    return isinstance(_first(value), str | bytes)


def _holds_numpy(value: Any) -> bool:
    return isinstance(_first(value), np.generic | np.ndarray)


def _encoded(array: np.ndarray) -> np.ndarray:
    out = np.empty(array.shape, STRING)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1)):
        if isinstance(item, bytes):
            flat[i] = item
        elif isinstance(item, str):
            flat[i] = item.encode()
        elif isinstance(item, list | tuple):
            raise _uneven()
        else:
            raise TypeError(
                f"cannot make a column of {type(item).__name__} (item {i}: {item!r:.60}); "
                "columns hold numbers, bools, bytes or str"
            )
    return out


def _uneven() -> ValueError:
    return ValueError(
        "a list whose items differ in length or depth is no array; rows of different lengths are a "
        "dl.RaggedArray.from_rows(...)"
    )
