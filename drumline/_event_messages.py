"""Messages of TensorBoard's event files, as protocol buffers' wire format has them.

Written by hand, since they are few: ``tensorflow.Event``'s summary, ``SummaryMetadata`` and
``TensorProto`` (tensorflow/core/util/event.proto and core/framework, unchanged since 2017).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def summary_message(tag: str, metadata: bytes, tensor: bytes) -> bytes:
    """A ``Summary`` message with one value.

    Args:
        tag: its name.
        metadata: a ``SummaryMetadata`` message.
        tensor: a ``TensorProto`` message.
    """
    value = bytes_field(1, tag.encode()) + bytes_field(9, metadata) + bytes_field(8, tensor)
    return bytes_field(1, value)


def summary_metadata(plugin: str, content: bytes = b"", description: str = "") -> bytes:
    """A ``SummaryMetadata`` message.

    Args:
        plugin: of TensorBoard's, as ``"scalars"``.
        content: the plugin's data.
        description: Markdown.
    """
    data = bytes_field(1, plugin.encode()) + (bytes_field(2, content) if content else b"")
    about = bytes_field(3, description.encode()) if description else b""
    return bytes_field(1, data) + about


def scalar_message(tag: str, value: float) -> bytes:
    """A ``Summary`` message with a number, for TensorBoard's plugin of scalars."""
    metadata = summary_metadata("scalars")
    return summary_message(tag, metadata, tensor_message(np.asarray(value, np.float32)))


def histogram_message(tag: str, buckets: np.ndarray) -> bytes:
    """A ``Summary`` message with a histogram.

    Args:
        tag: its name.
        buckets: float64, (n, 3): each bucket's left edge, right edge, and count.
    """
    metadata = summary_metadata("histograms")
    return summary_message(tag, metadata, tensor_message(np.asarray(buckets, np.float64)))


def buckets_of(data: np.ndarray, count: int = 30) -> np.ndarray:
    """Left edges, right edges and counts as TensorBoard makes them, float64 (count, 3)."""
    flat = data.astype(np.float64).ravel()
    if count == 0 or not flat.size:
        return np.zeros((count, 3))
    low, high = flat.min(), flat.max()
    if high == low:
        edges = np.full(count, low)
        counts = np.zeros(count)
        counts[-1] = flat.size
        return np.stack([edges, edges, counts], 1)
    width = (high - low) / count
    places = np.minimum(np.floor((flat - low) / width).astype(np.int64), count - 1)
    edges = np.linspace(low, high, count + 1)
    return np.stack([edges[:-1], edges[1:], np.bincount(places, minlength=count)], 1)


_KINDS = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}


def tensor_message(array: np.ndarray) -> bytes:
    """A ``TensorProto`` message of an array of numbers or of ``bytes``.

    Raises:
        TypeError: of an array of another type.
    """
    dims = b"".join(bytes_field(2, varint_field(1, size)) for size in array.shape)
    shape = bytes_field(2, dims)
    if array.dtype.kind == "O":
        texts = b"".join(bytes_field(8, text) for text in array.ravel().tolist())
        return varint_field(1, 7) + shape + texts
    kind = _KINDS.get(array.dtype.name)
    if kind is None:
        raise TypeError(f"a summary cannot hold an array of {array.dtype}")
    content = np.ascontiguousarray(array).tobytes()
    return varint_field(1, kind) + shape + bytes_field(4, content)


def varint_field(number: int, value: int) -> bytes:
    """A field of a protocol buffer that is a number."""
    return _varint(number << 3 | _VARINT) + _varint(value & (2**64 - 1))


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that is text, or a message."""
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def double_field(number: int, value: float) -> bytes:
    """A field that is a number with a fraction."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


@functools.lru_cache(4096)
def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def scalars_of_event(event: bytes) -> tuple[float, int, list[tuple[str, float]]]:
    """The time, the step and the scalars of an ``Event``, of TensorFlow 2's kind and of 1's.

    Raises:
        ValueError, IndexError, KeyError: it is no such message.
    """
    fields = fields_of_message(event)
    moment = struct.unpack("<d", fields[1][0])[0] if 1 in fields else 0.0
    step = fields.get(2, [0])[0]
    found = [each for summary in fields.get(5, []) for each in _scalars(summary)]
    return moment, step - 2**64 if step >= 2**63 else step, found


def _scalars(summary: Any) -> Iterator[tuple[str, float]]:
    for each in fields_of_message(summary).get(1, []):
        value = fields_of_message(each)
        name = value[1][0].decode()
        if 2 in value:
            yield name, struct.unpack("<f", value[2][0])[0]
        elif 8 in value:
            tensor = fields_of_message(value[8][0])
            content = tensor.get(4, tensor.get(5, [b""]))[0]
            if tensor.get(1) == [1] and len(content) == 4:
                yield name, struct.unpack("<f", content)[0]


def fields_of_message(message: bytes) -> dict[int, list[Any]]:
    """The fields of a protocol buffer by number: integers of varints, else bytes.

    Raises:
        IndexError: the message is cut off.
        KeyError: a field is of a kind that there is not.
    """
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            value: Any = varint()
        else:
            size = {1: 8, 5: 4}[kind] if kind != 2 else varint()
            value = message[at : at + size]
            at += size
            if at > len(message):
                raise IndexError("a field is cut off")
        found.setdefault(number, []).append(value)
    return found
