"""The bytes of a remote file, fetched before they are needed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from drumline._forks import finalize
from drumline.data.files.remote_reads import RemoteReads, asked_again, remote_reads


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
        """The next bytes, at most ``size``; none at the end."""
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
        """Stops fetching."""
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
    """The path with its scheme, where the file system tells it."""
    unstrip = getattr(system, "unstrip_protocol", None)
    return path if unstrip is None else str(unstrip(path))
