"""Compiled programs in files of a directory, which processes share without asking one another.

An entry is written beside its place and moved there, so half of one is never read. It begins with a
checksum, so what was damaged on the disk never reaches XLA: it is removed and compiled again. An
entry's time of modification is when it was last used; the oldest are removed first. Nothing that a
disk can do ends a program: the first failure is logged, and what cannot be kept is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from drumline._core import crc32c

_HEADER = struct.Struct("<24sQI")
_FORMAT = b"drumline program, v. 1\n\0"
_SUFFIX = ".program"
_PART = ".part-"
_LONGEST_NAME = 80
_PART_SECONDS = 3600.0
"""After that long the writer of a part is taken for dead."""
_TOUCH_SECONDS = 600.0
"""An entry that was used less long ago is not marked as used again."""

_log = logging.getLogger("drumline")


class ProgramFiles:
    """Programs by their keys, in a directory.

    Args:
        path: the directory; it is made when the first entry is written.
        max_bytes: how much its entries may take. Several processes that write at once may exceed
            it by a 64th each.
        max_age_seconds: how long an entry stays that no process uses.
    """

    def __init__(self, path: Path, max_bytes: float, max_age_seconds: float) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.max_age_seconds = max_age_seconds
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._warned = False
        self._writes = True
        self._bytes = 0.0
        self._written_since = float("inf")  # as if very much had been written: look first

    def get(self, key: str) -> bytes | None:
        """Return the program, or None where there is none or none that is whole."""
        entry = self._entry(key)
        value = None
        try:
            with entry.open("rb") as file:
                last_used = os.fstat(file.fileno()).st_mtime
                value = _unwrapped(file.read())
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn(f"{entry.name} cannot be read ({error}).")
        else:
            if value is None:
                self.discard(key, "its checksum does not match")
            elif time.time() - last_used > _TOUCH_SECONDS:
                with contextlib.suppress(OSError):  # it can be read, and that suffices
                    os.utime(entry)
        with self._lock:
            self.hits += value is not None
            self.misses += value is None
        return value

    def put(self, key: str, value: bytes) -> None:
        """Keep a program, and remove those used longest ago, if the directory becomes too full.

        Does nothing where the entry is there, or where an earlier one could not be written.
        """
        size = _HEADER.size + len(value)
        entry = self._entry(key)
        if not self._writes or entry.exists():
            return
        if size > self.max_bytes:
            self._warn(
                f"{entry.name} has {size} bytes and is not kept: all may have {self.max_bytes}."
            )
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(size)
            self._write(entry, value)
        except OSError as error:
            self._writes = False
            self._warn(f"{entry.name} cannot be written ({error}); this process writes no more.")

    def discard(self, key: str, reason: object) -> None:
        """Remove an entry of which nothing can be made: it is compiled again and replaced."""
        entry = self._entry(key)
        self._warn(f"{entry.name} is damaged ({reason}), and is made again.")
        _remove(entry)

    def failed(self, key: str) -> None:
        """Count an entry that was found, but could not be loaded, as a miss."""
        with self._lock:
            self.hits -= 1
            self.misses += 1

    def prune(self, needed: int = 0) -> None:
        """Remove what no process has used for long, and then what was used longest ago.

        Args:
            needed: how many bytes are about to be written, and have to find room.
        """
        now = time.time()
        entries = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as found:
            for item in found:
                is_part = item.name.startswith(_PART)
                if not is_part and not item.name.endswith(_SUFFIX):
                    continue
                with contextlib.suppress(FileNotFoundError):  # another process was quicker
                    status = item.stat(follow_symlinks=False)
                    if now - status.st_mtime > (_PART_SECONDS if is_part else self.max_age_seconds):
                        _remove(Path(item.path))
                    elif not is_part:
                        entries.append((status.st_mtime, item.path, status.st_size))
        total = needed + sum(size for *_, size in entries)
        if total > self.max_bytes * 15 / 16:
            for _, path, size in sorted(entries):
                if total <= self.max_bytes * 7 / 8:
                    break
                _remove(Path(path))
                total -= size
        self._bytes, self._written_since = total, 0

    def _entry(self, key: str) -> Path:
        """Where the program is: its name, for people, and a digest of all the key."""
        name = re.sub(r"[^\w.]", "_", key.partition("-")[0])[:_LONGEST_NAME]
        return self.path / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}{_SUFFIX}"

    def _make_room(self, size: int) -> None:
        with self._lock:
            self._bytes += size
            self._written_since += size
            limit = self.max_bytes * 15 / 16
            if self._bytes > limit or self._written_since > self.max_bytes / 64:
                self.prune(size)

    def _write(self, entry: Path, value: bytes) -> None:
        header = _HEADER.pack(_FORMAT, len(value), _checksum(value))
        part = tempfile.NamedTemporaryFile(dir=self.path, prefix=_PART, delete=False)  # noqa: SIM115
        try:
            with part:
                part.write(header)
                part.write(value)
            os.replace(part.name, entry)
        except BaseException:
            _remove(Path(part.name))
            raise

    def _warn(self, what: str) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        text = "The compilation cache in %s: %s Programs that are not in it are compiled."
        _log.log(logging.WARNING if first else logging.DEBUG, text, self.path, what)


def _unwrapped(data: bytes) -> bytes | None:
    """What was put, or None if these bytes are not what was written."""
    if len(data) < _HEADER.size:
        return None
    form, length, checksum = _HEADER.unpack_from(data)
    value = data[_HEADER.size :]
    if form != _FORMAT or length != len(value) or _checksum(value) != checksum:
        return None
    return value


def _checksum(value: bytes) -> int:
    return crc32c(np.frombuffer(value, np.uint8))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # another was quicker, or nothing here can be changed
        path.unlink()
