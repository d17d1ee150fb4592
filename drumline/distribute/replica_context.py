"""What code that runs once per replica may ask and do."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax

from drumline.distribute.reduce_op import ReduceOp

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_current: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "drumline_replica_context", default=None
)


class ReplicaContext:
    """One replica's view while its step is traced, as ``tf.distribute.ReplicaContext``.

    Attributes:
        strategy: the strategy whose replica this is.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas run this step together."""
        return self.strategy.num_replicas_in_sync

    @property
    def replica_id_in_sync_group(self) -> jax.Array:
        """The number of this replica, from 0: a traced int32 scalar."""
        return jax.lax.axis_index(self._axis)

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        """Reduce a pytree over the replicas: every replica gets the same result."""
        return self.strategy.all_reduce(op, value)

    def all_gather(self, value: Any, axis: int = 0) -> Any:
        """Concatenate each leaf of a pytree over the replicas along `axis`, in their order."""
        return jax.tree.map(
            lambda leaf: jax.lax.all_gather(leaf, self._axis, axis=axis, tiled=True), value
        )

    @property
    def _axis(self) -> str:
        return self.strategy.mesh.axis_names[0]


def get_replica_context() -> ReplicaContext | None:
    """The context of the replica whose step is being traced; None outside of one."""
    return _current.get()


@contextlib.contextmanager
def enter(context: ReplicaContext) -> Iterator[ReplicaContext]:
    """Let `context` be the current one until the block ends."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
