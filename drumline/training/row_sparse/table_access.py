"""Where a program takes rows out of a table, and adds into the gradient of those rows.

`TableInterpreter` evaluates a step with tables of which only rows are there. A lookup is a gather
of whole rows for an array of ids, its gradient a scatter that adds whole rows; both are recognized
by their dimension numbers. Rows are each there once, or a row for each id. Any other use of a table
is refused with `WholeTableReadError`, which names the operation and the user's line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax import lax

from drumline.training import jax_internals
from drumline.training.row_sparse.interpreter import (
    RowsInterpreter,
    RowSparse,
    Uniform,
)

_SUMMED = (np.float32, np.float64)


class WholeTableReadError(ValueError):
    """A step needs more of a table than the rows it looks up.

    Attributes:
        key: the table's key.
        path: what its user calls it.
        primitive: the operation that needs it, as JAX names it.
        line: where the user wrote it.
    """

    def __init__(self, key: str, path: str, primitive: str, line: str) -> None:
        super().__init__(
            f"The table {path!r} is used by `{primitive}` at {line}, which needs all of its rows; "
            "only the rows that a step looks up are fetched, as in keras.layers.Embedding or "
            "keras.ops.take(table, ids, axis=0). Look rows up first and compute with those (an "
            "activity regularizer in the place of a regularizer of the table), or let the variable "
            "be no table."
        )
        self.key, self.path, self.primitive, self.line = key, path, primitive, line


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


def added_rows(updates: Any, where: slice, inside: Any, shape: tuple[int, ...]) -> Any:
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


Locate = Callable[[str, Any], Any]
"""Given a table's key and ids within its bounds, where those rows are among the known ones: places
of the shape of the ids, or a slice if there is a row for each id."""


class TableInterpreter(RowsInterpreter):
    """Evaluates a step with only some rows of its tables, gradients included.

    Args:
        tables: the tables' whole shapes by their keys.
        paths: what their users call them.
        counts: how many of their rows there are, padding included.
        locate: called once for each access, in the order of the program.
        known: gives for a table which of its rows are no padding; None if all of them.
        others: the shapes of variables that are no tables.
        by_id: the tables of which there is a row for each id.

    Attributes:
        not_by_id: after `evaluate`, the tables for which that would not do: it does where whole
            rows are looked up, and what is added to their gradient is used for nothing else.
    """

    def __init__(
        self,
        tables: Mapping[str, tuple[int, ...]],
        paths: Mapping[str, str],
        counts: Mapping[str, int],
        locate: Locate,
        known: Callable[[str], Any] | None = None,
        others: Collection[tuple[int, ...]] = (),
        by_id: Collection[str] = (),
    ) -> None:
        super().__init__(tables.values())
        self._by_id = frozenset(by_id)
        self._added_to: set[str] = set()
        self.not_by_id: set[str] = set()
        self._tables = tables
        self._paths = paths
        self._counts = counts
        self._locate = locate
        self._known = known
        self._others = frozenset(others)
        self._ordinary: dict[int, Any] = {}
        self._located: dict[tuple[int, str, int], tuple[Any, Any, Any]] = {}
        self._indexed: dict[int, str] = {}

    def refuse(self, eqn: Any, values: Sequence[Any]) -> NoReturn:
        key = next(value.group for value in values if isinstance(value, RowSparse))
        self._refuse(eqn, key)

    def without_padding(self, rows: RowSparse) -> RowSparse:
        if self._known is None or not rows.count:
            return dataclasses.replace(rows, has_padding=False)
        is_known = self._known(rows.group).reshape(-1, *[1] * (rows.value.ndim - 1))
        value = jnp.where(is_known, rows.value, rows.value[:1])
        return dataclasses.replace(rows, value=value, has_padding=False)

    def special(self, eqn: Any, values: Sequence[Any]) -> list[Any] | None:
        name = eqn.primitive.name
        if name not in ("copy", "copy_p"):
            self.not_by_id.update(
                v.group for v in values if isinstance(v, RowSparse) and v.is_added
            )
        if name == "gather" and isinstance(values[0], RowSparse):
            return [self._gather(eqn, values[0], values[1])]
        if name == "gather":
            self._ordinary[id(values[1])] = values[1]
        if name == "scatter-add" and _is_sum(values[0]):
            return self._scatter_add(eqn, values[0], values[1], values[2])
        return None

    def _gather(self, eqn: Any, rows: RowSparse, indices: Any) -> Any:
        numbers = eqn.params["dimension_numbers"]
        found = 0 in numbers.start_index_map and eqn.params["slice_sizes"][0] == 1
        if not found or 0 in numbers.operand_batching_dims or isinstance(indices, RowSparse):
            self._refuse(eqn, rows.group)
        if rows.group in self._by_id:
            return self._rows_by_id(eqn, rows, indices)
        if not takes_whole_rows(eqn):
            self.not_by_id.add(rows.group)
        position = numbers.start_index_map.index(0)
        local = self._local_indices(eqn, rows.group, indices, position, clamps=_clamps)
        return jax_internals.bind(
            eqn, [rows.value, local], indices_are_sorted=False, unique_indices=False
        )[0]

    def _scatter_add(
        self, eqn: Any, operand: RowSparse | Uniform, indices: Any, updates: Any
    ) -> list[Any] | None:
        numbers = eqn.params["dimension_numbers"]
        by_row = 0 in numbers.scatter_dims_to_operand_dims and 0 in numbers.inserted_window_dims
        key = operand.group if isinstance(operand, RowSparse) else self._table_of(operand, indices)
        if key is None or isinstance(indices, RowSparse):
            return None
        if not by_row or isinstance(updates, RowSparse):
            self._refuse(eqn, key)
        count = self._counts[key]
        if key in self._by_id:
            where, inside = self._found(eqn, key, indices, 0, _clips)
            value = added_rows(updates, where, inside, (count, *operand.shape[1:]))
            return [RowSparse(value, operand.shape, key, True, is_added=True)]
        first = isinstance(operand, Uniform) and key not in self._added_to
        self._added_to.add(key)
        if not (first and adds_whole_rows(eqn)):
            self.not_by_id.add(key)
        position = numbers.scatter_dims_to_operand_dims.index(0)
        local = self._local_indices(eqn, key, indices, position, clamps=_clips)
        base = operand.rows(count) if isinstance(operand, Uniform) else operand.value
        if isinstance(updates, Uniform):
            updates = updates.whole()
        added = jax_internals.bind(
            eqn, [base, local, updates], indices_are_sorted=False, unique_indices=False
        )
        return [RowSparse(added[0], operand.shape, key, True, is_added=True)]

    def _rows_by_id(self, eqn: Any, rows: RowSparse, indices: Any) -> Any:
        where, inside = self._found(eqn, rows.group, indices, 0, _clamps)
        return taken(eqn, rows.value, where, inside)

    def _table_of(self, operand: Uniform, indices: Any) -> str | None:
        """Whose gradient zeros are to be: the table of these indices, or the one of their shape."""
        key = self._indexed.get(id(indices))
        if key is not None and self._tables[key] == operand.shape:
            return key
        if id(indices) in self._ordinary or operand.shape in self._others:
            return None
        alike = [key for key, shape in self._tables.items() if shape == operand.shape]
        return alike[0] if len(alike) == 1 else None

    def _local_indices(
        self, eqn: Any, key: str, indices: Any, position: int, clamps: Callable[[Any], bool]
    ) -> Any:
        """The indices with the ids of rows replaced by where the rows are."""
        where, inside = self._found(eqn, key, indices, position, clamps)
        if isinstance(indices, Uniform):
            indices = indices.whole()
        if inside is not None:
            # An id out of bounds stays one, for the operation to fill or drop.
            where = jnp.where(inside, where, self._counts[key])
        width = indices.shape[-1]
        columns = [
            where if i == position else indices[..., i].astype("int32") for i in range(width)
        ]
        return jnp.stack(columns, -1)

    def _found(
        self, eqn: Any, key: str, indices: Any, position: int, clamps: Callable[[Any], bool]
    ) -> tuple[Any, Any]:
        """Where rows are, and which ids are within the table; None if the operation clamps them."""
        place = (id(indices), key, position)
        if place not in self._located:
            own = indices.whole() if isinstance(indices, Uniform) else indices
            ids, inside = _bounded(own[..., position], self._tables[key][0])
            self._located[place] = (indices, self._locate(key, ids), inside)
            self._indexed[id(indices)] = key
        _, where, inside = self._located[place]
        return where, None if clamps(_mode(eqn, self._refuse, key)) else inside

    def _refuse(self, eqn: Any, key: str) -> NoReturn:
        line = jax_internals.source_line(eqn)
        raise WholeTableReadError(key, self._paths[key], eqn.primitive.name, line)


def _is_sum(value: Any) -> bool:
    """Whether rows can be added into it: zeros, or rows of which all others are zero."""
    if isinstance(value, RowSparse):
        return value.zero_elsewhere
    return isinstance(value, Uniform) and value.is_zero


def _mode(eqn: Any, refuse: Callable[[Any, str], NoReturn], key: str) -> Any:
    mode = eqn.params["mode"]
    known = lax.GatherScatterMode
    if mode not in (known.CLIP, known.FILL_OR_DROP, known.PROMISE_IN_BOUNDS):
        refuse(eqn, key)
    return mode


def _clips(mode: Any) -> bool:
    return bool(mode == lax.GatherScatterMode.CLIP)


def _clamps(mode: Any) -> bool:
    """XLA's gather clamps what was promised to be in bounds; its scatter drops it."""
    return _clips(mode) or bool(mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _bounded(ids: Any, rows: int) -> tuple[Any, Any]:
    """The ids in [0, rows) as int32, and which of them were."""
    most = min(rows - 1, np.iinfo(ids.dtype).max)
    bounded = jnp.clip(ids, 0, most)
    return bounded.astype("int32"), bounded == ids
