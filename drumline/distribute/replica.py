"""Where the calling code runs: in which strategy's scope, and in which replica's step.

`ReplicaContext` is what the code of a replica may ask and do; merging (`merge_call`, and one value
of what the replicas wrote to a variable) builds on it. The strategy in force is the one whose scope
is entered, or the default one.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.values import REPLICA_AXIS, PerReplica, ReduceOp

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
    same order: the replicas wait for one another there.

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
        with self.agreeing():
            result = fn(variable, *args, **(kwargs or {}))
        self.strategy._require_agreement(self, variable)
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
    """The context of the only replica, which has no values to combine."""

    @property
    def replica_id_in_sync_group(self) -> int:
        return 0

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        ReduceOp.of(op)
        return value

    def all_gather(self, value: Any, axis: int = 0) -> Any:
        return jax.tree.map(lambda leaf: with_axis(leaf, axis), value)


class WholeBatchContext(SingleContext):
    """The context of code that is given the global batch: there are no other values to combine.

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
    return SingleContext(default_strategy())


def running_replica() -> ReplicaContext | None:
    """The context of the replica whose step is running; None where no step runs."""
    return _current.get()


def in_cross_replica_context() -> bool:
    """Whether the calling code sees all replicas: in a strategy's scope, outside of its steps."""

    apart = _current.get() is None and _of_whole_batch.get() is None
    return apart and has_strategy()


@contextlib.contextmanager
def whole_batch(strategy: Strategy) -> Iterator[None]:
    """Within the block `get_replica_context` gives a context that reduces over no other replica.

    For code that may also run in a replica's step, and is now given the global batch.
    """
    token = _of_whole_batch.set(WholeBatchContext(strategy))
    try:
        yield
    finally:
        _of_whole_batch.reset(token)


@contextlib.contextmanager
def enter_replica_context(context: ReplicaContext | None) -> Iterator[ReplicaContext | None]:
    """Let `context` be the current one until the block ends; None is the cross-replica one."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)


_merging: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "drumline_merging", default=None
)


def merging_replica() -> ReplicaContext | None:
    """The context of the replica whose `merge_call` is being traced; None outside of one."""
    return _merging.get()


def in_program_merge() -> ReplicaContext | None:
    """The same where one trace stands for all of several replicas; else None."""
    context = _merging.get()
    traced = context is not None and not isinstance(context.replica_id_in_sync_group, int)
    return context if traced else None


@contextlib.contextmanager
def merging(context: ReplicaContext) -> Iterator[None]:
    """Within the block a ``merge_call`` of `context` is under way."""
    token = _merging.set(context)
    try:
        yield
    finally:
        _merging.reset(token)


def result_of_replica(result: Any, index: Any) -> Any:
    """What one replica gets of what ``merge_fn`` returned: its own of values that differ."""

    def select(node: Any) -> Any:
        if isinstance(node, InProgram):
            return node.local
        if not isinstance(node, PerReplica):
            return node
        return node.values[index] if isinstance(index, int) else jnp.stack(node.values)[index]

    return jax.tree.map(select, result, is_leaf=lambda node: isinstance(node, PerReplica))


@jax.tree_util.register_pytree_with_keys_class
class InProgram(PerReplica):
    """The replicas' values of an array, seen in `merge_call` by the program that all of them run.

    Reducing it is a collective. Its `values` are gathered from the replicas when asked for.
    """

    def __init__(self, local: Any, context: ReplicaContext) -> None:
        super().__init__(())
        self._local = local
        self._context = context
        self._values = None

    @property
    def local(self) -> Any:
        """The value of the replica that runs the program."""
        return self._local

    @property
    def values(self) -> tuple[Any, ...]:
        if self._values is None:
            rows = jax.lax.all_gather(self._local, REPLICA_AXIS)
            self._values = tuple(rows[index] for index in range(rows.shape[0]))
        return self._values

    def reduced(self, op: ReduceOp) -> Any:
        """The sum or mean over the replicas."""
        return self._context.all_reduce(op, self._local)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self._local,), self._context

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Any]:
        return ((jax.tree_util.GetAttrKey("local"), self._local),), self._context

    @classmethod
    def tree_unflatten(cls, context: Any, children: Any) -> InProgram:
        (local,) = children
        return cls(local, context)


def merge_in_program(
    context: ReplicaContext,
    merge_fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """`ReplicaContext.merge_call` where one trace stands for all replicas."""
    alone = context.num_replicas_in_sync == 1
    wrapped = (tuple(args), dict(kwargs))
    if not alone:
        wrapped = jax.tree.map(
            lambda leaf: InProgram(leaf, context) if isinstance(leaf, jax.Array) else leaf, wrapped
        )
    args, kwargs = wrapped
    with (
        merging(context),
        context.agreeing(),
        enter_replica_context(None),
        context.strategy.scope(),
    ):
        result = merge_fn(context.strategy, *args, **kwargs)
    return result_of_replica(result, context.replica_id_in_sync_group)


def is_constant(value: Any) -> bool:
    """Whether `value` is a number or an array that is there already, not computed in a trace."""
    kinds = (bool, int, float, complex, np.generic, np.ndarray, jax.Array)
    return isinstance(value, kinds) and not isinstance(value, jax.core.Tracer)


Written = tuple[str, jax.Array, jax.Array]
"""Of a variable: its aggregation, its value before a step and a replica's after it."""


