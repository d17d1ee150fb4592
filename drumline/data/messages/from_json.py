"""``Example`` messages from JSON, as protocol buffers' mapping has it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from typing import Any

from drumline.data.messages.example import Example
from drumline.data.messages.feature import Feature
from drumline.data.messages.maps import Features
from drumline.data.storage.messages import BytesList, FloatList, Int64List

_LISTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bytesList": ("bytes_list", lambda value: BytesList(value=map(_bytes, value))),
    "floatList": ("float_list", lambda value: FloatList(value=map(_float, value))),
    "int64List": ("int64_list", lambda value: Int64List(value=map(_integer, value))),
}


def example_from_json(text: bytes) -> Example:
    """The message that JSON says.

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
    """The fields that are not null, by their names in JSON."""
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
            raise ValueError(f"{key!r} is there twice")
        made[key] = value
    return made


def _integer(value: Any) -> int:
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
