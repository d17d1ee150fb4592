"""Methods that keep elements or make them ahead."""

from __future__ import annotations

import os
from typing import Self

from drumline.data.epochs import digest_of
from drumline.data.execute.cache_stages import CacheStore
from drumline.data.methods.arguments import AUTOTUNE, count_of
from drumline.data.methods.storing import Storing
from drumline.data.plan import buffering
from drumline.data.store.file_store import FileStore
from drumline.data.store.saving import local_path
from drumline.data.store.specs import spec_to_json


class Keeping(Storing):
    """Caches and buffers."""

    def cache(self, filename: str | bytes | os.PathLike[str] = "", name: str | None = None) -> Self:
        """Keeps the elements once a pass reached the end, for all later passes.

        What it keeps does not depend on when it is filled: a shuffle before a cache has the order
        of its first epoch for ever. One that is full is random-access.

        Args:
            filename: a directory to keep them in, also for later runs, which map it into their
                memory; delete it when the pipeline before it changes. By default, memory.
            name: shown by ``explain()``.

        Raises:
            TypeError: elements hold what no file keeps (datasets, ragged arrays).
            ValueError: the directory was filled with elements of another spec (when iterated).
            FileExistsError: another pipeline is filling it (when iterated). Several iterators of
                one dataset may, and processes that have the same operations.
        """
        if not filename:
            return self._with(buffering.Cache((self._plan,), CacheStore()), name)
        spec_to_json(self._plan.spec)
        path = local_path(filename, "cache")
        store = FileStore(path, self._plan.spec, digest_of(self._plan))
        return self._with(buffering.Cache((self._plan,), store, repr(str(path))), name)

    def prefetch(self, buffer_size: int | None, name: str | None = None) -> Self:
        """Makes up to ``buffer_size`` elements ahead; ``AUTOTUNE``: as many as memory allows."""
        if buffer_size is None or buffer_size == AUTOTUNE:
            return self._with(buffering.Prefetch((self._plan,), None), name)
        size = count_of(buffer_size, "prefetch", "buffer_size", least=0)
        return self if size == 0 else self._with(buffering.Prefetch((self._plan,), size), name)
