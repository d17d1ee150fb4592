"""Reading the files that Keras writes: ``.weights.h5``, ``.keras``, and whole models as ``.h5``.

A ``.keras`` file is a ZIP archive with an HDF5 file in it, which is read where it lies. Tensors are
called as in the HDF5 file: ``layers/dense/vars/0``.

HDF5's library reads them. Damaged bytes can make it loop without an end, or end its process; so a
file is checked in a process of its own, which may use some seconds of CPU time for each object.
"""

from __future__ import annotations

import io
import json
import math
import os
import resource
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from drumline.checkpoints.reader import (
    PIECE_BYTES,
    CheckpointFileError,
    CheckpointFormat,
    Defect,
    SavedTensors,
    TensorEntry,
    blocks,
    dtype_of,
    is_possible,
)

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
ZIP_SIGNATURE = b"PK\x03\x04"

_WEIGHTS = "model.weights.h5"
_MOST_ABOUT = 1 << 20
_LOCAL_HEADER = 30  # bytes of what is before a member, without its name and extra field
_FAULTS = (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError, OverflowError)
"""What h5py raises for damaged files."""
_ZIP_FAULTS = (*_FAULTS, zipfile.BadZipFile, zlib.error, EOFError, RecursionError)
"""What zipfile does, and what is read of an archive."""

CPU_SECONDS = 20
"""What HDF5's library may take to read an object, or 32 MiB of it, when a file is checked."""

_ENDED = "ended"


class KerasReader(SavedTensors):
    """A file that Keras wrote.

    Args:
        path: of the file.
        before_each: is called before HDF5's library reads an object, or a piece of one.

    Raises:
        CheckpointFileError: it is damaged, or has no weights.
    """

    format = CheckpointFormat.KERAS

    def __init__(self, path: Path, before_each: Callable[[], None] = lambda: None) -> None:
        super().__init__(path)
        import h5py

        self._before_each = before_each
        self.files = [path]
        self._start = 0
        try:
            self._file = h5py.File(self._opened(), "r")
            self._datasets: dict[str, Any] = {}
            self._file.visititems(self._add)
        except CheckpointFileError:
            raise
        except _FAULTS as error:
            raise CheckpointFileError(path, self._start, f"it cannot be read: {error}") from error

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """Read the values of a tensor, some rows at a time."""
        entry, dataset = self.tensors[name], self._datasets[name]
        most = PIECE_BYTES // entry.dtype.itemsize
        # A compressed chunk would be decompressed for each piece of it.
        most = max(most, math.prod(dataset.chunks or ()) if dataset.compression else 0)
        try:
            for block in blocks(entry.shape, most):
                self._before_each()
                value = np.asarray(dataset[block]).reshape(-1)
                # HDF5 has bfloat16 as two opaque bytes.
                is_opaque = value.dtype.kind == "V"
                yield (
                    value.view(entry.dtype) if is_opaque else value.astype(entry.dtype, copy=False)
                )
        except _FAULTS as error:
            reason = f"{name!r} cannot be read: {error}"
            raise CheckpointFileError(entry.file, entry.offset, reason) from error

    def defects(self, *, finite: bool = False) -> Iterator[Defect]:
        """Read everything, and yield what is wrong."""
        for name, dataset in self._datasets.items():
            entry = self.tensors[name]
            stored = dataset.id.get_storage_size()
            if (
                dataset.compression is None
                and dataset.chunks is None
                and stored != (dataset.size * dataset.dtype.itemsize)
            ):
                reason = f"{name!r} has {stored:,} bytes of {entry.nbytes:,}"
                yield Defect(entry.file, entry.offset, reason)
                continue
            yield from self._defects_of(entry, finite)

    def _opened(self) -> IO[bytes] | str:
        with open(self.path, "rb") as file:
            if file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return str(self.path)
        try:
            with zipfile.ZipFile(self.path) as archive:
                about = {each.filename: each for each in archive.infolist()}.get("metadata.json")
                if about is not None and about.file_size < _MOST_ABOUT:
                    described = json.loads(archive.read("metadata.json"))
                    self.about = f"Keras {described['keras_version']}, {described['date_saved']}"
                member = archive.getinfo(_WEIGHTS)
        except _ZIP_FAULTS as error:
            raise CheckpointFileError(self.path, None, f"it is no archive of Keras: {error}") from (
                error
            )
        if member.compress_type != zipfile.ZIP_STORED:
            return zipfile.ZipFile(self.path).open(member)
        with open(self.path, "rb") as file:
            file.seek(member.header_offset)
            header = file.read(_LOCAL_HEADER)
        extra = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        self._start = member.header_offset + _LOCAL_HEADER + extra
        return io.BufferedReader(_FileRange(self.path, self._start, member.file_size))

    def _add(self, name: str, found: Any) -> None:
        import h5py

        self._before_each()
        if not isinstance(found, h5py.Dataset):
            return
        is_bfloat16 = found.attrs.get("dtype") == "bfloat16" and found.dtype.itemsize == 2
        is_number = found.dtype.kind in "biufc" and found.shape is not None
        if not is_number and not is_bfloat16:
            self.left_out.append(f"{name}, which holds {found.dtype}")
            return
        dtype = np.dtype(ml_dtypes.bfloat16) if is_bfloat16 else dtype_of(found.dtype.name)
        if not is_possible(found.shape):
            raise ValueError(f"{name!r} has the shape {found.shape}")
        offset = found.id.get_offset()
        place = None if offset is None else self._start + offset
        self._datasets[name] = found
        self.tensors[name] = TensorEntry(name, tuple(found.shape), dtype, self.path, place)


