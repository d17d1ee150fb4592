"""TODO."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from drumline.data.cardinality import is_known
from drumline.data.dataset_spec import DatasetSpec
from drumline.data.execute.block import Block
from drumline.data.execute.cache_stages import ReplayStage
from drumline.data.execute.stacked_window_stage import StackedWindowStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.window_pieces_stage import WindowPiecesStage
from drumline.data.execute.window_stage import WindowStage
from drumline.data.plan.node import Node, Pass, Specified, Trail
from drumline.data.plan.stacked_windows import StackedWindows
from drumline.data.plan.window_pieces import WindowPieces
from drumline.data.spec import ElementSpec
from drumline.data.structure import LEAF_STRUCTURE

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Rows(Specified):
    """Elements at hand whose shapes differ: the content of a window."""

    blocks: tuple[Block, ...]
    name: ClassVar[str] = "rows"

    @property
    def cardinality(self) -> int:
        return sum(block.n for block in self.blocks)

    def arguments(self) -> str:
        return f"{self.cardinality} x {', '.join(map(str, self.element.leaves))}"


@dataclasses.dataclass(frozen=True, eq=False)
class Window(Node):
    """Runs of elements as datasets, one for each leaf."""

    size: int
    shift: int
    stride: int
    drop_remainder: bool
    name: ClassVar[str] = "window"

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last of a window, both included."""
        return (self.size - 1) * self.stride + 1

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        return inner.with_leaves(
            [DatasetSpec(ElementSpec(LEAF_STRUCTURE, (leaf,))) for leaf in inner.leaves]
        )

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if not is_known(inner):
            return inner
        if self.drop_remainder:
            return 0 if inner < self.span else (inner - self.span) // self.shift + 1
        return -(-inner // self.shift)

    def arguments(self) -> str:
        return (
            f"{self.size}, shift={self.shift}, stride={self.stride}, "
            f"drop_remainder={self.drop_remainder}"
        )


def lower_rows(lowering: Lowering, node: Rows, trail: Trail, run: Pass) -> Stage:
    return ReplayStage(node.blocks)


def lower_window(lowering: Lowering, node: Window, trail: Trail, run: Pass) -> Stage:
    return WindowStage(lowering.input(node, trail, run), node)


def lower_stacked_windows(
    lowering: Lowering, node: StackedWindows, trail: Trail, run: Pass
) -> Stage:
    return StackedWindowStage(lowering.input(node, trail, run), node)


def lower_window_pieces(lowering: Lowering, node: WindowPieces, trail: Trail, run: Pass) -> Stage:
    return WindowPiecesStage(lowering.input(node, trail, run), node)
