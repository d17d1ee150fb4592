"""Operations that keep elements: ``cache`` and ``prefetch``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.execute.cache_stages import CacheStore
from drumline.data.plan.node import Node


@dataclasses.dataclass(frozen=True, eq=False)
class Cache(Node):
    """Elements kept, in memory or in a directory, from the first complete pass on."""

    store: CacheStore
    where: str = ""
    name: ClassVar[str] = "cache"

    def arguments(self) -> str:
        return self.where


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """Up to ``size`` elements made ahead; ``None`` leaves the size to drumline."""

    size: int | None
    name: ClassVar[str] = "prefetch"

    def arguments(self) -> str:
        return "AUTOTUNE" if self.size is None else str(self.size)
