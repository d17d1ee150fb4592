"""A step that runs on all replicas at once, as one program over the mesh.

`ReplicaProgram` has equal shares, and one trace for all replicas; `UnevenProgram` has shares of
different sizes, and traces the replicas sequentially.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from drumline.distribute.collectives import ReplicaAxis
from drumline.distribute.collectives.collective_channels import allocate_channels
from drumline.distribute.replica import ReplicaContext, SingleContext, enter_replica_context
from drumline.distribute.step.arguments import (
    called,
    per_replica_leaves,
    stack_if_alike,
    taking_part,
)
from drumline.distribute.step.compiled_step import CompiledStep, WholeProgram, as_held
from drumline.distribute.step.cut_rows import CutScope
from drumline.distribute.step.eager_replicas import run_replicas_sequentially
from drumline.distribute.step.outputs import joined, unwrap, wrap
from drumline.distribute.step.reduction import reduce_values
from drumline.distribute.step.replica_scope import ReplicaScope, has_copies
from drumline.distribute.values import REPLICA_AXIS, PerReplica, ReduceOp
from drumline.training.cut_values import is_cut, rows_shape
from drumline.training.keras_internals import Variable, get_stateless_scope
from drumline.training.outbox import Parcels, collecting
from drumline.training.state_scope import assign_values
from drumline.training.variable_buffer import VariableBuffer

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_WHOLE, _CUT = PartitionSpec(), PartitionSpec(REPLICA_AXIS)


class ReplicaProgram(CompiledStep):
    """The replicas' shares have equal shapes: `fn` is traced once and runs in ``shard_map``."""

    def rows_of(self, arrays: Sequence[Any]) -> int:
        if self.strategy.num_replicas_in_sync == 1:
            return super().rows_of(arrays)
        # The replicas' values are stacked.
        shape = next((array.shape for array in arrays if array.ndim > 1), (0,))
        return math.prod(shape[:2])

    def discover(self, arrays: Sequence[Any]) -> ReplicaScope:
        scopes: list[ReplicaScope] = []

        def trace(arrays: Sequence[Any]) -> Any:
            context = self._context()
            scopes.append(ReplicaScope(context, for_shapes=True))
            with collecting(of_replicas=not self._alone):
                return self._call(context, scopes[-1], arrays)

        body = self._on_replicas(trace, (self._array_specs(),), _CUT)
        jax.eval_shape(body, list(arrays))
        return scopes[-1]

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any, Parcels]:
        written_specs = _variable_specs(self.written)
        specs = (written_specs, _variable_specs(self.read), self._array_specs())
        body = self._on_replicas(self._step, specs, ((_CUT, _WHOLE), written_specs, _CUT))
        outputs: tuple[Any, Any, Parcels] = body(written, read, arrays)
        return outputs

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        return [
            array if cut else self._placed_whole(array)
            for array, cut in zip(arrays, self._cut, strict=True)
        ]

    def _placed_whole(self, array: Any) -> Any:
        spans = self.strategy.spans_processes
        if not spans and not isinstance(array, jax.Array):
            return array
        placed = self.strategy._arrays.place_replicated(array)
        return self.strategy._arrays.for_program(placed) if spans else placed

    def lowered(self, arrays: Sequence[Any]) -> jax.stages.Lowered:
        """The program for arguments as `arrays`, lowered for the replicas' devices; nothing runs.

        Variables are found as when it runs, and their shapes taken. So it serves devices that are
        not there, and arrays whose values do not matter.
        """
        self._compile(arrays)
        mesh, replicas = self.strategy.mesh, self.strategy.num_replicas_in_sync

        def shape_of(value: Any) -> tuple[int, ...]:
            if _is_cut(value):
                return rows_shape(value, replicas)
            return (replicas, *value.shape) if has_copies(value) else tuple(value.shape)

        def shapes(values: Sequence[Any], specs: Sequence[PartitionSpec]) -> list[Any]:
            return [
                jax.ShapeDtypeStruct(
                    shape_of(value),
                    value.dtype,
                    sharding=NamedSharding(mesh, spec),
                )
                for value, spec in zip(values, specs, strict=True)
            ]

        written, read = (
            shapes(group, _variable_specs(group)) for group in (self.written, self.read)
        )
        return self._programs.lowered(written, read, shapes(arrays, self._array_specs()))

    def finish(self, outputs: Any) -> Any:
        results, reduced = outputs
        if self._alone:
            return unwrap(results, _itself)
        of_results = iter(reduced)

        def held(rows: Any) -> PerReplica:
            reductions = dict(zip(ReduceOp, next(of_results), strict=False))
            return PerReplica.of_stacked(rows, reductions=reductions)

        return unwrap(results, held)

    @property
    def _alone(self) -> bool:
        return self.strategy.num_replicas_in_sync == 1

    def _context(self) -> ReplicaContext:
        return SingleContext(self.strategy) if self._alone else ReplicaContext(self.strategy)

    def _step(self, written: Any, read: Any, arrays: Any) -> Any:
        context = self._context()
        variables = [*self.written, *self.read]
        values = [
            value[0] if has_copies(variable) else value
            for variable, value in zip(variables, (*written, *read), strict=True)
        ]
        scope = ReplicaScope(context, variables, values, sealed=True)
        with allocate_channels(), collecting(of_replicas=not self._alone) as outbox:
            outputs = self._call(context, scope, arrays)
            with scope, enter_replica_context(context):
                merged = scope.merged(self.written)
            reduced = self._reduced(outputs)
        new = [
            value[None] if has_copies(variable) else value
            for variable, value in zip(self.written, merged, strict=True)
        ]
        return (outputs, reduced), new, outbox.parcels()

    def _reduced(self, outputs: Any) -> list[list[jax.Array]]:
        """By each `ReduceOp` the results that cost next to nothing to gather along with the step.

        A `Strategy.reduce` between processes then is no program and no collective of its own.
        Within another program there is nothing to save: what is reduced there is part of it.
        """
        results = jax.tree.leaves(outputs)
        if not self.strategy.spans_processes or get_stateless_scope() is not None:
            return [[] for _ in results]
        axis = ReplicaAxis(REPLICA_AXIS, self.strategy.replica_devices)
        gathered = self.strategy.cross_device_ops.gather_results([row[0] for row in results], axis)
        return [
            [] if rows is None else [reduce_values(op, None, None, rows) for op in ReduceOp]
            for rows in gathered
        ]

    def _call(self, context: ReplicaContext, scope: ReplicaScope, arrays: Sequence[Any]) -> Any:
        local = [array[0] if cut else array for array, cut in zip(arrays, self._cut, strict=True)]
        args, kwargs = _opened(self.form.arguments(local))
        with scope, enter_replica_context(context), self.strategy.scope():
            return wrap(called(self.fn, args, kwargs), _itself if self._alone else _as_row)

    @functools.cached_property
    def _cut(self) -> list[bool]:
        """For each array, whether it holds the replicas' values stacked."""
        flags = zip(per_replica_leaves(self.form.treedef), self.form.arrays, strict=True)
        return [cut for cut, is_array in flags if is_array]

    def _array_specs(self) -> list[PartitionSpec]:
        return [_CUT if cut else _WHOLE for cut in self._cut]

    def _on_replicas(
        self, body: Callable[..., Any], specs: tuple[Any, ...], out_specs: Any
    ) -> Callable[..., Any]:
        if self._alone:
            return body
        mesh = self.strategy.mesh
        mapped: Callable[..., Any] = jax.shard_map(
            body, mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=False
        )
        return mapped


