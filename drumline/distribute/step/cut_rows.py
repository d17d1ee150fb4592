"""Values that are cut over the replicas, in the step of one replica, which has a row of each.

Small arrays of a dtype travel as one. What is gathered and not used the compiler leaves out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drumline.distribute.collectives.cross_device_ops import Packing
from drumline.distribute.values import REPLICA_AXIS
from drumline.training.cut_values import cut, row_length, uncut

_PACKING = Packing()


def gather_rows(rows: Sequence[jax.Array], shapes: Sequence[tuple[int, ...]]) -> list[jax.Array]:
    """Return the whole values of `shapes`, of which `rows` are this replica's, ``(1, length)``."""
    whole: dict[int, jax.Array] = {}
    for group in _PACKING.groups(rows):
        row = jnp.concatenate([rows[position] for position in group], axis=1)
        pack = jax.lax.all_gather(row, REPLICA_AXIS, tiled=True)
        lengths = [rows[position].shape[1] for position in group]
        for position, columns in zip(group, _columns(pack, lengths), strict=True):
            whole[position] = uncut(columns, shapes[position])
    return [whole[position] for position in range(len(rows))]


def scattered(values: Sequence[jax.Array], replicas: int) -> list[jax.Array]:
    """Return this replica's rows, ``(1, length)``, of the sums of `values` over the replicas."""
    sums: dict[int, jax.Array] = {}
    for group in _PACKING.groups(values):
        rows = jnp.concatenate([cut(values[position], replicas) for position in group], axis=1)
        row = jax.lax.psum_scatter(rows, REPLICA_AXIS, scatter_dimension=0, tiled=True)
        lengths = [row_length(values[position].size, replicas) for position in group]
        sums.update(zip(group, _columns(row, lengths), strict=True))
    return [sums[position] for position in range(len(values))]


def own_row(value: jax.Array, replicas: int) -> jax.Array:
    """Return this replica's row, ``(1, length)``, of `value`, which all replicas have."""
    index = jax.lax.axis_index(REPLICA_AXIS)
    return jax.lax.dynamic_slice_in_dim(cut(jnp.asarray(value), replicas), index, 1)


def _columns(rows: jax.Array, lengths: Sequence[int]) -> list[jax.Array]:
    ends = [0, *itertools.accumulate(lengths)]
    return [
        jax.lax.slice_in_dim(rows, start, end, axis=1) for start, end in itertools.pairwise(ends)
    ]


def stand_in(variable: Any) -> jax.Array:
    """Return something of the shape and dtype of the value of `variable`."""
    return jnp.zeros(tuple(variable.shape), variable.dtype)
