"""``decode_raw``, ``parse_tensor``, ``serialize_tensor``: what TensorFlow 2.21 writes and reads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

SERIALIZED = [
    (np.array([1.5, 2], np.float32), b'\x08\x01\x12\x04\x12\x02\x08\x02"\x08\0\0\xc0?\0\0\0@'),
    (np.int64(3), b'\x08\t\x12\x00"\x08\x03\0\0\0\0\0\0\0'),
    (
        np.array([[b"ab", b"c"]], object),
        b"\x08\x07\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02B\x02abB\x01c",
    ),
    (np.zeros(0, np.int32), b"\x08\x03\x12\x02\x12\x00"),
    (np.array([True, False]), b'\x08\n\x12\x04\x12\x02\x08\x02"\x02\x01\x00'),
    (np.array([1, 2], ml_dtypes.bfloat16), b'\x08\x0e\x12\x04\x12\x02\x08\x02"\x04\x80?\x00@'),
    (np.complex64(1 + 2j), b'\x08\x08\x12\x00"\x08\0\0\x80?\0\0\0@'),
    (np.array([1.5], np.float16), b'\x08\x13\x12\x04\x12\x02\x08\x01"\x02\x00>'),
    (b"", b"\x08\x07\x12\x00B\x00"),
    (np.zeros((0, 3), object), b"\x08\x07\x12\x06\x12\x00\x12\x02\x08\x03"),
    (np.array([1, 2], np.uint8), b'\x08\x04\x12\x04\x12\x02\x08\x02"\x02\x01\x02'),
]


@pytest.mark.parametrize(("value", "message"), SERIALIZED)
def test_tensors_are_written_and_read_as_tensorflow_does(value, message):
    assert dl.io.serialize_tensor(value) == message
    dtype = np.dtype(object) if isinstance(value, bytes) else value.dtype
    found = dl.io.parse_tensor(message, dtype)
    assert isinstance(found, bytes) or found.dtype == dtype
    np.testing.assert_array_equal(found, value)
    assert np.shape(found) == np.shape(value)


@pytest.mark.parametrize(
    ("message", "dtype", "value"),
    [
        (b"\x08\x11\x12\x04\x12\x02\x08\x03:\x03\x01\x00\x02", "uint16", [1, 0, 2]),
        (b"\x08\n\x12\x04\x12\x02\x08\x03Z\x03\x01\x00\x01", "bool", [True, False, True]),
        (b"\x08\x08\x12\x04\x12\x02\x08\x01J\x08\0\0\x80?\0\0\0@", "complex64", [1 + 2j]),
        (b"\x08\x01\x12\x04\x12\x02\x08\x04*\x08\0\0\x80?\0\0\0@", "float32", [1, 2, 2, 2]),
        (b"\x08\x07\x12\x04\x12\x02\x08\x03B\x01aB\x01b", "string", [b"a", b"b", b"b"]),
        (b"\x08\x01\x12\x04\x12\x02\x08\x02", "float32", [0, 0]),
        (b"\x08\x01", "float32", 0),
    ],
)
def test_values_listed_one_by_one(message, dtype, value):
    found = dl.io.parse_tensor(message, dtype)
    np.testing.assert_array_equal(found, np.array(value, object if dtype == "string" else dtype))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "it holds type 0"),
        (b"\xff", "byte 0: the bytes end within a field"),
        (b"\x08\x03\x12\x00", "it holds type 3"),
        (b'\x08\x01\x12\x04\x12\x02\x08\x04"\x041234', "4 bytes of content, its shape needs 16"),
        (b"\x08\x01\x12\x07\x12\x05\x08\x80\x80\x80\x40", "at most 1048576 are filled up"),
    ],
)
def test_damaged_tensors_are_errors(message, reason):
    with pytest.raises(ValueError, match=f"parse_tensor: not a serialized tensor.*{reason}"):
        dl.io.parse_tensor(message, np.float32)


def test_tensors_in_maps_without_python():
    rows = [np.arange(i % 3 + 1, dtype=np.int64) + 2**40 for i in range(20)]
    messages = [dl.io.serialize_tensor(row) for row in rows]
    ds = Dataset.from_tensor_slices(messages).map(
        lambda m: dl.io.parse_tensor(m, np.int64, shape=(None,))
    )
    again = ds.map(lambda row: (dl.io.serialize_tensor(row), row))
    assert "runs as Python" not in again.explain()
    for (message, row), wanted, first in zip(again, rows, messages, strict=True):
        assert message == first
        np.testing.assert_array_equal(row, wanted)
    square = ds.filter(lambda row: True).padded_batch(4)
    messages = square.map(dl.io.serialize_tensor)
    found = messages.map(lambda m: dl.io.parse_tensor(m, np.int64, shape=(None, None)))
    for a, b in zip(found, square, strict=True):
        np.testing.assert_array_equal(a, b)
    numbers = Dataset.range(5).map(lambda i: dl.io.serialize_tensor([i, i]))
    assert list(numbers) == [dl.io.serialize_tensor(np.array([i, i])) for i in range(5)]


def test_tensors_without_a_shape_run_as_python():
    rows = [np.arange(n) for n in (2, 5, 0)]
    messages = [dl.io.serialize_tensor(row) for row in rows]
    ds = Dataset.from_tensor_slices(messages).map(lambda m: dl.io.parse_tensor(m, np.int64))
    assert "parse_tensor needs its shape argument" in ds.explain()
    for found, wanted in zip(ds, rows, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_tensor_of_another_shape_is_an_error_in_its_place():
    messages = [dl.io.serialize_tensor(np.ones(n, np.float32)) for n in (2, 2, 3, 2)]
    ds = Dataset.from_tensor_slices(messages).map(
        lambda m: dl.io.parse_tensor(m, np.float32, shape=(2,)) * 2
    )
    iterator = iter(ds)
    assert [next(iterator).tolist() for _ in range(2)] == [[2, 2], [2, 2]]
    with pytest.raises(ValueError, match=r"its shape is \[3\]"):
        next(iterator)
    assert [x.tolist() for x in iterator] == [[2, 2]]


RAW = b"\1\2\3\4\5\6\7\x08"


@pytest.mark.parametrize(
    ("given", "arguments", "numbers"),
    [
        (RAW, {}, [513, 1027, 1541, 2055]),
        (RAW, {"little_endian": False}, [258, 772, 1286, 1800]),
        (RAW, {"fixed_length": 6}, [513, 1027, 1541]),
        (RAW, {"fixed_length": 12}, [513, 1027, 1541, 2055, 0, 0]),
        ([b"1234", b"12"], {"fixed_length": 4}, [[12849, 13363], [12849, 0]]),
        ([[b"12", b"34"]], {}, [[[12849], [13363]]]),
        (b"123", {"fixed_length": 4}, [12849, 51]),
        (b"", {}, []),
        ([b"", b""], {}, [[], []]),
    ],
)
def test_raw_bytes_are_numbers_as_in_tensorflow(given, arguments, numbers):
    value = given if isinstance(given, bytes) else np.array(given, object)
    found = dl.io.decode_raw(value, np.int16, **arguments)
    np.testing.assert_array_equal(found, np.array(numbers, np.int16))
    ds = Dataset.from_tensors(value).map(lambda s: dl.io.decode_raw(s, np.int16, **arguments))
    np.testing.assert_array_equal(list(ds)[0], np.array(numbers, np.int16))


def test_raw_bytes_in_maps():
    strings = [bytes(range(4 * (i % 4))) for i in range(30)]
    ds = Dataset.from_tensor_slices(strings)
    varying = ds.map(lambda s: dl.io.decode_raw(s, np.int32))
    for found, string in zip(varying, strings, strict=True):
        np.testing.assert_array_equal(found, np.frombuffer(string, np.int32))
    fixed = ds.batch(8).map(lambda s: dl.io.decode_raw(s, np.uint8, fixed_length=8)).unbatch()
    for found, string in zip(fixed, strings, strict=True):
        assert found.tobytes() == string[:8].ljust(8, b"\0")
    equal = ds.filter(lambda s: False).concatenate(Dataset.from_tensor_slices([b"abcd"] * 5))
    pairs = equal.batch(2).map(lambda s: dl.io.decode_raw(s, np.int32))
    assert [x.shape for x in pairs] == [(2, 1), (2, 1), (1, 1)]


@pytest.mark.parametrize("dtype", ["complex64", "float64", "bfloat16", "bool", "uint16"])
def test_raw_bytes_of_any_type_and_order(dtype):
    size = np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
    part = size // 2 if dtype == "complex64" else size
    values = dl.io.decode_raw(bytes(range(64)), dtype)
    swapped = b"".join(bytes(range(i, i + part))[::-1] for i in range(0, 64, part))
    other = dl.io.decode_raw(swapped, dtype, little_endian=False)
    assert values.tobytes() == other.tobytes()
    assert values.dtype.name == dtype


def test_raw_bytes_that_do_not_fit():
    strings = [b"abcd", b"abcdefgh", b"abc", b"abcd"]
    iterator = iter(Dataset.from_tensor_slices(strings).map(lambda s: dl.io.decode_raw(s, "int32")))
    assert [len(next(iterator)) for _ in range(2)] == [1, 2]
    with pytest.raises(ValueError, match="a string of 3 bytes is no whole number of int32"):
        next(iterator)
    with pytest.raises(ValueError, match="item 1 has 2 bytes and item 0 has 4; give fixed_length"):
        dl.io.decode_raw(np.array([b"abcd", b"ab"], object), np.int16)
    with pytest.raises(ValueError, match=r"fixed_length \(3\) must be a positive multiple of 2"):
        dl.io.decode_raw(b"abcd", np.int16, fixed_length=3)
    with pytest.raises(TypeError, match="not strings"):
        dl.io.decode_raw(b"abcd", "string")
    with pytest.raises(TypeError, match="takes strings"):
        dl.io.decode_raw(3, np.int16)
