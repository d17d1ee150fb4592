"""The CSV file of 20 columns for the workload that reads it."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np

NAMES = [f"{kind}{i}" for kind, count in (("x", 12), ("n", 6), ("s", 2)) for i in range(count)]


def columns(count: int) -> dict[str, np.ndarray]:
    """The file's columns: 12 of float32, 6 of int32, 2 of short strings."""
    generator = np.random.default_rng(3)
    made: dict[str, np.ndarray] = {}
    for name in NAMES:
        if name[0] == "x":
            made[name] = generator.integers(-(10**6), 10**6, count) / 1000
        else:
            made[name] = generator.integers(0, 10**6, count)
    return made


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-csv-")


def csv_file(count: int) -> str:
    """The path of a file of these columns with a header, removed when the process ends."""
    path = Path(_folder().name) / f"rows{count}.csv"
    table = columns(count)
    texts = [
        [f"w{value}" if name[0] == "s" else str(value) for value in table[name].tolist()]
        for name in NAMES
    ]
    lines = [",".join(NAMES), *map(",".join, zip(*texts, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)