def defects_of(path: Path, *, finite: bool = False) -> Iterator[Defect]:
    """Read a file in a process of its own, and yield what is wrong with it.

    Args:
        path: of the file.
        finite: whether a value that is infinite or no number is a defect.
    """
    damaged = list(_damaged_members(path)) if zipfile.is_zipfile(path) else []
    if damaged:
        yield from damaged
        return
    code = f"import drumline_command; from {__name__} import check_in_child; check_in_child()"
    command = [sys.executable, "-P", "-c", code, str(path), str(int(finite)), str(CPU_SECONDS)]
    done = subprocess.run(command, capture_output=True, check=False)
    lines = done.stdout.decode().splitlines()
    for line in lines[:-1] if lines[-1:] == [_ENDED] else lines:
        offset, reason = json.loads(line)
        yield Defect(path, offset, reason)
    if done.returncode == -signal.SIGXCPU:
        yield Defect(path, None, f"HDF5's library came to no end within {CPU_SECONDS} s")
    elif done.returncode or lines[-1:] != [_ENDED]:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        reason = f"the process that read it ended with status {done.returncode}: {said}"
        yield Defect(path, None, reason)


def check_in_child() -> None:
    """Be the process of `defects_of`: print a line of JSON for each defect."""
    path, finite, seconds = Path(sys.argv[1]), sys.argv[2] == "1", int(sys.argv[3])

    def allow_more() -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used = int(usage.ru_utime + usage.ru_stime)
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = used + seconds + 1
        soft = soft if most == resource.RLIM_INFINITY else min(soft, most)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, most))

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allow_more()
    try:
        for _, offset, reason in KerasReader(path, allow_more).defects(finite=finite):
            print(json.dumps([offset, reason]), flush=True)
    except CheckpointFileError as error:
        print(json.dumps(error.defect[1:]), flush=True)
    print(_ENDED, flush=True)


def _damaged_members(path: Path) -> Iterator[Defect]:
    """Compare the checksums of an archive's members."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                try:
                    with archive.open(member) as file:
                        while file.read(1 << 20):
                            pass
                except _ZIP_FAULTS as error:
                    yield Defect(path, member.header_offset, f"{error}")
    except _ZIP_FAULTS as error:
        yield Defect(path, None, f"{error}")


class _FileRange(io.RawIOBase):
    """Some of a file's bytes as a file."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        self._start, self._size, self._at = start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        view = view[: max(0, self._size - self._at)]
        self._file.seek(self._start + self._at)
        count: int = self._file.readinto(view)
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
