"""What one element of a dataset looks like."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from drumline.data.closest import did_you_mean
from drumline.data.structure import Structure

STRING = np.dtype(object)
"""The dtype of columns of ``bytes``: numpy's object dtype, every item a ``bytes``."""

_STRING_NAMES = ("string", "bytes", "str", "object")


def as_dtype(dtype: Any) -> np.dtype:
    """Returns the numpy dtype of a column, ``STRING`` for any spelling of a string type.

    Args:
        dtype: a numpy dtype or anything ``np.dtype`` takes, ``bfloat16`` included; ``str``,
            ``bytes`` and ``"string"`` mean bytes columns.

    Raises:
        TypeError: it is none of these, or a dtype no column can have (datetimes, records).
    """
    if dtype in (str, bytes) or (isinstance(dtype, str) and dtype in _STRING_NAMES):
        return STRING
    if isinstance(dtype, str) and hasattr(ml_dtypes, dtype):
        return np.dtype(getattr(ml_dtypes, dtype))
    try:
        result = np.dtype(dtype)
    except TypeError:
        hint = did_you_mean(dtype, [*np.sctypeDict, "string"]) if isinstance(dtype, str) else ""
        raise TypeError(
            f"dtype must be a numpy dtype, its name or 'string', got {dtype!r:.40}. {hint}".rstrip()
        ) from None
    if result.kind in "SUO":
        return STRING
    if result.kind in "biufc" or (
        result.kind == "V" and result.fields is None and result.type != np.void
    ):
        return result
    raise TypeError(f"a dataset column cannot have dtype {result!r}; use a number, bool or bytes")


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of one leaf of an element, as ``tf.TensorSpec``.

    Attributes:
        shape: the dimensions; ``None`` stands for one that varies between elements.
        dtype: a numpy dtype; numpy's object dtype stands for ``bytes``.
        name: shown by ``repr``; it takes no part in comparisons.
    """

    shape: tuple[int | None, ...] = ()
    dtype: np.dtype = dataclasses.field(default_factory=lambda: np.dtype(np.float32))
    name: str | None = dataclasses.field(default=None, compare=False)

    def __init__(
        self, shape: Sequence[int | None], dtype: Any = np.float32, name: str | None = None
    ):
        try:
            dims = tuple(None if d is None else int(d) for d in shape)
        except (TypeError, ValueError):
            raise TypeError(
                "TensorSpec: shape must be a sequence with an integer or None for each dimension, "
                f"got {shape!r:.40}"
            ) from None
        object.__setattr__(self, "shape", dims)
        try:
            object.__setattr__(self, "dtype", as_dtype(dtype))
        except TypeError as error:
            raise TypeError(f"TensorSpec: {error}") from None
        object.__setattr__(self, "name", name)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return None not in self.shape

    @property
    def is_string(self) -> bool:
        """Whether the leaf holds ``bytes``."""
        return self.dtype == STRING

    @property
    def nbytes(self) -> int | None:
        """Bytes of one element of this leaf; ``None`` if a dimension varies or it holds bytes."""
        if self.is_string or not self.is_static:
            return None
        return math.prod(dim or 0 for dim in self.shape) * self.dtype.itemsize

    def accepts(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        """Whether a value of this shape and dtype is described by the spec."""
        return (
            dtype == self.dtype
            and len(shape) == len(self.shape)
            and all(
                mine is None or mine == theirs
                for mine, theirs in zip(self.shape, shape, strict=True)
            )
        )

    def batched(self, size: int | None) -> TensorSpec:
        """The spec of a batch: one more dimension in front."""
        return TensorSpec((size, *self.shape), self.dtype, self.name)

    def merged(self, other: TensorSpec) -> TensorSpec | None:
        """The narrowest spec that describes both, or ``None`` if kinds, ranks or dtypes differ."""
        same = type(self) is type(other) and self.dtype == other.dtype
        if not same or len(self.shape) != len(other.shape):
            return None
        shape = [x if x == y else None for x, y in zip(self.shape, other.shape, strict=True)]
        return TensorSpec(shape, self.dtype, self.name)

    def __repr__(self) -> str:
        dtype = "string" if self.is_string else self.dtype.name
        name = f", name={self.name!r}" if self.name is not None else ""
        return f"TensorSpec(shape={self.shape}, dtype={dtype}{name})"


@dataclasses.dataclass(frozen=True)
class ElementSpec:
    """The structure of an element and the spec of each of its leaves, in the structure's order."""

    structure: Structure
    leaves: tuple[TensorSpec, ...]

    def tree(self) -> Any:
        """The specs in the user's structure, as ``Dataset.element_spec`` shows them."""
        return self.structure.unflatten(self.leaves)

    def named(self, leaf: int) -> str:
        """What messages call the leaf of that number: ``"element['a']"``."""
        return f"element{self.structure.paths()[leaf]}"

    def with_leaves(self, leaves: Sequence[TensorSpec]) -> ElementSpec:
        """The same structure over other leaves."""
        return ElementSpec(self.structure, tuple(leaves))

    def row_nbytes(self, unknown: int = 64) -> int:
        """Estimated bytes of one element; leaves of unknown size count ``unknown`` each."""
        sizes = (leaf.nbytes for leaf in self.leaves)
        return max(1, sum(unknown if size is None else size for size in sizes))


def merge_leaf(a: TensorSpec, b: TensorSpec) -> TensorSpec | None:
    """The narrowest spec that describes both, or ``None`` if ranks or dtypes differ."""
    return a.merged(b)
