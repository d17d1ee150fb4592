"""Messages as bytes: their frames, arrays by dtype, and memory for those that are received.

A message is a kind of frame, a byte; a fixed head; JSON with the operation, the header and what
arrays there are; the bytes of its small arrays; and then the other arrays one after another, but
for those that lie in shared memory. A message whose sender died is never complete. The other kind
of frame is a goodbye, a byte alone. What the header says is the business of `messages`.

`encode` makes a message ready, `Sender` writes those that any thread adds, several small ones at
once, and `MessageReader` reads them in the thread of the connection. Lengths are checked before
memory is taken. Received arrays are aligned, and their memory is used again once they are gone
(`Buffers`), as fresh memory costs more than the copy.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import math
import re
import reprlib
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from drumline._memory import SMALLEST_REUSED, BufferPool, aligned_empty, padded
from drumline.distribute.parameter_server.errors import ProtocolError
from drumline.distribute.parameter_server.wire.stream import Buffer, Stream

_NUMBERS = {
    np.dtype(name).name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "longdouble", "complex64", "complex128"),
        "clongdouble",
    )
}
_ML_NUMBERS = {
    name: np.dtype(value)
    for name, value in vars(ml_dtypes).items()
    if isinstance(value, type) and issubclass(value, np.generic)
}
_BY_NAME = {**_NUMBERS, **_ML_NUMBERS}
_TEXT_OR_TIME = re.compile(r"\|S\d{1,9}|<U\d{1,9}|\|V\d{1,9}|<[mM]8(\[\d{0,9}[a-zA-Zμ]{1,2}\])?")


@functools.lru_cache(maxsize=1024)
def dtype_name(dtype: np.dtype) -> str:
    """The name of `dtype`.

    Raises:
        TypeError: if arrays of it cannot be sent: objects, structures, other byte orders, and what
            has no size.
    """
    if dtype.hasobject:
        raise TypeError(
            f"An array of dtype {dtype} holds Python objects, which are not sent to other "
            f"processes. Convert it to a dtype of fixed size, such as np.array(strings, 'S16')."
        )
    if dtype.names is not None or dtype.subdtype is not None:
        raise TypeError(
            f"An array of the structured dtype {dtype} cannot be sent. Send its fields as arrays."
        )
    if not dtype.itemsize:
        raise TypeError(f"An array of dtype {dtype.str} cannot be sent: its elements have no size.")
    if _BY_NAME.get(dtype.name) == dtype:
        return dtype.name
    if _TEXT_OR_TIME.fullmatch(dtype.str):
        return dtype.str
    raise TypeError(
        f"An array of dtype {dtype.str} ({dtype.name}) cannot be sent: its byte order or type is "
        f"not this machine's. Use array.astype(array.dtype.newbyteorder('=')) for the former."
    )


@functools.lru_cache(maxsize=1024)
def named_dtype(name: str) -> np.dtype:
    """The dtype that `dtype_name` calls `name`.

    Raises:
        ProtocolError: if there is none.
    """
    found = _BY_NAME.get(name)
    if found is None and _TEXT_OR_TIME.fullmatch(name):
        try:
            found = np.dtype(name)
        except (TypeError, ValueError):
            found = None
    if found is None or not found.itemsize:
        raise ProtocolError(f"there is no dtype {name[:100]!r} here")
    return found


def as_array(op: str, index: int, value: object) -> np.ndarray:
    """Array number `index` of a message, if it can be sent. numpy's scalars become arrays.

    Raises:
        TypeError: if not.
    """
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(
            f"Array {index} of the message {op!r} is a {type(value).__name__}; only numpy "
            f"arrays are sent. Use np.asarray."
        )
    array = np.asarray(value)
    dtype_name(array.dtype)
    return array


_POOLED = ((1 << 20, 64), (16 << 20, 24), (64 << 20, 8))
"""Up to how many bytes, and how many buffers of each such size are used again.

