"""ArrayRecord files, read by their own library."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Sequence
from typing import Any

from drumline._forks import ForkSafeLock
from drumline._local_path import has_scheme
from drumline.data.elements.errors import DataLossError

_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
"""The options that the library recommends for random access."""


class ArrayRecords:
    """The records of several files, by position over all of them; closed by its finalizer.

    Args:
        paths: local ones.

    Raises:
        ImportError: the package ``array_record`` is not installed.
        ValueError: a path has a scheme.
        OSError: a file cannot be opened.
        DataLossError: a file is no ArrayRecord file, or was cut off.
    """

    def __init__(self, paths: Sequence[str]):
        try:
            from array_record.python.array_record_module import ArrayRecordReader
        except ImportError as error:
            raise ImportError(
                "ArrayRecordDataset reads files with the package array_record: "
                "pip install 'drumline[array_record]'"
            ) from error
        self._reader: Any = ArrayRecordReader
        self.paths = tuple(paths)
        self._lock = ForkSafeLock()
        self._readers = [self._opened(path) for path in paths]
        lengths = (reader.num_records() for reader in self._readers)
        self._starts = [0, *itertools.accumulate(lengths)]

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def starts(self) -> list[int]:
        """The position of the first record of each file, and how many there are in all."""
        return list(self._starts)

    def read(self, positions: Sequence[int]) -> list[bytes]:
        """Return the records at these positions, in their order.

        Raises:
            DataLossError: one of them is damaged.
        """
        found: list[bytes] = [b""] * len(positions)
        with self._lock:
            for number, wanted in self._by_file(positions).items():
                start = self._starts[number]
                inside = [positions[i] - start for i in wanted]
                for i, record in zip(wanted, self._records(number, inside), strict=True):
                    found[i] = record
        return found

    def _by_file(self, positions: Sequence[int]) -> dict[int, list[int]]:
        """Return which of the positions each file has."""
        found: dict[int, list[int]] = {}
        for i, position in enumerate(positions):
            found.setdefault(bisect.bisect_right(self._starts, position) - 1, []).append(i)
        return found

    def _records(self, number: int, positions: list[int]) -> Sequence[bytes]:
        reader = self._readers[number]
        first, last = positions[0], positions[-1]
        try:
            if positions == list(range(first, last + 1)):
                records: Sequence[bytes] = reader.read(first, last + 1)
            else:
                records = reader.read(positions)
        except RuntimeError as error:
            raise DataLossError(str(error), self.paths[number], 0, first) from error
        return records

    def _opened(self, path: str) -> Any:
        if has_scheme(path):
            raise ValueError(
                f"ArrayRecordDataset: {path} has a scheme, and the package array_record reads "
                "local files only: copy it, or mount its file system"
            )
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
        reader = self._reader(path, _OPTIONS)
        if not reader.ok():
            raise DataLossError(f"its {size} bytes are no whole ArrayRecord file", path, 0, 0)
        return reader
