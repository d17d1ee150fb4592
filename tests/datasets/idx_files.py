"""Writing IDX files for tests."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

CODES = {">u1": 0x08, ">i1": 0x09, ">i2": 0x0B, ">i4": 0x0C, ">f4": 0x0D, ">f8": 0x0E}


def idx_bytes(values: np.ndarray, code: str = ">u1") -> bytes:
    """`values` as IDX, stored as the big-endian dtype `code`."""
    header = bytes([0, 0, CODES[code], values.ndim])
    return header + struct.pack(f">{values.ndim}I", *values.shape) + values.astype(code).tobytes()


def write_mnist(directory: Path, prefix: str, count: int, dotted: bool = False) -> np.ndarray:
    """`count` random images with labels; images gzipped. Returns the images."""
    rng = np.random.default_rng(count)
    images = rng.integers(0, 256, (count, 28, 28))
    directory.mkdir(parents=True, exist_ok=True)
    dot = "." if dotted else "-"
    packed = gzip.compress(idx_bytes(images))
    (directory / f"{prefix}-images{dot}idx3-ubyte.gz").write_bytes(packed)
    (directory / f"{prefix}-labels{dot}idx1-ubyte").write_bytes(idx_bytes(np.arange(count) % 10))
    return images
