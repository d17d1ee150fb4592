"""Operations that choose and order elements: shuffle, repeat, take, skip, shard."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final

from drumline.data.cardinality import INFINITE, UNKNOWN, is_known
from drumline.data.plan.node import Node

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
