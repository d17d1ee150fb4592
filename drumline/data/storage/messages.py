"""``Example`` and ``SequenceExample``, with the methods that protocol buffers give them.

A ``ProtobufMessage`` is built from Python values, serialized by the Rust core, and parsed from
bytes or from protocol buffers' JSON; fields are read and set as in the generated classes of
TensorFlow (``tf.train.Feature``, ``BytesList`` and so on). Functions of the package protobuf, such
as ``google.protobuf.text_format.Merge``, take them where it is installed.
"""

from __future__ import annotations

import abc
import base64
import binascii
import functools
import json
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, SupportsIndex, TypeVar

import numpy as np

from drumline._core import list_message, list_values, message_field, message_fields

_FIELDS = {
    "BytesList": (("value", 1, "bytes", "repeated"),),
    "FloatList": (("value", 1, "float", "repeated"),),
    "Int64List": (("value", 1, "int64", "repeated"),),
    "Feature": (
        ("bytes_list", 1, "BytesList", "kind"),
        ("float_list", 2, "FloatList", "kind"),
        ("int64_list", 3, "Int64List", "kind"),
    ),
    "Features": (("feature", 1, "Feature", "map"),),
    "FeatureList": (("feature", 1, "Feature", "repeated"),),
    "FeatureLists": (("feature_list", 1, "FeatureList", "map"),),
    "Example": (("features", 1, "Features", ""),),
    "SequenceExample": (("context", 1, "Features", ""), ("feature_lists", 2, "FeatureLists", "")),
}
"""Of each message the fields: name, number, type, and whether repeated, a map, or of a oneof."""


@functools.cache
def _descriptors() -> dict[str, Any]:
    """The descriptors that the package protobuf makes of the messages, by their names."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError as error:
        raise AttributeError(
            "DESCRIPTOR is for functions of the package protobuf, which is not installed"
        ) from error
    file = descriptor_pb2.FileDescriptorProto(
        name="drumline/example.proto", package="tensorflow", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            added = message.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if label in ("repeated", "map"):
                added.label = kinds.LABEL_REPEATED
            elif label:
                if not message.oneof_decl:
                    message.oneof_decl.add(name=label)
                added.oneof_index = 0
            if label == "map":
                entry = message.nested_type.add(name=f"{field.title().replace('_', '')}Entry")
                entry.options.map_entry = True
                text, of_value = {"name": "key", "number": 1}, {"name": "value", "number": 2}
                entry.field.add(**text, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_STRING)
                value = entry.field.add(**of_value, label=kinds.LABEL_OPTIONAL)
                value.type, value.type_name = kinds.TYPE_MESSAGE, f".tensorflow.{kind}"
                added.type = kinds.TYPE_MESSAGE
                added.type_name = f".tensorflow.{name}.{entry.name}"
            elif kind in _FIELDS:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".tensorflow.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()  # not that of TensorFlow's own classes
    pool.AddSerializedFile(file.SerializeToString())
    return {name: pool.FindMessageTypeByName(f"tensorflow.{name}") for name in _FIELDS}


class _Descriptor:
    """What the package protobuf knows of a class of messages, made when it is asked for."""

    def __get__(self, instance: Any, owner: type) -> Any:
        return _descriptors()[owner.__name__]


class ProtobufMessage(abc.ABC):
    """Bytes in protocol buffers' format, and back.

    Attributes:
        DESCRIPTOR: the fields, as the package protobuf describes them.
    """

    DESCRIPTOR: ClassVar[Any] = _Descriptor()
    _owner: weakref.ref[Any] | None = None  # whose field it is, if that was not there before

    def _owned_by(self, owner: ProtobufMessage) -> Self:
        """Return the message, known as a field of another that is not there yet."""
        self._owner = weakref.ref(owner)
        return self

    def _note(self, part: ProtobufMessage) -> None:
        """Have a field that holds nothing be there all the same."""
        raise NotImplementedError(f"{type(self).__name__} has no field that may be absent")

    def SetInParent(self) -> None:
        """Have the message be there in the one whose field it is, even if it is empty."""
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            owner._note(self)

    def Clear(self) -> None:
        """Remove the contents."""
        self.ParseFromString(b"")

    def CopyFrom(self, other: Self) -> None:
        """Take the contents of another message of the class."""
        self.ParseFromString(checked(other, type(self), "CopyFrom").SerializeToString())

    def MergeFrom(self, other: Self) -> None:
        """Add the contents of another message of the class."""
        self._read(checked(other, type(self), "MergeFrom").SerializeToString())

    def ListFields(self) -> list[tuple[Any, Any]]:
        """Return the fields that are there: descriptor and value of each."""
        there = {number for number, _ in message_fields(self.SerializeToString())}
        fields = self.DESCRIPTOR.fields
        return [(each, getattr(self, each.name)) for each in fields if each.number in there]

    def HasField(self, name: str) -> bool:
        """Return whether the field of this name is there.

        Raises:
            ValueError: there is no such field, or it is a list or a map.
        """
        for field, number, _, label in _FIELDS[type(self).__name__]:
            if field == name and label not in ("repeated", "map"):
                return number in {each for each, _ in message_fields(self.SerializeToString())}
        raise ValueError(f"{type(self).__name__} has no field {name!r} that may be absent")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_owner"}

    @abc.abstractmethod
    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        """Return numbers and contents of the fields."""

    @abc.abstractmethod
    def _read(self, message: bytes) -> None:
        """Add what bytes say."""

    @abc.abstractmethod
    def _text(self) -> list[str]:
        """Return lines of the text format."""

    def SerializeToString(self, deterministic: bool = False) -> bytes:
        """Return the message's bytes.

        Args:
            deterministic: whether the entries of maps are sorted by their keys. Otherwise they are
                in the order in which they were put in.
        """
        fields = self._fields(deterministic)
        return b"".join([message_field(number, content) for number, content in fields])

    def ParseFromString(self, serialized: bytes) -> int:
        """Take the place of the contents; return the number of bytes.

        Raises:
            ValueError: the bytes are no such message.
        """
        read = type(self).FromString(serialized)
        self.__dict__.update(read.__getstate__())
        return len(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> Self:
        """Return a message from its bytes.

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


