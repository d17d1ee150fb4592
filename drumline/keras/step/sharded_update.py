"""A training step where the optimizer's slots, or the weights as well, are cut over the replicas.

Weights that are cut are gathered where the loss is computed, and again for its gradient: between
them no replica keeps those of the others.

Each replica sums its row of the gradients (reduce-scatter). The optimizer then runs once, in the
view of all devices, outside of the replicas' program: on rows, if what it computes is the same
element by element, so that each device updates its own; else on whole variables, which XLA brings
together for the time of the update. So norms over a variable, its rows and columns, and products of
matrices are right for each optimizer without any knowledge of it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.extend import core
from jax.sharding import NamedSharding, PartitionSpec

from drumline.distribute import Strategy
from drumline.distribute.collectives.cross_device_ops import Packing
from drumline.distribute.replica import whole_batch
from drumline.distribute.step.cut_rows import columns, gather_rows, scattered
from drumline.distribute.strategy import REPLICA_AXIS
from drumline.keras.internals import shadowed
from drumline.keras.step.reductions import NeedsGlobalBatch
from drumline.training.cut_values import cut, is_cut, rows_shape, uncut

_PACKING = Packing()

_GATHERED_TOGETHER = 4 * 2**20
"""How many bytes of small weights are gathered as one: a device holds them as long as the last."""


def row_specs(variables: Sequence[keras.Variable]) -> list[PartitionSpec]:
    """How the values of `variables` are cut over the replicas in a step's state."""
    return [PartitionSpec(REPLICA_AXIS) if is_cut(v) else PartitionSpec() for v in variables]


def whole_specs(variables: Sequence[keras.Variable], values: Sequence[Any]) -> list[Any]:
    """The values, or for variables that are cut the shapes and dtypes of whole ones."""
    return [
        jax.ShapeDtypeStruct(tuple(variable.shape), value.dtype) if is_cut(variable) else value
        for variable, value in zip(variables, values, strict=True)
    ]


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


