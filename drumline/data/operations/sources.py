"""Where elements come from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from drumline._core import mix64
from drumline.data.cardinality import UNKNOWN
from drumline.data.execute.number_stages import CounterStage, RandomStage
from drumline.data.execute.stage import Stage
from drumline.data.plan.node import Node, Pass, Specified, Trail
from drumline.data.plan.numbers import Counter, Random
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@functools.lru_cache
def _scalar(dtype: np.dtype) -> ElementSpec:
    """The spec of numbers of a dtype; functions make many ranges."""
    return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), dtype),))


@dataclasses.dataclass(frozen=True, eq=False)
class Range(Node):
    """Integers from ``start`` in steps of ``step``."""

    start: int
    step: int
    length: int
    dtype: np.dtype
    name: ClassVar[str] = "range"

    @property
    def spec(self) -> ElementSpec:
        return _scalar(self.dtype)

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        return (
            f"start={self.start}, step={self.step}, length={self.length}, dtype={self.dtype.name}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Slices(Specified):
    """Rows of arrays."""

    columns: tuple[Any, ...]
    length: int
    name: ClassVar[str] = "from_tensor_slices"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        leaves = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in self.element.leaves)
        return f"{self.length} x {self.element.structure}: {leaves}"


@dataclasses.dataclass(frozen=True, eq=False)
class SlicesWithDatasets(Specified):
    """Rows of which some leaves are datasets, its inputs.

    Attributes:
        columns: arrays; of a leaf of datasets int64 (length,), the number of the input of each row.
    """

    columns: tuple[Any, ...]
    length: int
    name: ClassVar[str] = "from_tensor_slices"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        return f"{self.length} x {self.element.structure}: {len(self.inputs)} datasets"


@dataclasses.dataclass(frozen=True, eq=False)
class Generator(Specified):
    """What a Python callable's iterable yields."""

    factory: Callable[[], Iterable[Any]]
    label: str
    name: ClassVar[str] = "from_generator"

    @property
    def cardinality(self) -> int:
        return UNKNOWN

    def arguments(self) -> str:
        return f"{self.label}, {', '.join(map(str, self.element.leaves))}"


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceItems(Specified):
    """What a sequence gives for each index."""

    sequence: Sequence[Any]
    length: int
    label: str
    name: ClassVar[str] = "from_sequence"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        leaves = ", ".join(map(str, self.element.leaves))
        return f"{self.label}, {self.length} x {self.element.structure}: {leaves}"


@dataclasses.dataclass(frozen=True, eq=False)
class Stored(Specified):
    """What a directory holds, memory-mapped."""

    columns: tuple[Any, ...]
    length: int
    path: str
    name: ClassVar[str] = "load"

    @property
    def cardinality(self) -> int:
        return self.length

    def arguments(self) -> str:
        return f"{self.path!r}, {self.length} x {self.element.structure}"


@dataclasses.dataclass(frozen=True, eq=False)
class StoredParts(Specified):
    """What directories hold, one after the other, each read as a whole when its turn has come.

    Attributes:
        paths: of the directories.
        lengths: of each the number of elements.
    """

    paths: tuple[str, ...]
    lengths: tuple[int, ...]
    name: ClassVar[str] = "load"

    @property
    def cardinality(self) -> int:
        return sum(self.lengths)

    def arguments(self) -> str:
        return f"{', '.join(map(repr, self.paths))}, {sum(self.lengths)} x {self.element.structure}"


def lower_counter(lowering: Lowering, node: Counter, trail: Trail, run: Pass) -> Stage:
    return CounterStage(node.start, node.step, node.dtype)


def lower_random(lowering: Lowering, node: Random, trail: Trail, run: Pass) -> Stage:
    key = mix64(node.seed, 0)
    for part in run if node.rerandomize else ():
        key = mix64(key, part)
    return RandomStage(key)
