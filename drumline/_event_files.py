"""Event files of TensorBoard, written record by record."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import socket
import threading
import time
import weakref

from drumline._core import RecordEncoder
from drumline._event_messages import bytes_field, double_field, varint_field
from drumline._forks import at_exit, tell_in_child
from drumline._local_path import local_path

_opened = itertools.count()

_VERSION = "brain.Event:2"
_MOST_WAITING = 64 << 20
"""How many bytes wait at most for a disk that is full."""


class SummaryFile:
    """An event file of TensorBoard's.

    The format is that of TFRecord files whose records are ``tensorflow.Event`` messages. Its name
    is one that no other file has, by the second, the host, the process and a count, as TensorFlow
    names its own (``create_file_writer``): ``events.out.tfevents.<seconds>.<host>.<pid>.<n>.v2``.

    What cannot be written, since a disk is full, is kept and written when there is room again. A
    record that was written in part is then written once more from its beginning, so that the file
    is whole up to where it ends, at any time.

    Args:
        directory: which is made if it is not there.
        max_queue: after so many events they are written out.
        flush_seconds: after so many seconds the next event has them written out.
        suffix: at the end of the file's name.

    Attributes:
        path: the file's.

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
        self.path, self._file = _opened_file(plain, suffix)
        self._most, self._seconds = max_queue, flush_seconds
        self._added, self._flushed = 0, time.monotonic()
        self._lock = threading.RLock()
        self._when_freed = weakref.finalize(self, _write_the_rest, self._file, os.getpid())
        self._when_freed.atexit = False
        _write_all_at_exit()
        _files.add(self)
        tell_in_child(self)
        try:
            self._add(bytes_field(3, _VERSION.encode()), time.time())
            self.flush()
        except OSError:
            self._when_freed.detach()
            self._file.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether it takes no more events."""
        return self._file.descriptor is None

    def add(self, summary: bytes, step: int, seconds: float | None = None) -> None:
        """Append an event with a ``Summary`` message.

        Args:
            summary: the message.
            step: the step it belongs to.
            seconds: when it was recorded, since 1970; None for now.

        Raises:
            ValueError: the file is closed.
            OSError: events cannot be written; they are kept, up to 64 MiB of them.
        """
        self._add(varint_field(2, step) + bytes_field(5, summary), seconds)

    def add_graph(self, graph: bytes, seconds: float | None = None) -> None:
        """Append an event with a ``GraphDef`` message; raises as `add`."""
        self._add(bytes_field(4, graph), seconds)

    def _add(self, content: bytes, seconds: float | None) -> None:
        with self._lock:
            if self._file.descriptor is None:
                raise ValueError(f"{self.path} is closed: it takes no more events")
            when = time.time() if seconds is None else seconds
            if self._file.waiting > _MOST_WAITING:
                self.flush()
            self._file.encoder.add(double_field(1, when) + content)
            self._added += 1
            late = time.monotonic() - self._flushed >= self._seconds
            if self._added >= self._most or late:
                self.flush()

    def flush(self) -> None:
        """Write out what was added.

        Raises:
            OSError: it cannot be written; it is kept for the next time.
        """
        with self._lock:
            try:
                self._file.write()
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"{error.strerror}: events wait in memory ({self._file.waiting} bytes) until "
                    "there is room",
                    self.path,
                ) from error
            self._added, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Write out what was added, and close the file.

        Raises:
            OSError: as of `flush`; the file is left open then.
        """
        with self._lock:
            if self._file.descriptor is not None:
                self.flush()
                self._when_freed.detach()
                self._file.close()

    def end_with_process(self) -> None:
        """Write out what was added, and from now on each event: what else ends now may add some."""
        self._most = 1
        if self._file.descriptor is not None:
            self.flush()

    def forked(self) -> None:
        """See `Forked`: what was added before belongs to the parent, who writes it."""
        self._file.descriptor = None
        self._when_freed.detach()
        self._lock = threading.RLock()


class _Records:
    """The file's end: whole records up to `end`, and what is to follow them."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: int | None = descriptor
        self.encoder = RecordEncoder("", 0)
        self._end = 0
        self._rest = b""

    @property
    def waiting(self) -> int:
        """How many bytes could not be written."""
        return len(self._rest)

    def write(self) -> None:
        if self.descriptor is None:
            return
        self._rest += self.encoder.take(True)
        left, at = memoryview(self._rest), self._end
        while left:
            count = os.pwrite(self.descriptor, left, at)
            left, at = left[count:], at + count
        self._end, self._rest = at, b""

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _opened_file(directory: str, suffix: str) -> tuple[str, _Records]:
    """A new file; processes of the same number on hosts of the same name may share a directory."""
    while True:
        seconds, host = int(time.time()), socket.gethostname()
        name = f"events.out.tfevents.{seconds}.{host}.{os.getpid()}.{next(_opened)}.v2{suffix}"
        path = os.path.join(directory, name)
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return path, _Records(os.open(path, flags, 0o666))


_files: weakref.WeakSet[SummaryFile] = weakref.WeakSet()


@functools.cache
def _write_all_at_exit() -> None:
    at_exit(_write_all)


def _write_all() -> None:
    errors = []
    for file in list(_files):
        try:
            file.end_with_process()
        except OSError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _write_the_rest(file: _Records, process: int) -> None:
    if os.getpid() == process:
        try:
            file.write()
        finally:
            file.close()
