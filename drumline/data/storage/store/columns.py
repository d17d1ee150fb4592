"""One leaf of stored elements as files: npy rows, Snappy and gzip, and specs as JSON."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gzip
import io
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from drumline._core import masked_checksum
from drumline._forks import keep_in_child
from drumline._lazy import pa
from drumline.data.elements.ragged import RaggedArray, has_ragged, splits_of
from drumline.data.elements.spec import (
    LEAF_STRUCTURE,
    STRING,
    ElementSpec,
    Structure,
    TensorSpec,
    has_datasets,
)
from drumline.data.storage.store.checksums import (
    CHUNK_NBYTES,
    CheckedRows,
    ChunkChecksums,
    damaged,
)
from drumline.data.storage.store.disk_errors import naming


class NpyFile:
    """A ``.npy`` file (numpy's format, version 1.0) that grows along its first axis.

    Types that numpy's format has no name for (bfloat16 and other small floats) are written as
    unsigned integers of their width.

    Args:
        path: of the file.
        dtype: of the rows.
        row: their shape.
        rows: after how many rows of an existing file to continue; ``None`` creates a file.

    Attributes:
        rows: how many there are.
        checksums: of them.

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
        self.checksums = ChunkChecksums()
        if rows is not None:
            self._cut(self._start + rows * self._dtype.itemsize * math.prod(row))

    def _cut(self, nbytes: int) -> None:
        """Truncate the file to ``nbytes``, to continue after them."""
        if self._path.stat().st_size < nbytes:
            self.close()
            raise ValueError(f"{self._path} is shorter than the {nbytes} bytes that were written")
        self._file.truncate(nbytes)
        self._file.seek(self._start)
        while content := self._file.read(CHUNK_NBYTES):
            self.checksums.add(np.frombuffer(content, np.uint8))
        self._file.seek(nbytes)

    def append(self, rows: np.ndarray) -> None:
        """Write rows (n, ...) after those before.

        Raises:
            OSError: the disk is full, for one.
        """
        content = np.ascontiguousarray(rows).view(self._dtype)
        with naming(self._path):
            self._file.write(content.data)
        if content.nbytes:
            self.checksums.add(content.reshape(-1).view(np.uint8))
        self.rows += len(rows)

    def sync(self) -> None:
        """Flush what was written to disk."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Write the number of rows, and flush the file to disk."""
        with naming(self._path):
            self._file.seek(0)
        self._write_header()
        # The format leaves room for the number of rows to grow.
        assert self._file.tell() == self._start
        self.sync()
        self._file.close()

    def close(self) -> None:
        """Close the file as it is; what could not be written is given up."""
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
    """Return the dtype that stands for ``dtype`` in a file."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype


_BEGIN = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _PLAIN, _FIRST_SKIPPED = 0x00, 0x01, 0x80
_CHUNK_NBYTES = 1 << 16
_HEAD_NBYTES = 4
_CHECKSUM_NBYTES = 4


def write_snappy(plain: BinaryIO, file: BinaryIO) -> None:
    """Write what can be read from ``plain``, compressed, to ``file``."""
    codec = pa.Codec("snappy")
    file.write(_BEGIN)
    while content := plain.read(_CHUNK_NBYTES):
        kind, body = _COMPRESSED, codec.compress(content, asbytes=True)
        if len(body) >= len(content):
            kind, body = _PLAIN, content
        checksum = masked_checksum(content).to_bytes(_CHECKSUM_NBYTES, "little")
        size = len(checksum) + len(body)
        file.write(bytes([kind]) + size.to_bytes(_HEAD_NBYTES - 1, "little") + checksum + body)


def read_snappy(file: BinaryIO) -> bytes:
    """Return all that ``write_snappy``, or another program, has compressed.

    Raises:
        EOFError: the file ends within a chunk.
        ValueError, OSError: it is damaged; the message has the byte where.
    """
    codec = pa.Codec("snappy")
    content = bytearray()
    for start, kind, body in _chunks(file):
        checksum, body = body[:_CHECKSUM_NBYTES], body[_CHECKSUM_NBYTES:]
        if kind == _COMPRESSED:
            body = codec.decompress(body, _plain_nbytes(body, start), asbytes=True)
        if masked_checksum(body) != int.from_bytes(checksum, "little"):
            raise ValueError(f"CRC check failed for the chunk at byte {start}")
        content += body
    return bytes(content)


def _chunks(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield where each chunk with content begins, its kind, and its body."""
    if file.read(len(_BEGIN)) != _BEGIN:
        raise ValueError("it does not begin as files of Snappy do")
    start = len(_BEGIN)
    while head := file.read(_HEAD_NBYTES):
        size = int.from_bytes(head[1:], "little")
        body = file.read(size)
        if len(head) < _HEAD_NBYTES or len(body) < size:
            raise EOFError(f"it ends within the chunk at byte {start}")
        if head[0] in (_COMPRESSED, _PLAIN):
            yield start, head[0], body
        elif head[0] < _FIRST_SKIPPED:
            raise ValueError(f"the chunk at byte {start} is of an unknown kind, {head[0]}")
        start += _HEAD_NBYTES + size


def _plain_nbytes(block: bytes, start: int) -> int:
    """Return the length that a block states for its decompressed form: a varint."""
    nbytes = 0
    for place, byte in enumerate(block[:3]):
        nbytes |= (byte & 127) << (7 * place)
        if byte < 128 and nbytes <= _CHUNK_NBYTES:
            return nbytes
    raise ValueError(f"the chunk at byte {start} is of more than {_CHUNK_NBYTES} bytes")


_LEVEL = 6

BROKEN = (OSError, EOFError, ValueError, zlib.error)
"""The exceptions that reading a damaged file raises."""


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
    """Return ``"GZIP"``, ``"SNAPPY"``, or ``None``, also for ``""``, ``"NONE"`` and ``"AUTO"``.

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
    """Replace the ``.npy`` files of a directory by compressed ones, flushed to disk."""
    for path in sorted(directory.glob("*.npy")):
        target = compressed_path(path, compression)
        with naming(target), open(path, "rb") as plain, open(target, "xb") as file:
            COMPRESSIONS[compression].write(plain, file)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()


def read_compressed(path: Path, compression: str) -> np.ndarray:
    """Return the array that a compressed file holds, in memory.

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
    """Return the name of a file when it is compressed."""
    return path.with_name(path.name + COMPRESSIONS[compression].suffix)


class ColumnWriter:
    """Files of a leaf: ``values``; for ``bytes`` their ``sizes``; ``lengths`` of rows that vary.

    Args:
        stem: the path that the files' names begin with.
        leaf: what is written; only its first dimension may vary.
        rows: what ``sync`` returned at the position from which to continue; ``None`` creates the
            files.
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
        """Write a column: an array (n, ...) or a `RaggedArray` of n rows."""
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
        """Flush what was written to disk; return how many rows each file has."""
        for file in self._files.values():
            file.sync()
        return {what: file.rows for what, file in self._files.items()}

    def finish(self) -> None:
        """Complete the files."""
        for file in self._files.values():
            file.finish()

    def checksums(self) -> dict[str, Any]:
        """Return the checksums of each file's rows."""
        return {what: file.checksums.to_json() for what, file in self._files.items()}

    def close(self) -> None:
        """Close the files as they are."""
        for file in self._files.values():
            file.close()


class StoredStrings:
    """A column of ``bytes`` that are created on demand from one memory-mapped array."""

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
        """Return the items at ``index`` (k,): objects (k,)."""
        starts, ends = self._splits[index].tolist(), self._splits[index + 1].tolist()
        column = np.empty(len(index), STRING)
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            column[row] = bytes(self._values[start:end])  # sent pickled, they are bytes
        column.flags.writeable = False
        return column


@dataclasses.dataclass(frozen=True)
class ReadColumn:
    """A column as it was stored.

    Attributes:
        column: an array, a `RaggedArray` where rows vary, or `StoredStrings` for single ``bytes``.
        check: compares rows with their checksums, if there are any and that was not done.
    """

    column: Any
    check: CheckedRows | None


def read_column(
    stem: Path,
    leaf: TensorSpec,
    length: int,
    compression: str | None = None,
    checksums: Mapping[str, Any] | None = None,
    on_damage: Callable[[], None] | None = None,
) -> ReadColumn:
    """Return the column of ``length`` rows that a `ColumnWriter` wrote, memory-mapped.

    Args:
        stem: the path that the files' names begin with.
        leaf: what was written.
        length: the number of rows.
        compression: of the files, which are read into memory if it is not ``None``.
        checksums: what `ColumnWriter.checksums` returned; ``None`` if there are none, as in what
            older releases stored, or compressed files, which have those of their format.
        on_damage: as of `CheckedRows`.

    Raises:
        DataLossError: files are missing, damaged or do not go together.
    """
    varies = bool(leaf.shape) and leaf.shape[0] is None
    read = _ColumnFiles(stem, compression, checksums, on_damage)
    lengths = read.counts("lengths", length) if varies else None
    rows = length if lengths is None else int(lengths.sum())
    row = leaf.shape[1:] if varies else leaf.shape
    shape = (rows, *(dim or 0 for dim in row))
    splits = None if lengths is None else splits_of(lengths)
    if leaf.is_string:
        sizes = read.counts("sizes", math.prod(shape))
        stored = read("values", np.dtype(np.uint8), (int(sizes.sum()),))
        strings = StoredStrings(stored, sizes)
        check = read.check("values", stored, splits_of(sizes))
        if not leaf.shape:
            return ReadColumn(strings, check)
        if check is not None:
            check.check_all()
        values, check = strings[:].reshape(shape), None
    else:
        stored = read("values", stored_dtype(leaf.dtype), shape)
        values, check = stored.view(leaf.dtype), read.check("values", stored, splits)
    return ReadColumn(values if splits is None else RaggedArray(values, splits), check)


@dataclasses.dataclass(frozen=True)
class _ColumnFiles:
    stem: Path
    compression: str | None
    checksums: Mapping[str, Any] | None
    on_damage: Callable[[], None] | None

    def __call__(self, what: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Return the array in one of a column's files."""
        path = self._path(what)
        try:
            if self.compression is None:
                found = np.load(path, mmap_mode="r", allow_pickle=False)
            else:
                found = read_compressed(_named(self.stem, what), self.compression)
        except Exception as error:  # numpy's parser of headers raises whatever Python's does
            raise damaged(path, f"it cannot be read: {error}") from error
        is_plain = isinstance(found, np.ndarray) and found.flags.c_contiguous
        if not is_plain or found.dtype != dtype or found.shape != shape:
            what_is_there = f"{found.dtype} {found.shape}" if is_plain else "something else"
            raise damaged(
                path,
                f"it holds {what_is_there}, the other files of its dataset say {dtype} {shape}: "
                "it was damaged or exchanged; store the dataset again",
            )
        return np.asarray(found)

    def counts(self, what: str, length: int) -> np.ndarray:
        """Return numbers of rows or bytes, compared with their checksums."""
        found = self(what, np.dtype(np.int64), (length,))
        check = self.check(what, found)
        if check is not None:
            check.check_all()
        if len(found) and (found.min() < 0 or found.max() > _MOST_COUNTED):
            raise damaged(self._path(what), "it has numbers that are none of rows or bytes")
        return np.asarray(found)

    def check(
        self, what: str, rows: np.ndarray, splits: np.ndarray | None = None
    ) -> CheckedRows | None:
        """Return what compares rows of one of the files with their checksums."""
        if self.checksums is None:
            return None
        return CheckedRows(self._path(what), rows, self.checksums[what], splits, self.on_damage)

    def _path(self, what: str) -> Path:
        path = _named(self.stem, what)
        return path if self.compression is None else compressed_path(path, self.compression)


_MOST_COUNTED = 1 << 48
"""More than any file has of rows or bytes; sums of some thousand of these still fit an int64."""


def _named(stem: Path, what: str) -> Path:
    return stem.with_name(f"{stem.name}.{what}.npy")


def spec_to_json(spec: ElementSpec) -> dict[str, Any]:
    """Return what ``spec_from_json`` makes an equal spec of.

    Raises:
        TypeError: elements hold what no file keeps: datasets, ragged arrays, dimensions after the
            first that vary, dictionary keys other than strings and integers.
    """
    if has_datasets(spec) or has_ragged(spec):
        raise TypeError(
            f"datasets and ragged arrays cannot be stored, elements are {spec.tree()}; unbatch "
            "ragged batches before"
        )
    for i, leaf in enumerate(spec.leaves):
        if None in leaf.shape[1:]:
            raise TypeError(
                f"leaf {i} is {leaf}: only the first dimension of what is stored may vary; pad the "
                "others in a map before"
            )
    leaves = [
        {"shape": list(leaf.shape), "dtype": "string" if leaf.is_string else leaf.dtype.name}
        for leaf in spec.leaves
    ]
    return {"structure": _to_json(spec.structure), "leaves": leaves}


def spec_from_json(text: dict[str, Any]) -> ElementSpec:
    """Return the stored spec; the classes of namedtuples are created, by name and fields."""
    leaves = tuple(TensorSpec(leaf["shape"], leaf["dtype"]) for leaf in text["leaves"])
    return ElementSpec(_from_json(text["structure"]), leaves)


def _to_json(structure: Structure) -> Any:
    children = [_to_json(child) for child in structure.children]
    made: dict[str, Any] = {"kind": structure.kind, "children": children}
    if structure.kind == "dict":
        for key in structure.keys:
            if not isinstance(key, str | int):
                raise TypeError(f"elements with the key {key!r} cannot be stored: use strings")
        made["keys"] = list(structure.keys)
    if structure.kind == "namedtuple":
        made["name"], made["keys"] = structure.type.__name__, list(structure.type._fields)
    return made


def _from_json(text: dict[str, Any]) -> Structure:
    kind = text["kind"]
    children = tuple(_from_json(child) for child in text["children"])
    if kind == "dict":
        return Structure(kind, dict, tuple(text["keys"]), children)
    if kind == "namedtuple":
        made: Any = collections.namedtuple(str(text["name"]), text["keys"])  # type: ignore[misc]
        return Structure(kind, made, (), children)
    if kind == "none":
        return Structure("none")
    types = {"tuple": tuple, "list": list}
    return Structure(kind, types[kind], (), children) if kind in types else LEAF_STRUCTURE
