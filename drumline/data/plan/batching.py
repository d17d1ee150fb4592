"""``batch`` and ``unbatch``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import UNKNOWN, is_known
from drumline.data.plan.node import Node
from drumline.data.ragged_spec import row_spec
from drumline.data.spec import ElementSpec


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
