"""Reducing and gathering the values of all replicas, outside of their steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from drumline.data.elements.precision import require_fits
from drumline.distribute.collectives.collective_channels import allocate_channels, continued
from drumline.distribute.global_arrays import to_local_array
from drumline.distribute.replica import InProgram
from drumline.distribute.values import REPLICA_AXIS, PerReplica, ReduceOp

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def reduce_tree(strategy: Strategy, op: ReduceOp, tree: Any, axis: int | None) -> Any:
    """See `Strategy.reduce`."""
    return jax.tree.map(
        lambda node: _reduce(strategy, op, node, axis), tree, is_leaf=_is_per_replica
    )


def gather_tree(strategy: Strategy, tree: Any, axis: int) -> Any:
    """See `Strategy.gather`."""
    return jax.tree.map(lambda node: _gather(strategy, node, axis), tree, is_leaf=_is_per_replica)


def _is_per_replica(node: Any) -> bool:
    return isinstance(node, PerReplica)


def _reduce(strategy: Strategy, op: ReduceOp, node: Any, axis: int | None) -> Any:
    if isinstance(node, InProgram) and axis is None:
        return node.reduced(op)
    if isinstance(node, PerReplica):
        if axis is None and op in node.reductions:
            return to_local_array(node.reductions[op])
        if not node.is_stacked and axis is None:
            require_alike("reduce", node.values)
        traced = isinstance(node.stacked, jax.core.Tracer)
        if axis is None and strategy.spans_processes and traced and node.replicas is None:
            return _reduce_rows(strategy, op, node.stacked)
        return strategy._arrays.compute(reduce_values, (op, axis, _which(node)), _rows(node))
    if axis is not None:
        require_fits(node, f"strategy.reduce({op.name})", "reduce it with numpy")
        reduce = jnp.sum if op is ReduceOp.SUM else jnp.mean
        node = reduce(jnp.asarray(node), axis)
    if op is ReduceOp.SUM and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            f"strategy.reduce('SUM', ...) got a value that is not per replica: {node!r}. It takes "
            "what `strategy.run` returns; a value that all replicas share has no sum over them."
        )
    return node


def _reduce_rows(strategy: Strategy, op: ReduceOp, stacked: jax.Array) -> Any:
    """The rows reduced the way gradients are: the compiler would send them to all processes."""

    def reduced(rows: jax.Array) -> Any:
        with allocate_channels():
            return strategy.all_reduce(op, rows[0])

    cut, whole = PartitionSpec(REPLICA_AXIS), PartitionSpec()
    reduce_rows = jax.shard_map(
        reduced, mesh=strategy.mesh, in_specs=cut, out_specs=whole, check_vma=False
    )
    return continued(reduce_rows)(stacked)


def _rows(node: PerReplica) -> Any:
    return node.stacked if node.is_stacked else node.values


def _which(node: PerReplica) -> tuple[int, ...] | None:
    """Which of the stacked rows are of replicas that took part; None for all that there are."""
    return node.replicas if node.is_stacked else None


def _taken(rows: Any, which: tuple[int, ...] | None) -> list[Any]:
    return [rows[index] for index in (range(len(rows)) if which is None else which)]


def reduce_values(op: ReduceOp, axis: int | None, which: Any, rows: Any) -> Any:
    """The replicas' values reduced, of `rows` those that `which` numbers, as `Strategy.reduce`."""
    values = _taken(rows, which)
    if axis is None:
        require_alike("reduce", values)
        return total(values) if op is ReduceOp.SUM else total(values) / len(values)
    for value in values:
        _require_axis("reduce", value, axis)
    summed = [jnp.sum(value, axis) for value in values]
    require_alike("reduce", summed)
    if op is ReduceOp.SUM:
        return total(summed)
    return total(summed) / sum(value.shape[axis] for value in values)


def total(values: Sequence[Any]) -> Any:
    """The sum of arrays; of booleans how many are true."""
    counted = [
        jnp.asarray(value, jnp.int32)
        if jnp.issubdtype(jnp.result_type(value), jnp.bool_)
        else value
        for value in values
    ]
    return functools.reduce(jnp.add, counted)


def require_alike(name: str, values: Sequence[Any]) -> None:
    """Refuse to add arrays of different shapes, which would be broadcast.

    Raises:
        ValueError: if the shapes differ.
        TypeError: if a value is no number.
    """
    for value in values:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{name} got {value!r}, which is no number; it takes arrays.")
    shapes = [np.shape(value) for value in values]
    if len(set(shapes)) > 1:
        raise ValueError(
            f"{name} got values of different shapes from the replicas: {shapes}. Their shares of "
            "the batch differ in size: reduce each first (`jnp.sum(value)`), call "
            "`strategy.reduce(..., axis=0)` outside of the step, or gather them."
        )


def _gather(strategy: Strategy, node: Any, axis: int) -> Any:
    if not isinstance(node, PerReplica):
        require_fits(node, "strategy.gather", "it is there already")
        return strategy._arrays.compute(_gather_values, (axis, None), (jnp.asarray(node),))
    return strategy._arrays.compute(_gather_values, (axis, _which(node)), _rows(node))


def _gather_values(axis: int, which: tuple[int, ...] | None, rows: Sequence[Any]) -> Any:
    values = _taken(rows, which)
    for value in values:
        _require_axis("gather", value, axis)
    return jnp.concatenate(values, axis)


def _require_axis(name: str, value: Any, axis: int) -> None:
    if not -value.ndim <= axis < value.ndim:
        raise ValueError(
            f"strategy.{name}(axis={axis}) got values of shape {tuple(value.shape)}, which have no "
            "such axis. Pass axis=None to combine the replicas' values themselves, or add a "
            "dimension with `value[None]`."
        )
