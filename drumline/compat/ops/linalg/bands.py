"""Diagonals and bands of matrices: ``tf.linalg.diag``, ``diag_part``, ``set_diag``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, same_dtype, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


class _Band:
    """The places of diagonals in a matrix, and in a tensor of diagonals aligned with each other.

    Attributes:
        count: the number of diagonals.
        longest: the length of the longest.
        rows: of their elements in the matrix.
        columns: the same.
        diagonals: the numbers of their elements' diagonals, that farthest above first.
        places: the same in these.
    """

    def __init__(self, size: tuple[int, int], k: Any, align: str):
        if align not in _ALIGNMENTS:
            raise ValueError(f"align must be one of {', '.join(_ALIGNMENTS)}, not {align!r}")
        lowest, highest = bounds(k)
        rows, columns = size
        if lowest > highest:
            raise InvalidArgumentError(None, None, f"k[0] must not be larger than k[1]: {k}")
        limits = (-rows, columns)
        if not all(limits[0] < each < limits[1] or each == 0 for each in (lowest, highest)):
            raise InvalidArgumentError(None, None, f"k = {k}: a {rows} x {columns} matrix has not")
        above, below = align.split("_")
        self.count = highest - lowest + 1
        lengths = [min(rows + min(d, 0), columns - max(d, 0)) for d in range(lowest, highest + 1)]
        self.longest = max(lengths)
        found: list[list[np.ndarray]] = [[], [], [], []]
        for diagonal in range(highest, lowest - 1, -1):
            length = lengths[diagonal - lowest]
            steps = np.arange(length)
            side = above if diagonal >= 0 else below
            start = self.longest - length if side == "RIGHT" else 0
            found[0].append(steps - min(diagonal, 0))
            found[1].append(steps + max(diagonal, 0))
            found[2].append(np.full(length, highest - diagonal))
            found[3].append(steps + start)
        self.rows, self.columns, self.diagonals, self.places = map(np.concatenate, found)


def bounds(k: Any) -> tuple[int, int]:
    """The lowest and the highest diagonal that ``k`` means."""
    given = np.ravel(static(k)).tolist()
    return int(given[0]), int(given[-1])


def _set(array: Any, places: tuple[Any, ...], values: Any) -> Any:
    if is_jax(array) or is_jax(values):
        return compute(lambda a, v: jnp.asarray(a).at[(..., *places)].set(v), array, values)
    made = array.copy()
    made[(..., *places)] = values
    return made


def diag(
    diagonal: Any,
    name: Any = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with these diagonals, and `padding_value` at all other places.

    Args:
        diagonal: ``(..., n)``, or ``(..., diagonals, n)`` for more than one, the highest first.
        name: accepted.
        k: the number of the diagonal, those above the main one positive; or the lowest and the
            highest of several.
        num_rows: of the matrices; as few as hold the diagonals by default.
        num_cols: the same of the columns.
        padding_value: for the other elements.
        align: on which side shorter diagonals above and below are.

    Raises:
        InvalidArgumentError: the sizes do not fit the diagonals.
    """
    value = convert(diagonal)
    lowest, highest = bounds(k)
    several = highest > lowest
    if several and value.shape[-2] != highest - lowest + 1:
        raise InvalidArgumentError(
            None, None, f"k = {k} are {highest - lowest + 1} diagonals, not {value.shape[-2]}"
        )
    size = _size(value.shape[-1], lowest, highest, int(static(num_rows)), int(static(num_cols)))
    band = _Band(size, (lowest, highest), align)
    if band.longest != value.shape[-1]:
        raise InvalidArgumentError(
            None, None, f"diagonals {k} of matrices {size} have {band.longest} elements at most"
        )
    leading = value.shape[: -2 if several else -1]
    filled = np.full((*leading, *size), convert(padding_value), value.dtype)
    picked = value[..., band.diagonals, band.places] if several else value
    return Tensor(_set(filled, (band.rows, band.columns), picked))


def _size(longest: int, lowest: int, highest: int, rows: int, columns: int) -> tuple[int, int]:
    """The size of matrices that hold diagonals, with the smaller unknown sizes as possible."""
    least_rows, least_columns = longest - min(highest, 0), longest + max(lowest, 0)
    if rows == -1 and columns == -1:
        return (max(least_rows, least_columns),) * 2
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows or columns < least_columns:
        raise InvalidArgumentError(
            None, None, f"diagonals of {longest} elements do not fit {rows} x {columns} matrices"
        )
    return rows, columns


