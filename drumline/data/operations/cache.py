"""Operations that keep elements: ``cache`` and ``prefetch``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from drumline.data.execute.cache_stages import CacheStore
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.sources import Columns
from drumline.data.execute.transforms import Concatenated
from drumline.data.functions.dataset_function import DatasetFunction
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.spec import ElementSpec

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Cache(Node):
    """Elements kept, in memory or in a directory, from the first complete pass on."""

    store: CacheStore
    where: str = ""
    name: ClassVar[str] = "cache"

    def arguments(self) -> str:
        return self.where


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot(Cache):
    """Elements kept in files, from the first complete pass on.

    Attributes:
        element: describes the elements.
        sharded: whether those of the input have one more leaf, which says for each its shard.
        reader: makes a dataset of the datasets of all shards; ``None``: elements of all by turns.
    """

    element: ElementSpec = dataclasses.field(kw_only=True)
    sharded: bool = dataclasses.field(kw_only=True)
    reader: DatasetFunction | None = dataclasses.field(kw_only=True)
    name: ClassVar[str] = "snapshot"

    @property
    def spec(self) -> ElementSpec:
        return self.element

    @property
    def seed(self) -> int | None:
        """From which seeds inside the reader follow; ``None`` if it draws none."""
        return None if self.reader is None else self.reader.seed

    def with_seed(self, seed: int) -> Snapshot:
        """The same operation with other seeds."""
        assert self.reader is not None
        return dataclasses.replace(self, reader=dataclasses.replace(self.reader, seed=seed))

    @property
    def in_order(self) -> bool:
        """Whether the elements come back in the order in which they were written."""
        return not self.sharded and self.reader is None


def locate_cache(lowering: Lowering, node: Cache, trail: Trail, run: Pass) -> Indexed | None:
    """What the cache holds, or else what it will be filled with."""
    blocks = node.store.blocks if node.store in lowering.filled else None
    if not blocks:
        return lowering.indexed_input(node, trail, (0,))
    parts: list[Indexed] = [Columns(block.columns, block.n, lowering.pool) for block in blocks]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [*(Concatenated(a, b) for a, b in pairs), *rest]
    return parts[0]
