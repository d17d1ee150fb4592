"""The first training step of a script, found while the script runs, and lowered when it is.

`Planner` is asked by strategies that stand for others (`stand_ins.py`) whenever a step would run.
The first one that trains ends the script: it is raised as `StepFound`, through the script's own
code. Steps before it, as an evaluation of the untrained model, give zeros.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from drumline.distribute import Strategy
from drumline.distribute.replica import whole_batch
from drumline.distribute.step.arguments import per_replica_leaves
from drumline.distribute.step.compiled_step import CompiledStep, NotPlannedError
from drumline.distribute.step.replica_programs import UnevenProgram
from drumline.distribute.step.replica_scope import has_copies
from drumline.distribute.values import REPLICA_AXIS, PerReplica
from drumline.keras.state import TRAIN_STATE, state_variables, strategy_of
from drumline.keras.step.train_step import GlobalBatchStep, TrainStep
from drumline.plan.changes.variant import AS_WRITTEN, Variant, can_be_cut
from drumline.plan.jax_internals import seeing
from drumline.plan.planned_strategy import WithoutDevices
from drumline.training.cut_values import is_cut, reading_rows
from drumline.training.outbox import WithParcels, collecting
from drumline.training.state_scope import current_values

Kind = Literal["parameters", "optimizer", "other variables", "batch"]
_KINDS: dict[str, Kind] = {
    "trainable_variables": "parameters",
    "non_trainable_variables": "other variables",
    "optimizer_variables": "optimizer",
    "metrics_variables": "other variables",
}


@dataclasses.dataclass(frozen=True)
class Argument:
    """An array that a step takes.

    Attributes:
        name: a variable's path, or which of the batch's arrays it is.
        kind: what it is for.
        shape: of all replicas together.
        dtype: its type.
        cut: whether each replica has a part of it, as of a batch.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    cut: bool = False


@dataclasses.dataclass(frozen=True)
class FoundStep:
    """A step of the script, which can be lowered for the planned hardware.

    Attributes:
        what: names it: ``"fit of model 'convnet'"``.
        strategy: whose replicas run it.
        rows: of the global batch; 0 if it takes none.
        trains: whether it writes a trainable variable.
        is_fit: whether it is Keras's.
        can_be_cut: whether its strategy could take `shard=`, and does not.
        lower: gives the program for a global batch of so many rows.
        arguments: gives what the program takes for so many rows, in the program's order.
    """

    what: str
    strategy: WithoutDevices
    rows: int
    trains: bool
    is_fit: bool
    can_be_cut: bool
    lower: Callable[[int], jax.stages.Lowered]
    arguments: Callable[[int], list[Argument]]


class StepFound(BaseException):
    """The first step that trains. Not an `Exception`, so that no handler of the script takes it."""


