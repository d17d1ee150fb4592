"""Lookups in a table of which there is a row for each id, in the order of the ids."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from drumline.distribute.parameter_server.compiler.interpreter import Uniform

_SUMMED = (np.float32, np.float64)


def takes_whole_rows(eqn: Any) -> bool:
    """Whether a gather gives, for an array of ids, an array of as many rows."""
    operand, indices = (each.aval for each in eqn.invars)
    numbers = eqn.params["dimension_numbers"]
    whole = (1, *operand.shape[1:])
    return (
        _is_by_id(indices, numbers.offset_dims, numbers.collapsed_slice_dims, operand)
        and tuple(eqn.params["slice_sizes"]) == whole
        and bool(jnp.issubdtype(operand.dtype, jnp.floating))
    )


def adds_whole_rows(eqn: Any) -> bool:
    """Whether a scatter adds, for an array of ids, an array of as many rows."""
    operand, indices, updates = (each.aval for each in eqn.invars)
    numbers = eqn.params["dimension_numbers"]
    return (
        _is_by_id(indices, numbers.update_window_dims, numbers.inserted_window_dims, operand)
        and updates.shape == (*indices.shape[:-1], *operand.shape[1:])
        and operand.dtype in _SUMMED
    )


def taken(eqn: Any, rows: Any, where: slice, inside: Any) -> Any:
    """What a gather gives.

    Args:
        eqn: the gather.
        rows: all of the table's.
        where: those of its ids.
        inside: which ids are in the table, or None for all.
    """
    shape = eqn.outvars[0].aval.shape
    found = jnp.reshape(rows[where], shape)
    if inside is None:
        return found
    fill = np.nan if eqn.params["fill_value"] is None else eqn.params["fill_value"]
    return jnp.where(_over_rows(inside, found), found, jnp.asarray(fill, found.dtype))


def added(updates: Any, where: slice, inside: Any, shape: tuple[int, ...]) -> Any:
    """What a scatter adds: a row for each of the table's ids.

    Args:
        updates: what it adds for each of its ids.
        where: which of the table's ids they are.
        inside: which of them are in the table, or None for all.
        shape: of a row for each of the table's ids.
    """
    if isinstance(updates, Uniform):
        updates = updates.whole()
    if inside is not None:
        updates = jnp.where(_over_rows(inside, updates), updates, jnp.zeros((), updates.dtype))
    rows = updates.reshape(where.stop - where.start, *shape[1:])
    others = [(where.start, shape[0] - where.stop, 0)] + [(0, 0, 0)] * (rows.ndim - 1)
    return lax.pad(rows, jnp.zeros((), rows.dtype), others)


def _is_by_id(indices: Any, row_axes: Any, id_axes: Any, operand: Any) -> bool:
    batch = len(indices.shape) - 1
    behind = tuple(range(batch, batch + len(operand.shape) - 1))
    return indices.shape[-1] == 1 and tuple(row_axes) == behind and tuple(id_axes) == (0,)


def _over_rows(inside: Any, rows: Any) -> Any:
    return inside.reshape(inside.shape + (1,) * (rows.ndim - inside.ndim))
