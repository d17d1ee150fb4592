"""A leaf of an element that is a ``RaggedArray``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.ragged import RaggedArray
from drumline.data.spec import ElementSpec, TensorSpec


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class RaggedTensorSpec(TensorSpec):
    """Shape and dtype of a leaf that is a `RaggedArray`, as ``tf.RaggedTensorSpec``.

    Attributes:
        ragged_rank: how many dimensions after the first vary in length.
    """

    ragged_rank: int = 1

    def __init__(
        self, shape: Sequence[int | None], dtype: Any = np.float32, ragged_rank: int | None = None
    ):
        """Takes the shape with ``None`` for dimensions that vary; by default all but the first do.

        Raises:
            ValueError: ``ragged_rank`` is not between 1 and the number of dimensions less one.
        """
        rank = len(shape) - 1 if ragged_rank is None else int(ragged_rank)
        if not 1 <= rank < len(shape):
            raise ValueError(f"ragged_rank {rank} does not go with {len(shape)} dimensions")
        super().__init__(shape, dtype)
        object.__setattr__(self, "ragged_rank", rank)

    @property
    def is_static(self) -> bool:
        return False

    @property
    def is_string(self) -> bool:
        """A column of it holds arrays, not ``bytes``."""
        return False

    @property
    def nbytes(self) -> int | None:
        return None

    def batched(self, size: int | None) -> TensorSpec:
        raise TypeError(
            f"batches of different row lengths cannot be stacked: a leaf is {self!r}; fill them up "
            "first, with map(lambda ragged: ragged.to_tensor())"
        )

    def merged(self, other: TensorSpec) -> TensorSpec | None:
        same = isinstance(other, RaggedTensorSpec) and other.ragged_rank == self.ragged_rank
        if not same or self.dtype != other.dtype or len(self.shape) != len(other.shape):
            return None
        shape = [x if x == y else None for x, y in zip(self.shape, other.shape, strict=True)]
        return RaggedTensorSpec(shape, self.dtype, self.ragged_rank)

    def row(self) -> TensorSpec:
        """The spec of a row."""
        if self.ragged_rank == 1:
            return TensorSpec(self.shape[1:], self.dtype)
        return RaggedTensorSpec(self.shape[1:], self.dtype, self.ragged_rank - 1)

    def __repr__(self) -> str:
        dtype = TensorSpec((), self.dtype)
        name = "string" if dtype.is_string else self.dtype.name
        return f"RaggedTensorSpec(shape={self.shape}, dtype={name}, ragged_rank={self.ragged_rank})"


def spec_of(value: RaggedArray, static: bool = True) -> RaggedTensorSpec:
    """The spec of a ragged array; with an unknown number of rows unless ``static``."""
    rows = len(value) if static else None
    return RaggedTensorSpec((rows, *value.shape[1:]), value.dtype, value.ragged_rank)


def has_ragged(spec: ElementSpec) -> bool:
    """Whether some leaf is a ragged array."""
    return any(isinstance(leaf, RaggedTensorSpec) for leaf in spec.leaves)


def empty(spec: RaggedTensorSpec) -> RaggedArray:
    """A ragged array of the spec with no rows."""
    depth = spec.ragged_rank
    inner: Any = np.empty((0, *(dim or 0 for dim in spec.shape[depth + 1 :])), spec.dtype)
    for _ in range(depth):
        inner = RaggedArray(inner, [0])
    return RaggedArray(inner.values, [0])


def row_spec(leaf: TensorSpec) -> TensorSpec:
    """The spec of a row of a leaf."""
    if isinstance(leaf, RaggedTensorSpec):
        return leaf.row()
    return TensorSpec(leaf.shape[1:], leaf.dtype)
