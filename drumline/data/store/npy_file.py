"""Arrays that are written row by row."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.lib import format as npy


class NpyFile:
    """A ``.npy`` file (numpy's format, version 1.0) that grows along its first axis.

    Types that numpy's format has no name for (bfloat16 and other small floats) are written as
    unsigned integers of their width.
    """

    def __init__(self, path: Path, dtype: np.dtype, row: tuple[int, ...] = ()):
        self._dtype = stored_dtype(dtype)
        self._row = row
        self._rows = 0
        self._file = open(path, "xb")  # noqa: SIM115
        self._write_header()
        self._start = self._file.tell()

    def append(self, rows: np.ndarray) -> None:
        """Writes rows (n, ...) after those before."""
        self._file.write(np.ascontiguousarray(rows).view(self._dtype).data)
        self._rows += len(rows)

    def finish(self) -> None:
        """Writes how many rows there are, and has the disk keep all of it."""
        self._file.seek(0)
        self._write_header()
        # The format leaves room for the number of rows to grow.
        assert self._file.tell() == self._start
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        """Closes the file as it is."""
        self._file.close()

    def _write_header(self) -> None:
        header = {
            "descr": npy.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._rows, *self._row),
        }
        npy.write_array_header_1_0(self._file, header)


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype that stands for ``dtype`` in a file."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype
