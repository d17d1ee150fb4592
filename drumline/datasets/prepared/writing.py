"""Writing examples as TFDS does: in the order of hashes of their keys, in as many files."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import heapq
import os
import secrets
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from drumline._local_path import sync
from drumline._memory import available_bytes
from drumline.data.storage.files.records import TFRecordWriter
from drumline.data.storage.store.disk_errors import naming

Key = str | bytes | int

_NUMPY = (np.ndarray, np.generic)

RECORD_OVERHEAD = 16
"""Bytes that a TFRecord file has for each record besides the record."""

_LEAST_SHARD, _LARGEST_SHARD = 64 << 20, 1 << 30
_MOST_SHARDS = 1024
_LEAST_HELD, _MOST_HELD = 256 << 20, 1 << 30
_HEAD = struct.Struct("<16sQQ")
_MARK = "incomplete.drumline-"


class DuplicateKeyError(ValueError):
    """Two examples of a split have the same key, by which they are ordered."""


def number_of_shards(nbytes: int, examples: int) -> int:
    """Return in how many files TFDS writes records.

    Args:
        nbytes: of all records.
        examples: how many there are.
    """
    total = nbytes + examples * RECORD_OVERHEAD
    most, least = total // _LEAST_SHARD, total // _LARGEST_SHARD
    if least > _MOST_SHARDS:
        return next(n for n in range(2 * _MOST_SHARDS, 1 << 40, _MOST_SHARDS) if n >= least)
    for count in (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2):
        if least <= count <= most and examples >= count:
            return count
    return 1


class OrderedRecords:
    """Records, to be read in the order of their keys; what is too much for memory is on disk.

    Args:
        salt: what the hashes of keys begin with: the split's name.
        in_given_order: whether keys are numbers, by which records are ordered as they are.
        directory: for what is on disk.
        held_bytes: how much is in memory; by default an eighth of what is left, from 256 MiB to
            1 GiB.
    """

    def __init__(
        self, salt: str, in_given_order: bool, directory: Path, held_bytes: int | None = None
    ) -> None:
        self._hash = hashlib.md5(salt.encode(), usedforsecurity=False)
        self._given_order = in_given_order
        self._directory = directory
        if held_bytes is None:
            held_bytes = min(max(available_bytes() // 8, _LEAST_HELD), _MOST_HELD)
        self._most = held_bytes
        self._held: list[tuple[bytes, int, bytes]] = []
        self._held_bytes = 0
        self._runs: list[IO[bytes]] = []
        self.nbytes = self.count = 0

    def add(self, key: Key, record: bytes) -> None:
        """Add a record.

        Raises:
            TypeError: the key is neither text, bytes nor a number.
        """
        self._held.append((self._place(key), self.count, record))
        self.count += 1
        self.nbytes += len(record)
        self._held_bytes += len(record)
        if self._held_bytes > self._most:
            self._write_run()

    def _place(self, key: Key) -> bytes:
        if isinstance(key, _NUMPY) and key.size == 1:
            key = key.item()
        if self._given_order:
            if isinstance(key, bool) or not isinstance(key, int) or not -(1 << 62) < key < 1 << 62:
                raise TypeError(
                    f"with disable_shuffling the keys of examples are numbers, got {key!r:.60}"
                )
            return (key + (1 << 63)).to_bytes(16, "big")
        digest = self._hash.copy()
        digest.update(_key_bytes(key))
        return digest.digest()

    def _write_run(self) -> None:
        self._held.sort(key=lambda each: each[:2])
        with naming(self._directory):
            run = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115
            self._runs.append(run)  # to be closed, whatever happens
            for place, number, record in self._held:
                run.write(_HEAD.pack(place, number, len(record)))
                run.write(record)
            run.flush()
        self._held, self._held_bytes = [], 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the records in order.

        Raises:
            DuplicateKeyError: two have the same key.
        """
        self._held.sort(key=lambda each: each[:2])
        before: tuple[bytes, int] | None = None
        merged: Iterable[tuple[bytes, int, bytes]] = self._held
        if self._runs:
            runs = [*map(_read_run, self._runs), self._held]
            merged = heapq.merge(*runs, key=lambda each: each[:2])
        for place, number, record in merged:
            if before is not None and before[0] == place:
                raise DuplicateKeyError(
                    f"the examples {before[1]} and {number} of the split have the same key: each "
                    "needs one of its own"
                )
            before = place, number
            yield record

    def close(self) -> None:
        """Delete what is on disk."""
        for run in self._runs:
            run.close()
        self._runs, self._held = [], []


def _key_bytes(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.replace("\\", "/").encode()
    if isinstance(key, int):
        return str(key).encode()
    raise TypeError(f"the key of an example is a text, bytes or a number, got {key!r:.60}")


def _read_run(run: IO[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    run.seek(0)
    while head := run.read(_HEAD.size):
        place, number, size = _HEAD.unpack(head)
        yield place, number, run.read(size)


class _RecordWriter(Protocol):
    def write(self, record: bytes) -> None: ...

    def close(self) -> None: ...


def _array_record_writer(path: str) -> _RecordWriter:
    try:
        from array_record.python.array_record_module import ArrayRecordWriter
    except ImportError as error:
        raise ImportError(
            "ArrayRecord files are written with the package array_record: "
            "pip install 'drumline[array_record]'"
        ) from error
    writer: _RecordWriter = ArrayRecordWriter(path, "group_size:1")
    return writer


WRITERS: dict[str, Callable[[str], _RecordWriter]] = {
    "tfrecord": TFRecordWriter,
    "array_record": _array_record_writer,
}
"""What writes a file of each format."""


def write_shards(
    records: OrderedRecords, paths: Callable[[int], list[Path]], form: str, shards: int | None
) -> list[int]:
    """Write records to files, and return how many each has.

    Args:
        records: in order.
        paths: the files for a number of them.
        form: of the files, of `WRITERS`.
        shards: how many; by default as many as TFDS writes.

    Raises:
        DuplicateKeyError: two records have the same key.
        OSError: a file cannot be written.
    """
    count = min(shards or number_of_shards(records.nbytes, records.count), records.count)
    ends = [round(records.count * i / count) for i in range(1, count + 1)]
    lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    rest = iter(records)
    files = paths(count)
    with ThreadPoolExecutor(1, "drumline-sync") as syncing:
        synced: list[tuple[Path, Future[None]]] = []
        for path, length in zip(files, lengths, strict=True):
            with naming(path):
                writer = WRITERS[form](str(path))
                try:
                    for _ in range(length):
                        writer.write(next(rest))
                finally:
                    writer.close()
                if path is files[-1]:
                    sync(path)
                else:  # while the next one is written
                    synced.append((path, syncing.submit(sync, path)))
        for path, done in synced:
            with naming(path):
                done.result()
    for _ in rest:
        raise AssertionError("more records than were counted")
    return lengths


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that a file is, which the kernel drops when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def complete_directory(final: Path) -> Iterator[Path]:
    """Give a directory to write in, which is moved to its place if all went well.

    What an earlier process left unfinished is deleted; call it with the lock of the place.

    Raises:
        OSError: it cannot be written.
    """
    parent = final.parent
    with naming(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(parent):
            if name.startswith(_MARK) and name.endswith(f"_{final.name}"):
                shutil.rmtree(parent / name, ignore_errors=True)
        place = parent / f"{_MARK}{secrets.token_hex(4)}_{final.name}"
        place.mkdir()
    try:
        yield place
        with naming(final):
            for path in sorted(place.iterdir()):
                if path.is_file():
                    sync(path)
            sync(place)
            os.rename(place, final)
            sync(parent)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
