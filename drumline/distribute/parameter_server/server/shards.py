"""The shards that a server keeps."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from drumline.distribute.parameter_server.errors import ShardMismatchError, UnknownShardError
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.dense_shard import DenseShard
from drumline.distribute.parameter_server.server.embedding_shard import EmbeddingShard
from drumline.distribute.parameter_server.server.shard import ServerShard

_CHANGES_A_SECOND = 1 << 22


class ServerShards:
    """Parts by name. Versions start at another number in each server, later ones at larger."""

    def __init__(self) -> None:
        self._shards: dict[str, ServerShard] = {}
        self._creation = threading.Lock()
        self._versions = itertools.count(int(time.time()) * _CHANGES_A_SECOND)

    def __iter__(self) -> Iterator[ServerShard]:
        return iter(list(self._shards.values()))

    def __len__(self) -> int:
        return len(self._shards)

    def __contains__(self, name: str) -> bool:
        return name in self._shards

    def get(self, name: str) -> ServerShard:
        """The shard of a name.

        Raises:
            UnknownShardError: if there is none.
        """
        shard = self._shards.get(name)
        if shard is None:
            raise UnknownShardError(
                f"This server keeps no shard {name!r}; it keeps {len(self._shards)} others"
                f"{_some_of(self._shards)}. Create it first; if the server was started again, "
                "create all variables again or restore a checkpoint."
            )
        return shard

    def forget(self, names: Iterable[str]) -> None:
        """Keep these shards no more; nothing of those that are not here."""
        with self._creation:
            for name in names:
                self._shards.pop(name, None)

    def create(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype,
        table: bool,
        start: int | None,
        initial: Callable[[], np.ndarray],
    ) -> tuple[ServerShard, bool]:
        """The shard of a name, made if there is none yet.

        Args:
            name: as the cluster calls it.
            shape: of the rows that it keeps.
            dtype: of their elements.
            table: whether rows of it are read and updated.
            start: the number of its first row in the whole variable; None if not known.
            initial: makes its first value, writable.

        Returns:
            The shard, and whether it is new.

        Raises:
            ShardMismatchError: if there is another shard of the name, or `initial` makes something
                else than a value for it.
        """
        with self._creation:
            old = self._shards.get(name)
            if old is not None:
                _check_same(old, shape, dtype, table)
                return old, False
            value = initial()
            if value.shape != shape or value.dtype != dtype:
                raise ShardMismatchError(
                    f"The shard {name!r} of shape {shape} and dtype {dtype} was given an initial "
                    f"value of shape {value.shape} and dtype {value.dtype}."
                )
            shard = self._shards[name] = self._make(name, value, table, start)
            return shard, True

    def _make(self, name: str, value: np.ndarray, table: bool, start: int | None) -> ServerShard:
        if not table:
            return DenseShard(name, value, start, self._versions)
        if not value.ndim:
            raise ShardMismatchError(f"The shard {name!r} is a scalar and cannot be a table.")
        own = value if value.flags.writeable and value.flags.c_contiguous else memory.copied(value)
        return EmbeddingShard(name, own, start, self._versions)


def _check_same(shard: ServerShard, shape: tuple[int, ...], dtype: np.dtype, table: bool) -> None:
    if (shard.shape, shard.dtype, shard.is_table) != (shape, dtype, table):
        raise ShardMismatchError(
            f"The shard {shard.name!r} exists with shape {shard.shape}, dtype {shard.dtype} and "
            f"table={shard.is_table}; it was to be created with {shape}, {dtype} and "
            f"table={table}. Give another variable another name."
        )


def _some_of(names: dict[str, ServerShard]) -> str:
    return f", such as {', '.join(map(repr, list(names)[:5]))}" if names else ""
