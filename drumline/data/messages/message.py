"""What all messages have, by the names of protocol buffers' Python classes."""

from __future__ import annotations

import abc
from typing import Any, Self

from drumline._core import message_field


class Message(abc.ABC):
    """Bytes in protocol buffers' format, and back."""

    @abc.abstractmethod
    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        """Numbers and contents of the fields."""

    @abc.abstractmethod
    def _read(self, message: bytes) -> None:
        """Adds what bytes say."""

    @abc.abstractmethod
    def _text(self) -> list[str]:
        """Lines of the text format."""

    def SerializeToString(self, deterministic: bool = False) -> bytes:
        """The message's bytes.

        Args:
            deterministic: whether the entries of maps are sorted by their keys. Otherwise they are
                in the order in which they were put in.
        """
        fields = self._fields(deterministic)
        return b"".join([message_field(number, content) for number, content in fields])

    def ParseFromString(self, serialized: bytes) -> int:
        """Takes the place of the contents; returns the number of bytes.

        Raises:
            ValueError: the bytes are no such message.
        """
        read = type(self).FromString(serialized)
        self.__dict__.update(read.__dict__)
        return len(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> Self:
        """A message from its bytes.

        Raises:
            ValueError: the bytes are no such message.
        """
        message = cls()
        try:
            message._read(bytes(serialized))
        except ValueError as error:
            raise ValueError(f"{cls.__name__}.FromString: no such message: {error}") from None
        return message

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.SerializeToString(True) == other.SerializeToString(True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join(f"{line}\n" for line in self._text())


def checked(value: Any, kind: type[Message], where: str) -> Any:
    """``value``, which is a message of this kind.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{where} must be {kind.__name__}, got {value!r:.80}")
    return value


def block(name: str, lines: list[str]) -> list[str]:
    """A message within another, in the text format."""
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]
