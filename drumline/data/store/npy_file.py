"""Arrays that are written row by row."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from drumline._forks import keep_in_child
from drumline.data.store.disk_errors import naming


class NpyFile:
    """A ``.npy`` file (numpy's format, version 1.0) that grows along its first axis.

    Types that numpy's format has no name for (bfloat16 and other small floats) are written as
    unsigned integers of their width.

    Args:
        path: of the file.
        dtype: of the rows.
        row: their shape.
        rows: of a file that is there, after how many rows to go on; ``None`` makes a file.

    Attributes:
        rows: how many there are.

    Raises:
        OSError: it cannot be made, or opened.
        ValueError: it has fewer rows.
    """

    def __init__(
        self, path: Path, dtype: np.dtype, row: tuple[int, ...] = (), rows: int | None = None
    ):
        self._path = path
        self._dtype = stored_dtype(dtype)
        self._row = row
        self.rows = 0 if rows is None else rows
        self._file = open(path, "xb" if rows is None else "r+b")  # noqa: SIM115
        keep_in_child(self)  # its buffer is this process's to write
        self._write_header()
        self._start = self._file.tell()
        if rows is not None:
            self._cut(self._start + rows * self._dtype.itemsize * math.prod(row))

    def _cut(self, nbytes: int) -> None:
        """Leaves as many bytes, to go on after them."""
        if self._path.stat().st_size < nbytes:
            self.close()
            raise ValueError(f"{self._path} is shorter than the {nbytes} bytes that were written")
        self._file.truncate(nbytes)
        self._file.seek(nbytes)

    def append(self, rows: np.ndarray) -> None:
        """Writes rows (n, ...) after those before.

        Raises:
            OSError: the disk is full, for one.
        """
        with naming(self._path):
            self._file.write(np.ascontiguousarray(rows).view(self._dtype).data)
        self.rows += len(rows)

    def sync(self) -> None:
        """Has the disk keep what was written."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Writes how many rows there are, and has the disk keep all of it."""
        with naming(self._path):
            self._file.seek(0)
        self._write_header()
        # The format leaves room for the number of rows to grow.
        assert self._file.tell() == self._start
        self.sync()
        self._file.close()

    def close(self) -> None:
        """Closes the file as it is; what could not be written is given up."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _write_header(self) -> None:
        header = {
            "descr": npy.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.rows, *self._row),
        }
        npy.write_array_header_1_0(self._file, header)


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype that stands for ``dtype`` in a file."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype
