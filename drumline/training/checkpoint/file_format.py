"""A snapshot as a file, in the safetensors format.

A header in JSON names each array's dtype, shape and place in the bytes that follow. What is no
array, and a checksum of each, stand in the header's metadata. A file is written beside its final
name and renamed when it is on the disk, so that there is never a part of one under that name.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from drumline.training.checkpoint.kept import Kept
from drumline.training.checkpoint.snapshot import Snapshot

SUFFIX = ".safetensors"

DTYPE_NAMES = {
    np.dtype(dtype): name
    for dtype, name in [
        (np.bool_, "BOOL"),
        (np.int8, "I8"),
        (np.uint8, "U8"),
        (np.int16, "I16"),
        (np.uint16, "U16"),
        (np.int32, "I32"),
        (np.uint32, "U32"),
        (np.int64, "I64"),
        (np.uint64, "U64"),
        (np.float16, "F16"),
        (np.float32, "F32"),
        (np.float64, "F64"),
        (np.complex64, "C64"),
        (ml_dtypes.bfloat16, "BF16"),
        (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
        (ml_dtypes.float8_e5m2, "F8_E5M2"),
    ]
}
"""What the format calls the dtypes that it has."""

DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
"""The dtypes by the format's names."""


class DamagedCheckpointError(ValueError):
    """A file that should hold a checkpoint does not, or not all of it."""


def write(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write `snapshot` to ``path + SUFFIX``; an older file there is replaced at once.

    Raises:
        TypeError: if a variable has a dtype that the format lacks.
        OSError: if it cannot be written; what was there before is still there.
    """
    final = file_of(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    unfinished = final.with_name(final.name + ".unfinished")
    with open(unfinished, "wb") as file:
        header = _header(snapshot)
        file.write(struct.pack("<Q", len(header)) + header)
        for array in snapshot.arrays.values():
            file.write(_bytes(array).data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, final)
    sync_directory(final.parent)


def read(path: str | os.PathLike[str]) -> Snapshot:
    """Read what `write` has written.

    Raises:
        FileNotFoundError: if there is no file.
        DamagedCheckpointError: if it is not whole.
    """
    file = file_of(path)
    if not file.is_file():
        raise FileNotFoundError(f"There is no checkpoint {str(path)!r} (no file {str(file)!r}).")
    try:
        header, data = _parts(file)
        metadata = json.loads(header.pop("__metadata__")["drumline"])
        arrays = {name: _array(entry, data) for name, entry in header.items()}
        expected = max([entry["data_offsets"][1] for entry in header.values()], default=0)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise _damaged(file, str(error)) from error
    if len(data) != expected:
        raise _damaged(file, f"{len(data)} bytes of {expected}")
    for name, array in arrays.items():
        if zlib.crc32(_bytes(array).data) != metadata["crc32"].get(name):
            raise _damaged(file, f"the checksum of {name!r} differs")
    rest = {name: metadata[name] for name in ("states", "aliases", "save_counter")}
    kept = metadata.get("kept")
    return Snapshot(arrays, **rest, kept=None if kept is None else Kept(**kept))


def file_of(path: str | os.PathLike[str]) -> Path:
    """The file of the checkpoint `path`."""
    return Path(f"{os.fspath(path)}{SUFFIX}")


def sync_directory(directory: Path) -> None:
    """Have the disk keep the names in `directory`."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _header(snapshot: Snapshot) -> bytes:
    entries: dict[str, Any] = {}
    start = 0
    for name, array in snapshot.arrays.items():
        if array.dtype not in DTYPE_NAMES:
            raise TypeError(f"A checkpoint cannot hold {name!r}, of dtype {array.dtype}.")
        end = start + array.nbytes
        entries[name] = {
            "dtype": DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
        start = end
    metadata = {
        "crc32": {name: zlib.crc32(_bytes(array).data) for name, array in snapshot.arrays.items()},
        "states": snapshot.states,
        "aliases": snapshot.aliases,
        "save_counter": snapshot.save_counter,
        "kept": None if snapshot.kept is None else snapshot.kept.to_json(),
    }
    header = {"__metadata__": {"drumline": json.dumps(metadata)}, **entries}
    text = json.dumps(header).encode()
    return text + b" " * (-len(text) % 8)


def _parts(file: Path) -> tuple[dict[str, Any], np.ndarray]:
    with open(file, "rb") as opened:
        (length,) = struct.unpack("<Q", opened.read(8))
        if length > os.path.getsize(file):
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(opened.read(length))
        data = np.fromfile(opened, np.uint8)
    return header, data


def _array(entry: dict[str, Any], data: np.ndarray) -> np.ndarray:
    start, end = entry["data_offsets"]
    return data[start:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _damaged(file: Path, reason: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"The checkpoint {str(file)!r} is damaged: {reason}. Nothing of it was restored; use an "
        "older one, see dl.train.CheckpointManager(...).checkpoints."
    )
