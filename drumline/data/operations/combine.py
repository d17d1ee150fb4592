"""Several datasets as one: ``zip`` and ``concatenate``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from drumline.data.elements.block import Block
from drumline.data.elements.spec import (
    INFINITE,
    LEAF_STRUCTURE,
    UNKNOWN,
    ElementSpec,
    Structure,
    is_known,
    merge_leaf,
)
from drumline.data.plan.node import Node, Pass, Specified, Trail
from drumline.data.runtime.stage import (
    Concatenated,
    PushbackBuffer,
    RandomAccessSource,
    Stage,
    State,
    Zipped,
)

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Zip(Node):
    """Elements at the same position side by side, in the structure the datasets were given in."""

    outer: Structure
    name: ClassVar[str] = "zip"

    @property
    def spec(self) -> ElementSpec:
        specs = [node.spec for node in self.inputs]
        leaves = tuple(leaf for spec in specs for leaf in spec.leaves)
        return ElementSpec(_grafted(self.outer, [spec.structure for spec in specs]), leaves)

    @property
    def cardinality(self) -> int:
        inner = [node.cardinality for node in self.inputs]
        if 0 in inner:
            return 0
        if UNKNOWN in inner:
            return UNKNOWN
        return min((n for n in inner if n != INFINITE), default=INFINITE)

    def arguments(self) -> str:
        return str(self.outer)


@dataclasses.dataclass(frozen=True, eq=False)
class Concatenate(Specified):
    """The first input, then the second; ``element`` describes the elements of both."""

    name: ClassVar[str] = "concatenate"

    @property
    def cardinality(self) -> int:
        first, second = (node.cardinality for node in self.inputs)
        if INFINITE in (first, second):
            return INFINITE
        return first + second if is_known(first) and is_known(second) else UNKNOWN


def _grafted(outer: Structure, inner: list[Structure]) -> Structure:
    """Return ``outer`` with its leaves, in order, replaced by the structures ``inner``."""
    remaining = iter(inner)

    def graft(structure: Structure) -> Structure:
        if structure == LEAF_STRUCTURE:
            return next(remaining)
        children = tuple(graft(child) for child in structure.children)
        return dataclasses.replace(structure, children=children)

    return graft(outer)


def concatenated_spec(first: ElementSpec, second: ElementSpec) -> ElementSpec:
    """Return the narrowest spec of the elements of both.

    Raises:
        TypeError: if structures, dtypes or ranks differ.
    """
    if first.structure == second.structure:
        leaves = [merge_leaf(a, b) for a, b in zip(first.leaves, second.leaves, strict=True)]
        found = [leaf for leaf in leaves if leaf is not None]
        if len(found) == len(leaves):
            return first.with_leaves(found)
    raise TypeError(
        f"concatenate: elements must have the same structure, dtypes and ranks; the first has "
        f"{first.tree()}, the second {second.tree()}"
    )


class ZipStage(Stage):
    """Elements at the same position side by side; ends with the shortest input."""

    def __init__(self, sources: Sequence[Stage]):
        self.sources = list(sources)
        self.allows_readahead = all(source.allows_readahead for source in sources)
        self._pushbacks = [PushbackBuffer(source) for source in sources]

    def next(self, limit: int) -> Block | None:
        parts: list[Block] = []
        for pushback in self._pushbacks:
            part = pushback.peek(limit)
            if part is None:
                return None
            parts.append(part)
            limit = min(limit, part.events)
        for pushback in self._pushbacks:
            pushback.commit(limit)
        parts = [part.slice(0, limit) for part in parts]
        shortest = min(parts, key=lambda part: part.n)
        columns = [column[: shortest.n] for part in parts for column in part.columns]
        return Block(columns, shortest.n, shortest.error)

    def state(self) -> State:
        return {"inputs": [pushback.state() for pushback in self._pushbacks]}

    def restore(self, state: State) -> None:
        for pushback, saved in zip(self._pushbacks, state["inputs"], strict=True):
            pushback.restore(saved)

    def inputs(self) -> Sequence[Stage]:
        return self.sources

    def describe(self) -> str:
        return "zip"


class ConcatenateStage(Stage):
    """One stream after another."""

    def __init__(self, sources: Sequence[Stage]):
        self.sources = list(sources)
        self.allows_readahead = all(source.allows_readahead for source in sources)
        self.preferred_block_size = max(source.preferred_block_size for source in sources)
        self._current = 0

    def next(self, limit: int) -> Block | None:
        while self._current < len(self.sources):
            block = self.sources[self._current].next(limit)
            if block is not None:
                return block
            self._current += 1
        return None

    def state(self) -> State:
        current = min(self._current, len(self.sources) - 1)
        return {"current": self._current, "input": self.sources[current].state()}

    def restore(self, state: State) -> None:
        self._current = state["current"]
        self.sources[min(self._current, len(self.sources) - 1)].restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return self.sources

    def describe(self) -> str:
        return "concatenate"


def index_zip(lowering: Lowering, node: Zip, trail: Trail, run: Pass) -> RandomAccessSource | None:
    parts = lowering.indexed_inputs(node, trail, run)
    return None if parts is None else Zipped(parts)


def index_concatenate(
    lowering: Lowering, node: Concatenate, trail: Trail, run: Pass
) -> RandomAccessSource | None:
    parts = lowering.indexed_inputs(node, trail, run)
    return None if parts is None else Concatenated(*parts)


def lower_zip(lowering: Lowering, node: Zip, trail: Trail, run: Pass) -> Stage:
    return ZipStage(_inputs(lowering, node, trail, run))


def lower_concatenate(lowering: Lowering, node: Concatenate, trail: Trail, run: Pass) -> Stage:
    return ConcatenateStage(_inputs(lowering, node, trail, run))


def _inputs(lowering: Lowering, node: Node, trail: Trail, run: Pass) -> list[Stage]:
    return [lowering.input(node, trail, run, i, ragged=True) for i in range(len(node.inputs))]