def diag_part(
    input: Any,
    name: Any = "diag_part",
    k: Any = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Diagonals of matrices; for arguments see `diag`."""
    value = convert(input)
    if len(value.shape) < 2:
        raise InvalidArgumentError(
            None, None, f"input must be at least 2-dim, received shape: {value.shape}"
        )
    band = _Band(value.shape[-2:], k, align)
    picked = value[..., band.rows, band.columns]
    if bounds(k)[0] == bounds(k)[1]:
        return Tensor(picked)
    shape = (*value.shape[:-2], band.count, band.longest)
    filled = np.full(shape, convert(padding_value), value.dtype)
    return Tensor(_set(filled, (band.diagonals, band.places), picked))


def set_diag(
    input: Any, diagonal: Any, name: Any = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The matrices with other diagonals; for arguments see `diag`."""
    value, given = same_dtype(input, diagonal, "MatrixSetDiag")
    band = _Band(value.shape[-2:], k, align)
    several = bounds(k)[0] < bounds(k)[1]
    wanted = (*value.shape[:-2], *((band.count,) if several else ()), band.longest)
    if given.shape != wanted:
        raise InvalidArgumentError(None, None, f"diagonal has shape {given.shape}, not {wanted}")
    picked = given[..., band.diagonals, band.places] if several else given
    return Tensor(_set(value, (band.rows, band.columns), picked))


def tensor_diag(diagonal: Any, name: Any = None) -> Tensor:
    """The tensor of twice as many dimensions with these elements where both halves are equal."""
    value = convert(diagonal)
    size = int(np.prod(value.shape))
    made = _set(np.zeros((size, size), value.dtype), (np.arange(size),) * 2, value.reshape(-1))
    return Tensor(made.reshape((*value.shape, *value.shape)))


def tensor_diag_part(input: Any, name: Any = None) -> Tensor:
    """The elements for which the first half of the indices is as the second.

    Raises:
        InvalidArgumentError: the halves of the shape are not alike.
    """
    value = convert(input)
    half = len(value.shape) // 2
    shape = value.shape[:half]
    if not half or shape != value.shape[half:]:
        raise InvalidArgumentError(
            None, None, f"tensor_diag_part: the halves of the shape {value.shape} are not alike"
        )
    size = int(np.prod(shape))
    return Tensor(value.reshape((size, size))[np.arange(size), np.arange(size)].reshape(shape))


def diagonals_of(diagonals: Any, form: str) -> tuple[Any, Any, Any]:
    """What is above the diagonals, these, and what is below, each ``(..., n)``, in three formats.

    Raises:
        ValueError: the format is unknown.
    """
    if form == "compact":
        value = convert(diagonals)
        return value[..., 0, :], value[..., 1, :], value[..., 2, :]
    if form == "sequence":
        above, middle, below = map(convert, diagonals)
        size = middle.shape[-1]
        xp = jnp if any(map(is_jax, (above, middle, below))) else np

        def padded(array: Any, before: bool) -> Any:
            if array.shape[-1] == size:
                return array
            widths = [(0, 0)] * (array.ndim - 1) + [(1, 0) if before else (0, 1)]
            return xp.pad(array, widths)

        return padded(above, False), middle, padded(below, True)
    if form == "matrix":
        value = convert(diagonals)
        xp = jnp if is_jax(value) else np
        parts = [xp.diagonal(value, k, -2, -1) for k in (1, 0, -1)]
        none = [(0, 0)] * (value.ndim - 2)
        return (
            xp.pad(parts[0], [*none, (0, 1)]),
            parts[1],
            xp.pad(parts[2], [*none, (1, 0)]),
        )
    raise ValueError(f"diagonals_format must be compact, sequence or matrix, not {form!r}")


def assembled_tridiagonal(above: Any, middle: Any, below: Any) -> Any:
    """The matrices of three diagonals ``(..., n - 1)``, ``(..., n)``, ``(..., n - 1)``."""
    size = middle.shape[-1]
    leading = jnp.broadcast_shapes(above.shape[:-1], middle.shape[:-1], below.shape[:-1])
    steps = np.arange(size)
    made = jnp.zeros((*leading, size, size), middle.dtype)
    made = made.at[..., steps, steps].set(middle)
    made = made.at[..., steps[:-1], steps[1:]].set(above)
    return made.at[..., steps[1:], steps[:-1]].set(below)
