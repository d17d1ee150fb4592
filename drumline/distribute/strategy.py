"""`Strategy`: where variables live, where replicas run, and how their values are reduced.

The methods that users call are here, as ``tf.distribute.Strategy`` and ``StrategyExtended`` name
them. Placing arrays is in ``replica_arrays``, running steps in ``run``, inputs in
``distributed_dataset``, and reducing what steps returned in ``reducing``.

The examples take these imports for granted, and run as tests, on four CPU devices:

    import drumline as dl
    import keras
    import numpy as np
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from drumline.data.elements.precision import require_all_fit
from drumline.distribute import global_arrays
from drumline.distribute.collectives import (
    CrossDeviceOps,
    ReplicaAxis,
    resolve_cross_device_ops,
)
from drumline.distribute.collectives.devices import (
    DeviceLike,
    device_name,
    resolve_device,
    resolve_devices,
)
from drumline.distribute.global_arrays import KEEP_64_BITS, ReplicaArrays
from drumline.distribute.input.distributed_dataset import DistributedDataset
from drumline.distribute.input.distributed_dataset_from_function import (
    DistributedDatasetFromFunction,
)
from drumline.distribute.input.options import InputContext, InputOptions, ValueContext
from drumline.distribute.process_group.host_collectives import all_gather_host
from drumline.distribute.replica import ReplicaContext, enter_scope, running_replica
from drumline.distribute.step.arguments import for_replica
from drumline.distribute.step.compiled_step import InFlight, StepPlanner
from drumline.distribute.step.outputs import require_same_structure
from drumline.distribute.step.reduction import gather_tree, reduce_tree
from drumline.distribute.step.replica_scope import require_agreement
from drumline.distribute.step.run import RunOptions, StepCache, run
from drumline.distribute.values import REPLICA_AXIS, PerReplica, ReduceOp
from drumline.distribute.variable import Variable, bind_to_strategy, strategy_of_variable
from drumline.training.cut_values import is_cut


class Strategy:
    """One replica of a computation on each of several devices.

    Follows ``tf.distribute.Strategy``. Users make one of the subclasses: `OneDeviceStrategy`,
    `MirroredStrategy`, `MultiWorkerMirroredStrategy` or `ParameterServerStrategy`.

    A custom strategy overrides the answer that differs: `variable_sharding` (which may be on other
    devices than the replicas'), `sharding_of` (where one variable lives), `replica_devices` or
    `all_reduce`.

    Args:
        devices: the devices on which replicas run, one replica each, as accepted by
            `MirroredStrategy`.
        cross_device_ops: the algorithm that reduces values; by default the platform's own.
        check_agreement: after each training step, compare the replicas' copies of every
            variable and raise `drumline.keras.ReplicaDivergenceError` naming those that differ.
            It reads each variable once a step and waits for the step to end.

    Attributes:
        extended: what libraries use, a `StrategyExtended`.
        cross_device_ops: the algorithm that reduces values.
        check_agreement: whether replicas' variables are compared after each step.

    Raises:
        ValueError: if a device does not exist or is given twice.

    Example:
        >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
        >>> with strategy.scope():
        ...     total = dl.Variable(0.0, aggregation="sum")
        >>> def step(batch):
        ...     total.assign_add(batch.sum())
        ...     return batch.mean()
        >>> dataset = dl.data.Dataset.range(8).map(lambda x: x.astype("float32")).batch(4)
        >>> for batch in strategy.experimental_distribute_dataset(dataset):
        ...     print(float(strategy.reduce("MEAN", strategy.run(step, (batch,)))))
        1.5
        5.5
        >>> float(total.value)
        28.0
    """

    _stand_in: ClassVar[Callable[[type[Strategy]], type[Strategy]] | None] = None
    """Gives a subclass of a strategy's class, of which one is made in its place; see `plan`."""
    _planner: StepPlanner | None = None
    """What takes the place of running where the devices are not there."""
    _cuts_slots = False
    """Whether what an optimizer keeps for a variable is cut over the replicas."""
    _cuts_weights = False
    """Whether Keras's trainable variables are cut over the replicas."""
    _partitions = False
    """Whether XLA partitions each of a model's steps over all devices, which are a mesh."""
    _cut_store: Any = None
    """What saves the variables that are cut over processes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Strategy:
        return super().__new__(cls if Strategy._stand_in is None else Strategy._stand_in(cls))

    def __init__(
        self,
        devices: Iterable[DeviceLike],
        *,
        cross_device_ops: CrossDeviceOps | None = None,
        check_agreement: bool = False,
    ) -> None:
        self.cross_device_ops = resolve_cross_device_ops(cross_device_ops)
        self._devices = self._resolved(devices)
        self.check_agreement = check_agreement
        self._mesh = global_arrays.mesh_of(self.replica_devices)
        self.cross_device_ops.check(ReplicaAxis(REPLICA_AXIS, self.replica_devices))
        self.extended = StrategyExtended(self)
        self._arrays = ReplicaArrays(self)
        self._in_flight = InFlight(self.replica_devices, timeout_seconds=self._step_timeout_seconds)
        self._programs = StepCache(self)

    # What a custom strategy overrides.

    @property
    def replica_devices(self) -> tuple[jax.Device, ...]:
        """Where replicas run: one device for each replica.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).replica_devices
            (CpuDevice(id=0), CpuDevice(id=1))
        """
        return self._devices

    @property
    def variable_sharding(self) -> Sharding:
        """Where variables live: by default a copy on the device of every replica of this process.

        Programs that run on the replicas of several processes take them as global arrays.

        Example:
            >>> sharding = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).variable_sharding
            >>> sharding.is_fully_replicated, len(sharding.device_set)
            (True, 2)
        """
        return global_arrays.copies_on(self.local_replica_devices)

    def sharding_of(self, variable: Any) -> Sharding:
        """Where `variable` lives: by default `variable_sharding`, alike for all variables.

        With ``shard=`` what is cut lives in rows, of which each replica's device has one.

        A program that runs on the replicas takes the variable as it lies if that is on the
        replicas' devices, else as a copy on each of them; what it writes returns to where the
        variable lives. A `Variable` with ``ON_READ`` has a value for each replica, which lies on
        that replica's device; it is not asked for here.

        Args:
            variable: one of Keras's, or a `Variable`, which may have no value yet.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> with strategy.scope():
            ...     kernel = dl.Variable(0.0)
            >>> strategy.sharding_of(kernel) == strategy.variable_sharding
            True
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"], shard="parameters")
            >>> with strategy.scope():
            ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            >>> strategy.sharding_of(model.weights[0]).is_fully_replicated
            False
        """
        if self._cuts_slots and is_cut(variable):
            return self.batch_sharding
        return self.variable_sharding

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        """Reduce the replicas' values of a pytree; every replica gets the result.

        Called while a replica's step is traced, where the mesh axis `replica` is bound. Steps call
        `ReplicaContext.all_reduce`, which calls this.

        Args:
            op: ``"SUM"``, ``"MEAN"`` or a `ReduceOp`.
            value: a pytree of the replica's arrays; shapes and dtypes are those of all replicas.

        Returns:
            A pytree of arrays of the same shapes.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> def step(x):
            ...     return dl.distribute.get_replica_context().all_reduce("SUM", x)
            >>> [float(x) for x in strategy.run(step, (np.float32(3),)).values]
            [6.0, 6.0]
        """
        axis = ReplicaAxis(REPLICA_AXIS, self.replica_devices)
        return self.cross_device_ops.all_reduce(op, value, axis)

    # Training.

    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """Put this strategy in force: variables and models made inside the block belong to it.

        Follows ``tf.distribute.Strategy.scope``.

        Returns:
            A context manager, whose value is the strategy.

        Raises:
            RuntimeError: when entered inside another strategy's scope.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> with strategy.scope():
            ...     kernel = dl.Variable(np.zeros(3, np.float32))
            >>> len(kernel.value.sharding.device_set)
            2
        """
        return enter_scope(self)

    def _require_agreement(self, context: ReplicaContext, variable: Any) -> None:
        """Refuse a variable to which the replicas have written different values."""
        require_agreement(context, variable)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
    ) -> Any:
        """Run `fn` once on each replica.

        Follows ``tf.distribute.Strategy.run``. `fn` is traced and compiled the first time, and
        again for arguments of another structure or shape; what it prints and what it does to Python
        objects happens then. Variables that it reads and writes, its own and Keras's, are found
        while it is traced.

        Args:
            fn: the step. In it, `get_replica_context` gives the replica's context.
            args: positional arguments, any pytree: each replica gets its value of a `PerReplica`,
                and all get the same of anything else. Python numbers are constants of the
                compiled step; pass what changes as arrays.
            kwargs: named arguments.
            options: whether 64-bit numbers are retained.

        Returns:
            What `fn` returns, any pytree, with a `PerReplica` for every array; with one replica
            the arrays themselves.

        Raises:
            OverflowError: if numpy's 64-bit integers among the arguments do not fit into 32 bits,
                and `options` does not retain them.
            RuntimeError: inside a replica's step, or if a variable belongs to another strategy.
            TypeError: if an argument is a dataset.
            ValueError: if a step of several replicas writes a `Variable` without aggregation, or
                creates variables when it is traced again.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> def step(x):
            ...     context = dl.distribute.get_replica_context()
            ...     return x * (context.replica_id_in_sync_group + 1)
            >>> strategy.run(step, (np.float32(10),))
            PerReplica:{
              0: Array(10., dtype=float32)
              1: Array(20., dtype=float32)
            }
        """
        self._require_replicas("run")
        return run(self, fn, args, kwargs or {}, options)

    def experimental_run_v2(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
    ) -> Any:
        """Run `fn` once on each replica: the older name of `run`.

        Args:
            fn: as of `run`, like the arguments that follow.
            args: positional arguments.
            kwargs: named arguments.
            options: whether 64-bit numbers are retained.

        Example:
            >>> strategy = dl.distribute.OneDeviceStrategy("cpu:0")
            >>> float(strategy.experimental_run_v2(lambda x: x + 1, (np.float32(1),)))
            2.0
        """
        return self.run(fn, args, kwargs, options)

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | None = None) -> Any:
        """Combine the replicas' values.

        Follows ``tf.distribute.Strategy.reduce``; the mean of integers is float32.

        Args:
            reduce_op: ``"SUM"``, ``"MEAN"`` or a `ReduceOp`.
            value: a pytree of what `run` returns.
            axis: also reduce each value along this axis; the mean is then that of all elements,
                whatever the sizes of the replicas' shares. None combines the values as they are.

        Returns:
            A pytree of arrays of the values' shapes, without `axis` if it is given.

        Raises:
            RuntimeError: inside a replica's step.
            ValueError: for ``"SUM"`` of a value that is not per replica, or a missing axis.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.per_replica([np.float32([1, 2]), np.float32([3, 4])])
            >>> strategy.reduce("SUM", values).tolist(), float(strategy.reduce("MEAN", values, 0))
            ([4.0, 6.0], 2.5)
        """
        self._require_cross_replica("reduce", "all_reduce")
        return reduce_tree(self, ReduceOp.of(reduce_op), value, axis)

    def gather(self, value: Any, axis: int) -> Any:
        """Concatenate the replicas' values along `axis`.

        Follows ``tf.distribute.Strategy.gather``.

        Args:
            value: a pytree of what `run` returns; sizes along `axis` may differ.
            axis: an axis that the values have.

        Returns:
            A pytree of arrays on every device of the process.

        Raises:
            RuntimeError: inside a replica's step.
            ValueError: if a value has no such axis.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.per_replica([np.arange(2), np.arange(3)])
            >>> strategy.gather(values, axis=0).tolist()
            [0, 1, 0, 1, 2]
        """
        self._require_cross_replica("gather", "all_gather")
        return gather_tree(self, value, axis)

    def barrier(self) -> None:
        """Wait until all processes of the strategy have called this; with one process, return.

        For what they do beside training, as reading a file that the chief has just written. Not in
        tf.distribute.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).barrier()
        """
        if self.spans_processes:
            all_gather_host(self, np.zeros(1, np.uint8))

    # Input, and values for each replica.

    def experimental_distribute_dataset(
        self, dataset: Iterable[Any], options: InputOptions | None = None
    ) -> DistributedDataset:
        """Return an iterable of `dataset`'s global batches, divided among the replicas.

        Follows ``tf.distribute.Strategy.experimental_distribute_dataset``.

        Args:
            dataset: an iterable of batches, usually a `drumline.data.Dataset` batched by the
                global batch size. Iterating the result again iterates `dataset` again.
            options: how batches are moved to the devices.

        Returns:
            An iterable of pytrees with a `PerReplica` for each leaf (the arrays themselves with one
            replica), which `run` takes.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> dataset = dl.data.Dataset.range(4).batch(4)
            >>> for batch in strategy.experimental_distribute_dataset(dataset):
            ...     print(batch)
            PerReplica:{
              0: Array([0, 1], dtype=int32)
              1: Array([2, 3], dtype=int32)
            }
        """
        self._require_replicas("experimental_distribute_dataset")
        return DistributedDataset(dataset, self, options)

    def distribute_datasets_from_function(
        self,
        dataset_fn: Callable[[InputContext], Iterable[Any]],
        options: InputOptions | None = None,
    ) -> DistributedDatasetFromFunction:
        """Return an iterable of what the dataset of `dataset_fn` yields, a batch for each replica.

        Follows ``tf.distribute.Strategy.distribute_datasets_from_function``.

        Args:
            dataset_fn: takes an `InputContext` and returns a dataset batched by the per-replica
                batch size.
            options: how batches are moved to the devices, and whether there is a dataset for each
                replica.

        Returns:
            An iterable as `experimental_distribute_dataset` returns.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> def dataset_fn(context):
            ...     size = context.get_per_replica_batch_size(global_batch_size=4)
            ...     return dl.data.Dataset.range(8).batch(size)
            >>> first = next(iter(strategy.distribute_datasets_from_function(dataset_fn)))
            >>> [value.tolist() for value in first.values]
            [[0, 1], [2, 3]]
        """
        self._require_replicas("distribute_datasets_from_function")
        return DistributedDatasetFromFunction(dataset_fn, self, options)

    def experimental_distribute_values_from_function(
        self, value_fn: Callable[[ValueContext], Any]
    ) -> Any:
        """Return the `PerReplica` values that `value_fn` returns for each replica's context.

        Follows ``tf.distribute.Strategy.experimental_distribute_values_from_function``.

        Args:
            value_fn: takes a `ValueContext`, returns a pytree of arrays of the same structure for
                all replicas. It is called for the replicas of this process.

        Raises:
            OverflowError: if a 64-bit integer does not fit into 32 bits.
            ValueError: if structures differ.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.experimental_distribute_values_from_function(
            ...     lambda context: np.float32(context.replica_id_in_sync_group)
            ... )
            >>> [float(value) for value in values.values]
            [0.0, 1.0]
        """
        self._require_replicas("experimental_distribute_values_from_function")
        replicas = self.num_replicas_in_sync
        values = [value_fn(ValueContext(index, replicas)) for index in self.local_replica_ids]
        if self.spans_processes:
            require_same_structure("the strategy", values)
            return jax.tree.map(self._joined, *values)
        return values[0] if replicas == 1 else self.per_replica(values)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of this process's replicas: one, if `value` is not per replica.

        Follows ``tf.distribute.Strategy.experimental_local_results``.

        Args:
            value: what `run` returns; of a structure, there is one structure for each replica. Of a
                variable, the copies.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.per_replica([np.float32(1), np.float32(2)])
            >>> [float(value) for value in strategy.experimental_local_results(values)]
            [1.0, 2.0]
        """
        if isinstance(value, PerReplica):
            return self._own_values(value)
        if isinstance(value, Variable):
            return value.copies()
        leaves = jax.tree.leaves(value, is_leaf=lambda node: isinstance(node, PerReplica))
        counts = [len(self._own_values(leaf)) for leaf in leaves if isinstance(leaf, PerReplica)]
        if not counts:
            return (value,)
        own = jax.tree.map(
            lambda node: (
                PerReplica(self._own_values(node)) if isinstance(node, PerReplica) else node
            ),
            value,
            is_leaf=lambda node: isinstance(node, PerReplica),
        )
        return tuple(for_replica(own, index) for index in range(min(counts)))

    def per_replica(self, values: Sequence[Any]) -> Any:
        """Return one pytree of `PerReplica` values from a pytree for each replica.

        Each is placed on its replica's device. Not in tf.distribute.

        Args:
            values: one for each replica, of the same structure; shapes may differ.

        Raises:
            OverflowError: if a 64-bit integer does not fit into 32 bits.
            ValueError: if there is not one for each replica, or structures differ.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> strategy.per_replica([np.float32(1), np.float32(2)])
            PerReplica:{
              0: Array(1., dtype=float32)
              1: Array(2., dtype=float32)
            }
        """
        self._require_replicas("per_replica")
        if len(values) != self.num_replicas_in_sync:
            raise ValueError(
                f"Got {len(values)} values for {self.num_replicas_in_sync} replicas of {self!r}."
            )
        require_all_fit(values, "A replica's value", KEEP_64_BITS)
        placed = [
            jax.tree.map(functools.partial(_placed, device), value)
            for value, device in zip(values, self.replica_devices, strict=True)
        ]
        require_same_structure("the strategy", placed)
        return jax.tree.map(lambda *leaves: PerReplica(leaves), *placed)

    # What a strategy consists of.

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas share a global batch.

        Follows ``tf.distribute.Strategy.num_replicas_in_sync``.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).num_replicas_in_sync
            2
        """
        return len(self.replica_devices)

    @property
    def local_replica_devices(self) -> tuple[jax.Device, ...]:
        """Where the replicas of this process run.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).local_replica_devices
            (CpuDevice(id=0), CpuDevice(id=1))
        """
        return global_arrays.own_devices(self.replica_devices)

    @property
    def local_replica_ids(self) -> list[int]:
        """The numbers of the replicas that run in this process.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).local_replica_ids
            [0, 1]
        """
        local = set(self.local_replica_devices)
        return [index for index, device in enumerate(self.replica_devices) if device in local]

    @property
    def num_processes(self) -> int:
        """How many processes have replicas.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).num_processes
            1
        """
        return len({device.process_index for device in self.replica_devices})

    @property
    def process_index(self) -> int:
        """This process's number among those that have replicas, from 0.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).process_index
            0
        """
        processes = sorted({device.process_index for device in self.replica_devices})
        return processes.index(jax.process_index())

    @property
    def spans_processes(self) -> bool:
        """Whether some replicas run in other processes.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).spans_processes
            False
        """
        return len(self.local_replica_devices) < len(self.replica_devices)

    @property
    def mesh(self) -> Mesh:
        """The devices as a JAX mesh with the one axis `replica`.

        Example:
            >>> dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).mesh.shape["replica"]
            2
        """
        return self._mesh

    @property
    def batch_sharding(self) -> NamedSharding:
        """Where a global batch lives: its first dimension divided among the replicas.

        Example:
            >>> sharding = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).batch_sharding
            >>> sharding.shard_shape((8, 3))
            (4, 3)
        """
        return NamedSharding(self._mesh, PartitionSpec(REPLICA_AXIS))

    def describe(self) -> str:
        """Return a text that says where variables live, where replicas run and what reduces values.

        Example:
            >>> print(dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).describe())
            MirroredStrategy: 2 replica(s) in sync
              replicas run on: cpu:0, cpu:1
              ...
        """
        names = ", ".join(map(device_name, self.replica_devices))
        return "\n".join(
            [
                f"{type(self).__name__}: {self.num_replicas_in_sync} replica(s) in sync",
                f"  replicas run on: {names}",
                f"  mesh: {REPLICA_AXIS}={self.num_replicas_in_sync}",
                f"  variables live: {self._describe_variables()}",
                f"  values are reduced: {self._describe_reduction()}",
            ]
        )

    def _resolved(self, devices: Iterable[DeviceLike]) -> tuple[jax.Device, ...]:
        """The devices that the constructor was given."""
        return resolve_devices(devices)

    @property
    def _default_device(self) -> jax.Device:
        """Where what is on no device yet goes in the scope, as values of new variables."""
        return self.local_replica_devices[0]

    @property
    def _step_timeout_seconds(self) -> float | None:
        """How long a step of several processes may take; None for no limit."""
        return None

    @property
    def _has_own_all_reduce(self) -> bool:
        """Whether a subclass overrides `all_reduce`."""
        return type(self).all_reduce is not Strategy.all_reduce

    def _adopt_variable(self, variable: Any) -> None:
        """Let a variable that a step uses belong to this strategy.

        Raises:
            RuntimeError: if it belongs to another.
        """
        bind_to_strategy(variable, self)

    def _check_variables(self) -> None:
        """Check that the variables of the scope are those that the strategy was made for."""

    def _computed_with(self, variable: Any) -> Sharding | None:
        """Where a model's step has a trainable variable while it computes, if not as it lives."""
        return None

    def _joined(self, *rows: Any) -> PerReplica:
        """The values of this process's replicas, and those that the other processes have."""
        require_all_fit(rows, "A replica's value", KEEP_64_BITS)
        arrays = [row if isinstance(row, jax.Array) else np.asarray(row) for row in rows]
        return PerReplica.of_stacked(global_arrays.joined_rows(arrays, self._mesh))

    def _own_values(self, value: PerReplica) -> tuple[Any, ...]:
        if not self.spans_processes or value.is_stacked:
            return value.values
        numbers = range(len(value.values)) if value.replicas is None else value.replicas
        local = set(self.local_replica_ids)
        return tuple(
            own for number, own in zip(numbers, value.values, strict=True) if number in local
        )

    def _require_replicas(self, name: str) -> None:
        """Refuse the method `name`, if a replica has no program of its own."""

    def _require_cross_replica(self, name: str, instead: str) -> None:
        self._require_replicas(name)
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

    def _describe_reduction(self) -> str:
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


