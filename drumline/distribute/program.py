"""A step that runs on all replicas at once, as one program over the mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from drumline.distribute import replica_context
from drumline.distribute.arguments import called, per_replica_leaves
from drumline.distribute.collectives.collective_channels import allocate_channels
from drumline.distribute.compiled_step import CompiledStep
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import REPLICA_AXIS
from drumline.distribute.replica_context import ReplicaContext, SingleContext
from drumline.distribute.replica_scope import ReplicaScope, has_copies
from drumline.distribute.step_outputs import unwrap, wrap
from drumline.training.keras_internals import Variable

_WHOLE, _CUT = PartitionSpec(), PartitionSpec(REPLICA_AXIS)


class ReplicaProgram(CompiledStep):
    """The replicas' shares have equal shapes: `fn` is traced once and runs in ``shard_map``."""

    def discover(self, arrays: Sequence[Any]) -> ReplicaScope:
        scopes: list[ReplicaScope] = []

        def trace(arrays: Sequence[Any]) -> Any:
            context = self._context()
            scopes.append(ReplicaScope(context))
            return self._call(context, scopes[-1], arrays)

        body = self._on_replicas(trace, (self._array_specs(),), _CUT)
        jax.eval_shape(body, list(arrays))
        return scopes[-1]

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any]:
        written_specs = _variable_specs(self.written)
        specs = (written_specs, _variable_specs(self.read), self._array_specs())
        outputs: tuple[Any, Any] = self._on_replicas(self._step, specs, (_CUT, written_specs))(
            written, read, arrays
        )
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
        placed = self.strategy._arrays.place_variable(array)
        return self.strategy._arrays.for_program(placed) if spans else placed

    def finish(self, outputs: Any) -> Any:
        return unwrap(outputs, _itself if self._alone else PerReplica.of_stacked)

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
        with allocate_channels():
            outputs = self._call(context, scope, arrays)
            with scope, replica_context.enter(context):
                merged = scope.merged(self.written)
        new = [
            value[None] if has_copies(variable) else value
            for variable, value in zip(self.written, merged, strict=True)
        ]
        return outputs, new

    def _call(self, context: ReplicaContext, scope: ReplicaScope, arrays: Sequence[Any]) -> Any:
        local = [array[0] if cut else array for array, cut in zip(arrays, self._cut, strict=True)]
        args, kwargs = _opened(self.form.arguments(local))
        with scope, replica_context.enter(context), self.strategy.scope():
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
    return [_CUT if has_copies(variable) else _WHOLE for variable in variables]


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
