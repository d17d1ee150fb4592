"""The safetensors format: arrays by name in one file, which other programs read.

A file consists of the header's length in 8 bytes, little endian; the header, in JSON, padded by
spaces to a multiple of 8; and the arrays' bytes, C-contiguous and little endian, one after another.
The header has each array's dtype, shape and ``data_offsets`` in the bytes that follow it.
``__metadata__`` maps names to texts; what drumline adds is one of them, ``drumline``, in JSON.

The header begins with its own checksum, a text of the metadata: the CRC-32 of all that comes
before the arrays, with zeros for the checksum's digits. Another text says that it is there, so that
damage to the name of one is noticed by the other. Files of releases without it are read, unchecked.
The checksums of arrays are CRC32C; those of former releases, under another name, CRC-32.

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

from drumline._core import crc32c

SUFFIX = ".safetensors"

CHECKSUMS = "crc32c"
"""What the checksums of arrays are called in the metadata that drumline adds."""
_FORMER_CHECKSUMS = "crc32"

ArraySpec = tuple[tuple[int, ...], np.dtype]
"""An array's shape and dtype."""

_METADATA = "__metadata__"
_OWN_METADATA = "drumline"
_HEADER_CHECKSUM = "header_crc32"
_CHECKED = "checked"
_START = f'{{"{_METADATA}": {{"{_HEADER_CHECKSUM}": "'.encode()
_NO_DIGITS = b"00000000"
_LENGTH = struct.Struct("<Q")
_MOST_AXES = 64  # of numpy's arrays
_MOST_VALUES = 1 << 59

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
        (ml_dtypes.float8_e8m0fnu, "F8_E8M0"),
    ]
}
_DTYPES = {name: dtype for dtype, name in _DTYPE_NAMES.items()}


class ArrayLayout:
    """Where arrays lie in a file that is to be written.

    Args:
        arrays: the arrays' specs by name, in the order of their bytes.

    Attributes:
        entries: what the header has of each array.
        nbytes: of all arrays.
        places: of each array: the first byte of its own after the header, and the one after it.

    Raises:
        TypeError: for a dtype that the format lacks.
    """

    def __init__(self, arrays: Mapping[str, ArraySpec]) -> None:
        self.entries: dict[str, Any] = {}
        self.places: dict[str, tuple[int, int]] = {}
        self.nbytes = 0
        for name, (shape, dtype) in arrays.items():
            if dtype not in _DTYPE_NAMES:
                raise TypeError(f"A checkpoint cannot hold {name!r}, of dtype {dtype}.")
            start, self.nbytes = self.nbytes, self.nbytes + math.prod(shape) * dtype.itemsize
            self.places[name] = (start, self.nbytes)
            self.entries[name] = {
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
        texts = {_HEADER_CHECKSUM: _NO_DIGITS.decode(), _CHECKED: "header"}
        added = {_METADATA: {**texts, _OWN_METADATA: json.dumps(metadata)}}
        text = json.dumps({**added, **self.entries}).encode()
        text += b" " * (-len(text) % 8)
        length = _LENGTH.pack(len(text))
        return length + _START + _digits(length + text) + text[len(_START) + len(_NO_DIGITS) :]


class SavedArrays(NamedTuple):
    """The content of a file.

    Attributes:
        arrays: by name; views of the file's bytes.
        metadata: what drumline added; under `CHECKSUMS` the checksum of each array, as a number or
            as eight hexadecimal digits.
    """

    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]

    def verify(self, names: Iterable[str]) -> None:
        """Read the arrays of these names and compare their checksums.

        Raises:
            ValueError: if one differs, or is not there.
        """
        is_former = CHECKSUMS not in self.metadata
        recorded = self.metadata.get(_FORMER_CHECKSUMS if is_former else CHECKSUMS)
        for name in names:
            array = self.arrays[name]
            found = zlib.crc32(bytes_of(array).data) if is_former else checksum(array)
            expected = recorded.get(name) if isinstance(recorded, dict) else None
            if expected not in (found, f"{found:08x}"):
                raise ValueError(f"the checksum of {name!r} differs")


