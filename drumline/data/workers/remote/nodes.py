"""Plan nodes of ``distribute`` and of the parts that run on workers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from drumline.data.elements.spec import UNKNOWN, ElementSpec, is_known
from drumline.data.operations.map import Map
from drumline.data.plan.node import Node, Specified
from drumline.data.workers.remote.cluster import (
    Service,
    ShardingPolicy,
)

if TYPE_CHECKING:
    pass


@dataclasses.dataclass(frozen=True, eq=False)
class Distribute(Node):
    """The operations below are to run on the workers of a service.

    Attributes:
        service: whose workers.
        policy: how they share the elements.
        shards: how many shards there are; 0 if elements are handed out as workers are free.
    """

    service: Service
    policy: ShardingPolicy
    shards: int
    name: ClassVar[str] = "distribute"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if self.policy is not ShardingPolicy.OFF:
            return inner
        return inner * self.shards if is_known(inner) else inner

    def arguments(self) -> str:
        shards = f", {self.shards} shards" if self.shards else ""
        return f"{self.policy.name}{shards}"


@dataclasses.dataclass(frozen=True, eq=False)
class Shards(Node):
    """A plan of which every worker runs its share, whole.

    Attributes:
        service: whose workers.
        policy: what a share is.
        shards: how many there are.
        shared: the plan, which is no input: rules for what runs here do not hold for it.
    """

    service: Service
    policy: ShardingPolicy
    shards: int
    shared: Node
    name: ClassVar[str] = "shards_on_workers"

    @property
    def spec(self) -> ElementSpec:
        return self.shared.spec

    @property
    def cardinality(self) -> int:
        return UNKNOWN

    def arguments(self) -> str:
        return f"{self.policy.name}, {self.shards} shards, {self.service.describe()}"

    def describe(self, depth: int = 0, titles: bool = False) -> str:
        inner = self.shared.describe(depth + 1, titles)
        return f"{super().describe(depth, titles)}\n{inner}"


@dataclasses.dataclass(frozen=True, eq=False)
class Remote(Node):
    """The operations down to a ``Piece`` run on workers, for one split after the other.

    Attributes:
        service: whose workers.
        cycle_length: of how many splits elements are taken by turns.
        block_length: how many elements at a time.
    """

    service: Service
    cycle_length: int = 1
    block_length: int = 1
    name: ClassVar[str] = "on_workers"

    @property
    def exact(self) -> bool:
        """Whether each element is made of one of the split's."""
        node = self.input
        while isinstance(node, Map):
            node = node.input
        return isinstance(node, Piece) and not node.one

    @property
    def cardinality(self) -> int:
        return self.input.cardinality

    def arguments(self) -> str:
        turns = f", {self.cycle_length} splits by turns" if self.cycle_length > 1 else ""
        return f"{self.service.describe()}{turns}"


@dataclasses.dataclass(frozen=True, eq=False)
class Piece(Node):
    """The elements of its input that belong to a split; in a plan that is to be divided, all.

    Attributes:
        by_position: whether the worker makes them, by their positions; else the input runs beside
            the consumer, and elements are sent.
        one: whether a split has one element: the name of a file.
        start: of the positions of a split.
        stop: their end; ``None`` for all.
    """

    by_position: bool
    one: bool = False
    start: int = 0
    stop: int | None = None
    name: ClassVar[str] = "split"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        if self.stop is None:
            return inner
        return self.stop - self.start

    def arguments(self) -> str:
        return "by position" if self.by_position else "elements are sent"


@dataclasses.dataclass(frozen=True, eq=False)
class RemoteSplit(Specified):
    """The elements that one worker computes of one split."""

    stage: object
    name: ClassVar[str] = "remote split"

    @property
    def cardinality(self) -> int:
        return UNKNOWN
