"""Values that are cut over the replicas, in a step.

That of one replica has a row of each. Small arrays of a dtype travel as one, and what is gathered
and not used the compiler leaves out. A program that is seen from outside of the replicas has all
rows (`CutScope`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from drumline.distribute.collectives.cross_device_ops import Packing, ReplicaAxis
from drumline.distribute.values import REPLICA_AXIS
from drumline.distribute.variable import strategy_of_variable
from drumline.training.cut_values import cut, is_cut, reading_rows, row_length, uncut
from drumline.training.jax_internals import current_trace, is_staged, under
from drumline.training.keras_internals import Variable, get_stateless_scope
from drumline.training.state_scope import StateScope, assign_values, current_values

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


class CutScope(StateScope):
    """A `StateScope` of a program on all replicas, which has the rows of what is cut.

    What is given of a variable that is cut are its rows, ``(replicas, length)``. It is read as the
    whole value, which is joined at the first read, and gives rows at the end.

    Args:
        variables: the variables whose values are given.
        values: their values, or rows.
        sealed: see `StateScope`.
        symbol_of: see `StateScope`; for a variable that is cut it is given the rows.
        for_shapes: whether values do not matter: those of variables that are cut, and were not
            given, are not brought together.
    """

    def __init__(
        self,
        variables: Sequence[Variable] = (),
        values: Sequence[Any] = (),
        *,
        sealed: bool = False,
        symbol_of: Callable[[Any, Any], Any] | None = None,
        for_shapes: bool = False,
    ) -> None:
        super().__init__(variables, values, sealed=sealed, symbol_of=symbol_of)
        self._for_shapes = for_shapes
        given = [id(variable) for variable in variables if is_cut(variable)]
        self._rows: dict[int, Any] = {number: self.state_mapping.pop(number) for number in given}

    @property
    def is_outermost(self) -> bool:
        """Whether no other scope is around it."""
        return self._outer is None

    def rows_of(self, variable: Variable) -> Any:
        """The rows of what `variable`, which is cut, holds now."""
        if not self._holds(variable):
            self._find(variable)
        rows = self._rows.get(id(variable))
        if rows is None:
            return cut(self.value_of(variable), owner_of_cut(variable).num_replicas_in_sync)
        return rows

    def put_rows(self, variable: Variable, rows: Any) -> None:
        """Let `variable`, which is cut, hold what these are the rows of."""
        self.add_update((variable, None))
        self._rows[id(variable)] = rows

    def get_current_value(self, variable: Variable) -> Any:
        at_once = self._symbol_of is not None and not is_staged(current_trace())
        if is_cut(variable) and (id(variable) in self._written or not at_once):
            if not self._holds(variable):
                self._find(variable)
            if self.state_mapping.get(id(variable)) is None:
                with under(self._trace):
                    whole = uncut(self._rows[id(variable)], tuple(variable.shape))
                self.state_mapping[id(variable)] = whole
        return super().get_current_value(variable)

    def add_update(self, update: tuple[Variable, Any]) -> None:
        self._rows.pop(id(update[0]), None)
        super().add_update(update)

    def _holds(self, variable: Variable) -> bool:
        return id(variable) in self._rows or self.state_mapping.get(id(variable)) is not None

    def _find(self, variable: Variable) -> None:
        """Note a variable that was not given, and what it holds."""
        self._discover(variable)
        with reading_rows():
            rows = None if self._for_shapes else variable._value
        if rows is None:
            self.needs_values = True
            with under(self._trace):
                self.state_mapping[id(variable)] = stand_in(variable)
            return
        if self._symbol_of is not None:
            rows = self._symbol_for(variable, rows)
            self.state_mapping.pop(id(variable), None)
        self._rows[id(variable)] = rows


def owner_of_cut(variable: Variable) -> Strategy:
    """The strategy over whose replicas `variable` is cut."""
    strategy = strategy_of_variable(variable)
    assert strategy is not None, "what is cut belongs to a strategy"
    return strategy


def values_taken(variables: Sequence[Variable]) -> list[Any]:
    """What a step is given of `variables`, in the enclosing scope if there is one.

    The raw arrays, and the rows of what is cut.
    """
    scope = get_stateless_scope()
    if not isinstance(scope, CutScope):
        with reading_rows():
            return current_values(variables)
    values = iter(current_values([each for each in variables if not is_cut(each)]))
    return [scope.rows_of(each) if is_cut(each) else next(values) for each in variables]


def give_back(variables: Sequence[Variable], values: Sequence[Any]) -> None:
    """Let `variables` hold what a step within a scope has left, of those that are cut rows."""
    scope = get_stateless_scope()
    pairs = list(zip(variables, values, strict=True))
    if isinstance(scope, CutScope):
        for variable, rows in pairs:
            if is_cut(variable):
                scope.put_rows(variable, rows)
        pairs = [(variable, value) for variable, value in pairs if not is_cut(variable)]
    assign_values([variable for variable, _ in pairs], [value for _, value in pairs])
