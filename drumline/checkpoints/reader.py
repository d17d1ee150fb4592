"""What checkpoints of all formats have in common: tensors by name, read piece by piece."""

from __future__ import annotations

import abc
import enum
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

PIECE_BYTES = 32 << 20
"""How much of a tensor is read at a time, where its format can be read in pieces."""

_SMALL_DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "int4",
        "uint4",
    )
}


class CheckpointFormat(enum.StrEnum):
    """The formats that are read; all but Keras's are written, too."""

    DRUMLINE = "drumline"
    SAFETENSORS = "safetensors"
    ORBAX = "orbax"
    KERAS = "keras"


class Defect(NamedTuple):
    """What is wrong with a checkpoint.

    Attributes:
        file: in which it is, or which is missing.
        offset: of the first byte that shows it, where a byte does; else None.
        reason: what is wrong.
    """

    file: Path
    offset: int | None
    reason: str

    def __str__(self) -> str:
        """The file, the offset and the reason, as compilers print them."""
        place = str(self.file) if self.offset is None else f"{self.file}:{self.offset}"
        return " ".join(f"{place}: {self.reason}".split())


class CheckpointFileError(ValueError):
    """A file is no checkpoint of a format that is read, or is damaged.

    Attributes:
        defect: where, and what is wrong.
    """

    def __init__(self, file: str | os.PathLike[str], offset: int | None, reason: str) -> None:
        self.defect = Defect(Path(file), offset, reason)
        super().__init__(str(self.defect))


