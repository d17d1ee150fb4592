"""TFRecord files of JPEG photographs for the workloads that decode them."""

from __future__ import annotations

import functools
import io
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch
from benchmarks.workloads.record_files import framed

FILES = 4
SIZE = 224


@functools.cache
def photographs() -> tuple[bytes, ...]:
    """Those of ``shared/data/jpeg``; where there are none, pictures that Pillow writes."""
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("DRUMLINE_SHARED", root.parent / "shared")) / "data" / "jpeg"
    found = tuple(path.read_bytes() for path in sorted(folder.glob("*.JPEG")))
    return found or tuple(_picture(seed) for seed in range(50))


def _picture(seed: int) -> bytes:
    from PIL import Image

    draw = np.random.default_rng(seed)
    coarse = draw.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)
    pixels = np.asarray(smooth) + draw.normal(0, 10, (375, 500, 3))
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=92)
    return file.getvalue()


def contents(count: int) -> list[bytes]:
    """As many files, photographs again and again."""
    found = photographs()
    return [found[k % len(found)] for k in range(count)]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-jpeg-")


def record_files(count: int) -> list[str]:
    """Paths of TFRecord files with these in turn, removed when the process ends."""
    paths = [str(Path(_folder().name) / f"photographs-{k}.tfrecord") for k in range(FILES)]
    everything = contents(count)
    for k, path in enumerate(paths):
        rows = (np.frombuffer(record, np.uint8)[None] for record in everything[k::FILES])
        Path(path).write_bytes(b"".join(framed_once(row) for row in rows))
    return paths


@functools.cache
def _framed(record: bytes) -> bytes:
    return framed(np.frombuffer(record, np.uint8)[None]).tobytes()


def framed_once(row: np.ndarray) -> bytes:
    """One record in TFRecord's frame; the same photograph is framed once."""
    return _framed(row.tobytes())


def read(path: str) -> Iterator[bytes]:
    """The records of such a file, nothing checked."""
    with open(path, "rb") as file:
        while header := file.read(12):
            (length,) = struct.unpack("<Q", header[:8])
            yield file.read(length)
            file.read(4)


def evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """How many images an epoch has, their shape and dtype, the mean and spread of their values."""
    count, total, squares, kinds = 0, 0.0, 0.0, set()
    for batch in batches:
        values = np.asarray(batch)
        kinds.add(f"{values.dtype} {values.shape[1:]}")
        count += len(values)
        total += float(values.mean(dtype=np.float64)) * len(values)
        squares += float(np.square(values, dtype=np.float64).mean()) * len(values)
    mean = total / count
    return {
        "images": count,
        "kinds": sorted(kinds),
        "mean": mean,
        "spread": squares / count - mean**2,
    }


def disagreement(found: Measurement, wanted: int, mean: float, tolerance: float) -> str | None:
    """What is wrong with the epochs of a contender, if anything."""
    for epoch in found.evidence["epochs"]:
        if epoch["images"] != wanted:
            return f"gave {epoch['images']} images an epoch, not {wanted}"
        if epoch["kinds"] != [f"float32 ({SIZE}, {SIZE}, 3)"]:
            return f"gave images of {epoch['kinds']}"
        if abs(epoch["mean"] - mean) > tolerance:
            return f"gave values of mean {epoch['mean']:.4f}, not {mean:.4f}"
    return None
