"""``Example`` messages of rows of values, straight from the core."""

from __future__ import annotations

import gzip
import io
import zlib

import numpy as np
import pytest

from drumline._core import ByteReader, example_messages, list_message, message_field

FEATURES = [(b"a", "string"), (b"b", "float32"), (b"c", "int64")]
FIELDS = {"string": 1, "float32": 2, "int64": 3}


def expected(*values):
    """A message put together field by field; ``None`` is left out."""
    entries = b""
    for (key, kind), value in zip(FEATURES, values, strict=True):
        if value is not None:
            feature = message_field(FIELDS[kind], list_message(kind, value))
            content = message_field(1, key) + message_field(2, feature)
            entries += message_field(1, content)
    return message_field(1, entries)


def test_values_are_bytes_numbers_lists_and_arrays():
    floats = np.array([1.5, -2.5, np.inf], np.float32)
    rows = [
        [b"x" * 300, 0.1, -1],
        [[b"", b"yy"], floats, np.array([1, 300, -(1 << 63)])],
        [None, floats.astype(np.float64), None],
        [[], np.empty(0, np.float32), np.arange(10)[::3]],
    ]
    assert example_messages(FEATURES, rows) == [
        expected([b"x" * 300], [0.1], [-1]),
        expected([b"", b"yy"], floats.tolist(), [1, 300, -(1 << 63)]),
        expected(None, floats.tolist(), None),
        expected([], [], [0, 3, 6, 9]),
    ]


@pytest.mark.parametrize(
    "row",
    [
        ["x", 1.0, 1],
        [b"x", b"x", 1],
        [b"x", 1.0, 1.5],
        [b"x", np.arange(2), 1],
        [b"x", 1.0, np.ones(2)],
        [b"x", 1.0, np.ones((2, 2), np.int64)],
        [[b"x", 1], 1.0, 1],
    ],
)
def test_values_of_other_types_are_refused(row):
    with pytest.raises(TypeError):
        example_messages(FEATURES, [row])


def test_what_cannot_be_is_refused():
    with pytest.raises(OverflowError):
        example_messages(FEATURES, [[b"x", 1.0, 1 << 64]])
    with pytest.raises(ValueError, match="2 values for 3 features"):
        example_messages(FEATURES, [[b"x", 1.0]])
    with pytest.raises(ValueError, match="no kind"):
        example_messages([(b"a", "complex")], [[b"x"]])


@pytest.mark.parametrize(
    ("compression", "pack"), [("", bytes), ("GZIP", gzip.compress), ("ZLIB", zlib.compress)]
)
def test_bytes_are_read_and_decompressed(tmp_path, compression, pack):
    content = np.random.default_rng(0).bytes(100_000)
    (tmp_path / "a").write_bytes(pack(content))
    with open(tmp_path / "a", "rb", buffering=0) as file:
        reader = ByteReader(file.fileno(), compression, 1000)
    parts = [reader.read(7), reader.read(99_000), reader.read((1 << 63) - 1), reader.read(5)]
    assert [len(part) for part in parts] == [7, 99_000, 993, 0] and b"".join(parts) == content
    assert ByteReader(io.BytesIO(pack(content)), compression, 1000).read(9) == content[:9]
    if compression:
        reader = ByteReader(io.BytesIO(pack(content)[:-20]), compression, 1000)
        with pytest.raises(ValueError, match="too early"):
            reader.read(1 << 20)
