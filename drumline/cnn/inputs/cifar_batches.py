"""CIFAR-10's Python batches: pickles, read without running what is in them.

A batch is a dict with ``data``, a numpy array uint8 (10,000, 3,072), and ``labels``, a list; see
https://www.cs.toronto.edu/~kriz/cifar.html. A pickle can name any function and call it. Here its
operations are looked at first, and all that it may name are stand-ins of this file's, which take
what numpy's arrays are pickled as and call nothing of numpy's.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np

PIXELS = 3 * 32 * 32

CLASSES = 10

LARGEST = 1 << 28
"""Bytes of a file: ten times what CIFAR-10's have."""


class CifarBatchError(ValueError):
    """A file is no batch of CIFAR-10's, or is damaged."""


def read_batch(path: str | os.PathLike[str]) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of a batch.

    Args:
        path: of a file such as ``data_batch_1``.

    Returns:
        Images uint8 (n, 3, 32, 32): red, green and blue; labels int64 (n,), less than 10.

    Raises:
        CifarBatchError: the file is none; the message says where it differs.
        OSError: it cannot be read.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > LARGEST:
        raise CifarBatchError(f"{path}: has {size} bytes; a batch of CIFAR-10 has 31 MB")
    try:
        return _images_and_labels(_loaded(path.read_bytes()))
    except CifarBatchError as error:
        raise CifarBatchError(
            f"{path}: {error}; CIFAR-10's Python version is at "
            "https://www.cs.toronto.edu/~kriz/cifar.html"
        ) from None


def _images_and_labels(batch: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(batch, dict):
        raise CifarBatchError(f"holds a {type(batch).__name__}, not a dict")
    found = {}
    for key in ("data", "labels"):
        named = [value for name, value in batch.items() if name in (key, key.encode())]
        if len(named) != 1:
            raise CifarBatchError(f"has no {key!r}, but {', '.join(map(repr, batch))[:200]}")
        found[key] = named[0]
    data, labels = found["data"], found["labels"]
    if not isinstance(data, _Array) or data.values is None:
        raise CifarBatchError(f"'data' is a {type(data).__name__}, not an array")
    if not isinstance(labels, list):
        raise CifarBatchError(f"'labels' is a {type(labels).__name__}, not a list")
    images = data.values
    if images.ndim != 2 or images.shape[1] != PIXELS:
        raise CifarBatchError(f"'data' has shape {images.shape}, not (n, {PIXELS})")
    if len(labels) != len(images):
        raise CifarBatchError(f"has {len(images)} images and {len(labels)} labels")
    for row, label in enumerate(labels):
        if type(label) is not int or not 0 <= label < CLASSES:
            raise CifarBatchError(f"image {row} has the label {label!r:.60}, not one of 0 to 9")
    return images.reshape(-1, 3, 32, 32), np.array(labels, np.int64)


class _DType:
    """Stands for ``numpy.dtype``: of bytes, or refused."""

    def __init__(self, *arguments: Any) -> None:
        if not arguments or arguments[0] not in ("u1", b"u1"):
            raise CifarBatchError(f"has an array of dtype {arguments!r:.60}, not of bytes (u1)")

    def __setstate__(self, state: Any) -> None:
        """A byte has no order and no fields: there is nothing to set."""


class _Array:
    """Stands for ``numpy.ndarray``, of bytes in C's order."""

    values: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        match state:
            case (int(), tuple(shape), _DType(), bool() | int() as fortran, bytes() | str() as raw):
                pass
            case _:
                raise CifarBatchError("has an array that is not pickled as numpy's are")
        if isinstance(raw, str):  # Of Python 2, read as Latin-1.
            raw = raw.encode("latin-1")
        if not all(type(dim) is int and dim >= 0 for dim in shape) or fortran:
            raise CifarBatchError(f"has an array of shape {shape!r:.60}, or not in C's order")
        if math.prod(shape) != len(raw):
            raise CifarBatchError(f"has an array of shape {shape!r:.60} with {len(raw)} bytes")
        self.values = np.frombuffer(raw, np.uint8).reshape(shape)


def _reconstruct(*_: Any) -> _Array:
    """Stands for numpy's function of that name: an array that is filled by its state."""
    return _Array()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes in old protocols."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise CifarBatchError("has bytes that are not pickled as Python's are")
    return text.encode("latin-1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise CifarBatchError(f"refers to {module}.{name}, which no batch of CIFAR-10 does")
        return _STAND_INS[module, name]


_OPERATIONS = frozenset(
    re.findall(
        r"\w+",
        """
        PROTO FRAME STOP MARK POP POP_MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG1
        STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES
        EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT DICT SETITEM SETITEMS EMPTY_TUPLE TUPLE TUPLE1
        TUPLE2 TUPLE3 GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL
        REDUCE BUILD
        """,
    )
)
"""What lists, texts, numbers, dicts and arrays are pickled with."""


def _loaded(contents: bytes) -> Any:
    """What a pickle holds, arrays as `_Array`.

    Raises:
        CifarBatchError: it holds something else, or is damaged.
    """
    try:
        for count, (operation, argument, place) in enumerate(pickletools.genops(contents)):
            if operation.name not in _OPERATIONS:
                raise CifarBatchError(
                    f"has the pickle operation {operation.name} at byte {place}, which no batch "
                    "of CIFAR-10 does"
                )
            # A large number would have the memo take as much memory.
            if "PUT" in operation.name and int(argument or 0) not in range(count + 1):
                raise CifarBatchError(f"puts a value at {argument} of the memo, at byte {place}")
        return _Unpickler(io.BytesIO(contents), encoding="bytes").load()
    except CifarBatchError:
        raise
    except RecursionError:
        raise CifarBatchError("is nested too deeply") from None
    except Exception as error:  # Of damaged pickles come errors of nearly any type.
        raise CifarBatchError(f"is no pickle that can be read: {error!s:.200}") from error
