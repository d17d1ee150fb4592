"""Variables of a strategy: how replicas read and write them, and whose they are.

Before the first step of several processes the first process's initial values are broadcast.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.data.elements.precision import in_64_bits, is_wide, keeping_64_bits, require_fits
from drumline.distribute.process_group.host_collectives import all_gather_host, broadcast
from drumline.distribute.replica import (
    first_replicas,
    get_strategy,
    has_strategy,
    in_program_merge,
    is_constant,
    running_replica,
)
from drumline.distribute.values import PerReplica, ReduceOp
from drumline.training.cut_values import is_cut
from drumline.training.keras_internals import Variable as KerasVariable
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import assign_values, current_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_OWNER = "_drumline_strategy"


def strategy_of_variable(variable: KerasVariable) -> Strategy | None:
    """The strategy in whose scope `variable` was made, or whose step adopted it."""
    owner: Strategy | None = vars(variable).get(_OWNER)
    return owner


def set_strategy(variable: KerasVariable, strategy: Strategy) -> None:
    """Let `variable` belong to `strategy`."""
    vars(variable)[_OWNER] = strategy


def bind_to_strategy(variable: KerasVariable, strategy: Strategy) -> None:
    """Let a variable made outside every scope belong to `strategy`, and place it there.

    Raises:
        RuntimeError: if it belongs to another strategy.
    """
    owner = strategy_of_variable(variable)
    if owner is not None and owner is not strategy:
        raise RuntimeError(
            f"Variable {variable.path!r} was made in the scope of {owner!r}, but a step of "
            f"{strategy!r} uses it. Make it inside `with strategy.scope():` of the strategy that "
            "runs the step."
        )
    set_strategy(variable, strategy)
    if variable._value is not None:
        # Now, also where the step is part of a trace: what is placed is the variable's own array.
        with jax.ensure_compile_time_eval():
            variable._direct_assign(variable._value)


def _is_apart(owner: Strategy | None) -> TypeGuard[Strategy]:
    """Whether replicas' values lie on devices on which the owner's variables do not all live."""
    return owner is not None and (owner.spans_processes or owner._arrays.variables_away)


class VariableSynchronization(enum.Enum):
    """When the replicas' copies of a variable are reduced, as ``tf.VariableSynchronization``."""

    AUTO = "auto"
    NONE = "none"
    ON_WRITE = "on_write"
    ON_READ = "on_read"


class VariableAggregation(enum.Enum):
    """How the replicas' copies or writes become one, as ``tf.VariableAggregation``."""

    NONE = "none"
    SUM = "sum"
    MEAN = "mean"
    ONLY_FIRST_REPLICA = "only_first_replica"


