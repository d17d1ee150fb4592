"""One leaf of stored elements: how its column is written, and read at any position."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, splits_of
from drumline.data.elements.spec import STRING, TensorSpec
from drumline.data.store.compression import BROKEN, compressed_path, read_compressed
from drumline.data.store.npy_file import NpyFile, stored_dtype


class ColumnWriter:
    """Files of a leaf: ``values``; for ``bytes`` their ``sizes``; ``lengths`` of rows that vary.

    Args:
        stem: the path that the files' names begin with.
        leaf: what is written; only its first dimension may vary.
        rows: what ``sync`` returned when the files were written up to where to go on; ``None``
            makes files.
    """

    def __init__(self, stem: Path, leaf: TensorSpec, rows: Mapping[str, int] | None = None):
        self._varies = bool(leaf.shape) and leaf.shape[0] is None
        self._string = leaf.is_string
        self._files: dict[str, NpyFile] = {}

        def add(what: str, dtype: Any, row: tuple[int, ...] = ()) -> None:
            begun = None if rows is None else rows[what]
            self._files[what] = NpyFile(_named(stem, what), np.dtype(dtype), row, begun)

        if self._string:
            add("values", np.uint8)
            add("sizes", np.int64)
        else:
            add("values", leaf.dtype, tuple(dim or 0 for dim in leaf.shape[self._varies :]))
        if self._varies:
            add("lengths", np.int64)

    def append(self, column: Any) -> None:
        """Writes a column: an array (n, ...) or a `RaggedArray` of n rows."""
        rows = column
        if self._varies:
            ragged = isinstance(column, RaggedArray)
            lengths = (
                column.row_lengths() if ragged else np.full(len(column), column.shape[1], np.int64)
            )
            self._files["lengths"].append(lengths)
            rows = column.values if ragged else column.reshape(-1, *column.shape[2:])
        if not self._string:
            self._files["values"].append(rows)
            return
        items = rows.reshape(-1).tolist()
        self._files["values"].append(np.frombuffer(b"".join(items), np.uint8))
        self._files["sizes"].append(np.fromiter(map(len, items), np.int64, len(items)))

    def sync(self) -> dict[str, int]:
        """Has the disk keep what was written; returns how many rows each file has."""
        for file in self._files.values():
            file.sync()
        return {what: file.rows for what, file in self._files.items()}

    def finish(self) -> None:
        """Completes the files."""
        for file in self._files.values():
            file.finish()

    def close(self) -> None:
        """Closes the files as they are."""
        for file in self._files.values():
            file.close()


class StoredStrings:
    """A column of ``bytes`` that are made when asked for, from one memory-mapped array."""

    dtype = STRING

    def __init__(self, values: np.ndarray, sizes: np.ndarray):
        self._values = memoryview(values)  # type: ignore[arg-type]
        self._splits = splits_of(sizes)
        self.nbytes = values.nbytes

    def __len__(self) -> int:
        return len(self._splits) - 1

    def __getitem__(self, index: slice) -> np.ndarray:
        return self.take(np.arange(len(self))[index])

    def take(self, index: np.ndarray) -> np.ndarray:
        """The items at ``index`` (k,): objects (k,)."""
        starts, ends = self._splits[index].tolist(), self._splits[index + 1].tolist()
        column = np.empty(len(index), STRING)
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            column[row] = self._values[start:end].tobytes()
        column.flags.writeable = False
        return column


def read_column(stem: Path, leaf: TensorSpec, length: int, compression: str | None = None) -> Any:
    """The column of ``length`` rows that a `ColumnWriter` wrote, memory-mapped.

    Args:
        stem: the path that the files' names begin with.
        leaf: what was written.
        length: the number of rows.
        compression: of the files, which are read into memory if it is not ``None``.

    Returns:
        An array, a `RaggedArray` where rows vary, or `StoredStrings` for single ``bytes``.

    Raises:
        ValueError: files are missing, damaged or do not go together.
    """
    varies = bool(leaf.shape) and leaf.shape[0] is None
    read = _Arrays(stem, compression)
    lengths = read("lengths", np.dtype(np.int64), (length,)) if varies else None
    rows = length if lengths is None else int(lengths.sum())
    row = leaf.shape[1:] if varies else leaf.shape
    shape = (rows, *(dim or 0 for dim in row))
    if leaf.is_string:
        strings = _strings(read, int(np.prod(shape)))
        if not leaf.shape:
            return strings
        values = strings[:].reshape(shape)
    else:
        values = read("values", stored_dtype(leaf.dtype), shape).view(leaf.dtype)
    if lengths is None:
        return values
    return RaggedArray(values, splits_of(np.asarray(lengths)))


@dataclasses.dataclass(frozen=True)
class _Arrays:
    stem: Path
    compression: str | None

    def __call__(self, what: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """The array in one of a column's files."""
        path = _named(self.stem, what)
        try:
            if self.compression is None:
                found = np.load(path, mmap_mode="r", allow_pickle=False)
            else:
                found = read_compressed(path, self.compression)
        except BROKEN as error:
            if self.compression is not None:
                path = compressed_path(path, self.compression)
            raise ValueError(f"{path} cannot be read: {error}") from error
        if found.dtype != dtype or found.shape != shape:
            raise ValueError(
                f"{path} holds {found.dtype} {found.shape}, the other files of its dataset say "
                f"{dtype} {shape}: it was damaged or exchanged; store the dataset again"
            )
        return np.asarray(found)


def _strings(read: _Arrays, count: int) -> StoredStrings:
    sizes = np.asarray(read("sizes", np.dtype(np.int64), (count,)))
    values = read("values", np.dtype(np.uint8), (int(sizes.sum()),))
    return StoredStrings(values, sizes)


def _named(stem: Path, what: str) -> Path:
    return stem.with_name(f"{stem.name}.{what}.npy")
