"""The optimizer's update where its slots are cut over the replicas.

Each replica sums its row of the gradients (reduce-scatter). The optimizer then runs once, in the
view of all devices, outside of the replicas' program: on rows, if what it computes is the same
element by element, so that each device updates its own; else on whole variables, which XLA brings
together for the time of the update. So norms over a variable, its rows and columns, and products of
matrices are right for each optimizer without any knowledge of it.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
from jax.extend import core
from jax.sharding import NamedSharding, PartitionSpec

from drumline.distribute import Strategy
from drumline.distribute.collectives.cross_device_ops import Packing
from drumline.distribute.replica import whole_batch
from drumline.distribute.strategy import REPLICA_AXIS
from drumline.keras.internals import shadowed
from drumline.training.cut_values import cut, is_cut, row_length, rows_shape, uncut

_PACKING = Packing()


def row_specs(variables: Sequence[keras.Variable]) -> list[PartitionSpec]:
    """How the values of `variables` are cut over the replicas in a step's state."""
    return [PartitionSpec(REPLICA_AXIS) if is_cut(v) else PartitionSpec() for v in variables]


def whole_values(variables: Sequence[keras.Variable], values: Sequence[Any]) -> list[Any]:
    """Traced in the view of all devices: the values, those of variables that are cut joined."""
    if not any(map(is_cut, variables)):
        return list(values)
    return [
        uncut(value, tuple(variable.shape)) if is_cut(variable) else value
        for variable, value in zip(variables, values, strict=True)
    ]


def as_kept(variables: Sequence[keras.Variable], values: Sequence[Any], replicas: int) -> list[Any]:
    """Undo `whole_values`."""
    if not any(map(is_cut, variables)):
        return list(values)
    return [
        cut(value, replicas) if is_cut(variable) else value
        for variable, value in zip(variables, values, strict=True)
    ]


def whole_on_replica(variables: Sequence[keras.Variable], values: Sequence[Any]) -> list[Any]:
    """Traced on a replica: the values, the others' rows gathered.

    The compiler leaves out what is not used, as a rule all of it.
    """
    return [
        uncut(jax.lax.all_gather(value, REPLICA_AXIS, tiled=True), tuple(variable.shape))
        if is_cut(variable)
        else value
        for variable, value in zip(variables, values, strict=True)
    ]


@contextlib.contextmanager
def scattered_gradients(
    model: keras.Model, found: list[jax.Array], replicas: int
) -> Iterator[None]:
    """Within the block the optimizer updates nothing; `found` becomes this replica's gradients.

    That is its row of the mean over the replicas for each trainable variable, ``(1, length)``.
    """

    def stateless_apply(
        optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        found[:] = _scattered([jnp.asarray(grad) for grad in grads], replicas)
        return trainable_variables, optimizer_variables

    with shadowed(model.optimizer, "stateless_apply", stateless_apply):
        yield


def _scattered(grads: Sequence[jax.Array], replicas: int) -> list[jax.Array]:
    """This replica's row of each mean; small arrays of a dtype travel as one."""
    means: dict[int, jax.Array] = {}
    for group in _PACKING.groups(grads):
        rows = jnp.concatenate([cut(grads[position], replicas) for position in group], axis=1)
        row = jax.lax.psum_scatter(rows, REPLICA_AXIS, scatter_dimension=0, tiled=True)
        sums = _columns(row, [grads[position].size for position in group], replicas)
        # Divided last, as where nothing is cut: XLA joins the divisor with a learning rate.
        means.update((p, total / replicas) for p, total in zip(group, sums, strict=True))
    return [means[position] for position in range(len(grads))]


def _columns(rows: jax.Array, sizes: Sequence[int], replicas: int) -> list[jax.Array]:
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + row_length(size, replicas))
    return [
        jax.lax.slice_in_dim(rows, start, end, axis=1) for start, end in itertools.pairwise(ends)
    ]


