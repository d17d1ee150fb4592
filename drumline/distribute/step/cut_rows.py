"""Values that are cut over the replicas, in the step of one replica, which has a row of each.

Small arrays of a dtype travel as one. What is gathered and not used the compiler leaves out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from drumline.distribute.collectives.cross_device_ops import Packing, ReplicaAxis
from drumline.distribute.values import REPLICA_AXIS
from drumline.training.cut_values import cut, row_length, uncut

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def gather_rows(
    rows: Sequence[jax.Array],
    shapes: Sequence[tuple[int, ...]],
    strategy: Strategy,
    *,
    bytes_per_pack: int = 0,
) -> list[jax.Array]:
    """Return the whole values of which this replica has rows; the gradient is `scattered`.

    Args:
        rows: this replica's, each ``(1, length)``.
        shapes: of the values.
        strategy: whose replica it is.
        bytes_per_pack: the most bytes of small rows that travel as one; 0 for no limit.
    """
    whole: dict[int, jax.Array] = {}
    for group in Packing(bytes_per_pack=bytes_per_pack).groups(rows):
        row = jnp.concatenate([rows[position] for position in group], axis=1)
        pack = strategy.cross_device_ops.gather_scattered(row, _axis_of(strategy))
        lengths = [rows[position].shape[1] for position in group]
        for position, own in zip(group, columns(pack, lengths), strict=True):
            whole[position] = uncut(own, shapes[position])
    return [whole[position] for position in range(len(rows))]


def scattered(values: Sequence[jax.Array], strategy: Strategy) -> list[jax.Array]:
    """Return this replica's rows, ``(1, length)``, of the sums of `values` over the replicas."""
    replicas = strategy.num_replicas_in_sync
    sums: dict[int, jax.Array] = {}
    for group in Packing().groups(values):
        rows = jnp.concatenate([cut(values[position], replicas) for position in group], axis=1)
        row = strategy.cross_device_ops.sum_scatter(rows, _axis_of(strategy))
        lengths = [row_length(values[position].size, replicas) for position in group]
        sums.update(zip(group, columns(row, lengths), strict=True))
    return [sums[position] for position in range(len(values))]


def _axis_of(strategy: Strategy) -> ReplicaAxis:
    return ReplicaAxis(REPLICA_AXIS, strategy.replica_devices)


def columns(rows: jax.Array, lengths: Sequence[int]) -> list[jax.Array]:
    """Return the arrays of these lengths that lie beside one another in `rows`."""
    ends = [0, *itertools.accumulate(lengths)]
    return [
        jax.lax.slice_in_dim(rows, start, end, axis=1) for start, end in itertools.pairwise(ends)
    ]


def own_row(value: jax.Array, replicas: int) -> jax.Array:
    """Return this replica's row, ``(1, length)``, of `value`, which all replicas have."""
    index = jax.lax.axis_index(REPLICA_AXIS)
    return jax.lax.dynamic_slice_in_dim(cut(jnp.asarray(value), replicas), index, 1)


def stand_in(variable: Any) -> jax.Array:
    """Return something of the shape and dtype of the value of `variable`."""
    return jnp.zeros(tuple(variable.shape), variable.dtype)
