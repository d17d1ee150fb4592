"""The ways in which values of several replicas become one."""

from __future__ import annotations

import enum

REPLICA_AXIS = "replica"
"""The mesh axis along which replicas lie."""


class ReduceOp(enum.Enum):
    """How replicas' values are combined, as ``tf.distribute.ReduceOp``."""

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, value: ReduceOp | str) -> ReduceOp:
        """Return the operation that `value` names, in any case.

        Raises:
            ValueError: if it names none.
        """
        if isinstance(value, cls):
            return value
        try:
            return cls[str(value).upper()]
        except KeyError:
            raise ValueError(f"Unknown reduction {value!r}: use 'SUM' or 'MEAN'.") from None
