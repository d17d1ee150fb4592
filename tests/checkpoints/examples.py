"""Tensors of many dtypes and shapes, and checkpoints of them as other programs write them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from drumline._safetensors import bytes_of, plain_header

TENSORS: dict[str, np.ndarray] = {
    "block/0/kernel": np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3),
    "block/0/bias": np.array([0.5, -0.0, 2.0], np.float32),
    "scale": np.array(1.5),
    "half": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3),
    "eighth": np.array([0.5, -448, 0.001], ml_dtypes.float8_e4m3fn),
    "other/eighth": np.array([0.5, -1024], ml_dtypes.float8_e5m2),
    "steps": np.array(7, np.int64),
    "mask": np.array([True, False, True]),
    "wave": np.array([1 + 2j, -3j], np.complex64),
}


def same(found: Any, expected: np.ndarray) -> bool:
    """Whether dtype, shape and every bit are the same."""
    found = np.asarray(found)
    return (found.dtype, found.shape, found.tobytes()) == (
        expected.dtype,
        expected.shape,
        expected.tobytes(),
    )


def plain(tensors: Mapping[str, np.ndarray], texts: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file without anything of drumline's."""
    header = plain_header({n: (a.shape, a.dtype) for n, a in tensors.items()}, texts or {})
    return header + b"".join(bytes_of(array).tobytes() for array in tensors.values())


def with_header(content: bytes, **changes: Any) -> bytes:
    """The file with entries of its header changed, and its bytes after it as they are."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    text = json.dumps({**header, **changes}).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def tree_of(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The nested dict that Orbax gets for names with slashes."""
    tree: dict[str, Any] = {}
    for name, array in tensors.items():
        *above, last = name.split("/")
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[last] = array
    return tree


def write_set(directory: Path, *shards: Mapping[str, np.ndarray]) -> Path:
    """Several safetensors files and their index, as Hugging Face's libraries lay them out."""
    directory.mkdir(parents=True, exist_ok=True)
    files, total = {}, 0
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        (directory / name).write_bytes(plain(shard, {"format": "pt"}))
        files |= dict.fromkeys(shard, name)
        total += sum(array.nbytes for array in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory
