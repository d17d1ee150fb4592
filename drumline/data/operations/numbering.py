"""Columns computed from positions: ``enumerate``, and keys for random draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drumline._core import mix64
from drumline.data.elements.block import Block
from drumline.data.elements.seeds import bits
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec, tuple_of
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    Described,
    Enumerated,
    Index,
    RandomAccessSource,
    Stage,
    State,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


def keyed(block: Block, keys: tuple[int, int], positions: np.ndarray) -> Block:
    """Return the block with one more column: a key of each element's position for each of ``keys``.

    It is uint32 (n, 4).
    """
    halves = [bits(key, positions[: block.n]) for key in keys]
    column = np.stack(halves, axis=1).view(np.uint32)
    column.flags.writeable = False
    return Block([*block.columns, column], block.n, block.error)


class KeyedSource(RandomAccessSource):
    """Keys by position in the input."""

    def __init__(self, inner: RandomAccessSource, keys: tuple[int, int]):
        self.inner = inner
        self.keys = keys
        self.length = inner.length
        self.preferred_block_size = inner.preferred_block_size

    def rows(self, index: Index) -> Block:
        return keyed(self.inner.rows(index), self.keys, np.asarray(index, np.int64))

    def parts(self) -> Sequence[Described]:
        return [self.inner]

    def describe(self) -> str:
        return "random keys by position"


class NumberingStage(Stage):
    """Passes blocks on with what `_beside` makes of them and their elements' positions."""

    def __init__(self, source: Stage):
        self.source = source
        self.allows_readahead = source.allows_readahead
        self.preferred_block_size = source.preferred_block_size
        self._position = 0

    def _beside(self, block: Block, positions: np.ndarray) -> Block:
        raise NotImplementedError

    def next(self, limit: int) -> Block | None:
        block = self.source.next(limit)
        if block is None:
            return None
        start = self._position
        self._position += block.events
        return self._beside(block, np.arange(start, start + block.n, dtype=np.int64))

    def limit_demand(self, positions: int) -> None:
        self.source.limit_demand(positions)

    def state(self) -> State:
        return {"position": self._position, "input": self.source.state()}

    def restore(self, state: State) -> None:
        self._position = state["position"]
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]


class EnumerateStage(NumberingStage):
    """A running number in front of each element."""

    def __init__(self, source: Stage, start: int):
        super().__init__(source)
        self.start = start

    def _beside(self, block: Block, positions: np.ndarray) -> Block:
        numbers = positions + self.start
        numbers.flags.writeable = False
        return Block([numbers, *block.columns], block.n, block.error)

    def describe(self) -> str:
        return f"enumerate from {self.start}"


class RandomKeysStage(NumberingStage):
    """Keys by position in the stream."""

    def __init__(self, source: Stage, keys: tuple[int, int]):
        super().__init__(source)
        self.keys = keys

    def _beside(self, block: Block, positions: np.ndarray) -> Block:
        return keyed(block, self.keys, positions)

    def describe(self) -> str:
        return "random keys by position"


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


def index_enumerate(
    lowering: Lowering, node: Enumerate, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Enumerated(inner, node.start)


def lower_enumerate(lowering: Lowering, node: Enumerate, trail: Trail, run: Pass) -> Stage:
    return EnumerateStage(lowering.input(node, trail, run, ragged=True), node.start)


def index_random_keys(
    lowering: Lowering, node: RandomKeys, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else KeyedSource(inner, _keys(lowering, node, trail, run))


def lower_random_keys(lowering: Lowering, node: RandomKeys, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True, varying=True)
    return RandomKeysStage(source, _keys(lowering, node, trail, run))


def _keys(lowering: Lowering, node: RandomKeys, trail: Trail, run: Pass) -> tuple[int, int]:
    """Return the keys without the operation's seed, for draws with another one, and with it."""
    key = lowering.occurrences[trail]
    for part in run:
        key = mix64(key, part)
    return key, mix64(node.seed, key)
