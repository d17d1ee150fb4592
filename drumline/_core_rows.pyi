"""What ``drumline._core`` offers for rows that come in order and leave in any."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

class RowArithmetic:
    """Float32 results whose numbers are each one of a row's, computed with constants.

    As in XLA's programs, denormal numbers are zeros.
    """

    def __new__(
        cls,
        kind: str,
        row: int,
        offset: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        steps: Sequence[tuple[str, Sequence[float], Sequence[float]]],
        period: int,
    ) -> RowArithmetic:
        """A computation of rows.

        Args:
            kind: the dtype of the numbers: uint8, int8, uint16, int16, int32 or float32.
            row: how many numbers a row has.
            offset: where the first number of the result is in the row.
            sizes: of the result.
            strides: in numbers, where in the row the next number of each dimension is.
            steps: ``"add"`` or ``"mul"`` and constants, or ``"mul_add"``, which rounds once, and
                both's: one, or ``period`` of them.
            period: after so many numbers of the result constants are repeated.

        Raises:
            ValueError: if the result would read beyond the row, or constants do not fit.
        """

    def run(self, source: npt.NDArray[np.uint8], out: npt.NDArray[np.float32]) -> None:
        """Compute rows of `out` from those of `source`.

        Args:
            source: shape ``(n, bytes of a row)``, C-contiguous.
            out: shape ``(n, numbers of a result)``, C-contiguous.

        Raises:
            TypeError: if an array has another dtype or number of dimensions.
            ValueError: if shapes do not match, or arrays overlap or cannot be written.
        """

class Items:
    """An iterator over what another has buffered; then it calls ``_further`` of its subclass."""

    def __new__(cls, *arguments: object, **named: object) -> Self: ...
    _at_hand: Iterator[Any]
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

class RowSlots:
    """Which places of a table rows are in that come in order and leave in any."""

    def __new__(cls) -> RowSlots: ...
    @property
    def size(self) -> int:
        """How many places were ever used: all are below."""

    def put(self, number: int, count: int) -> npt.NDArray[np.int64]:
        """The places of `count` rows from `number` on.

        Raises:
            ValueError: if a later number was put before, or for 2**32 rows.
        """

    def take(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The places of rows, which are free from now on.

        Raises:
            KeyError: if a row was not put, or was taken.
        """

class ScalarRows:
    """Rows of several columns of scalars, at places of a table.

    Args:
        dtypes: of the columns; objects, or dtypes without any.

    Raises:
        TypeError: if a dtype has objects among others, or is an array's.
    """

    def __new__(cls, dtypes: list[np.dtype[Any]]) -> ScalarRows: ...
    def grow(self, size: int) -> None:
        """Makes room for `size` rows in all.

        Raises:
            MemoryError: if there is no memory for them.
        """

    def put(self, places: npt.NDArray[np.int64], columns: list[npt.NDArray[Any]]) -> None:
        """Sets the rows at `places`.

        Args:
            places: shape ``(k,)``.
            columns: shape ``(k,)`` each, C-contiguous.

        Raises:
            IndexError: if there is no such place; nothing is changed then, nor after these:
            TypeError: if a column has another dtype.
            ValueError: if there are more columns or fewer, or one has another shape.
        """

    def take(self, places: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
        """The rows at `places`, as arrays that cannot be written unless they are of objects.

        Objects are held no longer: taken again, they are ``None``.

        Raises:
            IndexError: if there is no such place.
        """

    def forget(self, places: npt.NDArray[np.int64]) -> None:
        """Holds the objects at `places` no longer.

        Raises:
            IndexError: if there is no such place.
        """

def scatter_rows(
    src: npt.NDArray[np.uint8],
    places: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    """Copy the rows of `src` to ``out[places]``.

    Args:
        src: shape ``(k, width)``, C-contiguous.
        places: shape ``(k,)``.
        out: shape ``(n, width)``, C-contiguous.

    Raises:
        IndexError: if a place is not in ``[0, n)``; `out` is untouched then.
        TypeError: if an array has another dtype or number of dimensions.
        ValueError: if shapes do not match, or arrays overlap or cannot be written.
    """