def checked(value: Any, kind: type[ProtobufMessage], where: str) -> Any:
    """Return ``value``, which is a message of this kind.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{where} must be {kind.__name__}, got {value!r:.80}")
    return value


def block(name: str, lines: list[str]) -> list[str]:
    """Return a message within another, in the text format."""
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


class ValueList(ProtobufMessage):
    """A list of values of one kind."""

    kind: ClassVar[str]

    def __init__(self, value: Iterable[Any] = ()):
        """Take values: a sequence or array.

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
        """Return the values as Python has them, if they are of this kind."""

    @abc.abstractmethod
    def _shown(self, value: Any) -> str:
        """Return a value in the text format."""

    def SerializeToString(self, deterministic: bool = False) -> bytes:
        """Return the message's bytes."""
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


_KINDS: dict[str, tuple[int, type[ValueList]]] = {
    "bytes_list": (1, BytesList),
    "float_list": (2, FloatList),
    "int64_list": (3, Int64List),
}
_NAMES = {number: name for name, (number, _) in _KINDS.items()}


class Feature(ProtobufMessage):
    """One list of values, or none, as ``tf.train.Feature``.

    A list that is not there can be filled all the same: ``feature.int64_list.value.append(3)``.
    """

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ):
        """Take one list at most.

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
            self._lists[name] = _KINDS[name][1]()._owned_by(self)
        return self._lists[name]

    def _note(self, part: ProtobufMessage) -> None:
        self._kind = next(name for name, each in self._lists.items() if each is part)

    def WhichOneof(self, oneof: str) -> str | None:
        """Return which list there is: ``"bytes_list"``, ``"float_list"``, ``"int64_list"`` or None.

        Raises:
            ValueError: `oneof` is not ``"kind"``, or several lists have values.
        """
        if oneof != "kind":
            raise ValueError(f"Feature has the oneof 'kind', not {oneof!r}")
        filled = [name for name, values in self._lists.items() if values.value]
        if len(filled) > 1:
            raise ValueError(f"a Feature holds one list of values, not {' and '.join(filled)}")
        return filled[0] if filled else self._kind

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


_M = TypeVar("_M", bound=ProtobufMessage)


class Messages(list[_M], Generic[_M]):
    """The messages of a repeated field."""

    def __init__(self, kind: type[_M], messages: Iterable[_M] = ()):
        super().__init__(messages)
        self._kind = kind

    def add(self) -> _M:
        """Append an empty message and return it."""
        self.append(self._kind())
        return self[-1]

    def __reduce__(self) -> Any:
        return type(self), (self._kind, list(self))


class MapEntry(Generic[_M]):
    """An entry of a map, for the functions of the package protobuf.

    Args:
        kind: the class of the value.
        where: the field, as in messages.
        key: the name.
        value: the message.
    """

    def __init__(self, kind: type[_M], where: str, key: str = "", value: _M | None = None):
        self._owner, self._map = where.split(".")
        self._kind, self._value = kind, value
        self.key = key

    @property
    def value(self) -> _M:
        """The message, made when it is asked for."""
        if self._value is None:
            self._value = self._kind()
        return self._value

    def HasField(self, name: str) -> bool:
        """Return whether there is a value."""
        return name == "value" and self._value is not None

    @property
    def DESCRIPTOR(self) -> Any:
        """Its fields, as the package protobuf describes them."""
        return _descriptors()[self._owner].fields_by_name[self._map].message_type

    def ListFields(self) -> list[tuple[Any, Any]]:
        """Return descriptor and value of both fields."""
        return [(each, getattr(self, each.name)) for each in self.DESCRIPTOR.fields]


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

    def GetEntryClass(self) -> Callable[..., MapEntry[_M]]:
        """Return what makes an entry, as functions of the package protobuf fill it."""
        return functools.partial(MapEntry, self._kind, self._where)

    def messages(self, deterministic: bool) -> list[tuple[int, bytes]]:
        """Return the map's entries as fields."""
        keys = sorted(self, key=str.encode) if deterministic else list(self)
        return [(1, _entry(key, self[key].SerializeToString(deterministic))) for key in keys]

    def read(self, message: bytes) -> None:
        """Add the entries of a map."""
        for number, entry in message_fields(message):
            if number == 1:
                parts = dict(message_fields(entry))
                key = parts.get(1, b"").decode()
                value = self._kind()
                value._read(parts.get(2, b""))
                self[key] = value

    def text(self, name: str) -> list[str]:
        """Return lines of the text format."""
        lines: list[str] = []
        for key, value in self.items():
            entry = [f"key: {json.dumps(key, ensure_ascii=False)}", *block("value", value._text())]
            lines += block(name, entry)
        return lines


