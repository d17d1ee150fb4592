"""Messages as dataclasses: encoded, decoded, and refused if they are not what they should be.

A message is a dataclass of `messages.py`. Fields that are numpy arrays travel as arrays, in their
order; a last field of the type `Arrays` is any number of further ones. All others travel in the
header under their names, and are left out where they have the default value. A field of the type
``Lane | None`` does not travel: the receiver gets the connection there. Fields can be texts,
numbers, booleans, `Count`, tuples, dictionaries with names, further dataclasses, and None.

`encode` and `decode` alone write and read headers. `decode` refuses what is not exactly such a
message: a field that is missing, unknown or of another type, too few or too many arrays. The error
names message and field, and comes before the handler is called, so nothing was changed.

What a dataclass has for fields is looked up once (`_schema`), when its first instance is encoded or
decoded; any thread may do that.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np

from drumline.distribute.parameter_server.errors import ProtocolError, RequestError
from drumline.distribute.parameter_server.wire.codec import Lane, Message

Reply = TypeVar("Reply")
Encoded = tuple[str, dict[str, Any], list[np.ndarray]]
"""Operation, header and arrays."""

Arrays = tuple[np.ndarray, ...]
"""Any number of arrays; a message's last array field."""

Count = Annotated[int, "an integer from 0"]

Class = TypeVar("Class")


@typing.dataclass_transform(kw_only_default=True)
def message(kind: type[Class]) -> type[Class]:
    """Make a class a message, or a value inside messages: a dataclass with named fields."""
    return dataclasses.dataclass(kw_only=True, slots=True)(kind)


class TaskRequest(Generic[Reply]):
    """A message that is answered, by a `Reply`.

    Attributes:
        operation: its name on the wire; no two requests to the same kind of task share one.
    """

    __slots__ = ()
    operation: ClassVar[str]


class _MismatchError(Exception):
    """A value is not of a field's type.

    Args:
        expected: the type, in words.
        value: what there is.
        path: where in the field, such as ``"[3].round"``.
    """

    def __init__(self, expected: str, value: object, path: str = "") -> None:
        self.expected, self.value, self.path = expected, value, path


_REQUIRED: Any = object()
_MISSING: Any = object()
_NOTHING: dict[str, Any] = {}
_Converter = Callable[[Any], Any]


@dataclasses.dataclass(slots=True)
class _Field:
    """A field of the header.

    Attributes:
        name: its name.
        exact: types of which all values are taken as they are.
        convert: makes the field's value of any other, or raises `_MismatchError`.
        to_json: makes what JSON has of the value; None if it is that.
        default: the value of a header without it; `_REQUIRED` if there is none.
    """

    name: str
    exact: frozenset[type]
    convert: _Converter
    to_json: _Converter | None
    default: Any


@dataclasses.dataclass(slots=True)
class _Schema:
    fields: list[_Field]
    arrays: list[str]
    rest: str | None
    lane: bool
    read: Callable[..., Any]


_schemas: dict[type[Any], _Schema] = {}


def _schema(kind: type[Any]) -> _Schema:
    schema = _schemas.get(kind)
    if schema is None:
        schema = _schemas[kind] = _schema_of(kind)
    return schema


def _schema_of(kind: type[Any]) -> _Schema:
    hints = typing.get_type_hints(kind, include_extras=True)
    schema = _Schema([], [], None, False, _refuse)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if hint is np.ndarray:
            schema.arrays.append(field.name)
        elif hint == Arrays:
            schema.rest = field.name
        elif hint == Lane | None:
            schema.lane = True
        else:
            required = field.default is dataclasses.MISSING
            default = _REQUIRED if required else field.default
            schema.fields.append(_Field(field.name, *_converters(hint), default))
    schema.read = _reader(kind, schema.fields)
    return schema


