"""The parts of a strategy that libraries use, as ``tf.distribute.StrategyExtended``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from drumline.distribute.adoption import owner_of
from drumline.distribute.devices import device_name, resolve_device
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import ReduceOp
from drumline.distribute.replica_context import running_replica

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


class StrategyExtended:
    """What library code may ask of a strategy in cross-replica context.

    Args:
        strategy: the strategy.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The names of this process's devices on which replicas run."""
        return tuple(map(device_name, self._strategy.local_replica_devices))

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The names of the devices on which variables live."""
        devices = self._strategy.variable_sharding.device_set
        return tuple(sorted(map(device_name, devices)))

    def reduce_to(self, reduce_op: ReduceOp | str, value: Any, destinations: Any) -> Any:
        """Reduce `value` over the replicas, as `Strategy.reduce`, to where `destinations` is.

        Args:
            destinations: a device name puts the result there; with anything else, as a variable,
                it lies where the strategy's variables do.
        """
        _require_cross_replica("reduce_to")
        result = self._strategy.reduce(reduce_op, value, axis=None)
        if isinstance(destinations, str):
            return jax.device_put(result, resolve_device(destinations))
        return result

    def batch_reduce_to(
        self, reduce_op: ReduceOp | str, value_destination_pairs: Iterable[tuple[Any, Any]]
    ) -> list[Any]:
        """`reduce_to` of several values at once, which travel together."""
        _require_cross_replica("batch_reduce_to")
        values = [value for value, _ in value_destination_pairs]
        reduced: list[Any] = self._strategy.reduce(reduce_op, values, axis=None)
        return reduced

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call ``fn(var, *args, **kwargs)`` to update `var` alike on every device.

        Args:
            var: a variable of this strategy.
            fn: writes `var`.
            args: positional arguments, the same for all replicas: reduce those that are not.
            kwargs: named arguments.
            group: return nothing, as TensorFlow's grouped operation; else what `fn` returns, in a
                list with one entry.

        Raises:
            ValueError: if an argument has a value for each replica.
        """
        _require_cross_replica("update")
        leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda x: isinstance(x, PerReplica))
        if any(isinstance(leaf, PerReplica) for leaf in leaves):
            raise ValueError(
                "strategy.extended.update got a PerReplica, which would give the copies of "
                f"{getattr(var, 'path', var)!r} different values. Reduce it first: "
                "`strategy.extended.reduce_to('SUM', value, destinations=var)`."
            )
        result = fn(var, *args, **(kwargs or {}))
        return None if group else [result]

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """Within the block variables are made where `colocate_with_variable` lives.

        All variables of a strategy live on the same devices, so this checks that it is one.

        Raises:
            ValueError: if the variable was not made in this strategy's scope.
        """
        if not self.variable_created_in_scope(colocate_with_variable):
            raise ValueError(
                f"colocate_vars_with got {colocate_with_variable!r}, which was not made in the "
                f"scope of {self._strategy!r}. Make it inside `with strategy.scope():`."
            )
        yield

    def variable_created_in_scope(self, v: Any) -> bool:
        """Whether variable `v` belongs to this strategy."""
        return owner_of(v) is self._strategy

    def value_container(self, value: Any) -> Any:
        """The variable or `PerReplica` that holds `value`: itself, for both are one object here."""
        return value


def _require_cross_replica(name: str) -> None:
    if running_replica() is not None:
        raise RuntimeError(
            f"strategy.extended.{name} was called inside a replica's step, which sees one replica "
            f"only. Wrap it: `get_replica_context().merge_call(lambda strategy, v: "
            f"strategy.extended.{name}(...), args=(v,))`."
        )
