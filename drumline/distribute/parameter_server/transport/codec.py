"""Messages as bytes.

A *record* is one message: a fixed head, JSON, and the bytes of its small arrays. Its other arrays
lie in shared memory or have gone before it in *chunks*, so the record is what commits them: a
message whose sender died is never complete. A *frame* is a kind, a byte, and either one chunk's
place or one or more records.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.transport.dtypes import (
    as_array,
    dtype_name,
    named_dtype,
)
from drumline.distribute.parameter_server.transport.errors import ProtocolError

RECORDS = b"R"
CHUNK = b"C"
GOODBYE = b"B"

REQUEST, REPLY, ERROR = 0, 1, 2

INLINE_ARRAY = 16 * 1024
"""Bytes; a smaller array travels in its record."""
_INLINE_MESSAGE = 256 * 1024
CHUNK_BYTES = 2 * 1024 * 1024

_HEAD = struct.Struct("<QBQQ")
_CHUNK_HEAD = struct.Struct("<cQIQQ")
_MOST_BYTES = 1 << 48

_to_json = json.JSONEncoder(separators=(",", ":")).encode

Place = tuple[int, int]
"""Where in a shared memory an array lies: the number of its slot, and the offset of its bytes."""


@dataclasses.dataclass(slots=True)
class Spec:
    """What a record says of one array.

    Attributes:
        dtype: its type.
        shape: its shape.
        nbytes: its size.
        where: its place in shared memory, or None: in the record, or in chunks.
        chunked: whether it went before in chunks.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    nbytes: int
    where: Place | None
    chunked: bool


@dataclasses.dataclass(slots=True)
class Record:
    """A record that was read.

    Attributes:
        seq: the number of the request on its lane; a reply has its request's.
        kind: `REQUEST`, `REPLY` or `ERROR`.
        op: the operation asked for; empty in replies.
        header: the message's.
        specs: of the arrays.
        inline: the bytes of the small ones, one after another.
    """

    seq: int
    kind: int
    op: str
    header: dict[str, Any]
    specs: list[Spec]
    inline: memoryview


@dataclasses.dataclass(slots=True)
class Encoded:
    """A message ready to be sent.

    Attributes:
        text: its JSON.
        inline: the small arrays' bytes.
        chunked: the number and the bytes of each array that goes in chunks.
        nbytes: of all arrays that the network carries.
    """

    text: bytes
    inline: list[memoryview | bytes]
    chunked: list[tuple[int, np.ndarray]]
    nbytes: int

    def record(self, seq: int, kind: int) -> bytes:
        """The record."""
        inline = b"".join(self.inline)
        return _HEAD.pack(seq, kind, len(self.text), len(inline)) + self.text + inline

    def chunks(self, seq: int) -> Iterator[tuple[bytes, np.ndarray]]:
        """Each chunk's frame, and the bytes that go with it."""
        for index, data in self.chunked:
            total = data.nbytes
            for start in range(0, total, CHUNK_BYTES):
                head = _CHUNK_HEAD.pack(CHUNK, seq, index, start, total)
                yield head, data[start : start + CHUNK_BYTES]


def encode(
    op: str,
    header: dict[str, Any],
    arrays: Sequence[np.ndarray],
    share: Callable[[Sequence[np.ndarray]], list[Place | None]],
) -> Encoded:
    """A message made ready.

    Args:
        op: the operation; empty in replies.
        header: what JSON can hold.
        arrays: of any layout.
        share: puts arrays into shared memory; None for those that must travel.

    Raises:
        TypeError: if JSON cannot hold the header, or an array is none or of no sendable dtype.
    """
    checked = [as_array(op, index, value) for index, value in enumerate(arrays)]
    try:
        start = _to_json([op, header])
    except (TypeError, ValueError) as error:
        raise TypeError(f"The header of the message {op!r} is not for JSON: {error}") from None
    specs: list[list[Any]] = [[dtype_name(array.dtype), array.shape] for array in checked]
    encoded = Encoded(b"", [], [], 0)
    large: list[int] = []
    for index, array in enumerate(checked):
        if array.nbytes < INLINE_ARRAY and encoded.nbytes < _INLINE_MESSAGE:
            encoded.inline.append(array.tobytes())
            encoded.nbytes += array.nbytes
        else:
            large.append(index)
    places = share([checked[index] for index in large]) if large else ()
    for index, place in zip(large, places, strict=True):
        specs[index].extend((1,) if place is None else place)
        if place is None:
            encoded.chunked.append((index, _flat_bytes(checked[index])))
            encoded.nbytes += checked[index].nbytes
    encoded.text = f"{start[:-1]},{_to_json(specs)}]".encode()
    return encoded


def decode(frame: memoryview) -> Iterator[tuple[Record, bool]]:
    """The records in a frame, without its first byte, and whether each is the last.

    Raises:
        ProtocolError: if it is cut off or makes no sense.
    """
    position = 0
    while position < len(frame):
        if len(frame) - position < _HEAD.size:
            raise ProtocolError("a record's head is cut off")
        seq, kind, text_length, inline_length = _HEAD.unpack_from(frame, position)
        text_at = position + _HEAD.size
        inline_at = text_at + text_length
        position = inline_at + inline_length
        if position > len(frame):
            raise ProtocolError("a record is cut off")
        op, header, specs = _parsed(bytes(frame[text_at:inline_at]))
        if kind not in (REQUEST, REPLY, ERROR):
            raise ProtocolError(f"there is no record of kind {kind}")
        record = Record(seq, kind, op, header, specs, frame[inline_at:position])
        yield record, position == len(frame)


def chunk_head(frame: memoryview) -> tuple[int, int, int, int]:
    """A chunk's request number, array, first byte, and the array's size in bytes.

    Raises:
        ProtocolError: if it is cut off or makes no sense.
    """
    if len(frame) != _CHUNK_HEAD.size:
        raise ProtocolError("a chunk's head has the wrong length")
    _, seq, index, start, total = _CHUNK_HEAD.unpack(frame)
    if total > _MOST_BYTES or start > total:
        raise ProtocolError("a chunk lies outside of its array")
    return seq, index, start, total


def _parsed(text: bytes) -> tuple[str, dict[str, Any], list[Spec]]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("a record's text is no JSON") from None
    if type(parsed) is list and list(map(type, parsed)) == [str, dict, list]:
        op, header, specs = parsed
        return op, header, [_spec(spec) for spec in specs]
    raise ProtocolError("a record's text is not an operation, a header and arrays")


def _spec(described: object) -> Spec:
    if type(described) is list and 2 <= len(described) <= 4:
        name, shape, *place = described
        counts = type(name) is str and type(shape) is list and len(shape) <= 32
        if counts and all(map(_is_count, shape)) and all(map(_is_count, place)):
            dtype = named_dtype(name)
            nbytes = math.prod(shape) * dtype.itemsize
            if nbytes <= _MOST_BYTES:
                where: Any = tuple(place) if len(place) == 2 else None
                return Spec(dtype, tuple(shape), nbytes, where, len(place) == 1)
    raise ProtocolError("an array's description makes no sense")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_BYTES


def _flat_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
