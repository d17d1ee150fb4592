"""Taking requests apart.

What a parameter server refuses, and why. A refused request has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from drumline._core import UpdateRule
from drumline.distribute.parameter_server.errors import RequestError
from drumline.distribute.parameter_server.wire.codec import Message

T = TypeVar("T")


def field(header: dict[str, Any], name: str, kind: type[T]) -> T:
    """The field `name` of a header.

    Raises:
        RequestError: if there is none, or one of another type.
    """
    if name not in header:
        raise RequestError(f"A request lacks the field {name!r}; it has {sorted(header)}.")
    value = header[name]
    if not isinstance(value, kind):
        raise RequestError(
            f"A request's field {name!r} is {value!r}; it has to be of type {kind.__name__}."
        )
    return value


def only_array(request: Message, what: str) -> np.ndarray:
    """The one array that a request brings.

    Raises:
        RequestError: if it brings none, or more.
    """
    if len(request.arrays) != 1:
        raise RequestError(f"A request brings {len(request.arrays)} arrays instead of one: {what}.")
    return request.arrays[0]


def shape_of(header: dict[str, Any]) -> tuple[int, ...]:
    """The field ``shape``.

    Raises:
        RequestError: if it is no list of sizes.
    """
    sizes: list[Any] = list(field(header, "shape", (list, tuple)))  # type: ignore[arg-type]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise RequestError(f"A request's field 'shape' is {sizes}; pass sizes, none below 0.")
    return tuple(sizes)


def dtype_of(name: str) -> np.dtype:
    """The dtype of a name as Keras writes it, such as ``"bfloat16"``.

    Raises:
        RequestError: if there is no such dtype.
    """
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError as error:
        raise RequestError(f"A request names the dtype {name!r}, which there is not.") from error


def formula_of(header: dict[str, Any]) -> UpdateRule | None:
    """The optional field ``formula``.

    Raises:
        RequestError: if there is no such formula.
    """
    match header.get("formula"):
        case None:
            return None
        case {"name": str(name), "constants": list(constants)}:
            try:
                return UpdateRule(name, constants)
            except (TypeError, ValueError) as error:
                raise RequestError(f"A request's field 'formula' is unknown: {error}.") from error
        case other:
            raise RequestError(
                f"A request's field 'formula' is {other!r}; it has a name and constants."
            )


class Arrays:
    """The arrays of a request, taken one after the other.

    Raises:
        RequestError: from `take` and `take_ids` if there are no more, and from `end` if there are
            some left.
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = arrays
        self._next = 0
        self._ids: np.ndarray | None = None
        self._next_id = 0

    def take(self, what: str) -> np.ndarray:
        """The next array."""
        if self._next == len(self._arrays):
            raise RequestError(
                f"A request brings {len(self._arrays)} arrays, too few: {what} is missing."
            )
        self._next += 1
        return self._arrays[self._next - 1]

    def take_ids(self, entry: dict[str, Any], what: str) -> np.ndarray:
        """The next array; or, if the field ``ids`` tells how many, those of the last array."""
        if "ids" not in entry:
            return self.take(what)
        count = field(entry, "ids", int)
        if self._ids is None:
            self._ids = self._arrays[-1] if self._arrays else np.zeros(0, np.int32)
        start, self._next_id = self._next_id, self._next_id + count
        if self._ids.ndim != 1 or not start <= self._next_id <= len(self._ids):
            raise RequestError(
                f"A request's last array has the shape {self._ids.shape}; of {what}, its elements "
                f"[{start}, {self._next_id}), some are missing."
            )
        return self._ids[start : self._next_id]

    def end(self) -> None:
        """There are no more."""
        taken = self._next + (self._ids is not None)
        if taken != len(self._arrays):
            raise RequestError(
                f"A request brings {len(self._arrays)} arrays; its header speaks of {taken}."
            )
        if self._ids is not None and self._next_id != len(self._ids):
            raise RequestError(
                f"A request's last array holds {len(self._ids)} ids; its header speaks of "
                f"{self._next_id}."
            )