def _entry(key: str, value: bytes) -> bytes:
    return message_field(1, key.encode()) + message_field(2, value)


class Features(ProtobufMessage):
    """Features by their names, as ``tf.train.Features``."""

    def __init__(self, feature: Mapping[str, Feature] | None = None):
        """Take them.

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


class FeatureList(ProtobufMessage):
    """The features of frame after frame, as ``tf.train.FeatureList``."""

    def __init__(self, feature: Iterable[Feature] = ()):
        """Take them.

        Raises:
            TypeError: one is no ``Feature``.
        """
        listed = (checked(item, Feature, "FeatureList.feature") for item in feature)
        self._feature = Messages(Feature, listed)

    @property
    def feature(self) -> Messages[Feature]:
        """The features: a list, with ``add()`` for one more."""
        return self._feature

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        return [(1, item.SerializeToString(deterministic)) for item in self._feature]

    def _read(self, message: bytes) -> None:
        contents = [content for number, content in message_fields(message) if number == 1]
        self._feature += map(Feature.FromString, contents)

    def _text(self) -> list[str]:
        return [line for item in self._feature for line in block("feature", item._text())]


class FeatureLists(ProtobufMessage):
    """Lists of features by their names, as ``tf.train.FeatureLists``."""

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None):
        """Take them.

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


class Example(ProtobufMessage):
    """A record of features, as ``tf.train.Example``; ``dl.io.parse_example`` reads many at once."""

    def __init__(self, features: Features | None = None):
        """Take features.

        Raises:
            TypeError: they are no ``Features``.
        """
        self._is_given = features is not None
        self._features = Features()._owned_by(self) if features is None else features
        checked(self._features, Features, "Example: features")

    @property
    def features(self) -> Features:
        """The features by their names: ``example.features.feature["label"]``."""
        return self._features

    def _note(self, part: ProtobufMessage) -> None:
        self._is_given = True

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        content = self._features.SerializeToString(deterministic)
        return [(1, content)] if content or self._is_given else []

    def _read(self, message: bytes) -> None:
        for number, content in message_fields(message):
            if number == 1:
                self._is_given = True
                self._features._read(content)

    def _text(self) -> list[str]:
        return block("features", self._features._text()) if self._fields(False) else []


