"""``padded_batch``, ``ragged_batch`` and ``rebatch``."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from drumline.data.cardinality import INFINITE, UNKNOWN
from drumline.data.operations.batch import Batch
from drumline.data.plan.node import Node
from drumline.data.ragged_spec import RaggedTensorSpec
from drumline.data.spec import ElementSpec, TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class PaddedBatch(Batch):
    """Consecutive elements filled up to a common shape and stacked.

    Attributes:
        shapes: of each leaf of the input; ``None`` for as long as the longest of the batch.
        values: for each leaf, what it is filled up with.
    """

    shapes: tuple[tuple[int | None, ...], ...]
    values: tuple[Any, ...]
    name: ClassVar[str] = "padded_batch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        size = self.size if self.drop_remainder else None
        pairs = zip(inner.leaves, self.shapes, strict=True)
        return inner.with_leaves([TensorSpec((size, *shape), leaf.dtype) for leaf, shape in pairs])

    def arguments(self) -> str:
        values = ", ".join(repr(np.asarray(value).tolist()) for value in self.values)
        shapes = ", ".join(map(str, self.shapes))
        return f"{self.size}, {shapes}, values={values}, drop_remainder={self.drop_remainder}"


@dataclasses.dataclass(frozen=True, eq=False)
class RaggedBatch(Batch):
    """Consecutive elements stacked; leaves that vary in shape become ragged arrays."""

    name: ClassVar[str] = "ragged_batch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        return inner.with_leaves([self._stacked(leaf) for leaf in inner.leaves])

    def _stacked(self, leaf: TensorSpec) -> TensorSpec:
        size = self.size if self.drop_remainder else None
        if leaf.is_static:
            return leaf.batched(size)
        rank = 1 + max(i for i, dim in enumerate(leaf.shape) if dim is None)
        return RaggedTensorSpec((size, *leaf.shape), leaf.dtype, rank)


@dataclasses.dataclass(frozen=True, eq=False)
class Rebatch(Node):
    """Rows, whose batches were taken apart, in batches of other sizes, which take turns.

    Attributes:
        rows: how many each of the batches had that were taken apart, if that is known.
    """

    sizes: tuple[int, ...]
    drop_remainder: bool
    rows: int | None = None
    name: ClassVar[str] = "rebatch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        size = self.sizes[0] if len(set(self.sizes)) == 1 else None
        if size is not None and not self.drop_remainder and (self.rows is None or self.rows % size):
            size = None
        return inner.with_leaves([leaf.batched(size) for leaf in inner.leaves])

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if inner in (INFINITE, UNKNOWN):
            return inner
        whole, rest = divmod(inner, sum(self.sizes))
        count = whole * len(self.sizes)
        for size in self.sizes:
            # A batch of no rows comes as long as none has found the end.
            if size and (rest <= 0 or (rest < size and self.drop_remainder)):
                break
            count += 1
            rest -= size
            if rest < 0:
                break
        return count

    def arguments(self) -> str:
        return f"{list(self.sizes)}, drop_remainder={self.drop_remainder}"