def merge_written(context: ReplicaContext, written: Sequence[Written]) -> list[Any]:
    """The values after a step, alike on every replica, as the variables' aggregations say.

    The mean; the sum of what the replicas added; the first replica's. Keras gives
    BatchNormalization's moving statistics none: floating values without one become the mean,
    others the first replica's. They travel together: between hosts each message takes its time.
    """
    means = [place for place, (kind, _, new) in enumerate(written) if _is_averaged(kind, new)]
    rest = [place for place in range(len(written)) if place not in means]
    new_values = [written[place][2] for place in means]
    averaged = context.all_reduce(ReduceOp.MEAN, new_values) if means else []
    merged = dict(zip(means, averaged, strict=True))
    parts = []
    for kind, old, new in (written[place] for place in rest):
        parts.append(new - old if kind == "sum" else _of_first(context, new))
    totals = context.all_reduce(ReduceOp.SUM, parts) if parts else []
    for place, part, total in zip(rest, parts, totals, strict=True):
        kind, old, new = written[place]
        merged[place] = old + total if kind == "sum" else _received(total, part, new)
    return [merged[place] for place in range(len(written))]


def _is_averaged(aggregation: str, value: jax.Array) -> bool:
    floating = jnp.issubdtype(value.dtype, jnp.floating)
    return aggregation == "mean" or (aggregation == "none" and bool(floating))


def first_replicas(context: ReplicaContext, value: jax.Array) -> Any:
    """The first replica's `value`, on every replica."""
    part = _of_first(context, value)
    return _received(context.all_reduce(ReduceOp.SUM, part), part, value)


def _of_first(context: ReplicaContext, value: jax.Array) -> jax.Array:
    """What replicas sum so that all have the first one's `value`.

    A few integers that all replicas compute in one trace, as counts, travel as floats: compilers
    sum them together with the gradients, and integers apart, which is a collective of their own.
    """
    first = context.replica_id_in_sync_group == 0
    numeric = jnp.issubdtype(value.dtype, jnp.number)
    bits = value if numeric else value.astype(jnp.int32)
    only = jnp.where(first, bits, jnp.zeros_like(bits))
    return _halves(only) if context.traced_once and _travels_as_floats(only) else only


def _received(total: jax.Array, part: jax.Array, value: jax.Array) -> Any:
    """The value that replicas summed by what `_of_first` returned for it."""
    if part.shape != value.shape:
        total = _of_halves(total, jnp.int32 if value.dtype == bool else value.dtype)
    return total.astype(value.dtype)


_FEW = 256
"""How many integers travel as floats at most: theirs are twice the bytes."""


