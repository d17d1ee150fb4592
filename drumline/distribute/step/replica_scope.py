"""Variables as one replica's step reads and writes them, and the check that replicas agree."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drumline.distribute.replica import ReplicaContext, in_program_merge, merge_written
from drumline.distribute.step.cut_rows import gather_rows, own_row, stand_in
from drumline.distribute.variable import Variable
from drumline.training.cut_values import is_cut
from drumline.training.jax_internals import under
from drumline.training.keras_internals import Variable as KerasVariable
from drumline.training.state_scope import StateScope, current_values


class ReplicaScope(StateScope):
    """A `StateScope` for the step of one replica.

    What is written alike on all of them is kept as it is. Anything else a Keras variable holds at
    the end is merged, as its aggregation says. A Keras variable that is summed when read (the
    state of metrics) counts from zero on all replicas but the first, so that the sum at the end is
    what one device would have counted.

    Args:
        context: the replica.
        variables: the variables whose values are given.
        values: their values; for a variable with copies, this replica's.
        sealed: raise `NewVariables` on the use of any other variable.
        for_shapes: whether values do not matter: those of variables that are cut, and were not
            given, are not brought together.

    What is given of a variable that is cut is this replica's row. It is read as the whole value,
    which is gathered, and what it holds at the end is a row.
    """

    def __init__(
        self,
        context: ReplicaContext,
        variables: Sequence[KerasVariable] = (),
        values: Sequence[Any] = (),
        *,
        sealed: bool = False,
        for_shapes: bool = False,
    ) -> None:
        super().__init__(variables, values, sealed=sealed)
        self._context = context
        self._for_shapes = for_shapes
        self._agreed: set[int] = set()
        self._rows: dict[int, jax.Array] = {}
        self._gather_given(variables)
        self._given = dict(self.state_mapping)
        for variable in variables:
            if summed_when_read(variable):
                value = self.state_mapping[id(variable)]
                self.state_mapping[id(variable)] = self._counting_from(value)

    def _gather_given(self, variables: Sequence[KerasVariable]) -> None:
        given = [variable for variable in variables if is_cut(variable)]
        self._rows = {id(variable): self.state_mapping[id(variable)] for variable in given}
        weights = [variable for variable in given if variable.trainable]
        for together in (weights, *([each] for each in given if not each.trainable)):
            rows = [self._rows[id(variable)] for variable in together]
            shapes = [tuple(variable.shape) for variable in together]
            whole = gather_rows(rows, shapes, self._context.strategy)
            self.state_mapping.update(zip(map(id, together), whole, strict=True))

    def row_of(self, variable: KerasVariable) -> jax.Array:
        """This replica's row of what `variable` holds now, which is the same on all replicas."""
        row = self._rows.get(id(variable))
        if row is None:
            row = own_row(self.value_of(variable), self._context.num_replicas_in_sync)
        return row

    def put_row(self, variable: KerasVariable, row: jax.Array) -> None:
        """Let `variable`, which is cut, hold what this replica has `row` of."""
        (whole,) = gather_rows([row], [tuple(variable.shape)], self._context.strategy)
        self.add_update((variable, whole))
        self._rows[id(variable)] = row

    def get_current_value(self, variable: KerasVariable) -> Any:
        value = self._own_value(variable)
        if in_program_merge() is None or not summed_when_read(variable):
            return value
        return self._context.all_reduce("SUM", value)

    def _own_value(self, variable: KerasVariable) -> Any:
        if self._for_shapes and is_cut(variable) and id(variable) not in self.state_mapping:
            self._discover(variable)
            with under(self._trace):
                self.state_mapping[id(variable)] = stand_in(variable)
        value = super().get_current_value(variable)
        if id(variable) in self.state_mapping:
            return value
        if has_copies(variable):
            copies = self._context.strategy._arrays.known_everywhere(value)
            return copies[self._context.replica_id_in_sync_group]
        return self._counting_from(value) if summed_when_read(variable) else value

    def _counting_from(self, value: Any) -> Any:
        first = self._context.replica_id_in_sync_group == 0
        return jnp.where(first, value, jnp.zeros_like(value))

    def add_update(self, update: tuple[KerasVariable, Any]) -> None:
        variable, value = update
        self._rows.pop(id(variable), None)
        if self._context.agreed and summed_when_read(variable):
            super().add_update((variable, self._counting_from(value)))
            return
        if self._context.agreed or _reduced_when_written(variable):
            self._agreed.add(id(variable))
        else:
            self._agreed.discard(id(variable))
        super().add_update(update)

    def is_alike(self, variable: KerasVariable) -> bool:
        """Whether all replicas hold the same value of `variable` now."""
        written = id(variable) in self._written and id(variable) not in self._agreed
        return not (written or has_copies(variable) or summed_when_read(variable))

    def merged(self, variables: Sequence[KerasVariable]) -> list[Any]:
        """What `variables`, which the step writes, hold after it.

        One value for all replicas, or this replica's if the variable has copies, or its row of one
        that is cut.
        """
        parts = [variable for variable in variables if self._holds_a_part(variable)]
        totals = dict(zip(map(id, parts), self._total(parts), strict=True))
        rest = [variable for variable in variables if id(variable) not in totals]
        merged = totals | dict(zip(map(id, rest), self._merge(rest), strict=True))
        return [self._row_or_whole(variable, merged[id(variable)]) for variable in variables]

    def _total(self, parts: Sequence[KerasVariable]) -> Sequence[Any]:
        values = [self.value_of(part) for part in parts]
        totals: Sequence[Any] = self._context.all_reduce("SUM", values) if parts else values
        return totals

    def _holds_a_part(self, variable: KerasVariable) -> bool:
        settled = has_copies(variable) or id(variable) in self._agreed
        return summed_when_read(variable) and not settled

    def _row_or_whole(self, variable: KerasVariable, merged: Any) -> Any:
        if not (is_cut(variable) and self._context.traced_once):
            return merged
        row = self._rows.get(id(variable))
        return own_row(merged, self._context.num_replicas_in_sync) if row is None else row

    def _merge(self, variables: Sequence[KerasVariable]) -> list[Any]:
        merged = {id(variable): self.value_of(variable) for variable in variables}
        differing = [
            variable
            for variable in variables
            if not (has_copies(variable) or id(variable) in self._agreed)
        ]
        written = []
        for variable in differing:
            old = self._given.get(id(variable))
            if old is None:
                old = self.value_before(variable)
            written.append((variable.aggregation, old, merged[id(variable)]))
        merged |= zip(map(id, differing), merge_written(self._context, written), strict=True)
        return [merged[id(variable)] for variable in variables]


