"""``pack``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from drumline.data.cardinality import INFINITE, UNKNOWN
from drumline.data.execute.pack_stage import PackStage
from drumline.data.execute.stage import Stage
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE, Structure

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


class Packed(NamedTuple):
    """Several sequences in one row of fixed length.

    Attributes:
        values: the sequences' leaves one after the other, (length, ...) each.
        segment_ids: int32 (length,): 1 for the first sequence, 2 for the second, 0 for padding.
        positions: int32 (length,): the place within its sequence; 0 for padding.
    """

    values: Any
    segment_ids: Any
    positions: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Pack(Node):
    """Sequences packed into rows.

    Attributes:
        length: of a row.
        lookahead: how many sequences are packed together.
        overlong: what becomes of a longer sequence: ``"error"``, ``"truncate"`` or ``"split"``.
        values: for each leaf, what rows are filled up with.
    """

    length: int
    lookahead: int
    overlong: str
    values: tuple[Any, ...]
    name: ClassVar[str] = "pack"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        number = TensorSpec((self.length,), np.int32)
        leaves = [TensorSpec((self.length, *leaf.shape[1:]), leaf.dtype) for leaf in inner.leaves]
        parts = (inner.structure, LEAF_STRUCTURE, LEAF_STRUCTURE)
        return ElementSpec(Structure("namedtuple", Packed, (), parts), (*leaves, number, number))

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN

    def arguments(self) -> str:
        values = [np.asarray(value).tolist() for value in self.values]
        return (
            f"{self.length}, lookahead={self.lookahead}, overlong={self.overlong!r}, "
            f"padding_values={values}"
        )


def lower_pack(lowering: Lowering, node: Pack, trail: Trail, run: Pass) -> Stage:
    return PackStage(lowering.input(node, trail, run, ragged=True), node)
