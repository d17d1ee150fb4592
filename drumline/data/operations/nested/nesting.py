"""Datasets inside datasets: ``window``, ``flat_map``, ``interleave``, ``group_by_window``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import UNKNOWN
from drumline.data.functions.dataset_function import DatasetFunction
from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec


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
