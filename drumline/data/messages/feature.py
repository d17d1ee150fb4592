"""``Feature``: a list of values of any kind."""

from __future__ import annotations

from typing import Any

from drumline._core import message_fields
from drumline.data.messages.message import Message, block, checked
from drumline.data.storage.messages import BytesList, FloatList, Int64List, ValueList

_KINDS: dict[str, tuple[int, type[ValueList]]] = {
    "bytes_list": (1, BytesList),
    "float_list": (2, FloatList),
    "int64_list": (3, Int64List),
}
_NAMES = {number: name for name, (number, _) in _KINDS.items()}


class Feature(Message):
    """One list of values, or none, as ``tf.train.Feature``.

    A list that is not there can be filled all the same: ``feature.int64_list.value.append(3)``.
    """

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ):
        """Takes one list at most.

        Raises:
            TypeError: a list is of another class.
            ValueError: there are several.
        """
        given = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        self._lists: dict[str, ValueList] = {
            name: checked(value, _KINDS[name][1], f"Feature: {name}")
            for name, value in given.items()
            if value is not None
        }
        if len(self._lists) > 1:
            raise ValueError(f"a Feature holds one list of values, not {' and '.join(self._lists)}")
        self._kind = next(iter(self._lists), None)

    @property
    def bytes_list(self) -> BytesList:
        """Strings."""
        return self._list("bytes_list")

    @property
    def float_list(self) -> FloatList:
        """Numbers."""
        return self._list("float_list")

    @property
    def int64_list(self) -> Int64List:
        """Integers."""
        return self._list("int64_list")

    def _list(self, name: str) -> Any:
        if name not in self._lists:
            self._lists[name] = _KINDS[name][1]()
        return self._lists[name]

    def WhichOneof(self, oneof: str) -> str | None:
        """Which list there is: ``"bytes_list"``, ``"float_list"``, ``"int64_list"`` or None.

        Raises:
            ValueError: `oneof` is not ``"kind"``, or several lists have values.
        """
        if oneof != "kind":
            raise ValueError(f"Feature has the oneof 'kind', not {oneof!r}")
        filled = [name for name, values in self._lists.items() if values.value]
        if len(filled) > 1:
            raise ValueError(f"a Feature holds one list of values, not {' and '.join(filled)}")
        return filled[0] if filled else self._kind

    def HasField(self, name: str) -> bool:
        """Whether the list of this name is there.

        Raises:
            ValueError: there is no such field.
        """
        if name not in _KINDS:
            raise ValueError(f"Feature has no field {name!r}")
        return self.WhichOneof("kind") == name

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        kind = self.WhichOneof("kind")
        if kind is None:
            return []
        return [(_KINDS[kind][0], self._lists[kind].SerializeToString())]

    def _read(self, message: bytes) -> None:
        for number, content in message_fields(message):
            if number in _NAMES:
                name = _NAMES[number]
                if self._kind != name:
                    self._kind, self._lists = name, {name: _KINDS[name][1]()}
                self._lists[name]._read(content)

    def _text(self) -> list[str]:
        kind = self.WhichOneof("kind")
        return [] if kind is None else block(kind, self._lists[kind]._text())
