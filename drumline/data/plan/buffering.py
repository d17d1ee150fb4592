"""Operations that keep elements: ``cache`` and ``prefetch``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.execute.cache_stages import CacheStore
from drumline.data.functions.dataset_function import DatasetFunction
from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec


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


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """Up to ``size`` elements made ahead; ``None`` leaves the size to drumline."""

    size: int | None
    name: ClassVar[str] = "prefetch"

    def arguments(self) -> str:
        return "AUTOTUNE" if self.size is None else str(self.size)
