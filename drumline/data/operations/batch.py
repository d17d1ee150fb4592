"""``batch`` and ``unbatch``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drumline.data.cardinality import UNKNOWN, is_known
from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.execute.stage import Described
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.ragged_spec import row_spec
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Batch(Node):
    """Consecutive elements stacked."""

    size: int
    drop_remainder: bool
    name: ClassVar[str] = "batch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        size = self.size if self.drop_remainder else None
        return inner.with_leaves([leaf.batched(size) for leaf in inner.leaves])

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if not is_known(inner):
            return inner
        return inner // self.size if self.drop_remainder else -(-inner // self.size)

    def arguments(self) -> str:
        return f"{self.size}, drop_remainder={self.drop_remainder}"


@dataclasses.dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """The rows of each element.

    Attributes:
        operation: what the user asked for, for messages.
    """

    operation: str = dataclasses.field(default="unbatch", kw_only=True)

    name: ClassVar[str] = "unbatch"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        return inner.with_leaves([row_spec(leaf) for leaf in inner.leaves])

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        rows = self.input.spec.leaves[0].shape[0]
        if inner == 0 or (rows is not None and is_known(inner)):
            return inner * (rows or 0)
        return inner if not is_known(inner) and rows else UNKNOWN


def locate_batch(lowering: Lowering, node: Batch, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else BatchedRows(inner, node.size, node.drop_remainder, node.spec)


class BatchedRows(Indexed):
    """Runs of another's elements, stacked; the last may be shorter."""

    def __init__(self, inner: Indexed, size: int, drop_remainder: bool, spec: ElementSpec):
        self.inner = inner
        self.size = size
        self._spec = spec
        whole, rest = divmod(inner.length, size)
        self.length = whole + (rest > 0 and not drop_remainder)
        self.granule = max(1, inner.granule // size)

    def rows(self, index: Index) -> Block:
        """As promised, of equal lengths: the shorter one comes by itself."""
        starts = np.asarray(index, np.int64) * self.size
        short = np.flatnonzero(starts + self.size > self.inner.length)
        if len(short):
            starts = starts[: max(1, short[0])]
        size = int(min(self.size, self.inner.length - starts[0])) if len(starts) else self.size
        positions = (starts[:, None] + np.arange(size)).reshape(-1)
        block = self.inner.rows(positions)
        count = block.n // size
        columns = [c[: count * size].reshape(count, size, *c.shape[1:]) for c in block.columns]
        if count == len(starts):
            return Block(columns, count)
        error = block.error or self._uneven(positions[count * size], block)
        return Block(columns if count else stack([], self._spec), count, error)

    def _uneven(self, first: int, block: Block) -> ValueError:
        return ValueError(
            f"batch({self.size}) cannot stack elements of different shapes: those of the batch "
            f"that begins with element {first} differ; pad or crop them in a map before the batch"
        )

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"batches of {self.size} by position"