As many as a caller has in flight, or each reply would be read into memory fresh from the system,
which takes several times as long as reading it. Larger ones are few, as they stay allocated.
"""
_BYTES = np.dtype(np.uint8)


class Buffers:
    """Hands out byte arrays at 64-byte aligned addresses.

    Those of 16 kB to 64 MB come from pools.
    """

    def __init__(self) -> None:
        self._pools = [(most, BufferPool(max_buffers=count)) for most, count in _POOLED]

    def take(self, nbytes: int) -> np.ndarray:
        """`nbytes` bytes, uninitialised.

        Raises:
            MemoryError: if there are not as many.
        """
        if nbytes >= SMALLEST_REUSED:
            for most, pool in self._pools:
                if nbytes <= most:
                    return pool.empty((nbytes,), _BYTES)
        return aligned_empty((nbytes,), _BYTES)


MESSAGE = b"M"
GOODBYE = b"B"

REQUEST, REPLY, ERROR = 0, 1, 2

INLINE_ARRAY = 16 * 1024
"""Bytes; a smaller array travels in its record."""
_INLINE_MESSAGE = 256 * 1024
LONGEST_TEXT = 1 << 28
"""Bytes of a message's JSON."""
LONGEST_INLINE = INLINE_ARRAY + _INLINE_MESSAGE

HEAD = struct.Struct("<QBII")
"""Sequence number, kind, and the bytes of the JSON and of the small arrays."""
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
        where: its place in shared memory, or None: inside the record, or behind it.
        behind: whether it comes behind the record.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    nbytes: int
    where: Place | None
    behind: bool

    def array(self, data: np.ndarray) -> np.ndarray:
        """The array whose bytes are `data`.

        Raises:
            ProtocolError: if there is no such array.
        """
        try:
            return data.view(self.dtype).reshape(self.shape)
        except ValueError as error:
            raise ProtocolError(f"an array of shape {self.shape} cannot be: {error}") from None


@dataclasses.dataclass(slots=True)
class Record:
    """A message but for the arrays that do not lie inside, as it was read.

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
        behind: the bytes of each array that comes behind the record.
        nbytes: of all arrays that the network carries.
    """

    text: bytes
    inline: list[bytes]
    behind: list[memoryview]
    nbytes: int

    def record(self, seq: int, kind: int) -> bytes:
        """The message up to the arrays behind it."""
        inline = b"".join(self.inline)
        head = HEAD.pack(seq, kind, len(self.text), len(inline))
        return b"".join((MESSAGE, head, self.text, inline))


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
        ValueError: if the header is too large.
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
            encoded.behind.append(_flat_bytes(checked[index]))
            encoded.nbytes += checked[index].nbytes
    encoded.text = f"{start[:-1]},{_to_json(specs)}]".encode()
    if len(encoded.text) > LONGEST_TEXT:
        raise ValueError(
            f"The header of the message {op!r} takes {len(encoded.text)} bytes of JSON; a message "
            f"has {LONGEST_TEXT} at most. Send large values as arrays."
        )
    return encoded


class MessageReader:
    """The messages of a stream.

    Args:
        stream: where they come from.
        shared: makes arrays of what lies in the peer's shared memory, all of one message's.
    """

    def __init__(
        self, stream: Stream, shared: Callable[[Sequence[Spec]], list[np.ndarray]]
    ) -> None:
        self._stream = stream
        self._shared = shared
        self._buffers = Buffers()

    def read(self) -> tuple[Record, list[np.ndarray]] | None:
        """The next message, or None at a goodbye.

        Raises:
            EOFError: if the stream ends without a goodbye.
            ProtocolError: if what comes is no message.
            MemoryError: if an array is too large.
            OSError: if the stream breaks, or ends within a message.
        """
        kind = self._stream.byte()
        if kind is None:
            raise EOFError
        if kind == GOODBYE[0]:
            return None
        if kind != MESSAGE[0]:
            raise ProtocolError("there is no such frame")
        record = self._record()
        return record, self._arrays(record) if record.specs or record.inline else []

    def _record(self) -> Record:
        seq, kind, text_length, inline_length = HEAD.unpack(self._stream.take(HEAD.size))
        if kind not in (REQUEST, REPLY, ERROR):
            raise ProtocolError(f"there is no message of kind {kind}")
        if text_length > LONGEST_TEXT or inline_length > LONGEST_INLINE:
            raise ProtocolError("a message is longer than any")
        op, header, specs = _parsed(bytes(self._stream.take(text_length)))
        return Record(seq, kind, op, header, specs, self._stream.take(inline_length))

    def _arrays(self, record: Record) -> list[np.ndarray]:
        inline = _Inline(record)
        placed = [spec for spec in record.specs if spec.where is not None]
        shared = iter(self._shared(placed) if placed else ())
        # What was read ahead goes when something else is read, so all of it is copied first.
        inside = {
            index: next(shared) if spec.where is not None else inline.take(spec)
            for index, spec in enumerate(record.specs)
            if not spec.behind
        }
        return [
            self._array_behind(spec) if spec.behind else inside[index]
            for index, spec in enumerate(record.specs)
        ]

    def _array_behind(self, spec: Spec) -> np.ndarray:
        data = self._buffers.take(spec.nbytes)
        self._stream.read_into(data.data)
        return spec.array(data)