def has_copies(variable: KerasVariable) -> bool:
    """Whether each replica has a value of its own."""
    return isinstance(variable, Variable) and variable.has_copies


def _reduced_when_written(variable: KerasVariable) -> bool:
    return isinstance(variable, Variable) and not variable.has_copies


def summed_when_read(variable: KerasVariable) -> bool:
    """Whether it is a Keras variable of which each replica counts a part, as a metric's."""
    return (
        not isinstance(variable, Variable)
        and variable.synchronization == "on_read"
        and variable.aggregation == "sum"
    )


def require_agreement(context: ReplicaContext, variable: KerasVariable) -> None:
    """Refuse a variable that now differs between the replicas.

    The values are compared in the compiled step, and only a difference calls back to Python.

    Raises:
        RuntimeError: if it differs and the step is no compiled one.
    """
    if context.num_replicas_in_sync == 1 or has_copies(variable) or summed_when_read(variable):
        return
    (value,) = current_values([variable])
    copies = context.all_gather(value[None])
    differs = jnp.any((copies != copies[:1]) & ~((copies != copies) & (copies[:1] != copies[:1])))
    refuse = functools.partial(_refuse, variable.path)
    if not isinstance(differs, jax.core.Tracer):
        if bool(differs):
            refuse()
        return
    jax.lax.cond(differs, lambda: jax.debug.callback(refuse), lambda: None)


def _refuse(path: str, *_: Any) -> None:
    raise RuntimeError(
        f"ReplicaContext.update wrote different values to {path!r} on different replicas. Give it "
        "the same on all: reduce first, with `get_replica_context().all_reduce('SUM', value)`."
    )
