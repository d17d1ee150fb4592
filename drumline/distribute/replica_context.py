"""What code that runs once per replica may ask and do."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from drumline.distribute.reduce_op import ReduceOp

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_current: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "drumline_replica_context", default=None
)


_of_whole_batch: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "drumline_whole_batch_context", default=None
)


class ReplicaContext:
    """One replica's view of its step, as ``tf.distribute.ReplicaContext``.

    Every replica must make the same calls of `all_reduce`, `all_gather` and `merge_call` in the
    same order: they are where the replicas meet.

    Attributes:
        strategy: the strategy whose replica this is.
        draws_differ: whether random draws are to differ from replica to replica.
        agreed: whether what is written now is the same on every replica.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.draws_differ = True
        self.agreed = False

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas run this step together."""
        return self.strategy.num_replicas_in_sync

    @property
    def num_replicas_taking_part(self) -> int:
        """How many replicas have rows of this step's batch, and so add to sums and means."""
        return self.strategy.num_replicas_in_sync

    @property
    def traced_once(self) -> bool:
        """Whether one trace stands for all replicas: constants in it are the same on all."""
        return True

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The number of this replica, from 0; an int32 scalar that is traced in a compiled step."""
        return jax.lax.axis_index(self.strategy.mesh.axis_names[0])

    @property
    def devices(self) -> tuple[str, ...]:
        """The name of the device this replica runs on; unknown, hence all, in a compiled step."""
        return self.strategy.extended.worker_devices

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        """Reduce a pytree of arrays over the replicas: every replica gets the same result.

        Args:
            op: ``"SUM"``, ``"MEAN"`` or a `ReduceOp`.
            value: a pytree of arrays; None stays None.
        """
        return self.strategy.all_reduce(op, value)

    def all_gather(self, value: Any, axis: int = 0) -> Any:
        """Concatenate each leaf of a pytree over the replicas along `axis`, in their order.

        Raises:
            ValueError: if a leaf is a scalar.
        """
        name = self.strategy.mesh.axis_names[0]
        return jax.tree.map(
            lambda leaf: jax.lax.all_gather(with_axis(leaf, axis), name, axis=axis, tiled=True),
            value,
        )

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call ``merge_fn(strategy, *args, **kwargs)`` once, in cross-replica context.

        Args:
            merge_fn: its arguments are the replicas' arguments, each array a `PerReplica`; what it
                returns must be the same for all replicas, and each of them gets it.
            args: positional arguments of this replica.
            kwargs: named arguments of this replica.
        """
        from drumline.distribute.merge import merge_in_program

        return merge_in_program(self, merge_fn, args, kwargs or {})

    def update(
        self,
        variable: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call ``fn(variable, *args, **kwargs)``, which writes the same on every replica.

        Raises:
            RuntimeError: if the replicas write different values. A compiled step raises it, as
                part of JAX's own error, when its results are read.
        """
        from drumline.distribute.divergence_check import require_agreement

        with self.agreeing():
            result = fn(variable, *args, **(kwargs or {}))
        require_agreement(self, variable)
        return result

    @contextlib.contextmanager
    def agreeing(self) -> Iterator[None]:
        """Within the block every replica writes and draws the same."""
        before = self.agreed, self.draws_differ
        self.agreed, self.draws_differ = True, False
        try:
            yield
        finally:
            self.agreed, self.draws_differ = before


class SingleContext(ReplicaContext):
    """The context of the only replica, which has nobody to meet."""

    @property
    def replica_id_in_sync_group(self) -> int:
        return 0

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        ReduceOp.of(op)
        return value

    def all_gather(self, value: Any, axis: int = 0) -> Any:
        return jax.tree.map(lambda leaf: with_axis(leaf, axis), value)


class WholeBatchContext(SingleContext):
    """The context of code that is given the global batch: there is nobody else to meet.

    Several devices may compute it. What is read and written is as in cross-replica context.
    """

    @property
    def num_replicas_in_sync(self) -> int:
        return 1

    @property
    def num_replicas_taking_part(self) -> int:
        return 1

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        token = _of_whole_batch.set(None)
        try:
            return merge_fn(self.strategy, *args, **(kwargs or {}))
        finally:
            _of_whole_batch.reset(token)


def with_axis(leaf: Any, axis: int) -> Any:
    """`leaf`, which must have a dimension to gather along.

    Raises:
        ValueError: if it is a scalar.
    """
    if jax.numpy.ndim(leaf) == 0:
        raise ValueError(
            f"all_gather along axis {axis} needs an array with that axis, got a scalar. Add one "
            "with `value[None]`, or use all_reduce."
        )
    return leaf


def get_replica_context() -> ReplicaContext | None:
    """The context of the replica whose step is running; None in cross-replica context.

    As in ``tf.distribute``, code outside of every scope is in replica context: that of the one
    replica of the default strategy.
    """
    context = _current.get() or _of_whole_batch.get()
    if context is not None or in_cross_replica_context():
        return context
    from drumline.distribute.one_device import default_strategy

    return SingleContext(default_strategy())


def running_replica() -> ReplicaContext | None:
    """The context of the replica whose step is running; None where no step runs."""
    return _current.get()


def in_cross_replica_context() -> bool:
    """Whether the calling code sees all replicas: in a strategy's scope, outside of its steps."""
    from drumline.distribute import scope

    apart = _current.get() is None and _of_whole_batch.get() is None
    return apart and scope.has_strategy()


@contextlib.contextmanager
def whole_batch(strategy: Strategy) -> Iterator[None]:
    """Within the block `get_replica_context` gives a context that reduces over nobody.

    For code that may also run in a replica's step, and is now given the global batch.
    """
    token = _of_whole_batch.set(WholeBatchContext(strategy))
    try:
        yield
    finally:
        _of_whole_batch.reset(token)


@contextlib.contextmanager
def enter(context: ReplicaContext | None) -> Iterator[ReplicaContext | None]:
    """Let `context` be the current one until the block ends; None is the cross-replica one."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