class Variable(keras.Variable):
    """A variable as ``tf.Variable``; also a Keras variable, which layers and optimizers take.

    Made in a strategy's scope it has a copy on every replica. With ``ON_WRITE`` (which ``AUTO``
    stands for) the copies are the same: what replicas assign in a step is aggregated and then
    assigned. With ``ON_READ`` each replica has its own, and reading it outside of a step
    aggregates.

    Args:
        initial_value: an array, a number, or a function without arguments that gives one.
        trainable: whether `GradientTape` watches it; by default True, but False with ``ON_READ``.
        dtype: by default that of `initial_value`, in 32 bits. A type of 64 bits that is given by
            name (``"int64"``, ``"uint64"``, ``"float64"``) is kept, whatever JAX's default. In
            steps that use the variable JAX's 64-bit types are on; what is computed with its value
            outside of them has 32 bits, and JAX warns of it.
        name: by default made up.
        synchronization: a `VariableSynchronization` or its name in any case.
        aggregation: a `VariableAggregation` or its name in any case.

    Raises:
        OverflowError: if the initial value has 64-bit integers that do not fit into 32 bits, and
            `dtype` does not say that they are kept; so does `assign`.
        ValueError: for an unknown synchronization or aggregation, or a trainable ``ON_READ``.

    Example:
        >>> int(Variable(2**40, dtype="int64").value)
        1099511627776
    """

    def __init__(
        self,
        initial_value: Any,
        trainable: bool | None = None,
        dtype: Any = None,
        name: str | None = None,
        synchronization: VariableSynchronization | str = VariableSynchronization.AUTO,
        aggregation: VariableAggregation | str = VariableAggregation.NONE,
    ) -> None:
        when = _member(VariableSynchronization, synchronization)
        how = _member(VariableAggregation, aggregation)
        on_read = when is VariableSynchronization.ON_READ
        if on_read and trainable:
            raise ValueError(
                "A variable with ON_READ synchronization has a value for each replica and cannot "
                "be trained: pass trainable=False, or leave it out."
            )
        self._replicas = get_strategy().num_replicas_in_sync if on_read and has_strategy() else 1
        # At once, also in a trace: the initial value outlives it.
        self._keeps_64_bits = dtype is not None and _names_64_bits(dtype)
        with self._in_its_bits():
            with jax.ensure_compile_time_eval():
                value = initial_value() if callable(initial_value) else initial_value
                if self._keeps_64_bits:
                    value = _of_64_bits(value, dtype)
                else:
                    _require_fits(value, "The initial value of a variable", dtype)
                array = keras.ops.convert_to_tensor(value, dtype=dtype)
            super().__init__(
                lambda shape, dtype: jnp.asarray(array, dtype),
                shape=tuple(array.shape),
                dtype=keras.backend.standardize_dtype(array.dtype),
                trainable=not on_read if trainable is None else trainable,
                aggregation=how.value,
                synchronization=when.value,
                name=name,
            )

    @property
    def keeps_64_bits(self) -> bool:
        """Whether its numbers have 64 bits although JAX's have 32 by default."""
        return self._keeps_64_bits

    def _in_its_bits(self) -> contextlib.AbstractContextManager[None]:
        return keeping_64_bits(self._keeps_64_bits)

    @property
    def has_copies(self) -> bool:
        """Whether each replica has a value of its own, kept as one array ``(replicas, ...)``."""
        return self._replicas > 1

    @property
    def value(self) -> Any:
        """The value: in a replica's step that replica's, outside of one the aggregate.

        With ``ON_READ`` and replicas in several processes it is a collective: all of them read it.
        """
        if not self.has_copies or running_replica() is not None:
            return super().value
        with self._in_its_bits():
            return self._aggregate_of_copies()

    def _aggregate_of_copies(self) -> Any:
        copies = self._all_copies()
        owner = strategy_of_variable(self)
        if _is_apart(owner) and in_program_merge() is None:
            return owner._arrays.compute(_aggregate, (self._aggregation, self.path), copies)
        return _aggregate(self._aggregation, self.path, copies)

    def read_value(self) -> Any:
        """The value, as ``tf.Variable.read_value``."""
        return self.value

    def copies(self) -> tuple[Any, ...]:
        """The values of this process's replicas; without ``ON_READ`` one."""
        if not self.has_copies:
            return (self.value,)
        copies = self._all_copies()
        owner = strategy_of_variable(self)
        if _is_apart(owner) and in_program_merge() is None:
            return PerReplica.of_stacked(copies).values
        return tuple(copies)

    def _all_copies(self) -> Any:
        """The replicas' values as one array ``(replicas, ...)``."""
        (copies,) = current_values([self])
        context = in_program_merge()
        return copies if context is None else context.all_gather(copies[None])

    def assign(self, value: Any) -> Any:
        """Set the value; in a replica's step what is assigned is aggregated over the replicas.

        Raises:
            ValueError: in a step of several replicas, if the variable has no aggregation.
        """
        with self._in_its_bits():
            return self._write(self._meet(value, "assign"))

    def assign_add(self, value: Any) -> Any:
        """Add to the value; in a replica's step the sum or mean of what the replicas add."""
        with self._in_its_bits():
            return self._write(self.value + self._meet(value, "assign_add"))

    def assign_sub(self, value: Any) -> Any:
        """Subtract from the value, as `assign_add` adds."""
        with self._in_its_bits():
            return self._write(self.value - self._meet(value, "assign_sub"))

    def _write(self, value: Any) -> Any:
        if not self.has_copies or running_replica() is not None:
            return super().assign(value)
        whole = jnp.broadcast_to(self._convert_to_tensor(value, dtype=self._dtype), self.shape)
        if get_stateless_scope() is None:
            self._direct_assign(whole)
        else:
            copies = self._spread(whole)
            context = in_program_merge()
            own = copies if context is None else copies[context.replica_id_in_sync_group]
            assign_values([self], [own])
        return whole

    def _direct_assign(self, value: Any) -> None:
        if self.has_copies and np.shape(value) == tuple(self._shape):
            value = self._spread(value)
        super()._direct_assign(value)

    def _spread(self, value: Any) -> jax.Array:
        """The copies whose aggregate is `value`, as ``tf.Variable`` divides it."""
        value = jnp.asarray(value)
        shape = (self._replicas, *value.shape)
        if self._aggregation != "sum":
            return jnp.broadcast_to(value, shape)
        if jnp.issubdtype(value.dtype, jnp.inexact):
            return jnp.broadcast_to(value / self._replicas, shape)
        return jnp.zeros(shape, value.dtype).at[0].set(value)

    def _meet(self, value: Any, method: str) -> Any:
        """What is written on all replicas alike, from what this replica writes."""
        if self._keeps_64_bits:
            value = _of_64_bits(value, self._dtype)
        else:
            _require_fits(value, f"What `{method}` writes to variable {self.path!r}", self.dtype)
        context = running_replica()
        if context is None or context.agreed or context.num_replicas_in_sync == 1:
            return value
        if self._synchronization == "on_read":
            return value
        given, value = value, jnp.asarray(value)
        if self._aggregation == "none":
            raise ValueError(
                f"Variable {self.path!r} has no aggregation, so `{method}` in a replica's step "
                "could give the replicas different values. Create it with aggregation=SUM, MEAN "
                "or ONLY_FIRST_REPLICA, or with synchronization=ON_READ, or reduce the value with "
                "`get_replica_context().all_reduce` and write it in `merge_call`."
            )
        constant = context.traced_once and is_constant(given)
        if self._aggregation == "only_first_replica":
            return value if constant else first_replicas(context, value)
        if constant and not context.strategy._has_own_all_reduce and value.dtype != bool:
            return value * context.num_replicas_in_sync if self._aggregation == "sum" else value
        met = context.all_reduce(ReduceOp.of(self._aggregation), value)
        return met if jnp.issubdtype(self.dtype, jnp.inexact) else met.astype(self.dtype)


