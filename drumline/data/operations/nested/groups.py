"""TODO."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from drumline.data.cardinality import INFINITE, UNKNOWN
from drumline.data.execute.group_stage import GroupStage
from drumline.data.execute.openings import opener
from drumline.data.execute.stage import Stage
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.dataset_function import WindowSize
from drumline.data.functions.shape_key import ShapeFunction
from drumline.data.operations.nested.nesting import Nested
from drumline.data.plan.node import Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class GroupByWindow(Nested):
    """Elements of equal keys, so many at a time, as the dataset that a function makes of them.

    Attributes:
        key: gives an element's key.
        size: gives how many elements of a key make a window.
    """

    key: BuiltFunction
    size: WindowSize
    name: ClassVar[str] = "group_by_window"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN

    def arguments(self) -> str:
        return f"{self.function.label}, {self.size.label}"


def lower_group_by_window(
    lowering: Lowering, node: GroupByWindow, trail: Trail, run: Pass
) -> Stage:
    ragged = node.key.is_python or isinstance(node.key.run, ShapeFunction)
    source = lowering.input(node, trail, run, ragged=ragged)
    return GroupStage(source, node, opener(lowering), run)
