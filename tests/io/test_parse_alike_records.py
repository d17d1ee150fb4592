"""Records that follow others of the same features: their single numbers, of any length."""

from __future__ import annotations

import numpy as np
import pytest

from drumline.io import FixedLenFeature, parse_example

FEATURES = {
    "a_key_of_more_than_16_bytes": FixedLenFeature([], np.int64),
    "i": FixedLenFeature([], np.int64),
    "f": FixedLenFeature([], np.float32),
    "last": FixedLenFeature([], np.int64),
}
NUMBERS = sorted({sign * ((1 << k) + d) for k in range(63) for d in (-1, 0, 1) for sign in (-1, 1)})


def varint(value: int) -> bytes:
    """https://protobuf.dev/programming-guides/encoding"""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(values: dict[str, tuple[int, bytes]]) -> bytes:
    """An ``Example`` of packed values, each with the number of its kind of list."""
    entries = [
        field(1, field(1, key.encode()) + field(2, field(kind, field(1, packed))))
        for key, (kind, packed) in values.items()
    ]
    return field(1, b"".join(entries))


def record(number: int, i: bytes | None = None, f: bytes | None = None) -> bytes:
    return example(
        {
            "a_key_of_more_than_16_bytes": (3, varint(-number)),
            "i": (3, varint(number) if i is None else i),
            "f": (2, np.float32(number).tobytes() if f is None else f),
            "last": (3, varint(number)),
        }
    )


def test_numbers_are_those_that_were_written() -> None:
    records = [record(number) for number in NUMBERS * 2]
    found = parse_example(records, FEATURES)
    wanted = np.array(NUMBERS * 2, np.int64)
    np.testing.assert_array_equal(found["i"], wanted)
    np.testing.assert_array_equal(found["last"], wanted)
    np.testing.assert_array_equal(found["a_key_of_more_than_16_bytes"], -wanted)
    np.testing.assert_array_equal(found["f"], wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (record(5, i=varint(1) + varint(2)), "record 2: feature 'i', at byte"),
        (record(5, i=b""), "record 2: feature 'i', at byte"),
        (record(5, i=b"\x80\x80"), "record 2: feature 'i', at byte"),
        (record(5, f=b"\x00" * 8), "record 2: feature 'f', at byte"),
        (record(5, f=b"\x00" * 3), "record 2: feature 'f', at byte"),
        (record(5)[:-1], "record 2: "),
    ],
)
def test_what_is_wrong_in_one_of_them_is_named(wrong: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_example([record(1), record(2), wrong, record(3)], FEATURES)


def test_a_number_of_another_kind_is_named() -> None:
    other = example({"i": (2, np.float32(1).tobytes())})
    own = example({"i": (3, varint(1))})
    with pytest.raises(ValueError, match="record 2: feature 'i'"):
        parse_example([own, own, other], {"i": FEATURES["i"]})


def test_more_bytes_than_a_number_has_are_as_elsewhere() -> None:
    """Zeros may follow in a number: protocol buffers allow them."""
    longer = record(5, i=b"\x85\x80\x00")
    found = parse_example([record(1), record(2), longer, record(7)], FEATURES)
    assert found["i"].tolist() == [1, 2, 5, 7]