class StrategyExtended:
    """What library code may ask of a strategy in cross-replica context: ``strategy.extended``.

    Follows ``tf.distribute.StrategyExtended``.

    Args:
        strategy: the strategy.

    Example:
        >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
        >>> strategy.extended.worker_devices
        ('cpu:0', 'cpu:1')
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The names of this process's devices on which replicas run.

        Example:
            >>> dl.distribute.OneDeviceStrategy("cpu:1").extended.worker_devices
            ('cpu:1',)
        """
        return tuple(map(device_name, self._strategy.local_replica_devices))

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The names of the devices on which variables live.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> strategy.extended.parameter_devices
            ('cpu:0', 'cpu:1')
        """
        devices = self._strategy.variable_sharding.device_set
        return tuple(sorted(map(device_name, devices)))

    def reduce_to(self, reduce_op: ReduceOp | str, value: Any, destinations: Any) -> Any:
        """Reduce `value` over the replicas, as `Strategy.reduce`, to where `destinations` is.

        Args:
            reduce_op: ``"SUM"``, ``"MEAN"`` or a `ReduceOp`.
            value: a pytree of what `Strategy.run` returns.
            destinations: a device name puts the result there; with anything else, as a variable,
                it lies where the strategy's variables do.

        Raises:
            RuntimeError: inside a replica's step.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.per_replica([np.float32(1), np.float32(2)])
            >>> total = strategy.extended.reduce_to("SUM", values, "cpu:3")
            >>> float(total), total.devices()
            (3.0, {CpuDevice(id=3)})
        """
        _require_cross_replica_of_extended("reduce_to")
        result = self._strategy.reduce(reduce_op, value, axis=None)
        if isinstance(destinations, str):
            return jax.device_put(result, resolve_device(destinations))
        return result

    def batch_reduce_to(
        self, reduce_op: ReduceOp | str, value_destination_pairs: Iterable[tuple[Any, Any]]
    ) -> list[Any]:
        """Reduce several values at once, as `reduce_to`; they are exchanged together.

        Args:
            reduce_op: ``"SUM"``, ``"MEAN"`` or a `ReduceOp`.
            value_destination_pairs: pairs of a value and its destination, a variable.

        Raises:
            RuntimeError: inside a replica's step.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.per_replica([np.float32(1), np.float32(2)])
            >>> pairs = [(values, "everywhere"), (values, "everywhere")]
            >>> [float(mean) for mean in strategy.extended.batch_reduce_to("MEAN", pairs)]
            [1.5, 1.5]
        """
        _require_cross_replica_of_extended("batch_reduce_to")
        values = [value for value, _ in value_destination_pairs]
        reduced: list[Any] = self._strategy.reduce(reduce_op, values, axis=None)
        return reduced

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call ``fn(var, *args, **kwargs)`` to update `var` alike on every device.

        Args:
            var: a variable of this strategy.
            fn: writes `var`.
            args: positional arguments, the same for all replicas: reduce those that are not.
            kwargs: named arguments.
            group: return nothing, as TensorFlow's grouped operation; else what `fn` returns, in a
                list with one entry.

        Raises:
            RuntimeError: inside a replica's step.
            ValueError: if an argument has a value for each replica.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> with strategy.scope():
            ...     count = dl.Variable(1.0)
            >>> strategy.extended.update(count, lambda v, x: v.assign_add(x), (2.0,))
            >>> float(count.value)
            3.0
        """
        _require_cross_replica_of_extended("update")
        leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda x: isinstance(x, PerReplica))
        if any(isinstance(leaf, PerReplica) for leaf in leaves):
            raise ValueError(
                "strategy.extended.update got a PerReplica, which would give the copies of "
                f"{getattr(var, 'path', var)!r} different values. Reduce it first: "
                "`strategy.extended.reduce_to('SUM', value, destinations=var)`."
            )
        result = fn(var, *args, **(kwargs or {}))
        return None if group else [result]

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Within the block make variables where `colocate_with_variable` lives.

        All variables of a strategy live on the same devices, so this checks that it is one.

        Args:
            colocate_with_variable: a variable of this strategy.

        Raises:
            ValueError: if the variable was not made in this strategy's scope.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> with strategy.scope():
            ...     kernel = dl.Variable(0.0)
            ...     with strategy.extended.colocate_vars_with(kernel):
            ...         slot = dl.Variable(0.0)
            >>> slot.value.sharding == kernel.value.sharding
            True
        """
        if not self.variable_created_in_scope(colocate_with_variable):
            raise ValueError(
                f"colocate_vars_with got {colocate_with_variable!r}, which was not made in the "
                f"scope of {self._strategy!r}. Make it inside `with strategy.scope():`."
            )
        yield

    def variable_created_in_scope(self, v: Any) -> bool:
        """Return whether variable `v` belongs to this strategy.

        Args:
            v: a variable.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> strategy.extended.variable_created_in_scope(dl.Variable(0.0))
            False
        """
        return strategy_of_variable(v) is self._strategy

    def value_container(self, value: Any) -> Any:
        """Return the variable or `PerReplica` that holds `value`: itself, both are one object here.

        Args:
            value: a variable or a `PerReplica`.

        Example:
            >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
            >>> values = strategy.per_replica([np.float32(1), np.float32(2)])
            >>> strategy.extended.value_container(values) is values
            True
        """
        return value


def _require_cross_replica_of_extended(name: str) -> None:
    if running_replica() is not None:
        raise RuntimeError(
            f"strategy.extended.{name} was called inside a replica's step, which sees one replica "
            f"only. Wrap it: `get_replica_context().merge_call(lambda strategy, v: "
            f"strategy.extended.{name}(...), args=(v,))`."
        )


def _placed(device: jax.Device, leaf: Any) -> Any:
    return leaf if isinstance(leaf, (str, bytes)) else jax.device_put(leaf, device)