def parse(content: np.ndarray) -> SavedArrays:
    """Return what a file holds, given its bytes as uint8.

    Raises:
        ValueError: if they are not in the format, are not all of a file, were not written by
            drumline, or the header's checksum differs. Those of arrays are not compared.
    """
    if len(content) < _LENGTH.size:
        raise ValueError(f"it has {len(content)} bytes, less than a header's length")
    (length,) = _LENGTH.unpack(content[: _LENGTH.size].tobytes())
    if length > len(content) - _LENGTH.size:
        raise ValueError(f"it has {len(content)} bytes, less than its header of {length}")
    start = _LENGTH.size + length
    header, metadata = _header(content[:start].tobytes())
    data = content[start:]
    places = _places(header, len(data))
    try:
        arrays = {
            name: data[place.start : place.stop].view(place.dtype).reshape(place.shape)
            for name, place in places.items()
        }
    except OverflowError as error:  # a size of an empty array that no array has
        raise ValueError(f"an array has a shape that is not possible: {error}") from error
    return SavedArrays(arrays, metadata)


def read_metadata(path: str | os.PathLike[str], *, whole: bool = False) -> dict[str, Any]:
    """Return what drumline has added to a file, without reading its arrays.

    Args:
        path: of the file.
        whole: whether the file must have the length that its arrays have.

    Raises:
        OSError: if the file cannot be read.
        ValueError: as `parse`.
    """
    with open(path, "rb") as file:
        prefix = file.read(_LENGTH.size)
        size = os.fstat(file.fileno()).st_size
        if len(prefix) < _LENGTH.size or (length := _LENGTH.unpack(prefix)[0]) > size:
            raise ValueError(f"it has {size} bytes, less than its header")
        header, metadata = _header(prefix + file.read(length))
    if whole:
        _places(header, size - _LENGTH.size - length)
    return metadata


class LayoutError(ValueError):
    """A file is not in the format.

    Attributes:
        offset: of the bytes that say so.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class ArrayPlace(NamedTuple):
    """An array's dtype and shape, and its first byte and the one after its last.

    Counted from the file's start in a `SavedLayout`, and else from the header's end.
    """

    dtype: np.dtype
    shape: list[int]
    start: int
    stop: int


class SavedLayout(NamedTuple):
    """What the header of a file says, whoever wrote it.

    Attributes:
        arrays: where each lies in the file, by name, in the order of their bytes.
        texts: the metadata.
    """

    arrays: dict[str, ArrayPlace]
    texts: dict[str, str]

    @property
    def own_metadata(self) -> dict[str, Any] | None:
        """What drumline added; None if it did not write the file.

        Raises:
            LayoutError: it is not JSON.
        """
        if _OWN_METADATA not in self.texts:
            return None
        try:
            return _json(self.texts[_OWN_METADATA].encode())
        except ValueError as error:
            raise LayoutError(_LENGTH.size, str(error)) from error


def read_layout(path: str | os.PathLike[str]) -> SavedLayout:
    """Read the header of a file of any program, and nothing else of it.

    Raises:
        OSError: if the file cannot be read.
        LayoutError: if it is not in the format, its length is not that of its arrays, these leave
            gaps or overlap, or it has a checksum of its header that differs.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(_LENGTH.size)
        if len(prefix) < _LENGTH.size:
            raise LayoutError(0, f"it has {size} bytes, less than a header's length")
        start = _LENGTH.size + _LENGTH.unpack(prefix)[0]
        if start > size:
            raise LayoutError(
                0, f"it has {size} bytes, less than its header, which ends at {start}"
            )
        content = prefix + file.read(start - _LENGTH.size)
    try:
        entries, texts = _entries(content)
        if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
            raise ValueError("its metadata are no texts by name")
        places = [(name, _place(name, entry, size - start)) for name, entry in entries.items()]
    except ValueError as error:
        raise LayoutError(_LENGTH.size, str(error)) from error
    places.sort(key=lambda each: (each[1].start, each[1].stop))
    arrays, end = {}, 0
    for name, place in places:
        if (
            len(place.shape) > _MOST_AXES
            or math.prod(max(n, 1) for n in place.shape) > _MOST_VALUES
        ):
            raise LayoutError(_LENGTH.size, f"{name!r} has a shape that is not possible")
        if place.start != end:
            what = "overlaps what is before it" if place.start < end else "has a gap before it"
            raise LayoutError(start + place.start, f"{name!r} {what}")
        end = place.stop
        arrays[name] = place._replace(start=start + place.start, stop=start + place.stop)
    if start + end != size:
        raise LayoutError(start + end, f"it has {size} bytes, and its arrays end at {start + end}")
    return SavedLayout(arrays, texts)


