"""The programs of replicas whose variables live on another device, by the shapes of batches.

Each is given copies of what it reads, and no more: of variables that it only looks rows up in, the
rows (`looked_up_rows`).
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from drumline.distribute.step.looked_up_rows import (
    IdsFromRows,
    LeanProgram,
    LookedUpRows,
    StepForm,
    tables_of,
)
from drumline.training.keras_internals import get_stateless_scope, uninitialized_variables
from drumline.training.state_scope import StateScope

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_log = logging.getLogger("drumline")


class StepsApart(BaseException):
    """A function that is being traced runs a step whose variables live on another device.

    One program would have copies of all of them on the replicas' devices: the function is to run
    as Python, and the step by itself. Not an ``Exception``, so that no handler of the user's
    swallows it on its way.
    """


def require_apart() -> None:
    """Check that no function is traced around the step that is to run.

    Variables that the function has made in its trace would be lost: then the step becomes part of
    its program.

    Raises:
        StepsApart: if one is, and may be left.
    """
    scope = get_stateless_scope()
    if isinstance(scope, StateScope) and scope.may_be_left and not uninitialized_variables():
        raise StepsApart


class CentralPrograms:
    """The programs of one step.

    Args:
        strategy: whose replicas run them.
        named: what the log calls the step.
        keeps_copies: whether copies stay on the replicas' devices as long as the values do; a step
            that changes these has no use for them.
    """

    def __init__(
        self, strategy: Strategy, named: Callable[[], str], *, keeps_copies: bool = False
    ) -> None:
        self._strategy = strategy
        self._named = named
        self._steps: dict[Hashable, LeanProgram | LookedUpRows] = {}
        self._reported: set[str] = set()
        self._kept: dict[int, tuple[Any, jax.Array]] = {}
        self._keeps_copies = keeps_copies

    def compute(
        self,
        kind: Hashable,
        arguments: tuple[Any, ...],
        form: Callable[[], StepForm],
        check: Callable[[LeanProgram], None] | None = None,
    ) -> tuple[Any, dict[int, jax.Array]]:
        """Run the step; what is at home goes where the replicas find it.

        Args:
            kind: tells programs apart whose arguments are alike.
            arguments: its, the batch the second.
            form: how it runs; called once for the shapes of a batch.
            check: is given the program then, and refuses it by an exception.

        Returns:
            The results, and at home the sums of tables' gradients over the replicas, by the tables'
            positions.
        """
        leaves, structure = jax.tree.flatten(arguments[1:])
        shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        key = (kind, structure, shapes)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._made(form(), check)
        if isinstance(step, LookedUpRows):
            return step.compute(arguments, self._on_replicas)
        return step(arguments, self._on_replicas), {}

    def _made(
        self, form: StepForm, check: Callable[[LeanProgram], None] | None
    ) -> LeanProgram | LookedUpRows:
        step = form.program(form.body(()))
        if check is not None:
            check(step)
        tables = tables_of(form, step)
        try:
            rows = LookedUpRows(form, tables) if tables.positions else None
        except IdsFromRows:
            rows = None
            whole = [form.variables[each].path for each in tables.positions.values()]
            self._report_whole(whole, "which rows are looked up depends on rows")
        for reason in tables.whole:
            path = form.variables[int(reason.key.split()[1])].path
            self._report_whole([path], f"`{reason.primitive}` at {reason.line} reads it")
        return step if rows is None else rows

    def _report_whole(self, paths: Sequence[str], reason: str) -> None:
        for path in paths:
            if path not in self._reported:
                self._reported.add(path)
                _log.info(
                    "%s: all of %s is copied to each compute device in each step, not only the "
                    "rows that are looked up: %s",
                    self._named(),
                    path,
                    reason,
                )

    def _on_replicas(self, values: list[Any]) -> list[Any]:
        """The values, with copies of those that lie where variables live."""
        placed = self._strategy._arrays.program_sharding
        home = self._strategy.variable_sharding
        away = [
            position
            for position, value in enumerate(values)
            if isinstance(value, jax.Array) and value.committed and value.sharding == home
        ]
        found = dict(enumerate(values))
        if self._keeps_copies:
            copies = self._with_copies([values[position] for position in away])
        else:
            copies = jax.device_put([values[position] for position in away], placed)
        found.update(zip(away, copies, strict=True))
        return list(found.values())

    def _with_copies(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The copies of values; those that are missing are made by one transfer."""
        missing = {id(value): value for value in values if id(value) not in self._kept}
        placed = self._strategy._arrays.program_sharding
        copies = jax.device_put(list(missing.values()), placed)
        for value, copy in zip(missing.values(), copies, strict=True):
            self._keep(value, copy)
        return [self._kept[id(value)][1] for value in values]

    def _keep(self, value: jax.Array, copy: jax.Array) -> None:
        number = id(value)
        forget = weakref.ref(value, lambda _: self._kept.pop(number, None))
        self._kept[number] = forget, copy

    def to_home(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """Results that all replicas have alike, where variables live.

        JAX brings arrays from a GPU to a CPU in order, each behind the last: 160 small ones took
        78 ms on an H200. Fetched by the host together, they took 13 ms, and are then copied to the
        CPU device.
        """
        home = self._strategy.variable_sharding
        (device,) = home.device_set
        found = [_copy_near(each, device) for each in values]
        fetched = [i for i, each in enumerate(found) if _is_fetched(each, device)]
        others = [i for i in range(len(found)) if i not in set(fetched)]
        arrays = jax.device_get([found[i] for i in fetched])
        # They are given away later, which memory of NumPy's cannot be.
        moved = dict(zip(fetched, jax.device_put(arrays, home, may_alias=False), strict=True))
        moved.update(zip(others, jax.device_put([found[i] for i in others], home), strict=True))
        return [moved[i] for i in range(len(found))]


def _is_fetched(value: jax.Array, device: Any) -> bool:
    """Whether the host fetches a value for a device: from another platform, unless it changes so.

    NumPy has no random keys, and JAX takes 64-bit numbers of NumPy's for 32-bit ones.
    """
    (holder,) = value.devices()
    if holder.platform == device.platform or jnp.issubdtype(value.dtype, jax.dtypes.extended):
        return False
    return bool(jax.dtypes.canonicalize_dtype(value.dtype) == value.dtype)


def _copy_near(value: jax.Array, device: Any) -> jax.Array:
    """One of the copies of `value`: that on `device`, if there is one."""
    shards = value.addressable_shards
    near = [shard.data for shard in shards if shard.device == device]
    return near[0] if near else shards[0].data
