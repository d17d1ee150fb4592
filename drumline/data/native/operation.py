"""What a native operation offers."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.native.arithmetic import Arithmetic

Column = np.ndarray | RaggedArray | list[np.ndarray]
"""A value for each of n rows, by the value's spec: an array (n, ...) if the shape is fixed (of
dtype object for ``bytes``, and for values that are ragged arrays themselves), a ``RaggedArray`` of
n rows if only the first dimension varies, a list of n arrays if others vary (images)."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Results of an operation.

    Attributes:
        columns: one for each leaf of the result, all of equal length: every row of the arguments,
            or those before the first that failed.
        error: why the next row has no result, naming what is wrong in it and where (a byte offset,
            the name of a feature).
    """

    columns: Sequence[Column]
    error: Exception | None = None


class NativeOperation(abc.ABC):
    """A function of one element's values that runs on columns.

    Subclasses are frozen dataclasses of what does not depend on the element, so that equal
    operations compare equal. ``run`` may be called by several threads at once, and gives the same
    bits whatever the number of rows.
    """

    row_by_row: ClassVar[bool] = False
    """Whether it runs Python for each row, which ``explain()`` then tells."""

    takes_packed: ClassVar[bool] = False
    """Whether its first argument, if it is of strings, may come as ``PackedStrings``."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As users know it: ``"io.parse_example"``."""

    @abc.abstractmethod
    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """What it makes of arguments of these specs.

        Raises:
            TypeError: an argument is of another kind.
            ValueError: an argument's shape does not fit.
        """

    def after(self, before: NativeOperation) -> NativeOperation | None:
        """One operation for ``before`` and then this one on its result, with the same results."""
        return None

    def then(self, arithmetic: tuple[Arithmetic, ...]) -> NativeOperation | None:
        """One operation for this one and then arithmetic on its float32 result."""
        return None

    @abc.abstractmethod
    def run(self, columns: Sequence[Column], n: int) -> Rows:
        """The results for ``n`` rows of arguments. Bad rows are never raised."""