def whole_on_replica(
    variables: Sequence[keras.Variable], values: Sequence[Any], strategy: Strategy
) -> list[Any]:
    """Traced on a replica: the values, the others' rows gathered; small ones travel as one.

    The compiler leaves out what is not used.
    """
    positions = [position for position, variable in enumerate(variables) if is_cut(variable)]
    joined = gather_rows(
        [values[position] for position in positions],
        [tuple(variables[position].shape) for position in positions],
        strategy,
        bytes_per_pack=max(1, _GATHERED_TOGETHER // strategy.num_replicas_in_sync),
    )
    whole = list(values)
    for position, value in zip(positions, joined, strict=True):
        whole[position] = value
    return whole


_GATHERING = frozenset(
    (
        "all_gather",
        "concatenate",
        "convert_element_type",
        "reshape",
        "slice",
        "squeeze",
        "transpose",
    )
)


def _is_kept(primitive: core.Primitive, *_: Any, **params: Any) -> bool:
    """Whether what `primitive` computes is kept for the gradient of a loss.

    All is, but what may be a weight of all replicas, in whatever shape or dtype: these operations,
    which compute nothing, are done again.
    """
    if primitive.name.startswith("custom_vjp_call"):
        inner = params["call_jaxpr"]
        return all(eqn.primitive.name not in _GATHERING for eqn in inner.jaxpr.eqns)
    return primitive.name not in _GATHERING


_OF_CPUS = {
    "xla_disable_hlo_passes": "cse_barrier_expander",
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}


def options_of_gathers(strategy: Strategy) -> dict[str, Any] | None:
    """Options for XLA of a step that gathers weights, so that it holds few of them at a time.

    For CPUs XLA drops the barrier before a gradient, and makes one gather of the two of a weight;
    and it orders operations so that many can run at once: it begins with all gathers.
    """
    if not strategy._cuts_weights or strategy.replica_devices[0].platform != "cpu":
        return None
    return {name: value for name, value in _OF_CPUS.items() if _has_option(name, value)}


@functools.cache
def _has_option(name: str, value: str) -> bool:
    """Whether the installed XLA takes the option; that of JAX 0.8 has one scheduler for CPUs."""
    program = jax.jit(lambda x: x, compiler_options={name: value})
    try:
        here = jax.local_devices(backend="cpu")[0]
        program.lower(jax.device_put(np.float32(0), here)).compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


@contextlib.contextmanager
def gathered_weights(
    model: keras.Model, trainables: Sequence[Any], others: Sequence[Any], strategy: Strategy
) -> Iterator[None]:
    """Within the block the model's loss is given this replica's rows of the weights that are cut.

    It gathers the others', and its gradient gathers them again: none is kept for it. The gradient
    of a gather is a reduce-scatter, so that those of weights that are cut are sums over the
    replicas, this replica's row of each.

    Args:
        model: the model.
        trainables: its trainable variables.
        others: the other variables of the state.
        strategy: the model's.

    Raises:
        NeedsGlobalBatch: when the step writes to a weight that is cut and not trained.
    """
    compute = model.compute_loss_and_updates

    def compute_loss_and_updates(
        trainable_values: Any, other_values: Any, *args: Any, **kwargs: Any
    ) -> Any:
        written: list[bool] = []

        def loss_of_rows(trainable_rows: Any, other_rows: Any) -> Any:
            before = whole_on_replica(others, other_rows, strategy)
            weights = whole_on_replica(trainables, trainable_rows, strategy)
            loss, (unscaled, y_pred, after, metrics) = compute(weights, before, *args, **kwargs)
            written[:] = [new is not old for new, old in zip(after, before, strict=True)]
            new_values = [new for new, is_new in zip(after, written, strict=True) if is_new]
            return loss, (unscaled, y_pred, new_values, metrics)

        rematerialized = jax.checkpoint(loss_of_rows, policy=_is_kept)
        loss, (unscaled, y_pred, new_values, metrics) = rematerialized(
            trainable_values, other_values
        )
        for variable, is_new in zip(others, written, strict=True):
            if is_new and is_cut(variable):
                raise NeedsGlobalBatch(f"the step writes to {variable.path!r}, which is cut")
        new = iter(new_values)
        after = [
            next(new) if is_new else old for is_new, old in zip(written, other_values, strict=True)
        ]
        return loss, (unscaled, y_pred, after, metrics)

    with shadowed(model, "compute_loss_and_updates", compute_loss_and_updates):
        yield


@contextlib.contextmanager
def scattered_gradients(
    model: keras.Model, found: list[jax.Array], strategy: Strategy
) -> Iterator[None]:
    """Within the block the optimizer updates nothing; `found` becomes this replica's gradients.

    That is its row of the mean over the replicas for each trainable variable, ``(1, length)``.
    """

    replicas = strategy.num_replicas_in_sync
    apply = model.optimizer.stateless_apply

    def stateless_apply(
        optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        variables = model.optimizer._trainable_variables
        if len(grads) != len(variables):  # Keras refuses it
            return apply(optimizer_variables, grads, trainable_variables)
        sums = [jnp.asarray(grad) for grad in grads]
        copies = [i for i, variable in enumerate(variables) if not is_cut(variable)]
        for position, row in zip(
            copies, scattered([sums[i] for i in copies], strategy), strict=True
        ):
            sums[position] = row
        # Divided last, as where nothing is cut: XLA joins the divisor with a learning rate.
        found[:] = [total / replicas for total in sums]
        return trainable_variables, optimizer_variables

    with shadowed(model.optimizer, "stateless_apply", stateless_apply):
        yield


class ShardedUpdate:
    """The update of a model's trainable variables, its slots cut over the replicas.

    Args:
        optimizer: the model's, built.
        strategy: its strategy.
    """

    def __init__(self, optimizer: Any, strategy: Strategy) -> None:
        self._optimizer = optimizer
        self._trainables = list(optimizer._trainable_variables)
        self._slots = list(optimizer.variables)
        self._strategy = strategy
        self._replicas = strategy.num_replicas_in_sync

    def __call__(
        self, slots: Sequence[Any], grads: Sequence[Any], trainables: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Traced in the view of all devices: what ``optimizer.stateless_apply`` does.

        Args:
            slots: the optimizer's values, those of variables that are cut in rows.
            grads: the mean gradients, in rows ``(replicas, length)``.
            trainables: the trainable variables' values, those of variables that are cut in rows.

        Returns:
            The new values of the trainable variables and of the optimizer, as they came.
        """
        if len(trainables) == len(self._trainables) and self.is_by_element():
            return self._on_rows(slots, grads, trainables)
        whole = [uncut(g, tuple(v.shape)) for g, v in zip(grads, self._trainables, strict=True)]
        weights = whole_values(self._trainables, trainables)
        new, slots = self._apply(whole_values(self._slots, slots), whole, weights)
        new = as_kept(self._trainables, new, self._replicas)
        return new, as_kept(self._slots, slots, self._replicas)

    def _on_rows(
        self, slots: Sequence[Any], grads: Sequence[Any], trainables: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        by_rows = self._strategy.batch_sharding
        rows = [
            value
            if is_cut(variable)
            else jax.lax.with_sharding_constraint(cut(value, self._replicas), by_rows)
            for variable, value in zip(self._trainables, trainables, strict=True)
        ]
        with in_rows([*self._trainables, *filter(is_cut, self._slots)], self._replicas):
            new, slots = self._apply(slots, grads, rows)
        return self._gathered(new), list(slots)

    def _gathered(self, rows: Sequence[jax.Array]) -> list[jax.Array]:
        """What is not cut whole on each device; small values of a dtype travel as one."""
        copies = NamedSharding(self._strategy.mesh, PartitionSpec())
        whole = dict(enumerate(rows))
        positions = [i for i, variable in enumerate(self._trainables) if not is_cut(variable)]
        for found in _PACKING.groups([rows[position] for position in positions]):
            group = [positions[index] for index in found]
            members = [self._trainables[position] for position in group]
            pack = jnp.concatenate([rows[position] for position in group], axis=1)
            pack = jax.lax.with_sharding_constraint(pack, copies)
            lengths = [rows[position].shape[1] for position in group]
            for position, variable, own in zip(group, members, columns(pack, lengths), strict=True):
                whole[position] = uncut(own, tuple(variable.shape))
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
        with in_rows(variables, self._replicas):
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
def in_rows(variables: Sequence[Any], replicas: int, count: int | None = None) -> Iterator[None]:
    """Within the block `variables` have the shapes of their rows, ``(replicas, length)``.

    Or ``(count, length)``, for so many of these.
    """
    before = [(variable._shape, variable._ndim) for variable in variables]
    try:
        for variable in variables:
            rows, length = rows_shape(variable, replicas)
            variable._shape, variable._ndim = (rows if count is None else count, length), 2
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