class SequenceExample(ProtobufMessage):
    """Features of a whole and of each of its frames, as ``tf.train.SequenceExample``."""

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None):
        """Take both.

        Raises:
            TypeError: one is of another class.
        """
        self._given = {1: context is not None, 2: feature_lists is not None}
        self._context = Features()._owned_by(self) if context is None else context
        if feature_lists is None:
            feature_lists = FeatureLists()._owned_by(self)
        self._feature_lists = feature_lists
        checked(self._context, Features, "SequenceExample: context")
        checked(self._feature_lists, FeatureLists, "SequenceExample: feature_lists")

    @property
    def context(self) -> Features:
        """Features of the whole."""
        return self._context

    @property
    def feature_lists(self) -> FeatureLists:
        """Features of the frames: ``sequence.feature_lists.feature_list["words"].feature[0]``."""
        return self._feature_lists

    def _note(self, part: ProtobufMessage) -> None:
        self._given.update({number: True for number, _, each in self._parts() if each is part})

    def _parts(self) -> list[tuple[int, str, ProtobufMessage]]:
        return [(1, "context", self._context), (2, "feature_lists", self._feature_lists)]

    def _fields(self, deterministic: bool) -> list[tuple[int, bytes]]:
        contents = [(n, part.SerializeToString(deterministic)) for n, _, part in self._parts()]
        return [(n, content) for n, content in contents if content or self._given[n]]

    def _read(self, message: bytes) -> None:
        parts = {number: part for number, _, part in self._parts()}
        for number, content in message_fields(message):
            if number in parts:
                self._given[number] = True
                parts[number]._read(content)

    def _text(self) -> list[str]:
        present = {number for number, _ in self._fields(False)}
        parts = [(name, part) for number, name, part in self._parts() if number in present]
        return [line for name, part in parts for line in block(name, part._text())]


_LISTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bytesList": ("bytes_list", lambda value: BytesList(value=map(_bytes, value))),
    "floatList": ("float_list", lambda value: FloatList(value=map(_float, value))),
    "int64List": ("int64_list", lambda value: Int64List(value=map(_json_integer, value))),
}


def example_from_json(text: bytes) -> Example:
    """Return the message that JSON says.

    Raises:
        ValueError: it is no JSON of an ``Example``; the message says what is wrong.
    """
    try:
        content = json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8: {error}") from None
    except RecursionError:
        raise ValueError("its lists are nested too deeply") from None
    features = _fields(content, "the Example", {"features": "features"}).get("features")
    if features is None:
        return Example()
    entries = _fields(features, "features", {"feature": "feature"}).get("feature", {})
    if not isinstance(entries, dict):
        raise ValueError(f"features.feature is {_shown(entries)}, not an object")
    return Example(Features({name: _feature(name, entry) for name, entry in entries.items()}))


def _feature(name: str, content: Any) -> Feature:
    where = f"feature {name!r}"
    names = {key: key for key in _LISTS} | {snake: key for key, (snake, _) in _LISTS.items()}
    lists: dict[str, Any] = {}
    for key, entry in _fields(content, where, names).items():
        values = _fields(entry, f"{key} of {where}", {"value": "value"}).get("value", [])
        if not isinstance(values, list):
            raise ValueError(f"{where}: value is {_shown(values)}, not a list")
        snake, made = _LISTS[key]
        try:
            lists[snake] = made(values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None
    return Feature(**lists)


def _fields(content: Any, where: str, names: dict[str, str]) -> dict[str, Any]:
    """Return the fields that are not null, by their names in JSON."""
    if not isinstance(content, dict):
        raise ValueError(f"{where} is {_shown(content)}, not an object")
    unknown = [key for key in content if key not in names]
    if unknown:
        raise ValueError(f"{where} has no field {unknown[0]!r}; it has {', '.join(names)}")
    found = [(names[key], value) for key, value in content.items() if value is not None]
    return _object(found)


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"duplicate key {key!r}")
        made[key] = value
    return made


def _json_integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | str) or "_" in str(value):
        raise ValueError(f"{_shown(value)} is no integer")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or "_" in str(value):
        raise ValueError(f"{_shown(value)} is no number")
    return float(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no base64 string")
    filled = value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
    try:
        return base64.b64decode(filled.translate({45: 43, 95: 47}), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{_shown(value)} is no base64 string: {error}") from None


def _shown(value: Any) -> str:
    return f"{json.dumps(value):.60}"