class ShardedUpdate:
    """The update of a model's trainable variables, its slots cut over the replicas.

    Args:
        model: the model, whose optimizer is built.
        strategy: its strategy.
    """

    def __init__(self, model: keras.Model, strategy: Strategy) -> None:
        self._optimizer = model.optimizer
        self._trainables = list(model.optimizer._trainable_variables)
        self._slots = list(model.optimizer.variables)
        self._strategy = strategy
        self._replicas = strategy.num_replicas_in_sync

    def __call__(
        self, slots: Sequence[Any], grads: Sequence[Any], trainables: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Traced in the view of all devices: what ``optimizer.stateless_apply`` does.

        Args:
            slots: the optimizer's values, those of variables that are cut in rows.
            grads: the mean gradients, in rows ``(replicas, length)``.
            trainables: the trainable variables' values, whole on each device.

        Returns:
            The new values of the trainable variables, whole, and of the optimizer, as they came.
        """
        if len(trainables) == len(self._trainables) and self.is_by_element():
            return self._on_rows(slots, grads, trainables)
        whole = [uncut(g, tuple(v.shape)) for g, v in zip(grads, self._trainables, strict=True)]
        new, slots = self._apply(whole_values(self._slots, slots), whole, trainables)
        return list(new), as_kept(self._slots, slots, self._replicas)

    def _on_rows(
        self, slots: Sequence[Any], grads: Sequence[Any], trainables: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        by_rows = self._strategy.batch_sharding
        rows = [
            jax.lax.with_sharding_constraint(cut(value, self._replicas), by_rows)
            for value in trainables
        ]
        with _in_rows([*self._trainables, *filter(is_cut, self._slots)], self._replicas):
            new, slots = self._apply(slots, grads, rows)
        return self._gathered(new), list(slots)

    def _gathered(self, rows: Sequence[jax.Array]) -> list[jax.Array]:
        """The values whole on each device; small ones of a dtype travel as one."""
        copies = NamedSharding(self._strategy.mesh, PartitionSpec())
        whole: dict[int, jax.Array] = {}
        for group in _PACKING.groups(rows):
            members = [self._trainables[position] for position in group]
            pack = jnp.concatenate([rows[position] for position in group], axis=1)
            pack = jax.lax.with_sharding_constraint(pack, copies)
            sizes = [math.prod(variable.shape) for variable in members]
            for position, variable, columns in zip(
                group, members, _columns(pack, sizes, self._replicas), strict=True
            ):
                whole[position] = uncut(columns, tuple(variable.shape))
        return [whole[position] for position in range(len(rows))]

    def _apply(self, slots: Sequence[Any], grads: Sequence[Any], values: Sequence[Any]) -> Any:
        with whole_batch(self._strategy):
            return self._optimizer.stateless_apply(list(slots), list(grads), list(values))

    def is_by_element(self) -> bool:
        """Whether each element of an update depends on the same element of its inputs alone.

        And on numbers that belong to no variable, such as the step or the learning rate. It has to
        be the same program for the shapes of rows: an optimizer may treat matrices in a way of
        their own, or compute with a variable's sizes.
        """
        values = [_shape_of(variable, variable.shape) for variable in self._trainables]
        slots = [_shape_of(variable, variable.shape) for variable in self._slots]
        whole = jax.make_jaxpr(self._apply)(slots, values, values).jaxpr
        if not _is_by_element(whole):
            return False
        variables = [*self._trainables, *filter(is_cut, self._slots)]
        with _in_rows(variables, self._replicas):
            values = [_shape_of(variable, variable.shape) for variable in self._trainables]
            slots = [_shape_of(variable, variable.shape) for variable in self._slots]
            try:
                of_rows = jax.make_jaxpr(self._apply)(slots, values, values).jaxpr
            except Exception:  # it takes its variables' shapes for granted
                return False
        return _is_by_element(of_rows) and list(_text(whole)) == list(_text(of_rows))


def _shape_of(variable: keras.Variable, shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(shape), keras.backend.standardize_dtype(variable.dtype))


@contextlib.contextmanager
def _in_rows(variables: Sequence[Any], replicas: int) -> Iterator[None]:
    """Within the block `variables` have the shapes of their rows, ``(replicas, length)``."""
    before = [(variable._shape, variable._ndim) for variable in variables]
    try:
        for variable in variables:
            variable._shape, variable._ndim = rows_shape(variable, replicas), 2
        yield
    finally:
        for variable, (shape, ndim) in zip(variables, before, strict=True):
            variable._shape, variable._ndim = shape, ndim


# fmt: off
_BY_ELEMENT = frozenset({
    "abs", "add", "add_any", "and", "ceil", "clamp", "convert_element_type", "copy", "copy_p",
    "cos", "div", "eq", "erf", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow",
    "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not",
    "or", "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sqrt", "square",
    "stop_gradient", "sub", "tanh", "xor",
})
# fmt: on
_OF_PROGRAMS = frozenset(
    ("pjit", "jit", "cond", "custom_jvp_call", "custom_vjp_call", "closed_call")
)


def _is_by_element(jaxpr: core.Jaxpr) -> bool:
    return all(map(_is_eqn_by_element, jaxpr.eqns))


def _is_eqn_by_element(eqn: Any) -> bool:
    name = eqn.primitive.name
    if name in _OF_PROGRAMS:
        return all(_is_by_element(inner) for inner in _programs_of(eqn))
    shapes = {tuple(v.aval.shape) for v in (*eqn.invars, *eqn.outvars)} - {()}
    if not shapes:  # of numbers alone
        return True
    if name == "broadcast_in_dim":
        return all(v.aval.shape == () for v in eqn.invars)
    return name in _BY_ELEMENT and len(shapes) == 1


def _programs_of(eqn: Any) -> Iterator[core.Jaxpr]:
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(each, "jaxpr", each)
            if isinstance(inner, core.Jaxpr):
                yield inner


def _text(jaxpr: core.Jaxpr) -> Iterator[str]:
    """The program, without the shapes of arrays."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        yield name
        yield from (str(v.val) for v in eqn.invars if isinstance(v, core.Literal))
        if name in _OF_PROGRAMS:
            for inner in _programs_of(eqn):
                yield from _text(inner)
        elif name in _BY_ELEMENT:
            yield str(sorted((key, str(value)) for key, value in eqn.params.items()))
