"""Compressed files of arrays."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

GZIP = "GZIP"
SUFFIX = ".gz"
_LEVEL = 6

BROKEN = (OSError, EOFError, ValueError, zlib.error)
"""What reading a damaged file raises."""


def checked_compression(compression: str | None, operation: str) -> str | None:
    """``"GZIP"``, or ``None``, which ``""``, ``"NONE"`` and ``"AUTO"`` mean as well.

    Raises:
        ValueError: it is something else.
    """
    if compression in (None, "", "NONE", "AUTO"):
        return None
    if compression == GZIP:
        return GZIP
    raise ValueError(
        f"{operation}: compression must be None, 'AUTO', 'NONE' or 'GZIP', got {compression!r}"
    )


def compress_arrays(directory: Path) -> None:
    """Replaces the ``.npy`` files of a directory by compressed ones, and has the disk keep them."""
    for path in sorted(directory.glob("*.npy")):
        target = path.with_name(path.name + SUFFIX)
        with open(path, "rb") as plain, open(target, "xb") as file:
            # Without a time and a name in it equal arrays make equal files.
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()


def read_compressed(path: Path) -> np.ndarray:
    """The array that a ``.npy.gz`` file holds, in memory.

    Raises:
        OSError, EOFError, ValueError, zlib.error: it is damaged.
    """
    with gzip.open(path) as file:
        found = npy.read_array(file, allow_pickle=False)
        # The checksum stands after the last byte.
        file.read(1)
    return found
