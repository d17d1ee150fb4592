"""Files in Snappy's framing format, which names them ``.sz``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from drumline._core import masked_checksum

_BEGIN = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _PLAIN, _FIRST_SKIPPED = 0x00, 0x01, 0x80
_CHUNK_NBYTES = 1 << 16
_HEAD_NBYTES = 4
_CHECKSUM_NBYTES = 4


def write_snappy(plain: BinaryIO, file: BinaryIO) -> None:
    """Writes what can be read from ``plain``, compressed, to ``file``."""
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
    """All that ``write_snappy``, or another program, has compressed.

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
    """Where each chunk with content begins, its kind, and its body."""
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
    """How long a block says that it is when decompressed: base 128, the least digit first."""
    nbytes = 0
    for place, byte in enumerate(block[:3]):
        nbytes |= (byte & 127) << (7 * place)
        if byte < 128 and nbytes <= _CHUNK_NBYTES:
            return nbytes
    raise ValueError(f"the chunk at byte {start} is of more than {_CHUNK_NBYTES} bytes")
