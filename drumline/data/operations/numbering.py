"""Keys for functions that draw random numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drumline.data.execute.indexed import Indexed
from drumline.data.execute.numbering_stages import EnumerateStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.transforms import Enumerated
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE, tuple_of

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class RandomKeys(Node):
    """Each element with a key: uint32 (4,), which depends on the epoch, the pass and the position,
    its second half on the seed, too.

    It stands below a map or filter whose function draws by ``dl.random``.
    """

    seed: int
    name: ClassVar[str] = "random_keys"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        key = TensorSpec((4,), np.uint32)
        return ElementSpec(tuple_of([inner.structure, LEAF_STRUCTURE]), (*inner.leaves, key))


@dataclasses.dataclass(frozen=True, eq=False)
class Enumerate(Node):
    """A running number in front of each element."""

    start: int
    name: ClassVar[str] = "enumerate"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        number = TensorSpec((), np.int64)
        return ElementSpec(tuple_of([LEAF_STRUCTURE, inner.structure]), (number, *inner.leaves))

    def arguments(self) -> str:
        return f"start={self.start}"


def index_enumerate(lowering: Lowering, node: Enumerate, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Enumerated(inner, node.start)


def lower_enumerate(lowering: Lowering, node: Enumerate, trail: Trail, run: Pass) -> Stage:
    return EnumerateStage(lowering.input(node, trail, run, ragged=True), node.start)
