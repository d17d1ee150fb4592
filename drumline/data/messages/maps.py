"""``Features``, ``FeatureList`` and ``FeatureLists``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from drumline._core import message_field, message_fields
from drumline.data.messages.feature import Feature
from drumline.data.messages.message import Message, block, checked

_M = TypeVar("_M", bound=Message)


class Entries(dict[str, _M], Generic[_M]):
    """Messages by names. One that is asked for and not there is made, as protocol buffers do."""

    def __init__(self, kind: type[_M], where: str, entries: Mapping[str, _M] | None):
        super().__init__()
        self._kind = kind
        self._where = where
        for key, value in (entries or {}).items():
            self[key] = value

    def __setitem__(self, key: str, value: _M) -> None:
        if not isinstance(key, str):
            raise TypeError(f"{self._where}: names must be str, got {key!r:.60}")
        super().__setitem__(key, checked(value, self._kind, f"{self._where}[{key!r}]"))

    def __missing__(self, key: str) -> _M:
        self[key] = self._kind()
        return self[key]

    def __reduce__(self) -> Any:
        return type(self), (self._kind, self._where, dict(self))

    def messages(self, deterministic: bool) -> list[tuple[int, bytes]]:
        """The map's entries as fields."""
        keys = sorted(self, key=str.encode) if deterministic else list(self)
        return [(1, _entry(key, self[key].SerializeToString(deterministic))) for key in keys]

    def read(self, message: bytes) -> None:
        """Adds the entries of a map."""
        for number, entry in message_fields(message):
            if number == 1:
                parts = dict(message_fields(entry))
                key = parts.get(1, b"").decode()
                value = self._kind()
                value._read(parts.get(2, b""))
                self[key] = value

    def text(self, name: str) -> list[str]:
        """Lines of the text format."""
        lines: list[str] = []
        for key, value in self.items():
            entry = [f"key: {json.dumps(key, ensure_ascii=False)}", *block("value", value._text())]
            lines += block(name, entry)
        return lines


def _entry(key: str, value: bytes) -> bytes:
    return message_field(1, key.encode()) + message_field(2, value)


class Features(Message):
    """Features by their names, as ``tf.train.Features``."""

    def __init__(self, feature: Mapping[str, Feature] | None = None):
        """Takes them.

        Raises:
            TypeError: a name is no str, or a value no ``Feature``.
        """
        self._feature = Entries(Feature, "Features.feature", feature)

    @property
    def feature(self) -> Entries[Feature]:
        """The features: a dict, in which one that is asked for and not there is made."""
        return self._feature

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        return self._feature.messages(deterministic)

    def _read(self, message: bytes) -> None:
        self._feature.read(message)

    def _text(self) -> list[str]:
        return self._feature.text("feature")


class FeatureList(Message):
    """The features of frame after frame, as ``tf.train.FeatureList``."""

    def __init__(self, feature: Iterable[Feature] = ()):
        """Takes them.

        Raises:
            TypeError: one is no ``Feature``.
        """
        self._feature = [checked(item, Feature, "FeatureList.feature") for item in feature]

    @property
    def feature(self) -> list[Feature]:
        """The features."""
        return self._feature

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        return [(1, item.SerializeToString(deterministic)) for item in self._feature]

    def _read(self, message: bytes) -> None:
        contents = [content for number, content in message_fields(message) if number == 1]
        self._feature += map(Feature.FromString, contents)

    def _text(self) -> list[str]:
        return [line for item in self._feature for line in block("feature", item._text())]


class FeatureLists(Message):
    """Lists of features by their names, as ``tf.train.FeatureLists``."""

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None):
        """Takes them.

        Raises:
            TypeError: a name is no str, or a value no ``FeatureList``.
        """
        self._feature_list = Entries(FeatureList, "FeatureLists.feature_list", feature_list)

    @property
    def feature_list(self) -> Entries[FeatureList]:
        """The lists: a dict, in which one that is asked for and not there is made."""
        return self._feature_list

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        return self._feature_list.messages(deterministic)

    def _read(self, message: bytes) -> None:
        self._feature_list.read(message)

    def _text(self) -> list[str]:
        return self._feature_list.text("feature_list")
