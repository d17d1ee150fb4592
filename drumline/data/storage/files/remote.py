"""Files by path or URL: patterns, opening, and reading ahead of remote ones through fsspec."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import io
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from drumline._core import RecordReader
from drumline._forks import ForkSafeLock, finalize
from drumline._local_path import has_scheme
from drumline._settings import note_choice
from drumline.data.storage.files.records import FileFormat


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path with a scheme, and the path in it.

    Raises:
        ImportError: the package that fsspec needs for the scheme is not installed.
        ValueError: there is no such scheme.
    """
    from fsspec.core import url_to_fs

    system, inner = url_to_fs(path)
    return system, inner


T = TypeVar("T")

_log = logging.getLogger("drumline.data")

_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


@dataclasses.dataclass(frozen=True)
class RemoteReads:
    """How remote files are read; see ``set_remote_reads``.

    Attributes:
        attempts: how often a request is made in all, if it fails for a reason that may pass: an
            ``OSError`` other than a missing or forbidden file, which time-outs are as well.
        pause: seconds before the second attempt; each further pause is four times as long.
        range_bytes: how much one request asks for: enough that its latency does not matter.
        at_once: how many requests of a file are under way.

    Raises:
        ValueError: a number is out of range.
    """

    attempts: int = 4
    pause: float = 0.4
    range_bytes: int = 4 << 20
    at_once: int = 2

    def __post_init__(self) -> None:
        for name, least in (("attempts", 1), ("pause", 0), ("range_bytes", 1), ("at_once", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"RemoteReads: {name} must be at least {least}, got {value}")


class _State:
    def __init__(self) -> None:
        self.reads = RemoteReads()
        self.retries = 0
        self.lock = ForkSafeLock()


_state = _State()


def remote_reads() -> RemoteReads:
    """Return how remote files are read at present."""
    return _state.reads


def set_remote_reads(reads: RemoteReads) -> RemoteReads:
    """Set how files opened from now on are read; return the setting before."""
    if not isinstance(reads, RemoteReads):
        raise TypeError(f"set_remote_reads takes RemoteReads, got {type(reads).__name__}")
    before, _state.reads = _state.reads, reads
    note_choice(set_remote_reads, reads)
    return before


def remote_retries() -> int:
    """Return how many requests for remote files this process has made again so far."""
    return _state.retries


def asked_again(
    request: Callable[[], T],
    url: str,
    reads: RemoteReads,
    wait: Callable[[float], object] = time.sleep,
) -> T:
    """Return what ``request`` returns, made again with growing pauses while it fails.

    Args:
        request: reads from the file.
        url: of the file, for the log and errors.
        reads: how often and after which pauses.
        wait: is called with the seconds to let pass.

    Raises:
        OSError: the last attempt's, with a note that names the file.
    """
    for attempt in range(1, reads.attempts + 1):
        try:
            return request()
        except OSError as error:
            if attempt == reads.attempts or isinstance(error, _LASTING):
                error.add_note(f"drumline: attempt {attempt} of {reads.attempts} to read {url}")
                raise
            pause = reads.pause * 4 ** (attempt - 1)
            with _state.lock:
                _state.retries += 1
            _log.warning(
                "%s: attempt %d of %d failed (%r); the next follows in %.1f s",
                url,
                attempt,
                reads.attempts,
                error,
                pause,
            )
            wait(pause)
    raise AssertionError("there is at least one attempt")


class ReadAhead:
    """Reads a file from ``start`` on by ranges, of which threads fetch the next ones meanwhile.

    Args:
        system: fsspec's file system.
        path: in it.
        start: the first byte to read.
        reads: how; as ``set_remote_reads`` says unless given.
        wait: is called with the seconds to let pass before asking again.

    Raises:
        OSError: when reading: the file is not there, or cannot be read.
    """

    def __init__(
        self,
        system: Any,
        path: str,
        start: int = 0,
        reads: RemoteReads | None = None,
        wait: Callable[[float], object] = time.sleep,
    ):
        self._system = system
        self._path = path
        self._next = start
        self._reads = reads or remote_reads()
        self._wait = wait
        self._end: int | None = None
        self._fetched = memoryview(b"")
        self._pool = ThreadPoolExecutor(self._reads.at_once, "drumline-read")
        self._under_way: deque[Future[bytes]] = deque()
        self._stop = finalize(self, self._pool.shutdown, False, cancel_futures=True)

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``; none at the end."""
        while not self._fetched:
            self._ask()
            if not self._under_way:
                return b""
            self._fetched = memoryview(self._under_way.popleft().result())
            if not self._fetched:
                raise OSError(f"{self._path} became shorter while it was read")
        part, self._fetched = self._fetched[:size], self._fetched[size:]
        if not self._fetched:
            self._ask()
        return bytes(part)

    def close(self) -> None:
        """Stop fetching."""
        self._stop()

    def _ask(self) -> None:
        if self._end is None:
            self._end = self._again(lambda: self._system.size(self._path))
            if self._end is None:
                raise OSError(f"{self._path}: its file system does not tell how long it is")
        while len(self._under_way) < self._reads.at_once and self._next < self._end:
            start, stop = self._next, min(self._next + self._reads.range_bytes, self._end)
            self._under_way.append(self._pool.submit(self._fetch, start, stop))
            self._next = stop

    def _fetch(self, start: int, stop: int) -> bytes:
        content: bytes = self._again(lambda: self._system.cat_file(self._path, start, stop))
        return content

    def _again(self, request: Callable[[], Any]) -> Any:
        return asked_again(request, url_of(self._system, self._path), self._reads, self._wait)


def url_of(system: Any, path: str) -> str:
    """Return the path with its scheme, where the file system tells it."""
    unstrip = getattr(system, "unstrip_protocol", None)
    return path if unstrip is None else str(unstrip(path))


class RemoteFile(io.RawIOBase):
    """Reads ranges of a file, each a request that is made again if it fails.

    Args:
        system: fsspec's file system.
        path: in it.

    Raises:
        OSError: the file is not there, or its length is not known.
    """

    def __init__(self, system: Any, path: str):
        self._system = system
        self._path = path
        self._url = url_of(system, path)
        self._reads = remote_reads()
        self._place = 0
        size = asked_again(lambda: system.size(path), self._url, self._reads)
        if size is None:
            raise OSError(f"{self._url}: its file system does not tell how long it is")
        self._size = int(size)

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Continue to another place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, ``size`` of them unless the file ends; all for -1."""
        stop = self._size if size is None or size < 0 else min(self._place + size, self._size)
        if stop <= self._place:
            return b""
        start = self._place
        content: bytes = asked_again(
            lambda: self._system.cat_file(self._path, start, stop), self._url, self._reads
        )
        if len(content) != stop - start:
            raise OSError(f"{self._url} became shorter while it was read")
        self._place = stop
        return content

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return how many bytes."""
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)


Source = int | ReadAhead
"""A descriptor, which readers duplicate, or what fetches a remote file's bytes."""


@contextlib.contextmanager
def opened_bytes(path: str, offset: int, compression: str, chunk: int) -> Iterator[Source]:
    """Yield the bytes of a file from a place on, or all of them if it is compressed.

    A descriptor is closed afterwards. The fetcher of a remote file continues unless it failed.

    Args:
        path: a local one, or one with a scheme.
        offset: bytes of the decompressed file before the place.
        compression: one of ``COMPRESSIONS``.
        chunk: how many bytes are read at once.

    Raises:
        OSError: the file cannot be opened.
        ImportError: fsspec lacks a package for the scheme.
    """
    if not has_scheme(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    system, inner = file_system(path)
    reads = remote_reads()
    reads = dataclasses.replace(reads, range_bytes=max(chunk, reads.range_bytes))
    source = ReadAhead(system, inner, 0 if compression else offset, reads)
    try:
        yield source
    except BaseException:
        source.close()
        raise


def open_records(
    path: str, form: FileFormat, offset: int, number: int
) -> tuple[RecordReader, Source]:
    """Return the reader of a file's records from a place on, and what it reads.

    A compressed file is read, and what comes before the place dropped.

    Args:
        path: a local one, or one with a scheme.
        form: how to read it.
        offset: bytes of the decompressed file before the first record.
        number: records before it.

    Raises:
        OSError: the file cannot be opened.
        ImportError: fsspec lacks a package for the scheme.
    """
    with opened_bytes(path, offset, form.compression, form.chunk) as source:
        reader = RecordReader(
            source, form.kind, form.compression, form.chunk, offset, number, form.sizes
        )
        return reader, source


def as_paths(given: Any, operation: str) -> list[str]:
    """Return a path, or a list or array of paths, as a list of strings.

    Raises:
        TypeError: something else is given.
    """
    if isinstance(given, str | bytes | os.PathLike):
        return [os.fsdecode(given)]
    items: Sequence[Any] = given.reshape(-1).tolist() if isinstance(given, np.ndarray) else given
    if isinstance(items, list | tuple):
        if all(isinstance(item, str | bytes | os.PathLike) for item in items):
            return [os.fsdecode(item) for item in items]
    raise TypeError(
        f"{operation}: expected a path, a list of paths or a Dataset of paths, got {given!r:.80}"
    )


def matching(patterns: Sequence[str]) -> list[str]:
    """Return the files that match one of the patterns, sorted; as often as patterns match them.

    ``*``, ``?`` and ``[...]`` stand for what they do in a shell, but hidden files match too;
    ``**`` is ``*``.

    Raises:
        FileNotFoundError: there are none.
    """
    found = [path for pattern in patterns for path in _matching(pattern)]
    if not found:
        raise FileNotFoundError(f"list_files: no files matched pattern: {', '.join(patterns)}")
    return sorted(found)


def _matching(pattern: str) -> list[str]:
    if not has_scheme(pattern):
        return glob.glob(pattern, include_hidden=True)
    system, inner = file_system(pattern)
    return [system.unstrip_protocol(path) for path in system.glob(inner)]
