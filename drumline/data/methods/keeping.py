"""Methods that keep elements or make them ahead."""

from __future__ import annotations

from typing import Self

from drumline.data.execute.cache_stages import CacheStore
from drumline.data.methods.arguments import AUTOTUNE, count_of
from drumline.data.methods.planned import Planned
from drumline.data.plan import buffering


class Keeping(Planned):
    """Caches and buffers."""

    def cache(self) -> Self:
        """Keeps the elements in memory once a pass reached the end, for all later passes.

        What it keeps does not depend on when it is filled: a shuffle before a cache has the order
        of its first epoch for ever.
        """
        return self._with(buffering.Cache((self._plan,), CacheStore()))

    def prefetch(self, buffer_size: int | None, name: str | None = None) -> Self:
        """Makes up to ``buffer_size`` elements ahead; ``AUTOTUNE``: as many as memory allows."""
        if buffer_size is None or buffer_size == AUTOTUNE:
            return self._with(buffering.Prefetch((self._plan,), None), name)
        size = count_of(buffer_size, "prefetch", "buffer_size", least=0)
        return self if size == 0 else self._with(buffering.Prefetch((self._plan,), size), name)