def holds(dtype: np.dtype) -> bool:
    """Whether the format has arrays of this dtype."""
    return dtype in _DTYPE_NAMES


def plain_header(arrays: Mapping[str, ArraySpec], texts: Mapping[str, str]) -> bytes:
    """Return what a file begins with that has nothing of drumline's own.

    Raises:
        TypeError: for a dtype that the format lacks.
    """
    entries = ArrayLayout(arrays).entries
    text = json.dumps({_METADATA: dict(texts), **entries}).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Return an array's bytes as the format has them, as uint8; a view where that is possible."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def checksum(array: np.ndarray, before: int = 0) -> int:
    """Return the CRC32C of an array's bytes, after those of which `before` is the checksum."""
    return crc32c(bytes_of(array), before)


def _header(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays' entries in a header of drumline's, and what it added to it.

    Args:
        content: the header, with its length before it.
    """
    entries, texts = _entries(content)
    if not isinstance(texts, dict) or not isinstance(texts.get(_OWN_METADATA), str):
        raise ValueError("it was not written by drumline")
    return entries, _json(texts[_OWN_METADATA].encode())


def _entries(content: bytes) -> tuple[dict[str, Any], Any]:
    """Return the arrays' entries in a header, and its metadata; its checksum is compared.

    Args:
        content: the header, with its length before it.
    """
    text = content[_LENGTH.size :]
    digits = slice(len(_START), len(_START) + len(_NO_DIGITS))
    is_checked = text.startswith(_START)
    if is_checked and text[digits] != _digits(content):
        raise ValueError("the checksum of its header differs")
    entries = _json(text)
    texts = entries.pop(_METADATA, {})
    has_checksum = isinstance(texts, dict) and not texts.keys().isdisjoint(
        (_HEADER_CHECKSUM, _CHECKED)
    )
    if has_checksum and not is_checked:
        raise ValueError("the checksum of its header is not where it was written")
    return entries, texts


def _digits(content: bytes) -> bytes:
    """Return the checksum of a header with its length before it, whatever is in its place."""
    before = _LENGTH.size + len(_START)
    found = zlib.crc32(_NO_DIGITS, zlib.crc32(content[:before]))
    return b"%08x" % zlib.crc32(content[before + len(_NO_DIGITS) :], found)


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_without_repetition)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"its header is a {type(found).__name__}")
    return found


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"its header has {max(names, key=names.count)!r} twice")
    return found


def _places(entries: Mapping[str, Any], nbytes: int) -> dict[str, ArrayPlace]:
    """Return where arrays lie in what follows a header; they are all of its bytes."""
    places = {name: _place(name, entry, nbytes) for name, entry in entries.items()}
    used = sum(place.stop - place.start for place in places.values())
    if used != nbytes:
        raise ValueError(f"it has {nbytes} bytes of {used}")
    return places


def _place(name: str, entry: Any, nbytes: int) -> ArrayPlace:
    match entry:
        case {"dtype": str(dtype_name), "shape": list(shape), "data_offsets": [int(a), int(b)]}:
            dtype = _DTYPES.get(dtype_name)
            is_shape = all(isinstance(n, int) and n >= 0 for n in shape)
            if dtype is None or not is_shape or math.prod(shape) * dtype.itemsize != b - a:
                raise ValueError(f"{name!r} is described as {entry}")
            if not 0 <= a <= b <= nbytes:
                raise ValueError(f"it has {nbytes} bytes, and {name!r} ends at {b}")
            return ArrayPlace(dtype, shape, a, b)
    raise ValueError(f"{name!r} is described as {entry}")