def encode(sent: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header and the arrays of a message.

    Example:
        >>> encode(AbandonRound(round=3))
        ({'round': 3}, [])
    """
    schema = _schema(type(sent))
    arrays = [getattr(sent, name) for name in schema.arrays]
    if schema.rest is not None:
        arrays.extend(getattr(sent, schema.rest))
    return _fields_to_json(schema.fields, sent), arrays


def encode_request(request: TaskRequest[Any]) -> Encoded:
    """The operation, the header and the arrays of a request, as `Connection.submit` takes them."""
    return (request.operation, *encode(request))


def decode_reply(request: TaskRequest[Reply], received: Message) -> Reply:
    """The reply to a request; see `decode`.

    Raises:
        ProtocolError: if what was received is no such reply.
    """
    kind = type(request)
    reply = _replies.get(kind)
    if reply is None:
        reply = _replies[kind] = typing.get_args(vars(kind)["__orig_bases__"][0])[0]
    return decode(reply, received)


_replies: dict[type[Any], type[Any]] = {}


def decode(kind: type[Reply], received: Message) -> Reply:
    """The message of a class that was received.

    Args:
        kind: a class of this module.
        received: what the connection has delivered.

    Raises:
        RequestError: if it is no such request; see the module.
        ProtocolError: if it is no such reply.
    """
    schema = _schema(kind)
    arrays = received.arrays
    count = len(schema.arrays)
    if len(arrays) != count and (schema.rest is None or len(arrays) < count):
        names = ", ".join([*schema.arrays, *([f"{schema.rest}..."] if schema.rest else [])])
        raise _refusal(kind, f"it brings {len(arrays)} arrays, and has: {names or 'none'}")
    others: dict[str, Any] = dict(zip(schema.arrays, arrays, strict=False))
    if schema.rest is not None:
        others[schema.rest] = tuple(arrays[count:])
    if schema.lane:
        others["lane"] = received.lane
    try:
        return schema.read(received.header, others)
    except _MismatchError as error:
        raise _refusal(kind, _described(error)) from None


Handler = Callable[[Any], "Any | Future[Message]"]
"""Answers a decoded request with its reply, or with an encoded one to come."""


def handler_of(kind: type[TaskRequest[Any]], handler: Handler) -> Callable[[Message], Any]:
    """What answers a request on the wire by a handler of decoded ones.

    Args:
        kind: the request's class.
        handler: returns an instance of its reply, or a future of a `Message` that `reply_of`
            made.
    """

    def answer(received: Message) -> Message | Future[Message]:
        reply = handler(decode(kind, received))
        return reply if isinstance(reply, Future) else reply_of(reply)

    return answer


def handlers_of(
    handlers: Mapping[type[TaskRequest[Any]], Handler],
) -> dict[str, Callable[[Message], Any]]:
    """Handlers on the wire, by operation; see `handler_of`."""
    return {kind.operation: handler_of(kind, each) for kind, each in handlers.items()}


def reply_of(reply: Any) -> Message:
    """A reply as the connection takes it."""
    return Message(*encode(reply))


def _refusal(kind: type[Any], reason: str) -> Exception:
    if issubclass(kind, TaskRequest):
        return RequestError(
            f"The request {kind.operation!r} ({kind.__name__}) is refused: {reason}."
        )
    return ProtocolError(
        f"The reply {kind.__name__} is invalid: {reason}. Let all tasks of the cluster run the "
        f"same version of drumline."
    )


def _described(error: _MismatchError) -> str:
    if error.value is _MISSING:
        return f"it lacks the field {error.path!r}"
    if not error.expected:
        return f"it has the unknown field {error.path!r}"
    # Of nested and of large values only a part, whatever a peer sends.
    text = reprlib.repr(error.value)
    return f"its field {error.path!r} is {text}; it has to be {error.expected}"


def _fields_to_json(fields: list[_Field], sent: Any) -> dict[str, Any]:
    header = {}
    for field in fields:
        current = getattr(sent, field.name)
        if current is not field.default:
            header[field.name] = current if field.to_json is None else field.to_json(current)
    return header


def _reader(kind: type[Any], fields: list[_Field]) -> Callable[..., Any]:
    """What makes an instance of `kind` from a header and from fields that do not come from it.

    It is compiled, as the methods of dataclasses are: a loop over the fields takes several times as
    long, which closures by the ten thousand a second would notice.
    """
    names: dict[str, Any] = {"kind": kind, "missing": _MISSING, "nested": _nested_value}
    names |= {"Mismatch": _MismatchError, "unknown": _unknown_field, "fields": fields}
    lines = ["def read(header, others):", "    given = len(header)"]
    for index, field in enumerate(fields):
        names |= {f"d{index}": field.default, f"e{index}": field.exact, f"c{index}": field.convert}
        lines += [
            f"    v{index} = header.get({field.name!r}, missing)",
            f"    if v{index} is missing:",
        ]
        if field.default is _REQUIRED:
            lines.append(f"        raise Mismatch('', missing, {field.name!r})")
        else:
            lines += [f"        v{index} = d{index}", "        given += 1"]
        lines.append(f"    elif type(v{index}) not in e{index}:")
        lines.append(f"        v{index} = nested(c{index}, {field.name!r}, v{index})")
    lines.append(f"    if given != {len(fields)}:")
    lines.append("        raise unknown(header, fields)")
    values = ", ".join(f"{field.name}=v{index}" for index, field in enumerate(fields))
    lines.append(f"    return kind({values}{', ' if values else ''}**others)")
    exec("\n".join(lines), names)
    read: Callable[..., Any] = names["read"]
    return read


def _nested_value(convert: _Converter, name: str, current: Any) -> Any:
    try:
        return convert(current)
    except _MismatchError as error:
        error.path = f"{name}{error.path}"
        raise


def _unknown_field(header: dict[str, Any], fields: list[_Field]) -> _MismatchError:
    known = {field.name for field in fields}
    return _MismatchError("", None, str(next(name for name in header if name not in known))[:100])


_PLAIN = {str: "a text", bool: "true or false", int: "an integer", float: "a number"}


def _converters(hint: Any) -> tuple[frozenset[type], _Converter, _Converter | None]:
    """For a type its exact types, its converter from JSON, and to it; see `_Field`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is float:
        return frozenset({float}), _number, None
    if hint in _PLAIN:
        return frozenset({hint}), functools.partial(_refuse, _PLAIN[hint]), None
    if hint is type(None):
        return frozenset({hint}), functools.partial(_refuse, "nothing"), None
    if origin is Annotated:
        return frozenset(), _count, None
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence(arguments[0])
    if origin is tuple:
        return _pair(arguments)
    if origin is dict:
        return _mapping(arguments[1])
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _nested(hint)
    raise TypeError(f"messages have no fields of type {hint}")


def _refuse(expected: str, current: Any) -> Any:
    raise _MismatchError(expected, current)


def _number(current: Any) -> float:
    if type(current) is not int:
        raise _MismatchError(_PLAIN[float], current)
    try:
        return float(current)
    except OverflowError:
        raise _MismatchError(_PLAIN[float], current) from None


def _count(current: Any) -> int:
    if type(current) is int and current >= 0:
        return current
    raise _MismatchError("an integer from 0", current)


def _union(hints: tuple[Any, ...]) -> tuple[frozenset[type], _Converter, _Converter | None]:
    choices = [_converters(hint) for hint in hints]
    exact = frozenset().union(*(each for each, _, _ in choices))
    converted = [each for each in choices if not each[0] or each[2] is not None]
    others = [convert for each, convert, _ in choices]

    def convert(current: Any) -> Any:
        errors = []
        for one in others:
            try:
                return one(current)
            except _MismatchError as error:
                if error.path:  # the right kind of value, which is wrong inside
                    raise
                errors.append(error.expected)
        raise _MismatchError(" or ".join(errors), current)

    to_json = [each for _, _, each in converted if each is not None]
    if not to_json:
        return exact, convert, None
    (one,) = to_json
    return exact, convert, lambda current: None if current is None else one(current)


def _sequence(item: Any) -> tuple[frozenset[type], _Converter, _Converter | None]:
    exact, convert_item, to_json = _converters(item)

    def convert(current: Any) -> tuple[Any, ...]:
        if type(current) not in (list, tuple):
            raise _MismatchError("a list", current)
        try:
            return tuple([one if type(one) in exact else convert_item(one) for one in current])
        except _MismatchError:
            for index, one in enumerate(current):
                try:
                    if type(one) not in exact:
                        convert_item(one)
                except _MismatchError as error:
                    error.path = f"[{index}]{error.path}"
                    raise error from None
            raise

    if to_json is None:
        return frozenset(), convert, None
    return frozenset(), convert, lambda current: [to_json(one) for one in current]


def _pair(hints: tuple[Any, ...]) -> tuple[frozenset[type], _Converter, _Converter | None]:
    kinds = [_converters(hint)[:2] for hint in hints]
    plain = list(hints)

    def convert(current: Any) -> tuple[Any, ...]:
        if type(current) not in (list, tuple) or len(current) != len(kinds):
            raise _MismatchError(f"a list of {len(kinds)}", current)
        if [type(one) for one in current] == plain:
            return tuple(current)
        return tuple(
            [
                one if type(one) in exact else convert_item(one)
                for one, (exact, convert_item) in zip(current, kinds, strict=True)
            ]
        )

    return frozenset(), convert, None


def _mapping(item: Any) -> tuple[frozenset[type], _Converter, _Converter | None]:
    exact, convert_item, to_json = _converters(item)

    def convert(current: Any) -> dict[str, Any]:
        if type(current) is not dict:
            raise _MismatchError("an object", current)
        converted = {}
        for key, one in current.items():
            if type(key) is not str:
                raise _MismatchError("an object with names", current)
            try:
                converted[key] = one if type(one) in exact else convert_item(one)
            except _MismatchError as error:
                error.path = f"[{key[:100]!r}]{error.path}"
                raise
        return converted

    if to_json is None:
        return frozenset(), convert, None
    return frozenset(), convert, lambda current: {key: to_json(one) for key, one in current.items()}


def _nested(kind: type[Any]) -> tuple[frozenset[type], _Converter, _Converter | None]:
    schema = _schema(kind)
    read, fields = schema.read, schema.fields

    def convert(current: Any) -> Any:
        if type(current) is not dict:
            raise _MismatchError("an object", current)
        try:
            return read(current, _NOTHING)
        except _MismatchError as error:
            error.path = f".{error.path}"
            raise

    return frozenset(), convert, lambda current: _fields_to_json(fields, current)
