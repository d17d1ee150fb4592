"""Values that differ from replica to replica."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax


class DistributedValues:
    """Base of values that a strategy's replicas see differently, as in ``tf.distribute``."""

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, by replica."""
        raise NotImplementedError


@jax.tree_util.register_pytree_node_class
class PerReplica(DistributedValues):
    """One value for each replica, as ``tf.distribute.DistributedValues``.

    A pytree. Values of equal shapes may be kept as one array, stacked along a new first dimension
    that is cut over the replicas' devices; they are taken apart when they are asked for.

    Args:
        values: the values, by replica. Arrays lie on their replica's device.
        replicas: the numbers of the replicas that have one; by default all of them, in order.

    Attributes:
        replicas: the same; None for all of them.
    """

    def __init__(self, values: Iterable[Any], replicas: Iterable[int] | None = None) -> None:
        self._values: tuple[Any, ...] | None = tuple(values)
        self._stacked: Any = None
        self.replicas = None if replicas is None else tuple(replicas)

    @classmethod
    def of_stacked(cls, stacked: Any) -> PerReplica:
        """The values that `stacked`, of shape ``(replicas, ...)``, holds along its first axis."""
        made = cls.__new__(cls)
        made._values = None
        made._stacked = stacked
        made.replicas = None
        return made

    @property
    def stacked(self) -> Any:
        """The values as one array of shape ``(replicas, ...)``; None if they are kept apart."""
        return self._stacked

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, by replica. Arrays lie on their replica's device."""
        if self._values is None:
            self._values = _apart(self._stacked)
        return self._values

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the children, as JAX's pytree registry asks for them."""
        if self._stacked is not None:
            return (self._stacked,), True
        return self.values, (False, self.replicas)

    @classmethod
    def tree_unflatten(cls, kind: Any, children: Iterable[Any]) -> PerReplica:
        """Rebuild from the children."""
        return cls.of_stacked(*children) if kind is True else cls(children, kind[1])

    def __repr__(self) -> str:
        rows = "\n".join(f"  {index}: {value!r}" for index, value in enumerate(self.values))
        return f"PerReplica:{{\n{rows}\n}}"


def _apart(stacked: Any) -> tuple[Any, ...]:
    if isinstance(stacked, jax.core.Tracer) or not isinstance(stacked, jax.Array):
        return tuple(stacked[index] for index in range(stacked.shape[0]))
    shards = sorted(stacked.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return tuple(row for shard in shards for row in shard.data)
