"""A remote file that is read at any place."""

from __future__ import annotations

import io
import os
from typing import Any

from drumline.data.files.read_ahead import url_of
from drumline.data.files.remote_reads import asked_again, remote_reads


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
        """The place that is read next."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to another place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, ``size`` of them unless the file ends; all for -1."""
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
        """Reads into a buffer; returns how many bytes."""
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)
