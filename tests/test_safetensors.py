"""The safetensors format: what is written, that others can read it, and what is refused."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from drumline._safetensors import (
    ArrayLayout,
    SavedArrays,
    bytes_of,
    checksum,
    parse,
    read_metadata,
)

# By the format's own description, not by drumline's table.
FORMAT = {
    "BOOL": "bool",
    "I8": "int8",
    "U8": "uint8",
    "I16": "<i2",
    "U16": "<u2",
    "I32": "<i4",
    "U32": "<u4",
    "I64": "<i8",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "C64": "<c8",
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}
DTYPES = {np.dtype(dtype): name for name, dtype in FORMAT.items()}


def written(arrays: dict[str, np.ndarray], metadata: dict[str, Any] | None = None) -> bytes:
    layout = ArrayLayout({name: (array.shape, array.dtype) for name, array in arrays.items()})
    body = b"".join(bytes_of(array).tobytes() for array in arrays.values())
    assert layout.nbytes == len(body)
    return layout.header(metadata or {}) + body


def parsed(content: bytes) -> SavedArrays:
    return parse(np.frombuffer(content, np.uint8))


def read_as_described(content: bytes) -> dict[str, np.ndarray]:
    """Read a file as the format's description says, without drumline."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0 and content[8:9] == b"{"
    assert all(isinstance(text, str) for text in header.pop("__metadata__").values())
    data = content[8 + length :]
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        assert set(entry) == {"dtype", "shape", "data_offsets"} and start == end, "no gap"
        end = stop
        flat = np.frombuffer(data[start:stop], np.dtype(FORMAT[entry["dtype"]]))
        arrays[name] = flat.reshape(entry["shape"])
    assert end == len(data)
    return arrays


_arrays = st.sampled_from(list(DTYPES)).flatmap(
    lambda dtype: stn.array_shapes(min_dims=0, min_side=0, max_side=4).flatmap(
        lambda shape: st.binary(
            min_size=(n := int(np.prod(shape)) * dtype.itemsize), max_size=n
        ).map(lambda content: np.frombuffer(_valid(content, dtype), dtype).reshape(shape))
    )
)


def _valid(content: bytes, dtype: np.dtype) -> bytes:
    return bytes(byte & 1 for byte in content) if dtype == np.bool_ else content


@given(st.dictionaries(st.text(max_size=5).filter("__metadata__".__ne__), _arrays, max_size=4))
def test_others_read_the_bits_that_were_written(arrays: dict[str, np.ndarray]) -> None:
    metadata = {"step": 'a"b\n', "values": [1, None]}
    content = written(arrays, metadata)
    ours = parsed(content)
    assert ours.metadata == metadata
    for found in (ours.arrays, read_as_described(content)):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            assert found[name].tobytes() == array.tobytes()


def test_the_bytes_on_disk_stay_as_they_are() -> None:
    """Files that older releases wrote are read, and older releases read new ones."""
    arrays = {
        "a/b": np.arange(3, dtype=np.float32),
        "s": np.array(True),
        "bf": np.ones((1, 2), ml_dtypes.bfloat16),
        "e": np.zeros((0, 4), np.int64),
        "t": np.arange(6, dtype=np.int16).reshape(2, 3).T,
    }
    assert written(arrays, {"step": 7}) == (
        b'\xa8\x01\x00\x00\x00\x00\x00\x00{"__metadata__": {"header_crc32": "95b7a0f9", '
        b'"checked": "header", "drumline": "{\\"step\\": 7}"}, '
        b'"a/b": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
        b'"s": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}, '
        b'"bf": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [13, 17]}, '
        b'"e": {"dtype": "I64", "shape": [0, 4], "data_offsets": [17, 17]}, '
        b'"t": {"dtype": "I16", "shape": [3, 2], "data_offsets": [17, 29]}} '
        b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x01\x80?\x80?"
        b"\x00\x00\x03\x00\x01\x00\x04\x00\x02\x00\x05\x00"
    )


