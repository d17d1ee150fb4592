"""How several processes divide a dataset."""

from __future__ import annotations

import enum
from typing import Any


class AutoShardPolicy(enum.IntEnum):
    """How a strategy of several processes divides a dataset among them.

    As ``tf.data.experimental.AutoShardPolicy``.

    Attributes:
        OFF: every process reads all elements.
        AUTO: by file where the dataset reads at least as many files as there are processes and no
            operation counts elements, else by element.
        FILE: each process reads its own files.
        DATA: each process reads all elements and keeps its share.
        HINT: the dataset is sharded where the user says.
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3

    @classmethod
    def of(cls, value: Any) -> AutoShardPolicy:
        """The policy of this value.

        Raises:
            TypeError: if it is no policy.
        """
        if not isinstance(value, cls):
            names = ", ".join(f"AutoShardPolicy.{member.name}" for member in cls)
            raise TypeError(f"auto_shard_policy must be one of {names}, got {value!r}")
        return value