class _Inline:
    """The arrays inside a record, copied to one aligned block."""

    def __init__(self, record: Record) -> None:
        sizes = [s.nbytes for s in record.specs if s.where is None and not s.behind]
        if sum(sizes) != len(record.inline):
            raise ProtocolError("a message's arrays have not the length that it states")
        self._source = record.inline
        self._block = aligned_empty((sum(map(padded, sizes)),), np.dtype(np.uint8))
        self._read = 0
        self._written = 0

    def take(self, spec: Spec) -> np.ndarray:
        size = spec.nbytes
        target = self._block[self._written : self._written + size]
        target[:] = np.frombuffer(self._source[self._read : self._read + size], np.uint8)
        self._read += size
        self._written += padded(size)
        return spec.array(target)


def _parsed(text: bytes) -> tuple[str, dict[str, Any], list[Spec]]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("a message's text is no JSON") from None
    if type(parsed) is list and list(map(type, parsed)) == [str, dict, list]:
        op, header, specs = parsed
        return op, header, [_spec(spec) for spec in specs]
    raise ProtocolError("a message's text is not an operation, a header and arrays")


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
    raise ProtocolError(f"an array's description is invalid: {reprlib.repr(described)}")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_BYTES


def _flat_bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


ArrayForm = tuple[tuple[int, ...], np.dtype]
"""The shape and the dtype of an array."""


class Lane(Protocol):
    """The connection by which a request came, as a server sees it.

    Attributes:
        number: no two lanes of a server share one.
        peer: the client's address, for messages to the user.
    """

    number: int
    peer: str

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """Uninitialised, 64-byte aligned arrays of these shapes and dtypes for one reply.

        It need not copy them.
        """

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """One such array in memory that both sides see; None if there is none, or no room in it."""


@dataclasses.dataclass(slots=True)
class Message:
    """A request or a reply.

    Received arrays are 64-byte aligned and the receiver's own, except within one process: there
    they are the sender's, read-only. A sender must leave its arrays unchanged until the reply to
    them has come, or, for a reply, for good.

    Attributes:
        header: values that JSON has; tuples arrive as lists, keys as strings.
        arrays: in the order in which they were given.
        lane: by which connection a request came; None in replies.
    """

    header: dict[str, Any]
    arrays: Sequence[np.ndarray] = ()
    lane: Lane | None = None


Handler = Callable[[Message], "Message | Future[Message]"]
"""Answers a request, at once or later. It runs in the thread of its lane, so it keeps that lane
alone waiting; other lanes run other handlers, or the same, at the same time."""

Request = tuple[str, dict[str, Any], Sequence[np.ndarray]]
"""Operation, header and arrays."""

Handlers = Mapping[str, Handler]


_TOGETHER = 256 * 1024


class Sender:
    """Sends what any thread adds, in that order.

    Whoever adds also sends, unless another thread is sending already: then that one sends it too.
    Whose turn it is has nothing to do with the stream's lock, which others may hold for a moment:
    what is added then would not be sent.

    Args:
        stream: to send on.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._turn = threading.Lock()
        self._waiting: collections.deque[tuple[int, int, Encoded]] = collections.deque()

    def add(self, seq: int, kind: int, encoded: Encoded) -> None:
        """Let the message be sent by the next `flush`."""
        self._waiting.append((seq, kind, encoded))

    def flush(self) -> None:
        """Send what waits, unless another thread does. Nothing is left behind.

        Raises:
            OSError: if the stream is broken.
        """
        while self._waiting and self._turn.acquire(blocking=False):
            try:
                while parts := self._next_parts():
                    with self._stream.lock:
                        self._stream.write(parts)
            except BaseException:  # a message may have been sent in part: nothing can follow it
                self._waiting.clear()
                self._stream.end()
                raise
            finally:
                self._turn.release()

    def _next_parts(self) -> list[Buffer]:
        parts: list[Buffer] = []
        small: list[bytes] = []
        size = 0
        while self._waiting and size < _TOGETHER:
            seq, kind, encoded = self._waiting.popleft()
            small.append(encoded.record(seq, kind))
            size += len(small[-1])
            for data in encoded.behind:
                if small:
                    parts.append(b"".join(small))
                    small = []
                parts.append(data)
                size += data.nbytes
        if small:
            parts.append(b"".join(small))
        return parts
