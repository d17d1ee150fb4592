"""Compressed files of arrays."""

from __future__ import annotations

import dataclasses
import gzip
import io
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from drumline.data.store.disk_errors import naming
from drumline.data.store.snappy_file import read_snappy, write_snappy

_LEVEL = 6

BROKEN = (OSError, EOFError, ValueError, zlib.error)
"""What reading a damaged file raises."""


@dataclasses.dataclass(frozen=True)
class _Compression:
    """How files are compressed.

    Attributes:
        suffix: what follows their names.
        write: from a plain file to a compressed one.
        read: the content of a compressed one.
    """

    suffix: str
    write: Callable[[BinaryIO, BinaryIO], None]
    read: Callable[[BinaryIO], bytes]


def _write_gzip(plain: BinaryIO, file: BinaryIO) -> None:
    # Without a time and a name in it equal arrays make equal files.
    with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)


def _read_gzip(file: BinaryIO) -> bytes:
    with gzip.open(file) as packed:
        return packed.read()


COMPRESSIONS = {
    "GZIP": _Compression(".gz", _write_gzip, _read_gzip),
    "SNAPPY": _Compression(".sz", write_snappy, read_snappy),
}


def checked_compression(compression: str | None, operation: str) -> str | None:
    """``"GZIP"``, ``"SNAPPY"``, or ``None``, which ``""``, ``"NONE"`` and ``"AUTO"`` mean as well.

    Raises:
        ValueError: it is something else.
    """
    if compression in (None, "", "NONE", "AUTO"):
        return None
    if compression in COMPRESSIONS:
        return compression
    raise ValueError(
        f"{operation}: compression must be None, 'AUTO', 'NONE', 'GZIP' or 'SNAPPY', got "
        f"{compression!r}"
    )


def compress_arrays(directory: Path, compression: str) -> None:
    """Replaces the ``.npy`` files of a directory by compressed ones, and has the disk keep them."""
    for path in sorted(directory.glob("*.npy")):
        target = compressed_path(path, compression)
        with naming(target), open(path, "rb") as plain, open(target, "xb") as file:
            COMPRESSIONS[compression].write(plain, file)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()


def read_compressed(path: Path, compression: str) -> np.ndarray:
    """The array that a compressed file holds, in memory.

    Args:
        path: as without compression.
        compression: of the file.

    Raises:
        OSError, EOFError, ValueError, zlib.error: it is damaged.
    """
    with open(compressed_path(path, compression), "rb") as file:
        content = COMPRESSIONS[compression].read(file)
    return npy.read_array(io.BytesIO(content), allow_pickle=False)


def compressed_path(path: Path, compression: str) -> Path:
    """The name of a file when it is compressed."""
    return path.with_name(path.name + COMPRESSIONS[compression].suffix)