class Planner:
    """Finds the first step of a script that trains.

    Args:
        rows: of the global batch, in the place of the script's; None for the script's own.
        variant: what is planned otherwise than the script says.

    Attributes:
        found: the step, once there is one.
        others: steps that came before it, and did not train.
        raised: what the script raised after `others`; "" if nothing.
        policy: Keras's dtype policy as the script left it.
        dataset: that the last step's batches came from; None where it is not known.
    """

    def __init__(self, rows: int | None = None, variant: Variant = AS_WRITTEN) -> None:
        self._rows = rows
        self._variant = variant
        self.found: FoundStep | None = None
        self.others: dict[int, FoundStep] = {}
        self.raised = ""
        self.policy = ""
        self.dataset: Any = None
        self._outputs: dict[int, Any] = {}

    def saw_input(self, dataset: Any) -> None:
        """Note the dataset that the next steps' batches come from; None if it is none."""
        self.dataset = dataset

    def divided(self, strategy: Strategy, batch: Any) -> Any:
        """The values for the replicas of a global batch: its first row, in no memory of its own."""
        shapes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
        if len(shapes) != 1 or shapes == {()}:
            raise NotPlannedError(
                "A batch to distribute needs the same first dimension in all of its components, "
                f"got the shapes {[np.shape(leaf) for leaf in jax.tree.leaves(batch)]}."
            )
        ((rows,),) = shapes
        return self._shared(strategy, batch, self._checked(strategy, rows))

    def from_shares(self, strategy: Strategy, batches: Sequence[Any]) -> Any:
        """The values for the replicas of batches of which each takes one: of the first of them."""
        batch = batches[0]
        rows = np.shape(jax.tree.leaves(batch)[0])[0] * strategy.num_replicas_in_sync
        return self._shared(strategy, batch, self._checked(strategy, rows))

    def training_step(self, step: TrainStep, state: Any, batch: Any) -> Any:
        """Raise `StepFound`."""
        strategy, model = _planned(step._strategy), step._model
        leaves = jax.tree.leaves(batch)
        if not leaves or any(not np.shape(leaf) for leaf in leaves):
            raise NotPlannedError(
                f"`fit` of model {model.name!r} was given a batch of the shapes "
                f"{list(map(np.shape, leaves))}, which cannot be divided over replicas."
            )
        rows = self._checked(strategy, np.shape(leaves[0])[0])
        self._variant.found([model])
        shapes = jax.tree.map(_shape, state)
        variables = state_variables(model, TRAIN_STATE)

        def batch_of(rows: int) -> Any:
            return jax.tree.map(lambda leaf: _shape(leaf, (rows, *np.shape(leaf)[1:])), batch)

        def lower(rows: int) -> jax.stages.Lowered:
            return step.lowered(shapes, batch_of(rows))

        def arguments(rows: int) -> list[Argument]:
            found = [
                Argument(variable.path, _KINDS[group], value.shape, value.dtype, is_cut(variable))
                for group, values, each in zip(TRAIN_STATE, shapes, variables, strict=True)
                for value, variable in zip(values, each, strict=True)
            ]
            return found + _of_batch(batch_of(rows))

        name = f"fit of model {model.name!r}"
        self.found = FoundStep(
            name, strategy, rows, True, True, can_be_cut(strategy), lower, arguments
        )
        raise StepFound(name)

    def other_step(self, step: GlobalBatchStep, state: Any, batch: Any) -> Any:
        """Return zeros for what a step of `evaluate` or `predict` returns, and the state as is."""
        strategy = step._strategy

        def whole(state: Any, batch: Any) -> Any:
            with whole_batch(strategy), collecting():
                run = step._on_whole_values if strategy._cuts_slots else step._step
                return run(state, batch)[0]

        outputs = jax.eval_shape(whole, state, batch)
        with collecting() as empty:
            parcels = empty.parcels()
        return WithParcels(jax.tree.map(_zeros, outputs), parcels), state

    def run_step(self, step: CompiledStep, arrays: Sequence[Any]) -> Any:
        """Raise `StepFound` if the step trains; else return zeros for what it returns."""
        if id(step) in self._outputs:
            return self._outputs[id(step)]
        planned = next(
            _planned(each) for each in (step.strategy, *step.taking_part) if each._planner is self
        )
        if isinstance(step, UnevenProgram):
            raise NotPlannedError(
                f"{_name(step.fn)} was run with a different number of rows on each replica: make "
                f"the global batch a multiple of {planned.num_replicas_in_sync}."
            )
        found = _found_in(step, planned, arrays)
        if found.trains:
            self._variant.found(self._models())
            self.found = found
            raise StepFound(found.what)
        self.others[id(step)] = found
        with seeing(planned.replica_devices):
            outputs = jax.tree.map(_zeros, found.lower(found.rows).out_info[0])
        self._outputs[id(step)] = outputs
        return outputs

    def _models(self) -> list[keras.Model]:
        """The models in the scopes of this planner's strategies: a loop does not say which."""
        found = [each for each in gc.get_objects() if issubclass(type(each), keras.Model)]
        owners = [(model, strategy_of(model)) for model in found]
        return [model for model, owner in owners if owner is not None and owner._planner is self]

    def _checked(self, strategy: Strategy, rows: int) -> int:
        """The rows of the global batch to plan for."""
        replicas = strategy.num_replicas_in_sync
        planned = rows if self._rows is None else self._rows
        if planned <= 0 or planned % replicas:
            below = planned - planned % replicas
            near = [n for n in (below, below + replicas) if n > 0]
            whose = "The script's global batch" if self._rows is None else "--batch"
            raise NotPlannedError(
                f"{whose} of {planned:,} rows does not divide over {replicas:,} replicas. Take "
                f"--batch {' or --batch '.join(map(str, near))}."
            )
        return planned

    def _shared(self, strategy: Strategy, batch: Any, rows: int) -> Any:
        replicas = strategy.num_replicas_in_sync

        def share(leaf: Any) -> Any:
            row = np.asarray(leaf)[:1]
            if replicas == 1:
                return np.broadcast_to(row, (rows, *row.shape[1:]))
            row = np.broadcast_to(row, (replicas, rows // replicas, *row.shape[1:]))
            return PerReplica.of_stacked(row)

        return jax.tree.map(share, batch)


def _found_in(step: CompiledStep, strategy: WithoutDevices, arrays: Sequence[Any]) -> FoundStep:
    """What `Strategy.run`, or a function around it, was called with, for any number of rows."""
    mesh, replicas = strategy.mesh, strategy.num_replicas_in_sync
    flags = zip(per_replica_leaves(step.form.treedef), step.form.arrays, strict=True)
    cut = [each for each, is_array in flags if is_array]
    row = 1 if any(cut) else 0  # where a batch's arrays have their rows
    of_batch = [
        np.ndim(array) > row and (each or replicas == 1)
        for array, each in zip(arrays, cut, strict=True)
    ]
    counts = (
        np.shape(array)[row] for array, is_batch in zip(arrays, of_batch, strict=True) if is_batch
    )
    each_has = next(counts, 0)

    def shapes_of(rows: int) -> list[jax.ShapeDtypeStruct]:
        found = []
        for array, is_divided, is_batch in zip(arrays, cut, of_batch, strict=True):
            shape = list(np.shape(array))
            if is_batch and shape[row] == each_has:
                shape[row] = rows // replicas
            spec = PartitionSpec(REPLICA_AXIS) if is_divided else PartitionSpec()
            found.append(_shape(array, tuple(shape), NamedSharding(mesh, spec)))
        return found

    def variables(group: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
        found = []
        with reading_rows():
            values = current_values(group)
        for variable, value in zip(group, values, strict=True):
            spec = PartitionSpec(REPLICA_AXIS) if has_copies(variable) else PartitionSpec()
            found.append(_shape(value, tuple(value.shape), NamedSharding(mesh, spec)))
        return found

    def lower(rows: int) -> jax.stages.Lowered:
        return step._programs.lowered(
            variables(step.written), variables(step.read), shapes_of(rows)
        )

    parameters = [
        each.path.replace("/", "_") for each in (*step.written, *step.read) if each.trainable
    ]

    def arguments(rows: int) -> list[Argument]:
        found = [
            Argument(each.path, _kind(each, parameters), shape.shape, shape.dtype)
            for group in (step.written, step.read)
            for each, shape in zip(group, variables(group), strict=True)
        ]
        return found + _of_batch(shapes_of(rows))

    return FoundStep(
        f"run of {_name(step.fn)}",
        strategy,
        each_has * replicas,
        any(variable.trainable for variable in step.written),
        False,
        can_be_cut(strategy),
        lower,
        arguments,
    )


def _planned(strategy: Strategy) -> WithoutDevices:
    assert isinstance(strategy, WithoutDevices)  # others have no planner
    return strategy


def _kind(variable: Any, parameters: Sequence[str]) -> Kind:
    """What a variable is for; Keras names an optimizer's slots after the parameters."""
    if variable.trainable:
        return "parameters"
    slot = variable.path.rpartition("/")[2]
    is_slot = any(slot.startswith(f"{parameter}_") for parameter in parameters)
    return "optimizer" if is_slot else "other variables"


def _of_batch(batch: Any) -> list[Argument]:
    return [
        Argument(f"batch{jax.tree_util.keystr(path)}", "batch", leaf.shape, leaf.dtype, True)
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch)
    ]


def _shape(leaf: Any, shape: tuple[int, ...] | None = None, sharding: Any = None) -> Any:
    dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    return jax.ShapeDtypeStruct(
        np.shape(leaf) if shape is None else shape, dtype, sharding=sharding
    )


def _zeros(leaf: Any) -> jax.Array:
    return jnp.zeros(leaf.shape, leaf.dtype)


def _name(function: Any) -> str:
    """What a step is called; that of a loop in a compiled function is the loop's body."""
    name = str(getattr(function, "__qualname__", repr(function)))
    return "a loop over a dataset" if name.startswith("_RunningLoop.") else name
