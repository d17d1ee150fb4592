"""The safetensors format: arrays by name in one file, which other programs read.

A file consists of the header's length in 8 bytes, little endian; the header, in JSON, padded by
spaces to a multiple of 8; and the arrays' bytes, C-contiguous and little endian, one after another.
The header has each array's dtype, shape and ``data_offsets`` in the bytes that follow it.
``__metadata__`` maps names to texts; what drumline adds is one of them, ``drumline``, in JSON.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

SUFFIX = ".safetensors"

ArraySpec = tuple[tuple[int, ...], np.dtype]
"""An array's shape and dtype."""

_METADATA = "__metadata__"
_OWN_METADATA = "drumline"
_LENGTH = struct.Struct("<Q")

_DTYPE_NAMES = {
    np.dtype(dtype): name
    for dtype, name in [
        (np.bool_, "BOOL"),
        (np.int8, "I8"),
        (np.uint8, "U8"),
        (np.int16, "I16"),
        (np.uint16, "U16"),
        (np.int32, "I32"),
        (np.uint32, "U32"),
        (np.int64, "I64"),
        (np.uint64, "U64"),
        (np.float16, "F16"),
        (np.float32, "F32"),
        (np.float64, "F64"),
        (np.complex64, "C64"),
        (ml_dtypes.bfloat16, "BF16"),
        (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
        (ml_dtypes.float8_e5m2, "F8_E5M2"),
    ]
}
_DTYPES = {name: dtype for dtype, name in _DTYPE_NAMES.items()}


class ArrayLayout:
    """Where arrays lie in a file that is to be written.

    Args:
        arrays: the arrays' specs by name, in the order of their bytes.

    Attributes:
        nbytes: of all arrays.
        places: of each array: the first byte of its own after the header, and the one after it.

    Raises:
        TypeError: for a dtype that the format lacks.
    """

    def __init__(self, arrays: Mapping[str, ArraySpec]) -> None:
        self._entries: dict[str, Any] = {}
        self.places: dict[str, tuple[int, int]] = {}
        self.nbytes = 0
        for name, (shape, dtype) in arrays.items():
            if dtype not in _DTYPE_NAMES:
                raise TypeError(f"A checkpoint cannot hold {name!r}, of dtype {dtype}.")
            start, self.nbytes = self.nbytes, self.nbytes + math.prod(shape) * dtype.itemsize
            self.places[name] = (start, self.nbytes)
            self._entries[name] = {
                "dtype": _DTYPE_NAMES[dtype],
                "shape": list(shape),
                "data_offsets": [start, self.nbytes],
            }

    def header(self, metadata: Mapping[str, Any]) -> bytes:
        """Return what the file begins with: the header and its length.

        Args:
            metadata: what to add, of values that JSON has. Texts of one length in the place of
                others do not change the header's, so it can be written last.
        """
        added = {_METADATA: {_OWN_METADATA: json.dumps(metadata)}}
        text = json.dumps({**added, **self._entries}).encode()
        text += b" " * (-len(text) % 8)
        return _LENGTH.pack(len(text)) + text


class SavedArrays(NamedTuple):
    """The content of a file.

    Attributes:
        arrays: by name; views of the file's bytes.
        metadata: what drumline added; under ``crc32`` the checksum of each array, as a number or
            as eight hexadecimal digits.
    """

    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]

    def verify(self, names: Iterable[str]) -> None:
        """Read the arrays of these names and compare their checksums.

        Raises:
            ValueError: if one differs, or is not there.
        """
        recorded = self.metadata.get("crc32")
        for name in names:
            found = checksum(self.arrays[name])
            expected = recorded.get(name) if isinstance(recorded, dict) else None
            if expected not in (found, f"{found:08x}"):
                raise ValueError(f"the checksum of {name!r} differs")


def parse(content: np.ndarray) -> SavedArrays:
    """Return what a file holds, given its bytes as uint8.

    Raises:
        ValueError: if they are not in the format, are not all of a file, or were not written by
            drumline. No checksum is compared.
    """
    if len(content) < _LENGTH.size:
        raise ValueError(f"it has {len(content)} bytes, less than a header's length")
    (length,) = _LENGTH.unpack(content[: _LENGTH.size].tobytes())
    if length > len(content) - _LENGTH.size:
        raise ValueError(f"it has {len(content)} bytes, less than its header of {length}")
    start = _LENGTH.size + length
    header = _header(content[_LENGTH.size : start].tobytes())
    metadata = _own_metadata(header)
    del header[_METADATA]
    data = content[start:]
    arrays = {name: _array(name, entry, data) for name, entry in header.items()}
    used = sum(array.nbytes for array in arrays.values())
    if used != len(data):
        raise ValueError(f"it has {len(data)} bytes of {used}")
    return SavedArrays(arrays, metadata)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what drumline has added to a file, without reading its arrays.

    Raises:
        OSError: if the file cannot be read.
        ValueError: as `parse`.
    """
    with open(path, "rb") as file:
        prefix = file.read(_LENGTH.size)
        size = os.fstat(file.fileno()).st_size
        if len(prefix) < _LENGTH.size or (length := _LENGTH.unpack(prefix)[0]) > size:
            raise ValueError(f"it has {size} bytes, less than its header")
        return _own_metadata(_header(file.read(length)))


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Return an array's bytes as the format has them, as uint8; a view where that is possible."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def checksum(array: np.ndarray, before: int = 0) -> int:
    """Return the CRC-32 of an array's bytes, after those of which `before` is the checksum."""
    return zlib.crc32(bytes_of(array).data, before)


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError(f"its header is a {type(header).__name__}")
    return header


def _own_metadata(header: dict[str, Any]) -> dict[str, Any]:
    texts = header.get(_METADATA)
    text = texts.get(_OWN_METADATA) if isinstance(texts, dict) else None
    if not isinstance(text, str):
        raise ValueError("it was not written by drumline")
    return _header(text.encode())


def _array(name: str, entry: Any, data: np.ndarray) -> np.ndarray:
    match entry:
        case {"dtype": str(dtype_name), "shape": list(shape), "data_offsets": [int(a), int(b)]}:
            dtype = _DTYPES.get(dtype_name)
            is_shape = all(isinstance(n, int) and n >= 0 for n in shape)
            if dtype is None or not is_shape or math.prod(shape) * dtype.itemsize != b - a:
                raise ValueError(f"{name!r} is described as {entry}")
            if not 0 <= a <= b <= len(data):
                raise ValueError(f"it has {len(data)} bytes, and {name!r} ends at {b}")
            return data[a:b].view(dtype).reshape(shape)
    raise ValueError(f"{name!r} is described as {entry}")
