"""The public base of all strategies."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from drumline.data.narrowing import any_wide, keeping_64_bits, require_all_fit, require_fits
from drumline.distribute import across_processes, scope
from drumline.distribute.adoption import adopt
from drumline.distribute.arguments import for_replica
from drumline.distribute.cross_device_ops import (
    CrossDeviceOps,
    ReplicaAxis,
    resolve_cross_device_ops,
)
from drumline.distribute.devices import DeviceLike, device_name, resolve_devices
from drumline.distribute.distributed_dataset import DistributedDataset
from drumline.distribute.distributed_dataset_from_function import DistributedDatasetFromFunction
from drumline.distribute.exchange import gathered
from drumline.distribute.extended import StrategyExtended
from drumline.distribute.in_flight import InFlight
from drumline.distribute.input import InputContext, ValueContext
from drumline.distribute.input_options import InputOptions
from drumline.distribute.outputs import require_same_structure
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.reduce_op import REPLICA_AXIS, ReduceOp
from drumline.distribute.reducing import gather_tree, reduce_tree
from drumline.distribute.replica_context import running_replica
from drumline.distribute.run import Programs, RunOptions, run
from drumline.distribute.variable import Variable
from drumline.training.jax_internals import current_trace, is_staged

_KEEP = "give an array of JAX's that has them, made under `jax.enable_x64(True)`"


class Strategy:
    """Three answers: where variables live, where replicas run, how values meet.

    A strategy of one's own overrides the answer that differs: `variable_sharding` (over the
    devices of `replica_devices`), `replica_devices` or `all_reduce`.

    Args:
        devices: the devices on which replicas run, one replica each, as accepted by
            `MirroredStrategy`.
        cross_device_ops: the algorithm by which values meet; by default the platform's own.
        check_agreement: after each training step, compare the replicas' copies of every
            variable and raise `drumline.keras.ReplicaDivergenceError` naming those that differ.
            It reads each variable once a step and waits for the step to end.

    Raises:
        ValueError: if a device does not exist or is given twice.
    """

    def __init__(
        self,
        devices: Iterable[DeviceLike],
        *,
        cross_device_ops: CrossDeviceOps | None = None,
        check_agreement: bool = False,
    ) -> None:
        self.cross_device_ops = resolve_cross_device_ops(cross_device_ops)
        self._devices = resolve_devices(devices)
        self.check_agreement = check_agreement
        self._mesh = across_processes.mesh_of(self.replica_devices)
        self.cross_device_ops.check(ReplicaAxis(REPLICA_AXIS, self.replica_devices))
        self.extended = StrategyExtended(self)
        self.in_flight = InFlight(self.replica_devices, timeout_seconds=self.step_timeout_seconds)
        self.programs = Programs(self)

    @property
    def replica_devices(self) -> tuple[jax.Device, ...]:
        """Where replicas run: one device for each replica."""
        return self._devices

    @property
    def step_timeout_seconds(self) -> float | None:
        """How long a step of several processes may take; None for no limit."""
        return None

    @property
    def local_replica_devices(self) -> tuple[jax.Device, ...]:
        """Where the replicas of this process run."""
        return across_processes.own_devices(self.replica_devices)

    @property
    def local_replica_ids(self) -> list[int]:
        """The numbers of the replicas that run in this process."""
        local = set(self.local_replica_devices)
        return [index for index, device in enumerate(self.replica_devices) if device in local]

    @property
    def num_processes(self) -> int:
        """How many processes have replicas."""
        return len({device.process_index for device in self.replica_devices})

    @property
    def process_index(self) -> int:
        """This process's number among those that have replicas, from 0."""
        processes = sorted({device.process_index for device in self.replica_devices})
        return processes.index(jax.process_index())

    @property
    def spans_processes(self) -> bool:
        """Whether some replicas run in other processes."""
        return len(self.local_replica_devices) < len(self.replica_devices)

    @property
    def variable_sharding(self) -> Sharding:
        """Where variables live: by default a copy on the device of every replica of this process.

        A program that runs on the replicas of several processes sees them as `program_sharding`.
        """
        return across_processes.copies_on(self.local_replica_devices)

    @property
    def program_sharding(self) -> Sharding:
        """Where a program that runs on all replicas finds variables, and leaves them."""
        if self.spans_processes:
            return across_processes.copies_on(self.replica_devices)
        return self.variable_sharding

    def for_program(self, value: jax.Array) -> jax.Array:
        """`value`, which lies where variables live, as a program on all replicas takes it."""
        return across_processes.on_all_processes(value, self.program_sharding)

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        """How values meet: reduce the replicas' values of a pytree, seen alike by all of them.

        Called while a replica's step is traced, where the mesh axis `replica` is bound.
        """
        axis = ReplicaAxis(REPLICA_AXIS, self.replica_devices)
        return self.cross_device_ops.all_reduce(op, value, axis)

    @property
    def has_own_all_reduce(self) -> bool:
        """Whether a subclass says for itself how values meet."""
        return type(self).all_reduce is not Strategy.all_reduce

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas share a global batch."""
        return len(self.replica_devices)

    @property
    def mesh(self) -> Mesh:
        """The devices as a JAX mesh with the one axis `replica`."""
        return self._mesh

    @property
    def batch_sharding(self) -> NamedSharding:
        """Where a global batch lives: its first dimension cut over the replicas."""
        return NamedSharding(self._mesh, PartitionSpec(REPLICA_AXIS))

    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """Put this strategy in force: what is created inside the block belongs to it.

        Raises:
            RuntimeError: when entered inside another strategy's scope.
        """
        return scope.enter(self)

    def place_variable(self, value: jax.typing.ArrayLike) -> jax.Array:
        """Return `value` placed where this strategy's variables live; no copy if it is there.

        Raises:
            ValueError: if it is divided between processes.
        """
        value = across_processes.on_this_process(value)
        require_fits(value, "An array that goes to the devices", _KEEP)
        sharding = self.variable_sharding
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            if value.sharding == sharding and value.committed:
                return value
            if not value.is_fully_addressable:
                raise ValueError(
                    f"An array of shape {value.shape} is divided between processes, and a variable "
                    "takes a whole one. Combine it first: `strategy.reduce` or `strategy.gather`."
                )
        return jax.device_put(value, sharding)

    def known_everywhere(self, tree: Any) -> Any:
        """A pytree, with what is divided between processes gathered on the devices of each.

        Of a `PerReplica` this process then has the values of all replicas. All processes call this
        together.
        """

        def whole(node: Any) -> Any:
            if isinstance(node, PerReplica):
                if not _divided(node.stacked):
                    return node
                rows = self.compute(_rows_of, (), node.stacked)
                if node.replicas is None:
                    return PerReplica(rows)
                carried = {n: row for n, row in enumerate(rows) if n not in node.replicas}
                return PerReplica([rows[n] for n in node.replicas], node.replicas, carried)
            if not _divided(node):
                return node
            if is_staged(current_trace()):  # for shapes alone: a program is given what it reads
                return jax.numpy.zeros(node.shape, node.dtype)
            return self.compute(_whole, (), node)

        return jax.tree.map(whole, tree, is_leaf=lambda node: isinstance(node, PerReplica))

    def place_copies(self, copies: jax.typing.ArrayLike) -> jax.Array:
        """Return an array ``(replicas, ...)`` with each row on its replica's device."""
        if isinstance(copies, jax.Array) and not copies.is_fully_addressable:
            return copies
        return across_processes.cut(copies, self._mesh)

    def place_everywhere(self, tree: Any) -> Any:
        """Return a pytree with its arrays where variables live, and the rest as it is."""
        return jax.tree.map(
            lambda leaf: (
                self.place_variable(leaf) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf
            ),
            tree,
        )

    def adopt_variable(self, variable: Any) -> None:
        """Let a variable that a step uses belong to this strategy.

        Raises:
            RuntimeError: if it belongs to another.
        """
        adopt(variable, self)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
    ) -> Any:
        """Run `fn` once on each replica, as ``tf.distribute.Strategy.run``.

        `fn` is traced and compiled the first time, and again for arguments of another structure or
        shape; what it prints and what it does to Python objects happens then. Variables that it
        reads and writes, its own and Keras's, are found while it is traced.

        Args:
            fn: the step. In it, `get_replica_context` gives the replica's context.
            args: positional arguments, any pytree: each replica gets its value of a `PerReplica`,
                and all get the same of anything else. Python numbers are constants of the
                compiled step; pass what changes as arrays.
            kwargs: named arguments.
            options: whether 64-bit numbers are kept.

        Returns:
            What `fn` returns, any pytree, with a `PerReplica` for every array; with one replica
            the arrays themselves.

        Raises:
            OverflowError: if numpy's 64-bit integers among the arguments do not fit into 32 bits,
                and `options` does not say that they are kept.
            RuntimeError: inside a replica's step, or if a variable belongs to another strategy.
            TypeError: if an argument is a dataset.
            ValueError: if a step of several replicas writes a `Variable` without aggregation, or
                creates variables when it is traced again.
        """
        return run(self, fn, args, kwargs or {}, options)

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | None = None) -> Any:
        """Combine the replicas' values, as ``tf.distribute.Strategy.reduce``.

        Args:
            reduce_op: ``"SUM"``, ``"MEAN"`` or a `ReduceOp`.
            value: a pytree of what `run` returns.
            axis: also reduce each value along this axis; the mean is then that of all elements,
                whatever the sizes of the replicas' shares. None combines the values as they are.

        Raises:
            RuntimeError: inside a replica's step.
            ValueError: for ``"SUM"`` of a value that is not per replica, or a missing axis.
        """
        self._require_cross_replica("reduce", "all_reduce")
        return reduce_tree(self, ReduceOp.of(reduce_op), value, axis)

    def gather(self, value: Any, axis: int) -> Any:
        """Concatenate the replicas' values along `axis`, as ``tf.distribute.Strategy.gather``.

        Args:
            value: a pytree of what `run` returns; sizes along `axis` may differ.
            axis: an axis that the values have.

        Raises:
            RuntimeError: inside a replica's step.
            ValueError: if a value has no such axis.
        """
        self._require_cross_replica("gather", "all_gather")
        return gather_tree(self, value, axis)

    def compute(self, fn: Callable[..., Any], options: tuple[Any, ...], operand: Any) -> Any:
        """Evaluate ``fn(*options, operand)`` to an array that lies where variables do.

        Args:
            fn: a function of the module, compiled once for its options.
            options: what is no array.
            operand: the replicas' values, stacked or in a tuple.
        """
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(operand)):
            return fn(*options, operand)
        if any_wide(jax.tree.leaves(operand)):
            with keeping_64_bits():
                return self._compute(fn, options, operand)
        return self._compute(fn, options, operand)

    def _compute(self, fn: Callable[..., Any], options: tuple[Any, ...], operand: Any) -> Any:
        if isinstance(operand, tuple):
            operand = self.place_everywhere(operand)
        self.in_flight.wait()
        over_all = not isinstance(operand, tuple) and not operand.is_fully_addressable
        sharding = self.program_sharding if over_all else self.variable_sharding
        result = _compiled(fn, options, sharding)(operand)
        self.in_flight.started(result)
        return jax.tree.map(across_processes.on_this_process, result)

    def stack(self, values: Sequence[Any]) -> Any:
        """One array ``(replicas, ...)`` of arrays of one shape, each on its replica's device."""
        require_all_fit(values, "A replica's value", _KEEP)
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return jax.numpy.stack(values)
        if self.num_replicas_in_sync == 1:
            return jax.device_put(values[0], self.replica_devices[0])[None]
        own = [values[index] for index in self.local_replica_ids]
        return across_processes.joined_rows(own, self._mesh)

    def per_replica(self, values: Sequence[Any]) -> Any:
        """One pytree of `PerReplica` values from a pytree for each replica, placed on its device.

        Raises:
            ValueError: if there is not one for each replica.
        """
        if len(values) != self.num_replicas_in_sync:
            raise ValueError(
                f"Got {len(values)} values for {self.num_replicas_in_sync} replicas of {self!r}."
            )
        require_all_fit(values, "A replica's value", _KEEP)
        placed = [
            jax.tree.map(functools.partial(_placed, device), value)
            for value, device in zip(values, self.replica_devices, strict=True)
        ]
        require_same_structure("the strategy", placed)
        return jax.tree.map(lambda *leaves: PerReplica(leaves), *placed)

    def distribute_datasets_from_function(
        self,
        dataset_fn: Callable[[InputContext], Iterable[Any]],
        options: InputOptions | None = None,
    ) -> DistributedDatasetFromFunction:
        """Return an iterable of what the dataset of `dataset_fn` gives, a batch for each replica.

        Args:
            dataset_fn: takes an `InputContext` and returns a dataset batched by the per-replica
                batch size.
            options: how batches come to the devices, and whether there is a dataset for each
                replica.
        """
        return DistributedDatasetFromFunction(dataset_fn, self, options)

    def experimental_distribute_values_from_function(
        self, value_fn: Callable[[ValueContext], Any]
    ) -> Any:
        """Return the `PerReplica` values that `value_fn` gives for each replica's context."""
        replicas = self.num_replicas_in_sync
        values = [value_fn(ValueContext(index, replicas)) for index in self.local_replica_ids]
        if self.spans_processes:
            require_same_structure("the strategy", values)
            return jax.tree.map(self._joined, *values)
        return values[0] if replicas == 1 else self.per_replica(values)

    def _joined(self, *rows: Any) -> PerReplica:
        """The values of this process's replicas, and those that the other processes have."""
        require_all_fit(rows, "A replica's value", _KEEP)
        arrays = [row if isinstance(row, jax.Array) else np.asarray(row) for row in rows]
        return PerReplica.of_stacked(across_processes.joined_rows(arrays, self._mesh))

    def experimental_run_v2(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
    ) -> Any:
        """The older name of `run`."""
        return self.run(fn, args, kwargs, options)

    def experimental_distribute_dataset(
        self, dataset: Iterable[Any], options: InputOptions | None = None
    ) -> DistributedDataset:
        """Return an iterable of `dataset`'s global batches, cut over the replicas.

        Args:
            dataset: an iterable of batches, usually a `drumline.data.Dataset` batched by the
                global batch size. Iterating the result again iterates `dataset` again.
            options: how batches come to the devices.
        """
        return DistributedDataset(dataset, self, options)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of this process's replicas: one, if `value` is not per replica.

        Of a structure, one structure for each replica.
        """
        if isinstance(value, PerReplica):
            return self._own_values(value)
        if isinstance(value, Variable):
            return value.copies()
        leaves = jax.tree.leaves(value, is_leaf=lambda node: isinstance(node, PerReplica))
        kept = [len(self._own_values(leaf)) for leaf in leaves if isinstance(leaf, PerReplica)]
        if not kept:
            return (value,)
        own = jax.tree.map(
            lambda node: (
                PerReplica(self._own_values(node)) if isinstance(node, PerReplica) else node
            ),
            value,
            is_leaf=lambda node: isinstance(node, PerReplica),
        )
        return tuple(for_replica(own, index) for index in range(min(kept)))

    def _own_values(self, value: PerReplica) -> tuple[Any, ...]:
        if not self.spans_processes or value.is_stacked:
            return value.values
        numbers = range(len(value.values)) if value.replicas is None else value.replicas
        local = set(self.local_replica_ids)
        return tuple(
            own for number, own in zip(numbers, value.values, strict=True) if number in local
        )

    def barrier(self) -> None:
        """Wait until all processes of the strategy are here; with one process, for nothing.

        For what they do beside training, as reading a file that the chief has just written.
        """
        if self.spans_processes:
            gathered(self, np.zeros(1, np.uint8))

    def describe(self) -> str:
        """A text that says where variables live, where replicas run and how values meet."""
        names = ", ".join(map(device_name, self.replica_devices))
        return "\n".join(
            [
                f"{type(self).__name__}: {self.num_replicas_in_sync} replica(s) in sync",
                f"  replicas run on: {names}",
                f"  mesh: {REPLICA_AXIS}={self.num_replicas_in_sync}",
                f"  variables live: {self._describe_variables()}",
                f"  values meet: {self._describe_meeting()}",
            ]
        )

    def _require_cross_replica(self, name: str, instead: str) -> None:
        if running_replica() is not None:
            raise RuntimeError(
                f"strategy.{name} was called inside a replica's step, which sees one replica only. "
                f"Use `get_replica_context().{instead}(...)` there, or call strategy.{name} on "
                "what `strategy.run` returns."
            )

    def _describe_variables(self) -> str:
        sharding = self.variable_sharding
        if len(sharding.device_set) == 1:
            (device,) = sharding.device_set
            return f"on {device_name(device)}"
        kind = "a copy on each of" if sharding.is_fully_replicated else "split over"
        return f"{kind} {len(sharding.device_set)} devices"

    def _describe_meeting(self) -> str:
        if self.num_replicas_in_sync == 1:
            return "nothing to reduce, there is one replica"
        checked = "checked after each step" if self.check_agreement else "not checked"
        algorithm = self.cross_device_ops.describe(ReplicaAxis(REPLICA_AXIS, self.replica_devices))
        return (
            f"by all-reduce ({algorithm}) over mesh axis '{REPLICA_AXIS}'; "
            f"agreement of the replicas: {checked}"
        )

    def __deepcopy__(self, memo: Any) -> Strategy:
        """A strategy is its devices, of which there is one set: a variable's copy shares it."""
        return self

    def __repr__(self) -> str:
        names = ", ".join(repr(device_name(device)) for device in self.replica_devices)
        return f"{type(self).__name__}([{names}])"


def _divided(value: Any) -> bool:
    traced = isinstance(value, jax.core.Tracer)
    return isinstance(value, jax.Array) and not traced and not value.is_fully_addressable


def _whole(value: jax.Array) -> jax.Array:
    return value


def _rows_of(stacked: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(stacked[index] for index in range(stacked.shape[0]))


def _placed(device: jax.Device, leaf: Any) -> Any:
    return leaf if isinstance(leaf, (str, bytes)) else jax.device_put(leaf, device)


@functools.lru_cache(maxsize=64)
def _compiled(fn: Any, options: tuple[Any, ...], sharding: Sharding) -> Callable[[Any], Any]:
    compiled: Callable[[Any], Any] = jax.jit(
        functools.partial(fn, *options), out_shardings=sharding
    )
    return compiled