def without_checksum(content: bytes) -> bytes:
    """The file as releases before the header's checksum wrote it."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = {"drumline": header["__metadata__"]["drumline"]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def test_files_without_a_checksum_of_the_header_are_read() -> None:
    array = np.arange(3, dtype=np.float32)
    old = (
        b'h\x00\x00\x00\x00\x00\x00\x00{"__metadata__": {"drumline": "{}"}, '
        b'"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}'
    )
    old = old.ljust(8 + 0x68) + array.tobytes()
    assert parsed(old).arrays["a"].tolist() == [0, 1, 2]
    new = written({"a": array})
    assert parsed(without_checksum(new)).arrays["a"].tolist() == [0, 1, 2]


def test_each_flipped_bit_of_a_header_is_refused() -> None:
    arrays = {"a/1": np.arange(6.0).reshape(2, 3), "a/2": np.zeros((), np.int32)}
    crc32 = {name: checksum(array) for name, array in arrays.items()}
    good = written(arrays, {"crc32": crc32, "states": {"x": [1, 2]}})
    nbytes = 8 + struct.unpack("<Q", good[:8])[0]
    for place in range(nbytes):
        for bit in range(8):
            content = bytearray(good)
            content[place] ^= 1 << bit
            with pytest.raises(ValueError, match=r"\w"):
                parsed(bytes(content))
    for place in range(nbytes, len(good)):
        content = bytearray(good)
        content[place] ^= 1 << place % 8
        saved = parsed(bytes(content))
        with pytest.raises(ValueError, match="the checksum of 'a/.' differs"):
            saved.verify(saved.arrays)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 7)), min_size=2, max_size=4))
def test_several_flipped_bits_of_a_header_are_refused(flips: list[tuple[int, int]]) -> None:
    arrays = {"a/1": np.arange(6.0), "a/2": np.zeros(3, np.int32)}
    good = written(arrays, {"states": {}})
    nbytes = 8 + struct.unpack("<Q", good[:8])[0]
    content = bytearray(good)
    for place, bit in flips:
        content[place % nbytes] ^= 1 << bit
    if content != good:
        with pytest.raises(ValueError, match=r"\w"):
            parsed(bytes(content))


def test_an_array_that_is_there_twice_is_refused() -> None:
    text = GOOD_OLD[8:].replace(b'"b": {', b'"a": {', 1)
    with pytest.raises(ValueError, match="has 'a' twice"):
        parsed(GOOD_OLD[:8] + text)


def test_places_lead_to_the_arrays() -> None:
    layout = ArrayLayout({"a": ((3, 2), np.dtype("f8")), "b": ((5,), np.dtype("i1"))})
    assert layout.places == {"a": (0, 48), "b": (48, 53)} and layout.nbytes == 53
    assert len(layout.header({"crc": "00"})) == len(layout.header({"crc": "ff"}))


@pytest.mark.parametrize("dtype", ["complex128", ">f4", "S3", "O", "M8[s]"])
def test_a_dtype_that_the_format_lacks_is_named(dtype: str) -> None:
    with pytest.raises(TypeError, match="cannot hold 'name', of dtype"):
        ArrayLayout({"name": ((1,), np.dtype(dtype))})


GOOD = written({"a": np.arange(4.0), "b": np.ones((2, 3), np.int16)}, {"crc32": {"a": 1, "b": "x"}})
GOOD_OLD = without_checksum(GOOD)


def _with_header(change: dict[str, Any]) -> bytes:
    """The file with another header, which is not checked by a checksum."""
    (length,) = struct.unpack("<Q", GOOD_OLD[:8])
    header = json.loads(GOOD_OLD[8 : 8 + length])
    text = json.dumps({**header, **change}).encode()
    return struct.pack("<Q", len(text)) + text + GOOD_OLD[8 + length :]


def _entry(dtype: Any = "F64", shape: Any = (4,), offsets: Any = (0, 32)) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "0 bytes, less than a header's length"),
        (GOOD[:7], "less than a header's length"),
        (GOOD[:20], "less than its header"),
        (b"\xff" * 8 + GOOD[8:], "less than its header"),
        (GOOD[:-1], "bytes"),
        (GOOD + b"more", "48 bytes of 44"),
        (GOOD[:8] + b"x" + GOOD[9:], "Expecting value"),
        (struct.pack("<Q", 8) + b"[1,2,3] ", "its header is a list"),
        (struct.pack("<Q", 40_000) + b"[" * 40_000, "nested too deeply"),
        (struct.pack("<Q", 2) + b"{}", "not written by drumline"),
        (_with_header({"__metadata__": {"format": "pt"}}), "not written by drumline"),
        (_with_header({"__metadata__": {"drumline": "[]"}}), "its header is a list"),
        (_with_header({"a": None}), "'a' is described as None"),
        (_with_header(_entry(shape=(2**70, 0), offsets=(0, 0))), "not possible|bytes of"),
        (_with_header(_entry(dtype="F128")), "'a' is described"),
        (_with_header(_entry(shape=(-4,))), "'a' is described"),
        (_with_header(_entry(shape=(4.0,))), "'a' is described"),
        (_with_header(_entry(shape=(3,))), "'a' is described"),
        (_with_header(_entry(offsets=(-32, 0))), "'a' ends at 0"),
        (_with_header(_entry(offsets=(32, 64))), "'a' ends at 64"),
        (_with_header(_entry(offsets=(0, 32, 64))), "'a' is described"),
        (_with_header({"c": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}), "of 45"),
    ],
)
def test_what_is_damaged_is_refused_with_a_reason(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parsed(content)


@given(st.integers(0, len(GOOD)), st.integers(0, 8), st.binary(max_size=8))
def test_whatever_is_damaged_raises_nothing_else(at: int, count: int, noise: bytes) -> None:
    try:
        saved = parsed(GOOD[:at] + noise + GOOD[at + count :])
        saved.verify(saved.arrays)
    except ValueError:
        return
    raise AssertionError("the checksums in it are wrong in any case")


def test_checksums_are_numbers_or_digits() -> None:
    # RFC 3720, B.4: 32 bytes from 0 to 31.
    array = np.arange(32, dtype=np.uint8).view(np.int32)
    number = 0x46DD794E
    assert checksum(array) == number == checksum(array[2:], checksum(array[:2]))
    assert checksum(array.reshape(1, 8).T) == number
    former = zlib.crc32(array.tobytes())
    for name, right in (("crc32c", number), ("crc32", former)):
        for recorded in (right, f"{right:08x}"):
            parsed(written({"a": array}, {name: {"a": recorded}})).verify(["a"])
        for wrong in ({"a": right + 1}, {"a": f"{right + 1:08x}"}, {}, None, [], {"a": None}):
            with pytest.raises(ValueError, match="the checksum of 'a' differs"):
                parsed(written({"a": array}, {name: wrong})).verify(["a"])
    with pytest.raises(ValueError, match="the checksum of 'a' differs"):
        parsed(written({"a": array}, {"crc32c": {"a": former}})).verify(["a"])


def test_metadata_is_read_without_the_arrays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (length,) = struct.unpack("<Q", GOOD[:8])
    path.write_bytes(GOOD[: 8 + length])
    assert read_metadata(path) == {"crc32": {"a": 1, "b": "x"}}
    for damaged in (b"", GOOD[:5], b"\xff" * 8 + GOOD[8:], GOOD[:8] + b"x" + GOOD[9:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="header|Expecting"):
            read_metadata(path)
    with pytest.raises(FileNotFoundError):
        read_metadata(tmp_path / "none")


def test_a_length_is_compared_without_the_arrays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(GOOD)
    assert read_metadata(path, whole=True) == read_metadata(path)
    for damaged in (GOOD[:-1], GOOD + b"more", GOOD[:-40]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="bytes"):
            read_metadata(path, whole=True)
