"""TFRecord files for the workloads that read them, written with numpy alone."""

from __future__ import annotations

import functools
import gzip
import math
import tempfile
from pathlib import Path

import numpy as np

RECORD_BYTES = 300
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8


def records(count: int) -> np.ndarray:
    """The records, uint8 (count, RECORD_BYTES): digits, which compress to half, as data may."""
    return np.random.default_rng(1).integers(48, 58, (count, RECORD_BYTES), dtype=np.uint8)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-records-")


def record_file(count: int, compression: str) -> str:
    """The path of a file of these records, removed when the process ends.

    Args:
        count: how many.
        compression: ``""`` or ``"GZIP"``, of zlib's level 6.
    """
    path = Path(_folder().name) / f"records{compression}"
    content = framed(records(count)).tobytes()
    path.write_bytes(gzip.compress(content, 6) if compression else content)
    return str(path)


def framed(rows: np.ndarray) -> np.ndarray:
    """TFRecord's framing of records of one length: uint8 (count, length + 16)."""
    count, length = rows.shape
    header = np.broadcast_to(np.array([length], "<u8").view(np.uint8), (count, 8))
    return np.concatenate([header, _masked_crc(header), rows, _masked_crc(rows)], axis=1)


def _masked_crc(rows: np.ndarray) -> np.ndarray:
    """The masked CRC32C of each row, as bytes (count, 4)."""
    crc = ~_register(rows)
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return (rotated + np.uint32(_MASK)).astype("<u4").view(np.uint8).reshape(-1, 4)


def _register(rows: np.ndarray) -> np.ndarray:
    """What the register holds after each row: parts of rows at once, then put together.

    Zeros before a message leave a register of zeros as it is, and one that begins with ones is
    one of zeros after which four bytes are inverted.
    """
    count, length = rows.shape
    width = math.isqrt(length - 1) + 1
    parts = np.zeros((count, -(-length // width) * width), np.uint8)
    parts[:, -length:] = rows
    parts[:, -length : parts.shape[1] - length + 4] ^= 0xFF
    parts = parts.reshape(count, -1, width)
    crc = _through(parts.transpose(2, 0, 1), np.zeros(parts.shape[:2], np.uint32))
    bytes_of = np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32)
    later = _through(np.zeros((width, 1, 1), np.uint8), bytes_of)
    whole = np.zeros(count, np.uint32)
    for part in crc.T:
        a, b, c, d = whole.astype("<u4").view(np.uint8).reshape(-1, 4).T
        whole = later[0][a] ^ later[1][b] ^ later[2][c] ^ later[3][d] ^ part
    return whole


def _through(columns: np.ndarray, crc: np.ndarray) -> np.ndarray:
    """Registers after bytes, one column of them after another."""
    table = _table()
    for column in columns:
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> np.uint32(8))
    return crc


@functools.cache
def _table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)
