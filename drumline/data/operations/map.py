"""Operations that apply a user's function: ``map`` and ``filter``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.call import BlockFunction
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.indexed import Index, Indexed
from drumline.data.runtime.stage import Described, Stage

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering
    from drumline.data.operations.checks import TakeWhile
    from drumline.data.operations.filter import Filter


@dataclasses.dataclass(frozen=True, eq=False)
class Map(Node):
    """A function applied to every element.

    Attributes:
        function: the user's, traced or arranged to run as Python.
        label: its name, for ``explain()``.
        workers: how many blocks are computed at once, or ``AUTOTUNE``; ``None`` leaves it to the
            optimizer.
        unbounded: whether its workers are its own, whatever threads maps share.
        deterministic: whether order matters more than that no worker waits for a slow one; ``None``
            leaves it to the options.
    """

    function: BuiltFunction
    label: str
    workers: int | None
    unbounded: bool = False
    deterministic: bool | None = None
    name: ClassVar[str] = "map"

    @property
    def spec(self) -> ElementSpec:
        return self.function.spec

    def arguments(self) -> str:
        return self.label


class Mapped(Indexed):
    """A function applied to each element, block by block."""

    def __init__(self, inner: Indexed, function: BlockFunction):
        self.inner = inner
        self.function = function
        self.ragged = function.ragged
        self.varying = function.varying
        self.length = inner.length
        self.granule = function.limit(max(inner.granule, function.block_length))

    def rows(self, index: Index) -> Block:
        block = self.inner.rows(index[: self.function.limit(len(index))])
        return self.function(block, lambda row: int(index[row]))

    def limit(self, wanted: int) -> int:
        return self.function.limit(self.inner.limit(wanted))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return f"map {self.function.describe()}"


def own_input(
    lowering: Lowering,
    node: Map | Filter | TakeWhile,
    trail: Trail,
    run: Pass,
) -> Stage:
    """The input of a node's function, as varied as the function takes it."""
    function = node.function
    return lowering.input(
        node, trail, run, ragged=function.takes_ragged, varying=function.takes_varying
    )
