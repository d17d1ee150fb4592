"""An example of every feature, written for ``tfds.features`` and for drumline's alike."""

from __future__ import annotations

from typing import Any

import numpy as np


def every_feature(f: Any) -> dict[str, Any]:
    """Return features by name, made by a module with TFDS's classes."""
    return {
        "audio": f.Audio(dtype=np.int16, sample_rate=16_000),
        "bool": np.bool_,
        "box": f.BBoxFeature(),
        "box_of_pixels": f.BBoxFeature(bbox_format="XYWH"),
        "bytes_tensor": f.Tensor(shape=(2, 2), dtype=np.float64, encoding="bytes"),
        "class": f.ClassLabel(names=["cat", "dog"]),
        "class_by_number": f.ClassLabel(num_classes=5),
        "classes": f.Sequence(f.ClassLabel(names=["p", "q"])),
        "dynamic": f.Tensor(shape=(None, None), dtype=np.uint16, encoding="zlib"),
        "float64": np.float64,
        "image": f.Image(),
        "image_16_bits": f.Image(shape=(None, None, 1), dtype=np.uint16, encoding_format="png"),
        "image_floats": f.Image(shape=(None, None, 1), dtype=np.float32),
        "image_of_shape": f.Image(shape=(4, 5, 1)),
        "images": f.Sequence(f.Image()),
        "int32": np.int32,
        "labels": f.LabeledImage(labels=["x", "y"], shape=(None, None, 1)),
        "languages": f.TranslationVariableLanguages(["en", "fr", "de"]),
        "nested": {"number": np.int64, "inner": {"text": f.Text()}},
        "objects": f.Sequence({"box": f.BBoxFeature(), "area": np.int64, "name": f.Text()}),
        "of_length": f.Sequence(np.float32, length=3),
        "optional": f.Scalar(np.int64, optional=True),
        "optional_tensor": f.Tensor(shape=(2,), dtype=np.float32, optional=True),
        "ragged": f.Sequence(f.Sequence(np.int64)),
        "ragged_dict": f.Sequence({"x": f.Sequence(np.int32), "y": np.float32}),
        "ragged_images": f.Sequence(f.Sequence(f.Image(shape=(2, 2, 3)))),
        "ragged_texts": f.Sequence(f.Sequence(f.Text())),
        "ragged_twice": f.Sequence(f.Sequence(f.Sequence(np.int64))),
        "scalar": f.Scalar(np.int8),
        "steps": f.Dataset(
            {"seen": f.Image(shape=(2, 2, 3)), "reward": np.float32, "said": f.Sequence(np.int64)}
        ),
        "steps_of_numbers": f.Dataset(np.int64),
        "string": np.str_,
        "tensor": f.Tensor(shape=(2, 3), dtype=np.float32),
        "tensors": f.Sequence(f.Tensor(shape=(2,), dtype=np.int32, encoding="zlib")),
        "text": f.Text(),
        "texts": f.Sequence(f.Text()),
        "translation": f.Translation(["en", "fr"]),
        "uint64": np.uint64,
        "varying": f.Tensor(shape=(None, 3), dtype=np.int16),
        "video": f.Video(shape=(None, 4, 4, 3)),
    }


def every_value(i: int, f: Any) -> dict[str, Any]:
    """Return the example of a number."""
    rng = np.random.RandomState(i)

    def pixels(*shape: int) -> np.ndarray:
        return rng.randint(0, 256, shape).astype(np.uint8)

    box = f.BBox(0.125, 0.25, 0.5, 1.0)
    return {
        "audio": rng.randint(-100, 100, i + 1).astype(np.int16),
        "bool": i % 2 == 0,
        "box": box,
        "box_of_pixels": f.BBox(1.0, 2.0, 30.0, 4.0),
        "bytes_tensor": rng.rand(2, 2),
        "class": "dog" if i % 2 else "cat",
        "class_by_number": i % 5,
        "classes": ["p", "q", "q"][: i % 4],
        "dynamic": rng.randint(0, 9, (i % 3, 2)).astype(np.uint16),
        "float64": i / 3,
        "image": pixels(3 + i % 5, 4, 3),
        "image_16_bits": rng.randint(0, 65_536, (3, 2, 1)).astype(np.uint16),
        "image_floats": rng.rand(3, 2, 1).astype(np.float32),
        "image_of_shape": pixels(4, 5, 1),
        "images": [pixels(2 + i % 2, 2, 3) for _ in range(i % 3)],
        "int32": i,
        "labels": pixels(2, 2, 1),
        "languages": {"en": "hi", "fr": ["b", "a"]},
        "nested": {"number": i, "inner": {"text": f"n{i}"}},
        "objects": [{"box": box, "area": j, "name": f"o{j}"} for j in range(i % 3)],
        "of_length": [1.0, 2.0, i],
        "optional": None if i % 2 else i,
        "optional_tensor": None if i % 2 else np.ones(2, np.float32),
        "ragged": [[1, 2], [], [3]][: i % 4],
        "ragged_dict": [{"x": [1, 2], "y": 1.0}, {"x": [], "y": 2.0}][: i % 3],
        "ragged_images": [[pixels(2, 2, 3)], [], [pixels(2, 2, 3)] * 2][: i % 4],
        "ragged_texts": [["a", "b"], [], ["c"]][: i % 4],
        "ragged_twice": [[[1], [2, 3]], [[]]][: i % 3],
        "scalar": np.int8(i % 100),
        "steps": [
            {"seen": pixels(2, 2, 3), "reward": j, "said": list(range(j))} for j in range(i % 3)
        ],
        "steps_of_numbers": [1, 2, 3][: i % 4],
        "string": f"s{i}",
        "tensor": rng.rand(2, 3).astype(np.float32),
        "tensors": [np.array([j, i], np.int32) for j in range(i % 3)],
        "text": f"té{i}",
        "texts": ["a"] * (i % 3),
        "translation": {"en": "hello", "fr": "salut"},
        "uint64": np.uint64(2**63 + i),
        "varying": np.arange(3 * (i % 3), dtype=np.int16).reshape(-1, 3),
        "video": pixels(i % 3 + 1, 4, 4, 3),
    }


def plain(value: Any) -> Any:
    """Return a decoded value as nested lists, bytes, numbers and arrays of one library."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "element_spec"):
        return [plain(step) for step in value]
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    if isinstance(array, bytes):
        return array
    array = np.asarray(array)
    return array.tolist() if array.dtype == object else (str(array.dtype), array.tolist())