def _variable_specs(variables: Sequence[Variable]) -> list[PartitionSpec]:
    return [_CUT if has_copies(variable) or is_cut(variable) else _WHOLE for variable in variables]


def _is_cut(value: Any) -> bool:
    return isinstance(value, Variable) and is_cut(value)


def _itself(leaf: Any) -> Any:
    return leaf


def _as_row(leaf: Any) -> Any:
    return leaf[None]


def _opened(tree: Any) -> Any:
    """`tree` with every `PerReplica` replaced by this replica's value, which it now holds."""
    return jax.tree.map(
        lambda node: node.stacked if isinstance(node, PerReplica) else node,
        tree,
        is_leaf=lambda node: isinstance(node, PerReplica),
    )


class UnevenProgram(WholeProgram):
    """The replicas' steps one after another in one program, which every device computes.

    No replica computes with padding, and the sums over the replicas are those of the shares as
    they are. Replicas without a row take no part: they contribute to no sum and no mean, and
    return nothing, but follow (`run_replicas_sequentially`). It is meant for the last batch of an
    epoch. Variables that are cut are joined for it: with several processes in each of them, which
    keeps its own rows afterwards.
    """

    is_one_because = "a batch does not split over the replicas"

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        known = arrays
        if self.strategy.spans_processes:
            known = list(map(self.strategy._arrays.known_everywhere, arrays))
        placed: list[Any] = self.strategy._arrays.place_everywhere(list(known))
        return placed

    def moving(self) -> Strategy | None:
        """None with several processes: each computes all of it, on its own devices."""
        return None if self.strategy.spans_processes else super().moving()

    def place_read(self, values: list[Any]) -> list[Any]:
        if not self.strategy.spans_processes:
            return super().place_read(values)
        return [self.strategy._arrays.known_everywhere(value) for value in values]

    def new_bank(self) -> VariableBuffer:
        if not self.strategy.spans_processes:
            return super().new_bank()
        strategy = self.strategy
        return VariableBuffer(
            self.written,
            enter=lambda variable, value: strategy._arrays.known_everywhere(value),
            leave=lambda variable, value: (
                strategy._arrays.place_copies(value)
                if has_copies(variable)
                else as_held(variable, value)
            ),
        )

    def execute(self, read: Any, arrays: Sequence[Any]) -> Any:
        outputs = super().execute(read, arrays)
        if self.strategy.spans_processes and any(map(is_cut, self.written)):
            assert self._bank is not None
            self._bank.end()  # each process keeps its own rows, and computed with all
        return outputs

    def left(self, scope: CutScope, variable: Variable) -> Any:
        """See `WholeProgram`; a program of this process's devices alone leaves all rows there."""
        if is_cut(variable) and self.strategy.spans_processes and scope.is_outermost:
            return scope.rows_of(variable)
        return super().left(scope, variable)

    def finish(self, outputs: _Results) -> Any:
        results = {n: unwrap(tree, _itself) for n, tree in outputs.results.items()}
        carried = {n: unwrap(tree, _itself) for n, tree in outputs.carried.items()}
        replicas = self.strategy.num_replicas_in_sync
        numbers = None if len(results) == replicas else tuple(results)
        together = joined("the results", list(results.values()), numbers, carried, outputs.unknown)
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(together))
        if self.strategy.spans_processes and not traced:
            return together
        return stack_if_alike(together, self.strategy._arrays.stack, replicas)

    def call(self, arrays: Sequence[Any]) -> Any:
        tree = self.form.arguments(arrays)
        present = taking_part(tree, self.strategy.num_replicas_in_sync)
        outcome = run_replicas_sequentially(self.strategy, self.fn, tree, present, eager=False)
        assign_values(outcome.variables, outcome.values)
        return _Results(
            {number: wrap(tree, _itself) for number, tree in outcome.results.items()},
            {number: wrap(tree, _itself) for number, tree in outcome.carried.items()},
            outcome.unknown,
        )


@jax.tree_util.register_pytree_node_class
@dataclass
class _Results:
    """What the replicas return, on its way out of the program: whose it is depends on the shapes
    that it was traced for.
    """

    results: dict[int, Any]
    carried: dict[int, Any]
    unknown: str

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        return (self.results, self.carried), self.unknown

    @classmethod
    def tree_unflatten(cls, unknown: str, children: Sequence[Any]) -> _Results:
        results, carried = children
        return cls(results, carried, unknown)
