"""What ``drumline._core`` offers for strings of bytes: raw numbers, tensors, whole files."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

def joined_bytes(
    strings: npt.NDArray[np.object_],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """All strings (n,) concatenated, and where each begins and the last ends: (n + 1,)."""

def padded_bytes(strings: npt.NDArray[np.object_], width: int) -> npt.NDArray[np.uint8]:
    """Strings (n,) cut, or filled up with zeros, to `width` bytes each: (n * width,)."""

def parse_tensors(
    messages: npt.NDArray[np.object_], number: int, shape: Sequence[int]
) -> tuple[np.ndarray, npt.NDArray[np.int64], int, str | None]:
    """Parse ``TensorProto`` messages (n,).

    Args:
        number: of the type they hold, in ``DataType``.
        shape: theirs; -1 stands for any size.

    Returns:
        The values of all, as bytes or strings; their dimensions, row by row; how many messages;
        why the next one is none of this type and shape.
    """

def tensor_dims(message: bytes, number: int) -> list[int]:
    """The dimensions of a ``TensorProto``.

    Raises:
        ValueError: if it is none, or of another type.
    """

def serialize_numbers(
    values: npt.NDArray[np.uint8], number: int, dims: Sequence[Sequence[int]]
) -> npt.NDArray[np.object_]:
    """``TensorProto`` messages of tensors of numbers: their bytes in a row, and their dimensions.

    Raises:
        ValueError: if there are fewer values than that.
    """

def serialize_strings(
    strings: npt.NDArray[np.object_], dims: Sequence[Sequence[int]]
) -> npt.NDArray[np.object_]:
    """``TensorProto`` messages of tensors of strings, likewise.

    Raises:
        ValueError: if there are fewer strings than that.
    """

def read_files(
    paths: npt.NDArray[np.object_],
) -> tuple[npt.NDArray[np.object_], tuple[int | None, str] | None]:
    """The contents of local files before the first that cannot be read, and its error."""
