"""The state of one trace of a per-replica step, for the hooks that act while it runs."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import jax
import keras

from drumline.distribute import ReplicaContext, Strategy
from drumline.distribute.replica import enter_replica_context
from drumline.keras import internals

_current: contextvars.ContextVar[ReplicaTrace | None] = contextvars.ContextVar(
    "drumline_replica_trace", default=None
)


class NeedsGlobalBatch(BaseException):
    """The step cannot be cut over the replicas with the same numbers; it must see whole batches.

    Raised while a step is traced and caught by the step. Not an ``Exception``, so that neither
    Keras nor a user's handler rewrites or swallows it on its way.
    """


class ReplicaTrace:
    """One trace of a step that runs per replica.

    Attributes:
        context: the replica's context.
        local: whether arrays hold this replica's share; False where they were gathered.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.context = ReplicaContext(strategy)
        self.local = True
        self._alike: set[int] = set()
        self._differing: set[int] = set()

    def wrote(self, variable: Any, *, alike: bool) -> None:
        """Note that the step writes `variable`, and whether the same on all replicas."""
        (self._alike if alike else self._differing).add(id(variable))

    def may_differ(self, variable: Any) -> bool:
        """Whether something was written to `variable` that may differ from replica to replica."""
        return id(variable) in self._differing

    def wrote_alike(self, variable: Any) -> bool:
        """Whether all that was written to `variable` is the same on all replicas."""
        return id(variable) in self._alike and not self.may_differ(variable)

    @contextlib.contextmanager
    def on_global_batch(self) -> Iterator[None]:
        """Within the block arrays hold the global batch, on every replica alike."""
        before, self.local = self.local, False
        try:
            yield
        finally:
            self.local = before


def current_trace() -> ReplicaTrace | None:
    """The trace of a per-replica step that is running; None outside of one."""
    return _current.get()


@contextlib.contextmanager
def tracing(strategy: Strategy) -> Iterator[ReplicaTrace]:
    """Trace a step of `strategy`'s replicas within the block."""
    trace = ReplicaTrace(strategy)
    token = _current.set(trace)
    try:
        with enter_replica_context(trace.context):
            yield trace
    finally:
        _current.reset(token)


def gather_batch(trace: ReplicaTrace, tree: Any) -> Any:
    """Concatenate every array of a tree over the replicas, along its first dimension.

    Scalars, None and Python numbers stay as they are. A Keras mask is gathered with its array.
    """
    return keras.tree.map_structure(lambda leaf: _gather_leaf(trace, leaf), tree)


def _gather_leaf(trace: ReplicaTrace, leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or leaf.ndim == 0:
        return leaf
    whole = trace.context.all_gather(leaf)
    mask = internals.get_keras_mask(leaf)
    if mask is not None:
        internals.set_keras_mask(whole, trace.context.all_gather(mask))
    return whole
