"""What ``drumline._core`` offers for rows that come in order and leave in any."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

class Items:
    """An iterator over what another one has at hand; then it calls ``_further`` of its subclass."""

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
