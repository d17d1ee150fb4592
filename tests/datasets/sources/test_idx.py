"""Reading IDX: every type, and every way a file can be wrong."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from drumline.datasets import IdxError, read_idx
from drumline.datasets.sources.idx import parse_idx
from tests.datasets.idx_files import CODES, idx_bytes

VALUES = np.arange(-6, 6).reshape(2, 3, 2)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_every_type(tmp_path: Path, code: str, pack: object) -> None:
    path = tmp_path / "values"
    path.write_bytes(pack(idx_bytes(VALUES, code)))  # type: ignore[operator]
    found = read_idx(path)
    assert found.dtype == np.dtype(code).newbyteorder("=")
    np.testing.assert_array_equal(found, VALUES.astype(code))


@given(array_shapes(max_dims=4, min_side=0, max_side=4), st.sampled_from(list(CODES)))
def test_what_is_written_is_read(shape: tuple[int, ...], code: str) -> None:
    values = np.random.default_rng(1).integers(-100, 100, shape)
    np.testing.assert_array_equal(parse_idx(idx_bytes(values, code)), values.astype(code))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at byte 0: the data end after 0 of 4 bytes of the magic number"),
        (b"\0\0\x08", "at byte 3: the data end after 3 of 4 bytes of the magic number"),
        (b"\1\0\x08\1\0\0\0\0", "at byte 0: an IDX file begins with two zero bytes, found 1, 0"),
        (b"\0\0\x0a\1\0\0\0\0", "at byte 2: unknown type code 0x0a"),
        (b"\0\0\x08\0", "at byte 3: 0 dimensions"),
        (b"\0\0\x08\xff", "at byte 3: 255 dimensions"),
        (b"\0\0\x08\2\0\0\0\1", "at byte 8: the data end after 4 of 8 bytes of 2 dimensions"),
        (idx_bytes(VALUES)[:-1], "at byte 27: the data end after 11 of 12 bytes of values"),
        (idx_bytes(VALUES) + b"!", "at byte 28: more bytes than shape"),
        (b"\0\0\x08\4" + b"\xff" * 16, "at byte 4: dimensions .* more than memory can address"),
        (
            gzip.compress(idx_bytes(VALUES), mtime=0)[:-9],
            "unpacked data: the gzip stream is cut off",
        ),
        (
            gzip.compress(idx_bytes(VALUES), mtime=0)[:-8] + b"\0" * 8,
            "the gzip stream is damaged: CRC",
        ),
        (b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 9, "the gzip stream is damaged: Error -3"),
        (
            gzip.compress(idx_bytes(VALUES)[:-2], mtime=0),
            "at byte 26 of the unpacked data: the data end",
        ),
    ],
)
def test_faults_name_the_file_and_the_offset(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "broken-idx"
    path.write_bytes(data)
    with pytest.raises(IdxError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@given(
    st.binary(max_size=64)
    | st.binary(max_size=64).map(lambda tail: b"\0\0\x08\1" + tail)
    | st.binary(max_size=64).map(lambda tail: b"\x1f\x8b\x08\0" + tail)
    | st.tuples(st.binary(max_size=64), st.integers(0, 90)).map(
        lambda both: gzip.compress(idx_bytes(np.arange(30)) + both[0], mtime=0)[: both[1]]
    )
)
def test_arbitrary_bytes_give_an_array_or_the_readers_own_error(data: bytes) -> None:
    try:
        found = parse_idx(data)
    except IdxError:
        return
    assert isinstance(found, np.ndarray)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_lying_header_reserves_no_memory(pack: object) -> None:
    data = pack(b"\0\0\x08\2" + struct.pack(">2I", 1 << 31, 1 << 15))  # type: ignore[operator]
    tracemalloc.start()
    try:
        with pytest.raises(IdxError, match="0 of 70368744177664 bytes"):
            parse_idx(io.BytesIO(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
