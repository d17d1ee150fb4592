"""Datasets inside datasets: ``window``, ``flat_map``, ``interleave``, ``group_by_window``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import INFINITE, UNKNOWN, is_known
from drumline.data.dataset_spec import DatasetSpec
from drumline.data.execute.block import Block
from drumline.data.functions.build import BuiltFunction
from drumline.data.functions.dataset_function import DatasetFunction, WindowSize
from drumline.data.plan.node import Node, Specified
from drumline.data.spec import ElementSpec
from drumline.data.structure import LEAF_STRUCTURE


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


@dataclasses.dataclass(frozen=True, eq=False)
class Nested(Node):
    """What has a function that makes datasets; its elements are theirs.

    Attributes:
        function: the user's.
    """

    function: DatasetFunction

    @property
    def spec(self) -> ElementSpec:
        return self.function.spec

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    @property
    def seed(self) -> int | None:
        """From which seeds inside the function follow; ``None`` if it draws none."""
        return self.function.seed

    def with_seed(self, seed: int) -> Nested:
        """The same operation with other seeds."""
        return dataclasses.replace(self, function=dataclasses.replace(self.function, seed=seed))

    def arguments(self) -> str:
        return self.function.label


@dataclasses.dataclass(frozen=True, eq=False)
class FlatMap(Nested):
    """The elements of the dataset made for each element, one dataset after the other."""

    name: ClassVar[str] = "flat_map"


@dataclasses.dataclass(frozen=True, eq=False)
class Interleave(Nested):
    """The elements of ``cycle_length`` such datasets at a time, ``block_length`` by turns.

    Attributes:
        workers: how many datasets are read ahead at once, each by a thread; 0 for none,
            ``AUTOTUNE`` for a number that is found.
    """

    cycle_length: int
    block_length: int
    workers: int
    name: ClassVar[str] = "interleave"

    def arguments(self) -> str:
        return (
            f"{self.function.label}, cycle_length={self.cycle_length}, "
            f"block_length={self.block_length}"
        )


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
