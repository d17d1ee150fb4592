"""Event files of TensorBoard with unique names."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
import weakref
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from drumline._core import RecordEncoder
from drumline._extras import import_extra
from drumline._forks import never_freed, tell_in_child
from drumline._local_path import local_path

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

_opened = itertools.count()


def summary_writer(directory: str | os.PathLike[str]) -> SummaryWriter:
    """A writer of a new event file in `directory`.

    Raises:
        ValueError: `directory` is a URL.
        ImportError: tensorboardX is not installed.

    tensorboardX names a file after the second and the host, and empties one that exists: of two
    opened in one second the first would be lost. The process and a count follow, as in
    TensorFlow's names (`create_file_writer`: "<seconds>.<host>.<pid>.<unique id>.v2").
    """
    plain = local_path(directory, "TensorBoard's event files", "an event file")
    tensorboard = import_extra("tensorboardX", "tensorboard", "Writing TensorBoard's event files")
    writer = tensorboard.SummaryWriter(plain, filename_suffix=f".{os.getpid()}.{next(_opened)}.v2")
    tell_in_child(_Events(writer.file_writer.event_writer))
    return writer


class _Events:
    """What writes a file's events, in a thread that a forked child lacks and would wait for."""

    def __init__(self, events: Any) -> None:
        self._events = events
        events.drumline = self  # lives as long as they do

    def forked(self) -> None:
        """See `Forked`: the child has nothing to write there."""
        self._events._closed = True
        never_freed(self._events)


_VERSION = "brain.Event:2"
_VARINT, _FIXED64, _BYTES = 0, 1, 2


class SummaryFile:
    """An event file of TensorBoard's, written record by record, without threads and packages.

    The format is that of TFRecord files whose records are ``tensorflow.Event`` messages.

    Args:
        directory: which is made if it is not there.
        max_queue: after so many events they are written out.
        flush_seconds: after so many seconds the next event has them written out.
        suffix: at the end of the file's name.

    Raises:
        ValueError: `directory` is a URL.
        OSError: the file cannot be written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        max_queue: int = 10,
        flush_seconds: float = 120.0,
        suffix: str = "",
    ):
        plain = local_path(directory, "TensorBoard's event files", "an event file")
        os.makedirs(plain, exist_ok=True)
        host, count = socket.gethostname(), next(_opened)
        name = f"events.out.tfevents.{int(time.time())}.{host}.{os.getpid()}.{count}.v2{suffix}"
        self.path = os.path.join(plain, name)
        self._encoder = RecordEncoder("", 0)
        self._file: IO[bytes] | None = open(self.path, "xb", buffering=0)  # noqa: SIM115
        self._lock = threading.RLock()
        self._most, self._seconds = max_queue, flush_seconds
        self._waiting, self._flushed = 0, time.monotonic()
        self._at_exit = weakref.finalize(self, _write_out, self._file, self._encoder, os.getpid())
        tell_in_child(self)
        self._add(bytes_field(3, _VERSION.encode()))
        self.flush()

    @property
    def closed(self) -> bool:
        """Whether it takes no more events."""
        return self._file is None

    def add(self, summary: bytes, step: int) -> None:
        """Append an event with a ``Summary`` message.

        Raises:
            ValueError: the file is closed.
        """
        self._add(varint_field(2, step) + bytes_field(5, summary))

    def _add(self, content: bytes) -> None:
        with self._lock:
            if self._file is None:
                raise ValueError(f"{self.path} is closed: it takes no more events")
            self._encoder.add(double_field(1, time.time()) + content)
            self._waiting += 1
            late = time.monotonic() - self._flushed >= self._seconds
            if self._waiting >= self._most or late:
                self.flush()

    def flush(self) -> None:
        """Write out what was added."""
        with self._lock:
            if self._file is not None:
                _write_all(self._file, self._encoder.take(True))
                self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Write out what was added, and close the file."""
        with self._lock:
            self.flush()
            if self._file is not None:
                self._at_exit.detach()
                self._file.close()
                self._file = None

    def forked(self) -> None:
        """See `Forked`: what was added before belongs to the parent, who writes it."""
        self._file = None
        self._at_exit.detach()
        self._lock = threading.RLock()


def _write_all(file: IO[bytes], content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _write_out(file: IO[bytes], encoder: RecordEncoder, process: int) -> None:
    if os.getpid() == process:
        _write_all(file, encoder.take(True))
        file.close()


def summary_value(tag: str, metadata: bytes, tensor: bytes) -> bytes:
    """A ``Summary`` message with one value.

    Args:
        tag: its name.
        metadata: a ``SummaryMetadata`` message.
        tensor: a ``TensorProto`` message.
    """
    value = bytes_field(1, tag.encode()) + bytes_field(9, metadata) + bytes_field(8, tensor)
    return bytes_field(1, value)


def summary_metadata(plugin: str, content: bytes, description: str, data_class: int) -> bytes:
    """A ``SummaryMetadata`` message.

    Args:
        plugin: of TensorBoard's, as ``"scalars"``.
        content: the plugin's data.
        description: Markdown.
        data_class: 1 of scalars, 2 of tensors, 3 of encoded images and sound.
    """
    data = bytes_field(1, plugin.encode()) + (bytes_field(2, content) if content else b"")
    about = bytes_field(3, description.encode()) if description else b""
    return bytes_field(1, data) + about + varint_field(4, data_class)


_KINDS = {"f4": 1, "f8": 2, "i4": 3, "u1": 4, "i2": 5, "i1": 6, "i8": 9, "b1": 10, "u2": 17}


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
    kind = _KINDS.get(array.dtype.str[1:])
    if kind is None:
        raise TypeError(f"a summary cannot hold an array of {array.dtype}")
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
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


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
