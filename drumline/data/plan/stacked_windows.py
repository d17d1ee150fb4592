"""Windows whose leaves are batched: what ``window`` and ``flat_map`` become."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import UNKNOWN
from drumline.data.operations.nested.windows import Window
from drumline.data.spec import ElementSpec


@dataclasses.dataclass(frozen=True, eq=False)
class StackedWindows(Window):
    """Runs of elements stacked, each run one element.

    Attributes:
        leaves: for each leaf, which one of the input's it is stacked from.
        element: the spec.
        drop_short: whether windows that are not full are left out; unlike with ``drop_remainder``,
            an error among their elements is still raised.
    """

    leaves: tuple[int, ...]
    element: ElementSpec
    drop_short: bool
    name: ClassVar[str] = "stacked_windows"

    @property
    def spec(self) -> ElementSpec:
        return self.element

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    def arguments(self) -> str:
        leaves = "" if self.leaves == tuple(range(len(self.leaves))) else f", leaves={self.leaves}"
        return f"{super().arguments()}, drop_short={self.drop_short}{leaves}"
