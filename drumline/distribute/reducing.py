"""Reducing and gathering the values of all replicas, outside of their steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from drumline.distribute.merge_call import InProgram
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import ReduceOp

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
        return strategy.compute(_reduce_values, (op, axis), _rows(node))
    if axis is not None:
        reduce = jnp.sum if op is ReduceOp.SUM else jnp.mean
        node = reduce(jnp.asarray(node), axis)
    if op is ReduceOp.SUM and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            f"strategy.reduce('SUM', ...) got a value that is not per replica: {node!r}. It takes "
            "what `strategy.run` returns; a value that all replicas share has no sum over them."
        )
    return node


def _rows(node: PerReplica) -> Any:
    return node.values if node.stacked is None else node.stacked


def _reduce_values(op: ReduceOp, axis: int | None, rows: Any) -> Any:
    values = [rows[index] for index in range(len(rows))]
    if axis is None:
        total = functools.reduce(jnp.add, values)
        return total if op is ReduceOp.SUM else total / len(values)
    for value in values:
        _require_axis("reduce", value, axis)
    total = functools.reduce(jnp.add, [jnp.sum(value, axis) for value in values])
    if op is ReduceOp.SUM:
        return total
    return total / sum(value.shape[axis] for value in values)


def _gather(strategy: Strategy, node: Any, axis: int) -> Any:
    rows: Any = _rows(node) if isinstance(node, PerReplica) else (jnp.asarray(node),)
    return strategy.compute(_gather_values, (axis,), rows)


def _gather_values(axis: int, rows: Sequence[Any]) -> Any:
    values = [rows[index] for index in range(len(rows))]
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
