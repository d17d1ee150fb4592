"""Files in Snappy's framing format."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data.storage.store.columns import read_snappy, write_snappy

BEGIN = b"\xff\x06\x00\x00sNaPpY"
DIGITS = b"123456789"
# What catalogues of checksums give for the digits, masked as the format's description says.
CRC = 0xE3069283
MASKED = (((CRC >> 15) | (CRC << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def chunk(kind, body):
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def checked(body, crc=MASKED):
    return crc.to_bytes(4, "little") + body


def read(*chunks):
    return read_snappy(io.BytesIO(b"".join(chunks)))


PLAIN = chunk(1, checked(DIGITS))
# Its length, then a literal of nine bytes.
PACKED = chunk(0, checked(b"\x09\x20" + DIGITS))


def test_files_as_the_description_has_them():
    padding = chunk(0xFE, b"\0" * 5)
    assert read(BEGIN, PLAIN, padding, BEGIN, PACKED) == DIGITS * 2
    assert read(BEGIN) == b""


@given(st.lists(st.binary(max_size=50), max_size=5), st.sampled_from([1, 7, 20_000]))
def test_what_was_written_is_read(parts, times):
    content = b"".join(part * times for part in parts)
    file = io.BytesIO()
    write_snappy(io.BytesIO(content), file)
    assert read(file.getvalue()) == content
    chunks = -(-len(content) // 65_536)
    assert len(file.getvalue()) <= len(BEGIN) + 8 * chunks + len(content)


def test_damage_is_named():
    for chunks, message in (
        ([PLAIN], "does not begin"),
        ([BEGIN, chunk(2, b"")], "byte 10 is of an unknown kind, 2"),
        ([BEGIN, PLAIN, chunk(1, checked(DIGITS, CRC))], "CRC check failed.*byte 27"),
        ([BEGIN, chunk(0, checked(b"\xff\xff\xff\x01"))], "more than 65536 bytes"),
        ([BEGIN, chunk(0, checked(b""))], "more than 65536 bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            read(*chunks)
    whole = BEGIN + PACKED
    for end, place in itertools.product(range(11, len(whole)), [10]):
        with pytest.raises(EOFError, match=f"within the chunk at byte {place}"):
            read(whole[:end])
    for place in range(10, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        with pytest.raises((ValueError, OSError, EOFError)):
            read(bytes(damaged))
