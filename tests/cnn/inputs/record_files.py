"""Records as the Inception scripts write them, in files with their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from drumline.io import TFRecordWriter
from drumline.train import BytesList, Example, Feature, Features, FloatList, Int64List
from tests.image.samples import encoded, picture

Box = tuple[float, float, float, float]
"""Top, left, bottom, right."""


def integers(*values: int) -> Feature:
    return Feature(int64_list=Int64List(value=values))


def floats(*values: float) -> Feature:
    return Feature(float_list=FloatList(value=values))


def texts(*values: bytes) -> Feature:
    return Feature(bytes_list=BytesList(value=values))


def features(jpeg: bytes, label: int, boxes: Sequence[Box] = ()) -> dict[str, Feature]:
    corners = list(zip(*boxes, strict=True)) or [()] * 4
    names = ("ymin", "xmin", "ymax", "xmax")
    of_boxes = {
        f"image/object/bbox/{name}": floats(*values)
        for name, values in zip(names, corners, strict=True)
    }
    return {
        "image/height": integers(1),
        "image/colorspace": texts(b"RGB"),
        "image/class/label": integers(label),
        "image/class/text": texts(b"a thing"),
        "image/format": texts(b"JPEG"),
        "image/encoded": texts(jpeg),
        "image/object/bbox/label": integers(*[label] * len(boxes)),
        **of_boxes,
    }


def record(jpeg: bytes, label: int, boxes: Sequence[Box] = (), without: str = "") -> bytes:
    """The bytes of an ``Example``."""
    given = {key: value for key, value in features(jpeg, label, boxes).items() if key != without}
    return Example(features=Features(feature=given)).SerializeToString()


def jpegs(count: int) -> list[bytes]:
    """Files of different sizes and forms."""
    draw = np.random.default_rng(count)
    sizes = draw.integers(40, 90, (count, 2))
    return [encoded(picture(*size, seed), quality=95) for seed, size in enumerate(sizes)]


def write(folder: Path, split: str, files: Sequence[Sequence[bytes]]) -> list[Path]:
    """Writes a file for each sequence of records; returns their paths."""
    paths = []
    for number, records in enumerate(files):
        path = folder / f"{split}-{number:05d}-of-{len(files):05d}"
        with TFRecordWriter(path) as writer:
            for each in records:
                writer.write(each)
        paths.append(path)
    return paths


def fake(folder: Path, split: str, files: int = 4, each: int = 6) -> list[Path]:
    """Writes files of pictures, with labels that rise from 1 on and a box or two."""
    contents = jpegs(files * each)
    boxes = [(0.1, 0.1, 0.9, 0.9), (0.2, 0.5, 0.6, 0.75)]
    made = [record(jpeg, 1 + k, boxes[: k % 3]) for k, jpeg in enumerate(contents)]
    return write(folder, split, [made[k::files] for k in range(files)])
