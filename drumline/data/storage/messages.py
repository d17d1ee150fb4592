"""``BytesList``, ``FloatList`` and ``Int64List``."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, SupportsIndex

import numpy as np

from drumline._core import list_message, list_values
from drumline.data.messages.message import Message


class ValueList(Message):
    """A list of values of one kind."""

    kind: ClassVar[str]

    def __init__(self, value: Iterable[Any] = ()):
        """Takes values: a sequence or array.

        Raises:
            TypeError: one is of another kind.
            ValueError: an integer has more than 64 bits.
        """
        self._values = Values(self.taken, value)

    @property
    def value(self) -> Values:
        """The values: a list, which takes such alone."""
        return self._values

    @staticmethod
    @abc.abstractmethod
    def taken(values: list[Any]) -> list[Any]:
        """The values as Python has them, if they are of this kind."""

    @abc.abstractmethod
    def _shown(self, value: Any) -> str:
        """A value in the text format."""

    def SerializeToString(self, deterministic: bool = False) -> bytes:
        """The message's bytes."""
        return list_message(self.kind, list(self._values))

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        raise NotImplementedError("a list of values is not written by its fields")

    def _read(self, message: bytes) -> None:
        list.extend(self._values, list_values(self.kind, message))

    def _text(self) -> list[str]:
        return [f"value: {self._shown(value)}" for value in self._values]


class Values(list[Any]):
    """The values of a list; others than of its kind are refused."""

    def __init__(self, taken: Callable[[list[Any]], list[Any]], values: Iterable[Any]):
        self._taken = taken
        super().__init__(self._taken(_listed(values)))

    def append(self, value: Any) -> None:
        super().append(self._taken([value])[0])

    def extend(self, values: Iterable[Any]) -> None:
        super().extend(self._taken(_listed(values)))

    def insert(self, index: SupportsIndex, value: Any) -> None:
        super().insert(index, self._taken([value])[0])

    def __iadd__(self, values: Iterable[Any]) -> Values:  # type: ignore[misc]
        self.extend(values)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        is_slice = isinstance(index, slice)
        taken = self._taken(_listed(value) if is_slice else [value])
        super().__setitem__(index, taken if is_slice else taken[0])

    def __reduce__(self) -> Any:
        return Values, (self._taken, list(self))


class BytesList(ValueList):
    """Strings, as ``tf.train.BytesList``."""

    kind = "string"

    @staticmethod
    def taken(values: list[Any]) -> list[bytes]:
        for value in values:
            if not isinstance(value, bytes):
                raise TypeError(
                    f"BytesList takes bytes, got {value!r:.60}; encode a str: value.encode()"
                )
        return [bytes(value) for value in values]

    def _shown(self, value: bytes) -> str:
        return '"' + "".join(map(_escaped, value)) + '"'


class FloatList(ValueList):
    """Numbers that are kept as float32, as ``tf.train.FloatList``."""

    kind = "float32"

    @staticmethod
    def taken(values: list[Any]) -> list[float]:
        if not values:
            return []
        for value in values:
            if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
                raise TypeError(f"FloatList takes numbers, got {value!r:.60}")
        with np.errstate(over="ignore"):
            floats: list[float] = np.array(list(map(float, values)), np.float32).tolist()
        return floats

    def _shown(self, value: float) -> str:
        shortest = (f"{value:.{digits}g}" for digits in range(6, 9))
        exact = (text for text in shortest if np.float32(text) == np.float32(value))
        return next(exact, f"{value:.9g}")


class Int64List(ValueList):
    """Integers of 64 bits with a sign, and bools, as ``tf.train.Int64List``."""

    kind = "int64"

    @staticmethod
    def taken(values: list[Any]) -> list[int]:
        return [_integer(value) for value in values]

    def _shown(self, value: int) -> str:
        return str(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        return int(value)
    if not hasattr(value, "__index__"):
        raise TypeError(f"Int64List takes integers, got {value!r:.60}; convert it with int()")
    integer = operator.index(value)
    if not -(1 << 63) <= integer < 1 << 63:
        raise ValueError(f"Int64List: {integer} has more than 64 bits")
    return integer


def _listed(values: Iterable[Any]) -> list[Any]:
    if isinstance(values, np.ndarray) and values.ndim == 1:
        listed: list[Any] = values.tolist()
        return listed
    return list(values)


_ESCAPES = {9: r"\t", 10: r"\n", 13: r"\r", 34: r"\"", 39: r"\'", 92: r"\\"}


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
