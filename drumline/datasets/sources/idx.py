"""The IDX file format, in which MNIST and its relatives are published.

Two zero bytes, a code for the type, the number of dimensions, each dimension as a big-endian
32-bit integer, then the values, big-endian, in C order
(http://yann.lecun.com/exdb/mnist/, "The IDX file format").
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
_MOST_DIMENSIONS = 32


class IdxError(ValueError):
    """A file is not valid IDX; the message names the file, the byte offset and the fault."""


def read_idx(path: str | bytes | os.PathLike[str]) -> np.ndarray:
    """Return the array in an IDX file, gzipped or not (by its first bytes, not its name).

    Returns:
        An array of the file's shape, in the machine's byte order: uint8, int8, int16, int32,
        float32 or float64.

    Raises:
        IdxError: the file is not valid IDX, is shorter or longer than its header says, or its
            gzip stream is damaged.
        OSError: it cannot be read.
    """
    name = os.fsdecode(path)
    with Path(name).open("rb") as raw:
        return parse_idx(raw, name)


def parse_idx(source: BinaryIO | bytes, name: str = "IDX data") -> np.ndarray:
    """As `read_idx`, from bytes or an open seekable binary file, called `name` in errors."""
    raw = io.BytesIO(source) if isinstance(source, bytes) else source
    magic = raw.read(2)
    raw.seek(-len(magic), io.SEEK_CUR)
    if magic == _GZIP_MAGIC:
        with gzip.GzipFile(fileobj=raw) as unpacked:
            return _IdxReader(unpacked, name, "of the unpacked data").array()
    return _IdxReader(raw, name, "").array()


class _IdxReader:
    """Reads forward, knowing the offset that an error should name."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, name: str, where: str) -> None:
        self._stream = stream
        self._name = name
        self._where = f" {where}" if where else ""
        self._offset = 0

    def array(self) -> np.ndarray:
        dtype, shape = self._header()
        body = self._exactly(math.prod(shape) * dtype.itemsize, f"values of shape {shape}")
        if self._some(1):
            raise self._error(self._offset - 1, f"more bytes than shape {shape} holds")
        values = np.frombuffer(body, dtype).reshape(shape)
        return values.astype(dtype.newbyteorder("="))

    def _header(self) -> tuple[np.dtype, tuple[int, ...]]:
        first, second, code, rank = self._exactly(4, "the magic number")
        if first or second:
            raise self._error(0, f"an IDX file begins with two zero bytes, found {first}, {second}")
        if code not in _DTYPES:
            known = ", ".join(f"0x{known:02x}" for known in _DTYPES)
            raise self._error(2, f"unknown type code 0x{code:02x}; there are {known}")
        if not 1 <= rank <= _MOST_DIMENSIONS:
            raise self._error(3, f"{rank} dimensions; 1 to {_MOST_DIMENSIONS} are read")
        shape = struct.unpack(f">{rank}I", self._exactly(4 * rank, f"{rank} dimensions"))
        dtype = np.dtype(_DTYPES[code])
        if math.prod(d for d in shape if d) * dtype.itemsize > np.iinfo(np.intp).max:
            raise self._error(4, f"dimensions {shape} are more than memory can address")
        return dtype, shape

    def _exactly(self, count: int, what: str) -> bytearray:
        start, found = self._offset, bytearray()
        while len(found) < count:  # in chunks: the header may promise what the file has not
            chunk = self._some(min(_CHUNK, count - len(found)))
            if not chunk:
                raise self._error(
                    self._offset,
                    f"the data end after {len(found)} of {count} bytes of {what} "
                    f"(which begin at {start})",
                )
            found += chunk
        return found

    def _some(self, count: int) -> bytes:
        try:
            chunk = self._stream.read(count)
        except EOFError as error:
            raise self._error(self._offset, "the gzip stream is cut off") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise self._error(self._offset, f"the gzip stream is damaged: {error}") from error
        self._offset += len(chunk)
        return chunk

    def _error(self, offset: int, fault: str) -> IdxError:
        return IdxError(f"{self._name}: at byte {offset}{self._where}: {fault}")
