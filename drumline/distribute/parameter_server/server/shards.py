"""The parts that a server keeps."""

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
        self._parts: dict[str, ServerShard] = {}
        self._creation = threading.Lock()
        self._versions = itertools.count(int(time.time()) * _CHANGES_A_SECOND)

    def __iter__(self) -> Iterator[ServerShard]:
        return iter(list(self._parts.values()))

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def get(self, name: str) -> ServerShard:
        """The part of a name.

        Raises:
            UnknownShardError: if there is none.
        """
        part = self._parts.get(name)
        if part is None:
            raise UnknownShardError(
                f"This server keeps no part {name!r}; it keeps {len(self._parts)} others"
                f"{_some_of(self._parts)}. Create it first; if the server was started again, "
                "create all variables again or restore a checkpoint."
            )
        return part

    def forget(self, names: Iterable[str]) -> None:
        """Keep these parts no more; nothing of those that are not here."""
        with self._creation:
            for name in names:
                self._parts.pop(name, None)

    def create(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype,
        table: bool,
        start: int | None,
        initial: Callable[[], np.ndarray],
    ) -> tuple[ServerShard, bool]:
        """The part of a name, made if there is none yet.

        Args:
            name: as the cluster calls it.
            shape: of the rows that it keeps.
            dtype: of their elements.
            table: whether rows of it are read and updated.
            start: the number of its first row in the whole variable; None if not known.
            initial: makes its first value, writable.

        Returns:
            The part, and whether it is new.

        Raises:
            ShardMismatchError: if there is another part of the name, or `initial` makes something
                else than a value for it.
        """
        with self._creation:
            old = self._parts.get(name)
            if old is not None:
                _check_same(old, shape, dtype, table)
                return old, False
            value = initial()
            if value.shape != shape or value.dtype != dtype:
                raise ShardMismatchError(
                    f"The part {name!r} of shape {shape} and dtype {dtype} was given an initial "
                    f"value of shape {value.shape} and dtype {value.dtype}."
                )
            part = self._parts[name] = self._make(name, value, table, start)
            return part, True

    def _make(self, name: str, value: np.ndarray, table: bool, start: int | None) -> ServerShard:
        if not table:
            return DenseShard(name, value, start, self._versions)
        if not value.ndim:
            raise ShardMismatchError(f"The part {name!r} is a scalar and cannot be a table.")
        own = value if value.flags.writeable and value.flags.c_contiguous else memory.copied(value)
        return EmbeddingShard(name, own, start, self._versions)


def _check_same(part: ServerShard, shape: tuple[int, ...], dtype: np.dtype, table: bool) -> None:
    if (part.shape, part.dtype, part.is_table) != (shape, dtype, table):
        raise ShardMismatchError(
            f"The part {part.name!r} exists with shape {part.shape}, dtype {part.dtype} and "
            f"table={part.is_table}; it was to be created with {shape}, {dtype} and table={table}. "
            "Give another variable another name."
        )


def _some_of(names: dict[str, ServerShard]) -> str:
    return f", such as {', '.join(map(repr, list(names)[:5]))}" if names else ""
