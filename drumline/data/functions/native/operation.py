"""What a native operation offers, and running one over the rows of a block."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from drumline.data.elements.columns import ArrayRows, PackedStrings
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, uniform
from drumline.data.elements.spec import ElementSpec, TensorSpec

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

OPERATORS = frozenset(_SIGNS)

SUMS = frozenset({"add", "sub"})

Rounded = tuple[str, list[float], list[float]]
"""``"add"`` or ``"mul"`` and the constants, or ``"mul_add"``, which rounds once, and both's."""


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """A step on float32 values.

    Attributes:
        operator: the name of JAX's primitive, of ``OPERATORS``; the constant is on its right.
        constants: one, or one for each channel (the last dimension).
    """

    operator: str
    constants: tuple[float, ...]

    def __str__(self) -> str:
        shown = [f"{constant:g}" for constant in self.constants]
        constants = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
        return f"{_SIGNS[self.operator]} {constants}"

    def added_or_multiplied(self) -> list[float]:
        """What is added or multiplied with instead of subtracted or divided by, as XLA does."""
        constants = np.asarray(self.constants, np.float32)
        if self.operator == "sub":
            constants = -constants
        elif self.operator == "div":
            constants = np.float32(1) / constants
        return [float(constant) for constant in constants]


def described(name: str, arithmetic: Sequence[Arithmetic]) -> str:
    """An operation's name and what it then does."""
    return ", ".join([name, *map(str, arithmetic)])


def rounded(arithmetic: Sequence[Arithmetic]) -> list[Rounded]:
    """At most two steps as the Rust core takes them, rounded where XLA's programs round."""
    names = ["add" if step.operator in SUMS else "mul" for step in arithmetic]
    constants = [step.added_or_multiplied() for step in arithmetic]
    if names == ["mul", "add"]:
        factors, added = constants
        return [("mul_add", factors, added)]
    return [(name, values, []) for name, values in zip(names, constants, strict=True)]


Column = np.ndarray | RaggedArray | list[np.ndarray]
"""A value for each of n rows, by the value's spec: an array (n, ...) if the shape is fixed (of
dtype object for ``bytes``, and for values that are ragged arrays themselves), a ``RaggedArray`` of
n rows if only the first dimension varies, a list of n arrays if others vary (images)."""


@dataclasses.dataclass(frozen=True)
class OperationResult:
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
    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """The results for ``n`` rows of arguments. Bad rows are never raised."""


def for_operation(column: Any, spec: TensorSpec) -> Column:
    """A block's column as operations take values of ``spec``."""
    if isinstance(spec, RaggedTensorSpec) or spec.is_static or isinstance(column, PackedStrings):
        return column
    if None in spec.shape[1:]:
        return list(column)
    if isinstance(column, RaggedArray):
        return column
    return uniform(column) if isinstance(column, np.ndarray) else RaggedArray.from_rows(column)


def for_block(column: Column, spec: TensorSpec) -> Any:
    """An operation's column as blocks hold values of ``spec``."""
    if isinstance(column, list):
        return ArrayRows(column, spec.dtype, len(spec.shape))
    return column


def misfit(column: Column, spec: TensorSpec) -> str | None:
    """What is wrong with a column that should hold values of ``spec``."""
    if isinstance(spec, RaggedTensorSpec):
        fits = isinstance(column, np.ndarray) and column.dtype == object
    elif spec.is_static:
        fits = (
            isinstance(column, np.ndarray)
            and column.dtype == spec.dtype
            and column.shape[1:] == spec.shape
        )
    elif None not in spec.shape[1:]:
        fits = isinstance(column, RaggedArray | np.ndarray) and column.dtype == spec.dtype
    else:
        fits = isinstance(column, list) and all(
            spec.accepts(row.shape, row.dtype) for row in column
        )
    return None if fits else f"a column of {type(column).__name__} does not hold {spec}"


class BroadcastValue:
    """A value as a column of any length."""

    def __init__(self, value: np.ndarray):
        self._value = value
        self._column = value[None]

    def __call__(self, n: int) -> np.ndarray:
        column = self._column
        if len(column) < n:
            column = np.repeat(self._value[None], n, axis=0)
            column.flags.writeable = False
            self._column = column
        return column[:n]


def run_native(
    operation: NativeOperation,
    columns: Sequence[Any],
    specs: Sequence[TensorSpec],
    results: Sequence[TensorSpec],
    n: int,
) -> tuple[list[Any], int, Exception | None]:
    """The results for ``n`` rows as columns of a block, how many rows they have, and why no more.

    Raises:
        TypeError: the operation does not give what it said it would.
    """
    given = [for_operation(column, spec) for column, spec in zip(columns, specs, strict=True)]
    rows = operation.run(given, n)
    _check(operation, rows, results, n)
    made = [for_block(column, leaf) for column, leaf in zip(rows.columns, results, strict=True)]
    return made, len(rows.columns[0]), rows.error


def _check(
    operation: NativeOperation, rows: OperationResult, results: Sequence[TensorSpec], n: int
) -> None:
    lengths = {len(column) for column in rows.columns}
    if len(rows.columns) != len(results) or len(lengths) != 1:
        raise TypeError(
            f"dl.{operation.name} gives {len(rows.columns)} columns of lengths {sorted(lengths)} "
            f"for {len(results)} results"
        )
    (length,) = lengths
    if length > n or (length < n) != (rows.error is not None):
        raise TypeError(f"dl.{operation.name} gives {length} rows for {n}, error {rows.error!r}")
    for column, leaf in zip(rows.columns, results, strict=True):
        wrong = misfit(column, leaf)
        if wrong is not None:
            raise TypeError(f"dl.{operation.name}: {wrong}")