class TensorEntry(NamedTuple):
    """What a checkpoint says of a tensor.

    Attributes:
        name: its name.
        shape: its shape.
        dtype: numpy's dtype of its values.
        file: where its values are, or the first of them.
        offset: of its first byte in the file; None where the format hides it.
        parts: how many files or chunks its values are in.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    file: Path
    offset: int | None = None
    parts: int = 1

    @property
    def size(self) -> int:
        """How many values it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes its values take, uncompressed."""
        return self.size * self.dtype.itemsize


class SavedTensors(abc.ABC):
    """A checkpoint whose headers are read; values are read when they are asked for.

    Attributes:
        format: of its files.
        path: where it is.
        tensors: what it says of each, by name, in the order in which they are stored.
        files: all files that belong to it.
        step: its number, or the step that its directory is called by; None if it has none.
        writers: how many processes or servers wrote it.
        left_out: what else is in it, which is no tensor and is not converted.
        about: what its files say of themselves.
    """

    format: CheckpointFormat

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors: dict[str, TensorEntry] = {}
        self.files: list[Path] = []
        self.step: int | None = None
        self.writers = 1
        self.left_out: list[str] = []
        self.about = ""

    def names(self) -> list[str]:
        """The tensors' names, in the order in which they are stored.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> saved = dl.train.Checkpoint(v=dl.Variable([1.0, 2.0])).write(f"{folder}/ckpt")
            >>> dl.train.open_checkpoint(saved).names()
            ['v/variables/0']
        """
        return list(self.tensors)

    @abc.abstractmethod
    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """Read the values of a tensor, in order, as arrays of one axis.

        A checksum that the format has is compared before the last piece is given.

        Raises:
            KeyError: there is no such tensor.
            CheckpointFileError: its values are damaged.
        """

    def read(self, name: str) -> np.ndarray:
        """Read a tensor.

        Args:
            name: one of `names()`.

        Returns:
            Its values, with the shape and dtype that they were saved with.

        Raises:
            KeyError: there is no such tensor; the text names some that there are.
            CheckpointFileError: its values are damaged.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> saved = dl.train.Checkpoint(v=dl.Variable([1.0, 2.0])).write(f"{folder}/ckpt")
            >>> dl.train.open_checkpoint(saved).read("v/variables/0")
            array([1., 2.], dtype=float32)
        """
        if name not in self.tensors:
            some = ", ".join(list(self.tensors)[:5])
            raise KeyError(f"{str(self.path)!r} has no tensor {name!r}; it has {some}.")
        entry = self.tensors[name]
        values, done = np.empty(0 if entry.size else entry.shape, entry.dtype), 0
        for piece in self.pieces(name):
            if piece.size == entry.size:
                return piece.reshape(entry.shape)
            if not done:
                values = np.empty(entry.size, entry.dtype)
            values[done : done + piece.size] = piece
            done += piece.size
        return values.reshape(entry.shape)

    def defects(self, *, finite: bool = False) -> Iterator[Defect]:
        """Read everything, and yield what is wrong.

        Args:
            finite: whether a value that is infinite or no number is a defect.
        """
        for entry in self.tensors.values():
            yield from self._defects_of(entry, finite)

    def _defects_of(self, entry: TensorEntry, finite: bool) -> Iterator[Defect]:
        done = 0
        try:
            for piece in self.pieces(entry.name):
                if finite and (found := first_not_finite(piece)) is not None:
                    index = done + found
                    at = (
                        None
                        if entry.offset is None or entry.parts > 1
                        else (entry.offset + index * entry.dtype.itemsize)
                    )
                    place = [int(i) for i in np.unravel_index(index, entry.shape)]
                    reason = f"{entry.name!r} has {piece[found]!s} at {place}"
                    yield Defect(entry.file, at, reason)
                    finite = False
                done += piece.size
        except CheckpointFileError as error:
            yield error.defect
            return
        except (OSError, MemoryError) as error:
            yield Defect(entry.file, entry.offset, f"{entry.name!r} cannot be read: {error!r}")
            return
        if done != entry.size:
            reason = f"{entry.name!r} has {done:,} values of {entry.size:,}"
            yield Defect(entry.file, entry.offset, reason)


def first_not_finite(values: np.ndarray) -> int | None:
    """The index of the first value that is infinite or no number; None if there is none."""
    if not is_inexact(values.dtype):
        return None
    bad = ~np.isfinite(values)
    return int(np.argmax(bad)) if bad.any() else None


def is_inexact(dtype: np.dtype) -> bool:
    """Whether it is of floating-point numbers, real or complex."""
    return is_floating(dtype) or dtype.kind == "c"


def is_floating(dtype: np.dtype) -> bool:
    """Whether it is of real floating-point numbers, those of 8 and 16 bits among them."""
    return dtype.kind == "f" or (is_of_ml_dtypes(dtype) and "int" not in dtype.name)


def is_of_ml_dtypes(dtype: np.dtype) -> bool:
    """Whether it is one that numpy itself lacks: bfloat16, and those of 8 and 4 bits."""
    return dtype in _SMALL_DTYPES.values()


def dtype_of(name: Any) -> np.dtype:
    """The dtype that numpy's names (``float32``, ``<f4``) and ml_dtypes' (``bfloat16``) say.

    Raises:
        ValueError: it is none of numbers.
    """
    if isinstance(name, str):
        if name in _SMALL_DTYPES:
            return _SMALL_DTYPES[name]
        try:
            found = np.dtype(name)
        except (TypeError, ValueError, SyntaxError):
            found = np.dtype(object)
        if found.kind in "biufc" and found.names is None and found.subdtype is None:
            return found
    raise ValueError(f"{name!r:.80} is no dtype of numbers")


def blocks(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Cut an array into blocks of at most `most` values, in the order of its values.

    Args:
        shape: of the array.
        most: values in a block, at least 1.
    """
    size = math.prod(shape)
    if size <= most:
        if size:
            yield (slice(None),) * len(shape)
        return
    row = math.prod(shape[1:])
    if row <= most:
        step = most // row
        for start in range(0, shape[0], step):
            yield (slice(start, min(shape[0], start + step)), *(slice(None),) * (len(shape) - 1))
        return
    for index in range(shape[0]):
        for rest in blocks(shape[1:], most):
            yield (slice(index, index + 1), *rest)


def is_possible(shape: Any) -> bool:
    """Whether an array can have it: no more axes and values than numpy addresses."""
    if not isinstance(shape, list | tuple) or len(shape) > 64:
        return False
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape):
        return False
    return math.prod(max(n, 1) for n in shape) < 1 << 59
