"""How workers share a dataset, as ``tf.data.experimental.service.ShardingPolicy``."""

from __future__ import annotations

import enum
from typing import Any


class ShardingPolicy(enum.IntEnum):
    """How ``distribute`` divides a dataset among workers.

    Attributes:
        OFF: every worker makes all elements, and all of them come.
        DYNAMIC: each element once, made by whichever worker is free.
        FILE: each worker has its own files.
        DATA: each worker goes through the whole dataset and keeps every so many-th element.
        FILE_OR_DATA: ``FILE`` where there are enough files, else ``DATA``.
        HINT: the dataset is sharded where ``shard(SHARD_HINT, SHARD_HINT)`` stands in it.
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


_NAMES = {
    "off": ShardingPolicy.OFF,
    "parallel_epochs": ShardingPolicy.OFF,
    "dynamic": ShardingPolicy.DYNAMIC,
    "distributed_epoch": ShardingPolicy.DYNAMIC,
    "static": ShardingPolicy.FILE_OR_DATA,
}


def policy_of(value: Any) -> ShardingPolicy:
    """The policy meant by a member of ``ShardingPolicy`` or a name.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, ShardingPolicy):
        return value
    if isinstance(value, str) and value.lower() in _NAMES:
        return _NAMES[value.lower()]
    raise ValueError(
        f"distribute: processing_mode must be a ShardingPolicy or one of {', '.join(_NAMES)}; "
        f"got {value!r:.60}"
    )