def _names_64_bits(dtype: Any) -> bool:
    named = keras.backend.standardize_dtype(dtype)
    return named in ("int64", "uint64", "float64", "complex128") and is_wide(np.dtype(named))


def _of_64_bits(value: Any, dtype: Any) -> Any:
    """Numbers of Python's or numpy's as an array of JAX's, which would narrow them by itself."""
    if not isinstance(value, (int, float, complex, list, tuple, np.ndarray, np.generic)):
        return value
    return in_64_bits(np.asarray(value, keras.backend.standardize_dtype(dtype)))


def _require_fits(value: Any, what: str, dtype: Any) -> None:
    given = None if dtype is None else keras.backend.standardize_dtype(dtype)
    integer = given in ("int32", "uint32", "int16", "uint16", "int8", "uint8")
    if dtype is None or integer:
        require_fits(value, what, 'make the variable with `dtype="int64"` (or "uint64")', given)


def _aggregate(aggregation: str, path: str, copies: Any) -> Any:
    if aggregation == "sum":
        return jnp.sum(copies, 0, dtype=copies.dtype)
    if aggregation == "mean":
        return jnp.mean(copies, 0).astype(copies.dtype)
    if aggregation == "only_first_replica":
        return copies[0]
    raise ValueError(
        f"Variable {path!r} has a value for each replica and no aggregation, so it has no "
        "single value outside of a replica's step. Read it in the step, take "
        "`strategy.experimental_local_results(variable)`, or give it an aggregation."
    )


def _member(kind: Any, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    try:
        return kind[str(value).upper()]
    except KeyError:
        names = ", ".join(repr(member.name) for member in kind)
        raise ValueError(f"Unknown {kind.__name__} {value!r}: use one of {names}.") from None


_SAME = "_drumline_same_start"

CHUNK_BYTES = 64 * 2**20
"""How much travels at once."""


def broadcast_initial_values(strategy: Strategy, variables: Sequence[KerasVariable]) -> None:
    """Give `variables` the values that they have in the first process, once each.

    All processes call this together, with the same variables. Those with a value for each replica
    keep what they have.

    Args:
        strategy: their strategy, which spans the processes.
        variables: variables that hold values.

    Raises:
        RuntimeError: if the processes have different variables.
    """
    new = [v for v in variables if not vars(v).get(_SAME) and not is_cut(v)]
    if not new:  # then no process exchanges anything: one alone may have come here
        return
    values = [variable._value for variable in new]
    _require_same_variables(strategy, new)
    whole = [index for index, value in enumerate(values) if value.is_fully_addressable]
    first = first_values(strategy, [values[index] for index in whole])
    for index, value in zip(whole, first, strict=True):
        new[index]._direct_assign(value)
    for variable in new:
        vars(variable)[_SAME] = True


def forget_start(variables: Sequence[KerasVariable]) -> None:
    """Let `broadcast_initial_values` treat `variables` as new ones."""
    for variable in variables:
        vars(variable).pop(_SAME, None)


def first_values(strategy: Strategy, values: Sequence[Any]) -> list[np.ndarray]:
    """What the first process has for each of `values`, arrays of the same shapes in all."""
    own = [np.asarray(value) for value in values]
    sizes = [value.nbytes for value in own]
    flat = [np.ascontiguousarray(value).reshape(-1).view(np.uint8) for value in own if value.size]
    buffer = np.concatenate([np.zeros(0, np.uint8), *flat])
    chunks = [
        broadcast(strategy, buffer[at : at + CHUNK_BYTES])
        for at in range(0, len(buffer), CHUNK_BYTES)
    ]
    received = np.concatenate([np.zeros(0, np.uint8), *chunks])
    ends = np.cumsum(sizes)
    return [
        received[end - size : end].view(value.dtype).reshape(value.shape)
        for end, size, value in zip(ends, sizes, own, strict=True)
    ]


def _require_same_variables(strategy: Strategy, variables: Sequence[KerasVariable]) -> None:
    described = [f"{v.path} {v.dtype}{list(v.shape)}" for v in variables]
    counts = all_gather_host(strategy, np.array([len(described), _digest(described)], np.uint64))
    if (counts == counts[0]).all():
        return
    raise RuntimeError(
        f"The processes use different variables in a step: this one {len(described)} new ones, "
        f"process by process {counts[:, 0].tolist()}. All processes must build the same model and "
        f"take the same steps in the same order. The ones here: {', '.join(described[:20])}"
    )


def _digest(lines: Sequence[str]) -> int:
    return int.from_bytes(hashlib.sha256("\n".join(lines).encode()).digest()[:8], "little")