def _travels_as_floats(value: Any) -> bool:
    small = isinstance(value, jax.core.Tracer) and value.size <= _FEW
    return small and value.dtype in (jnp.int32, jnp.uint32)


def _halves(value: jax.Array) -> jax.Array:
    """The upper and the lower 16 bits of integers, as floats, which are exact.

    So is their sum over the replicas, of which one alone has others than zero.
    """
    bits = jax.lax.bitcast_convert_type(value, jnp.uint32)
    return jnp.stack([bits >> 16, bits & 0xFFFF]).astype(jnp.float32)


def _of_halves(halves: jax.Array, dtype: Any) -> jax.Array:
    upper, lower = halves.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type((upper << 16) | lower, dtype)


class _Outside:
    """No scope was entered: what `put_in_force` was given counts."""


_OUTSIDE = _Outside()
_entered: contextvars.ContextVar[Strategy | _Outside | None] = contextvars.ContextVar(
    "drumline_strategy", default=_OUTSIDE
)
_in_force: Strategy | None = None
_device_before: Any = None


_make_default: Callable[[], Strategy] | None = None


def has_strategy() -> bool:
    """Whether the calling code is inside some strategy's scope."""
    return _current_strategy() is not None


def _current_strategy() -> Strategy | None:
    entered = _entered.get()
    return _in_force if isinstance(entered, _Outside) else entered


def put_in_force(strategy: Strategy | None) -> None:
    """Have a strategy be in force wherever no scope is entered, in all threads.

    As ``tf.distribute.experimental_set_strategy``. It takes the place of one set before.

    Args:
        strategy: it, or None for the default one.

    Raises:
        RuntimeError: inside a strategy's scope, or a replica's step.
    """
    global _in_force, _device_before
    if not isinstance(_entered.get(), _Outside) or running_replica() is not None:
        raise RuntimeError(
            "A strategy is put in force outside of all scopes and steps; this was called inside "
            f"the scope of {_current_strategy()!r}."
        )
    if _in_force is None:
        _device_before = jax.config.jax_default_device  # type: ignore[attr-defined]
    device = None if strategy is None else strategy._default_device
    first = device is None or device == jax.local_devices()[0]
    jax.config.update("jax_default_device", _device_before if first else device)
    _in_force = strategy


def register_default_strategy(make: Callable[[], Strategy]) -> None:
    """Let `make` create what `default_strategy` returns; it is called once, when first needed."""
    global _make_default
    _make_default = make


@functools.cache
def default_strategy() -> Strategy:
    """The one strategy that is in force outside every scope.

    Raises:
        RuntimeError: if none is registered, as when `drumline.distribute` is not imported whole.
    """
    if _make_default is None:
        raise RuntimeError("No default strategy is registered: import drumline.distribute.")
    return _make_default()


def get_strategy() -> Strategy:
    """The strategy whose scope the calling code is in; the default one if it is in none.

    The default strategy runs one replica on JAX's default device.
    """
    return _current_strategy() or default_strategy()


@contextlib.contextmanager
def enter_scope(strategy: Strategy) -> Iterator[Strategy]:
    """Put `strategy` in force until the block ends.

    Raises:
        RuntimeError: if another strategy's scope is open. The same strategy's may be.
    """
    current = _current_strategy()
    if current is not None and current is not strategy:
        raise RuntimeError(
            f"Cannot enter the scope of {strategy!r} inside the scope of {current!r}; "
            "leave that scope first."
        )
    token = _entered.set(strategy)
    try:
        with default_device(strategy._default_device):
            yield strategy
    finally:
        _entered.reset(token)


@contextlib.contextmanager
def without_strategy() -> Iterator[None]:
    """No strategy is in force until the block ends."""
    token = _entered.set(None)
    try:
        yield
    finally:
        _entered.reset(token)


def default_device(device: jax.Device) -> contextlib.AbstractContextManager[object]:
    """Let what is on no device yet go to `device` until the block ends."""
    if device == jax.local_devices()[0]:
        return contextlib.nullcontext()
    return jax.default_device(device)
