"""Operations that choose and order elements: shuffle, repeat, take, skip, shard."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Final

from drumline._core import mix64
from drumline.data.cardinality import INFINITE, UNKNOWN, is_known
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.lowering.ordering import buffered, shuffle_key
from drumline.data.execute.permuted import Permuted
from drumline.data.execute.positions import Passes, Reordered
from drumline.data.plan.node import Node, Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


SHARD_HINT = -1
"""Stands for both arguments of a shard that the strategy fills in."""


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle(Node):
    """A shuffle buffer; ``seed`` is always set here, drawn when the user gave none.

    Attributes:
        buffer_size: how many elements it holds; ``UNKNOWN`` for all that there are.
    """

    buffer_size: int
    seed: int
    reshuffle: bool
    name: ClassVar[str] = "shuffle"

    def arguments(self) -> str:
        size = "all elements" if self.buffer_size == UNKNOWN else self.buffer_size
        return f"{size}, reshuffle_each_iteration={self.reshuffle}"


GLOBAL: Final = "global"
"""A shuffle's buffer size that stands for all elements at once, without memory for them."""


@dataclasses.dataclass(frozen=True, eq=False)
class GlobalShuffle(Shuffle):
    """A permutation of a random-access input."""

    def arguments(self) -> str:
        return f"GLOBAL, reshuffle_each_iteration={self.reshuffle}"


@dataclasses.dataclass(frozen=True, eq=False)
class Repeat(Node):
    """Pass after pass; ``count`` ``None`` never ends."""

    count: int | None
    name: ClassVar[str] = "repeat"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if inner == 0 or self.count == 0:
            return 0
        if self.count is None:
            return INFINITE
        return inner * self.count if is_known(inner) else inner

    def arguments(self) -> str:
        return "" if self.count is None else str(self.count)


@dataclasses.dataclass(frozen=True, eq=False)
class Take(Node):
    """The first ``count`` elements."""

    count: int
    name: ClassVar[str] = "take"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if inner == INFINITE or self.count == 0:
            return self.count
        return min(inner, self.count) if is_known(inner) else UNKNOWN

    def arguments(self) -> str:
        return str(self.count)


@dataclasses.dataclass(frozen=True, eq=False)
class Skip(Node):
    """All but the first ``count`` elements."""

    count: int
    name: ClassVar[str] = "skip"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return max(0, inner - self.count) if is_known(inner) else inner

    def arguments(self) -> str:
        return str(self.count)


@dataclasses.dataclass(frozen=True, eq=False)
class Shard(Node):
    """Every ``num_shards``-th element, from the one at ``index`` on; a hint is all of them."""

    num_shards: int
    index: int
    name: ClassVar[str] = "shard"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if not is_known(inner) or self.num_shards == SHARD_HINT:
            return inner
        return len(range(self.index, inner, self.num_shards))

    def arguments(self) -> str:
        if self.num_shards == SHARD_HINT:
            return "SHARD_HINT"
        return f"{self.num_shards}, index={self.index}"


def locate_shuffle(lowering: Lowering, node: Shuffle, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Reordered(inner, buffered(node), shuffle_key(lowering, node, trail, run))


def locate_repeat(lowering: Lowering, node: Repeat, trail: Trail, run: Pass) -> Indexed | None:
    if lowering.indexed_input(node, trail, (*run, 0)) is None:
        return None

    def make(number: int) -> Indexed:
        found = lowering.indexed_input(node, trail, (*run, number))
        assert found is not None
        return found

    return Passes(make, node.count)


def index_global_shuffle(
    lowering: Lowering, node: GlobalShuffle, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.by_position().indexed_input(node, trail, run)
    if inner is None:
        return None
    key = mix64(node.seed, lowering.occurrences[trail])
    for part in run if node.reshuffle else ():
        key = mix64(key, part)
    return Permuted(inner, key)
