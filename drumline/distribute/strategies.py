"""The synchronous strategies.

One device, a process's devices, those of several processes, TPUs, and a mesh over which variables
are cut as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from drumline.cpu_kernels import kernels
from drumline.distribute import global_arrays
from drumline.distribute.cluster_resolver import (
    ClusterResolver,
    TFConfigClusterResolver,
    TPUClusterResolver,
    tpu,
)
from drumline.distribute.collectives import (
    CrossDeviceOps,
    GlooAllReduce,
    NcclAllReduce,
    ReplicaAxis,
    RingAllReduce,
    SharedMemoryAllReduce,
)
from drumline.distribute.collectives.devices import (
    DeviceLike,
    device_name,
    resolve_device,
    resolve_devices,
    resolve_mesh,
)
from drumline.distribute.collectives.platform import (
    CommunicationImplementation,
    CommunicationOptions,
)
from drumline.distribute.process_group import ProcessGroup, share_memory, start
from drumline.distribute.process_group.start import devices_of_tpu, join_tpu
from drumline.distribute.replica import register_default_strategy
from drumline.distribute.step.cut_checkpoints import CutStore
from drumline.distribute.strategy import Strategy
from drumline.distribute.values import REPLICA_AXIS
from drumline.training.layouts import VariableLayouts


class OneDeviceStrategy(Strategy):
    """Place variables and computation on one device.

    Follows ``tf.distribute.OneDeviceStrategy``.

    Args:
        device: a device name such as ``"cpu:1"`` or ``"/gpu:0"``, or a JAX device.

    Raises:
        ValueError: if the device does not exist.

    Example:
        >>> strategy = dl.distribute.OneDeviceStrategy("cpu:1")
        >>> result = strategy.run(lambda x: x + 1, (np.float32(1),))
        >>> float(result), result.devices()
        (2.0, {CpuDevice(id=1)})
    """

    def __init__(self, device: DeviceLike) -> None:
        super().__init__([device])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({device_name(self.replica_devices[0])!r})"


class DefaultStrategy(Strategy):
    """What is in force outside every scope: one replica on JAX's default device."""

    def __init__(self) -> None:
        super().__init__([jax.local_devices()[0]])

    def _adopt_variable(self, variable: Any) -> None:
        """Leave the variable where it is: this is no strategy that anybody chose."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


register_default_strategy(DefaultStrategy)


class CuttingStrategy(Strategy):
    """What the strategies have in common that can cut weights and slots over their replicas.

    Attributes:
        shard: what is cut: ``"optimizer"`` slots, or ``"parameters"``, weights as well; else None.
    """

    shard: str | None = None

    def _cut_by(self, shard: str | None) -> None:
        """Cut what `shard` says.

        Raises:
            ValueError: if it is something else, or does not go with what else the strategy does.
        """
        self.shard = shard
        if shard is None:
            return
        name = f"{type(self).__name__}(shard={shard!r})"
        if shard not in ("optimizer", "parameters"):
            raise ValueError(
                f"{name}: it is 'optimizer', 'parameters', or None for a copy of every variable on "
                "each device."
            )
        if not self.cross_device_ops.cuts or self._has_own_all_reduce:
            leave = "communication_options" if self.spans_processes else "cross_device_ops"
            raise ValueError(
                f"{name} sums each part of the gradients where it is used, by the platform's own "
                f"reduce-scatter, and so cannot take {type(self.cross_device_ops).__name__} or an "
                f"`all_reduce` of a subclass's. Leave out `{leave}`, or `shard`."
            )
        if self.check_agreement:
            raise ValueError(
                f"{name}, check_agreement=True: what is cut has no copies to compare. Leave out "
                "one of them."
            )
        self._cuts_slots = self.num_replicas_in_sync > 1
        self._cuts_weights = self._cuts_slots and shard == "parameters"
        self._cut_store = CutStore(self)

    def _describe_variables(self) -> str:
        where = super()._describe_variables()
        if not self._cuts_slots:
            return where
        replicas = self.num_replicas_in_sync
        what = "weights and an optimizer's slots" if self._cuts_weights else "an optimizer's slots"
        over = f" over {self.num_processes} processes" if self.spans_processes else ""
        return f"{where}; of {what} each has 1/{replicas}{over}, cut by shard={self.shard!r}"


class MirroredStrategy(CuttingStrategy):
    """Synchronous training on several devices of one process.

    Follows ``tf.distribute.MirroredStrategy``. Every device holds a copy of every variable and
    computes on its share of the global batch; gradients are reduced before they are applied.

    With ``shard="optimizer"`` each device holds, of what an optimizer keeps for a trainable
    variable (moments, averages, accumulated gradients), a part alone, and updates that part, as
    in ZeRO-1 (Rajbhandari et al., 2020). With ``shard="parameters"`` it holds a part of Keras's
    trainable variables as well, as in ZeRO-3: a step gathers them for the loss, and again for its
    gradient. Both are for Keras's compiled `fit`, `train_on_batch`, `evaluate` and `predict`, and
    for steps of `run` whose optimizer computes element by element. A model trains to the numbers of
    copies, to rounding.

    Where the optimizer computes element by element, as SGD, Adam and RMSprop do, each device
    updates its part alone. Optimizers that look across a variable (norms for clipping, loss
    scaling, Lamb, Adafactor, Muon) are given variables and slots whole within the step, for which a
    device may need as much memory as for copies; so is any optimizer for a batch that does not
    split, and a step that is not compiled holds copies. On CPUs several steps in one execution
    (``steps_per_execution``) are one program, in which XLA makes one of the two gathers of a
    weight and holds all weights for a time. Reading a variable that is cut brings its parts
    together.

    In a step of `run` the optimizer sums and updates this replica's part, since a user's step
    cannot be split there; optimizers that look across a variable are refused there. With
    ``shard="parameters"`` such a step gathers each weight once, and holds it whole until its
    gradient is computed.

    Args:
        devices: device names or JAX devices, or one of them; by default all local devices of
            JAX's default backend.
        cross_device_ops: the algorithm that reduces gradients and other values, such as
            `RingAllReduce()`; by default `NcclAllReduce()`, the platform's own.
        check_agreement: compare the replicas' variables after each training step; see
            `Strategy`.
        shard: ``"optimizer"`` to cut the optimizer's state over the replicas, ``"parameters"`` to
            cut the weights as well; None for copies.

    Raises:
        ValueError: if a device does not exist or is given twice; if `shard` is something else, or
            is given with another algorithm than the platform's own or with `check_agreement`.

    Example:
        >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
        >>> with strategy.scope():
        ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        ...     model.compile(optimizer="sgd", loss="mse")
        >>> rows = (np.ones((8, 3), np.float32), np.ones((8, 1), np.float32))
        >>> history = model.fit(dl.data.Dataset.from_tensor_slices(rows).batch(4), verbose=0)
        >>> len(history.history["loss"])
        1
    """

    def __init__(
        self,
        devices: Iterable[DeviceLike] | DeviceLike | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
        *,
        check_agreement: bool = False,
        shard: str | None = None,
    ) -> None:
        if devices is None:
            devices = jax.local_devices()
        elif isinstance(devices, (str, jax.Device)):
            devices = [devices]
        super().__init__(
            devices, cross_device_ops=cross_device_ops, check_agreement=check_agreement
        )
        self._cut_by(shard)


class CentralStorageStrategy(Strategy):
    """Variables on one device, and replicas of the computation on others.

    Follows ``tf.distribute.experimental.CentralStorageStrategy``. Variables live on the CPU, or,
    where a single device computes, on that. There Keras's `fit` and steps of `run` update them:
    each step copies the weights to the replicas' devices, which compute gradients and forget the
    copies; an optimizer's slots stay where they live. So does a table from which a step only looks
    rows up, as ``keras.layers.Embedding`` does: each replica is sent the rows that it looks up, and
    sends their gradients back. A table that is read in another way, as by a regularizer, is copied
    like other weights, which the log says.

    `evaluate` and `predict` look rows up in the same way; copies of other weights stay on the
    replicas' devices until the weights change. The numbers are those of a `MirroredStrategy` on the
    same devices.

    A `dl.function` that runs steps runs as Python, so that each step is a program of its own. A
    step of `run` whose batch does not split over the replicas copies all variables that it uses,
    slots among them. These copies stay while such steps follow one another, and what was written
    returns when a variable is read.

    Args:
        compute_devices: device names or JAX devices on which replicas run, one replica each; by
            default all local devices of JAX's default backend.
        parameter_device: the device on which variables live; by default the only compute device,
            or the CPU if there are several.

    Raises:
        ValueError: if a device does not exist, or a compute device is given twice.

    Example:
        >>> strategy = dl.distribute.experimental.CentralStorageStrategy(["cpu:1", "cpu:2"])
        >>> with strategy.scope():
        ...     total = dl.Variable(0.0, aggregation="sum")
        >>> _ = strategy.run(lambda x: total.assign_add(x), (np.float32(3),))
        >>> float(total.value), total.value.devices()
        (6.0, {CpuDevice(id=0)})
    """

    def __init__(
        self,
        compute_devices: Iterable[DeviceLike] | DeviceLike | None = None,
        parameter_device: DeviceLike | None = None,
    ) -> None:
        if compute_devices is None:
            compute_devices = jax.local_devices()
        elif isinstance(compute_devices, (str, jax.Device)):
            compute_devices = [compute_devices]
        compute = resolve_devices(compute_devices)
        alone = compute[0] if len(compute) == 1 else "cpu:0"
        self._parameter_device = resolve_device(
            alone if parameter_device is None else parameter_device
        )
        super().__init__(compute)

    @property
    def variable_sharding(self) -> Sharding:
        """The parameter device.

        Example:
            >>> central = dl.distribute.experimental.CentralStorageStrategy
            >>> central(["cpu:1", "cpu:2"]).variable_sharding.device_set
            {CpuDevice(id=0)}
        """
        return global_arrays.copies_on((self._parameter_device,))

    @property
    def _default_device(self) -> jax.Device:
        """The parameter device: a value for which the others have no room is made there."""
        return self._parameter_device

    def _describe_variables(self) -> str:
        where = super()._describe_variables()
        if not self._arrays.variables_away:
            return where
        devices = len(self.replica_devices)
        return (
            f"{where}, where they are updated; steps copy weights to {devices} compute device(s), "
            "and rows alone of tables that they look up; those of uneven batches copy all they use"
        )

    def __repr__(self) -> str:
        names = ", ".join(repr(device_name(device)) for device in self.replica_devices)
        home = device_name(self._parameter_device)
        return f"{type(self).__name__}([{names}], parameter_device={home!r})"


class ProcessGroupStrategy(CuttingStrategy):
    """What the strategies over several processes have in common.

    Args:
        group: the processes, which this one has joined.
        devices: the replicas', process by process, as many in each.
        cross_device_ops: the algorithm that reduces values.
        step_timeout_seconds: how long a step of several processes may take; None for no limit.
        check_agreement: see `Strategy`.
        shard: see `CuttingStrategy`.
    """

    def __init__(
        self,
        group: ProcessGroup,
        devices: Sequence[jax.Device],
        *,
        cross_device_ops: CrossDeviceOps,
        step_timeout_seconds: float | None,
        check_agreement: bool,
        shard: str | None = None,
    ) -> None:
        self._group = group
        self._all_devices = tuple(devices)
        self._step_limit_seconds = step_timeout_seconds
        super().__init__(
            global_arrays.own_devices(self._all_devices),
            cross_device_ops=cross_device_ops,
            check_agreement=check_agreement,
        )
        self._cut_by(shard)

    @property
    def _step_timeout_seconds(self) -> float | None:
        return self._step_limit_seconds

    @property
    def replica_devices(self) -> tuple[jax.Device, ...]:
        """The devices of all processes, in the order of the cluster.

        Example:
            >>> len(dl.distribute.MultiWorkerMirroredStrategy().replica_devices) >= 1
            True
        """
        return self._all_devices

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes what is shared, as checkpoints.

        Not in tf.distribute, where it follows from ``cluster_resolver``.

        Example:
            >>> dl.distribute.MultiWorkerMirroredStrategy().is_chief
            True
        """
        return self._group.is_chief

    def describe(self) -> str:
        """Return `Strategy.describe`, with the cluster and the algorithm that reduces values.

        Example:
            >>> print(dl.distribute.MultiWorkerMirroredStrategy().describe())
            MultiWorkerMirroredStrategy: ...
              processes: 1 (worker:0), this is worker:0
        """
        tasks = ", ".join(self._group.tasks)
        this = f"  processes: {self._group.num_processes} ({tasks}), this is {self._group.task}"
        axis = ReplicaAxis(REPLICA_AXIS, self.replica_devices)
        reduce = f"  all-reduce{self._chosen_reduction}: {self.cross_device_ops.describe(axis)}"
        return f"{super().describe()}\n{reduce}\n{this}"

    @property
    def _chosen_reduction(self) -> str:
        """What the user chose to reduce by, as `describe` adds it."""
        return ""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._group.task} of {self._group.num_processes} processes, "
            f"{self.num_replicas_in_sync} replicas)"
        )


class MultiWorkerMirroredStrategy(ProcessGroupStrategy):
    """Synchronous training in several processes, on one machine or on many.

    Follows ``tf.distribute.MultiWorkerMirroredStrategy``.

    Create it at the beginning of the program, in every process of the cluster: it waits for all of
    them, and fixes JAX's devices. Each device of each process holds a copy of every variable and
    computes on its share of the global batch; gradients are reduced before they are applied. A
    cluster of one process is a `MirroredStrategy`; a process without accelerators brings its CPU
    devices.

    All processes run the same script: the same steps in the same order. Variables start with the
    values that the first process gave them. What users hold (variables' values, losses, logs)
    lies on their own process's devices, so that looking at it involves no other process.

    With ``shard="optimizer"`` or ``shard="parameters"`` each device of each process holds a part of
    the optimizer's slots, or of the weights as well, as with `MirroredStrategy`, to which the same
    limits apply. No process then has the whole of such a variable: all of them make it, read it and
    save it together, in the same order, and one that does so alone ends with an error that names
    it. So every process calls ``get_weights`` and ``model.save``, and builds the model.

    When a process fails, dies, stops or cannot be reached, the others end with an error that names
    it: at once, or after a silence; see `drumline.distribute.process_group`.

    Args:
        cluster_resolver: says which processes there are and which one this is; by default what the
            environment variable ``TF_CONFIG`` says.
        communication_options: how values are reduced, and how long a step may take.
        heartbeat_timeout_seconds: how long another process may be silent, because its machine or
            the network is down or it is stopped, before this one ends.
        check_agreement: compare the replicas' variables after each training step; see `Strategy`.
        shard: ``"optimizer"`` to cut the optimizer's state over the replicas of all processes,
            ``"parameters"`` to cut the weights as well; None for copies.

    Raises:
        RuntimeError: if JAX has started already, if this process's address is taken, or if the
            other processes do not come in time.
        ValueError: if the cluster is none to compute with, if its processes have different numbers
            of devices, or if NCCL is asked for without GPUs; if `shard` is something else, or is
            given with a ring or with `check_agreement`.

    Example:
        The same script in every process, as ``drumline launch --workers 2 train.py`` starts them;
        here in one process, without ``TF_CONFIG``.

        >>> strategy = dl.distribute.MultiWorkerMirroredStrategy()
        >>> strategy.num_processes, strategy.num_replicas_in_sync == len(strategy.replica_devices)
        (1, True)
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
        *,
        heartbeat_timeout_seconds: int = 25,
        check_agreement: bool = False,
        shard: str | None = None,
    ) -> None:
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()
        self.communication_options = CommunicationOptions.of(communication_options)
        group = start(self.cluster_resolver, heartbeat_timeout_seconds=heartbeat_timeout_seconds)
        devices = tuple(jax.local_devices() if group.num_processes == 1 else jax.devices())
        _require_alike(devices, group.tasks)
        super().__init__(
            group,
            devices,
            cross_device_ops=_cross_device_ops(self.communication_options, devices),
            step_timeout_seconds=self.communication_options.timeout_seconds,
            check_agreement=check_agreement,
            shard=shard,
        )

    @property
    def _chosen_reduction(self) -> str:
        options = self.communication_options
        return "" if options.cross_device_ops else f" ({options.implementation.name})"


class TPUStrategy(ProcessGroupStrategy):
    """Synchronous training on a TPU: on one machine's, or on a slice of many machines.

    Follows ``tf.distribute.TPUStrategy``, for scripts that run on every machine of the TPU: JAX has
    no remote devices. ``gcloud compute tpus tpu-vm ssh NAME --worker=all --command="python
    train.py"`` starts one so, and so does a Job on GKE. It is tested with CPU
    devices in the place of a TPU's, and has never run on one, for want of it
    (docs/distribution/tpus.md).

    Create it at the beginning of the program, before anything computes. It joins the TPU's
    machines, as `drumline.config.experimental_connect_to_cluster` does, and starts JAX on the
    devices, as `drumline.tpu.experimental.initialize_tpu_system` does: scripts may call both
    before, or neither. Each device holds a copy of every variable and computes on its share of the
    global batch; values are reduced over the TPU's own network, by XLA. Processes start, watch one
    another and fail as those of a `MultiWorkerMirroredStrategy` do.

    Replicas are numbered machine by machine.

    Args:
        tpu_cluster_resolver: says which machines the TPU has; by default ``TPUClusterResolver()``,
            which finds the TPU of the machine that it is made on.
        experimental_device_assignment: the cores that compute, one for each replica; by default
            all. On one machine replicas are numbered as it says; on several, machine by machine,
            and as it says within each.
        experimental_spmd_xla_partitioning: whether XLA divides a program of a replica of several
            cores; here a replica has one, so it changes nothing.
        heartbeat_timeout_seconds: how long another machine may be silent before this one ends; it
            counts if this strategy is what joins the machines.
        step_timeout_seconds: how long a step of several machines may take before all end, with
            the stacks of their threads; by default there is no limit.
        check_agreement: compare the replicas' variables after each training step; see `Strategy`.
        shard: ``"optimizer"`` or ``"parameters"`` to cut an optimizer's slots, or the weights as
            well, over all cores; see `MultiWorkerMirroredStrategy`.

    Raises:
        NotImplementedError: for replicas of several cores, as for model parallelism.
        RuntimeError: if JAX has started already and there are several machines, or they do not come
            in time.
        TPUNotFoundError: if JAX finds no TPU; the message names the platforms that it has.
        ValueError: if no TPU is named, or the assignment is none of this TPU's cores, has a core
            twice, or gives machines different numbers of replicas; if `shard` is given with
            `check_agreement`, or is something else.

    Example:
        >>> resolver = dl.distribute.cluster_resolver.TPUClusterResolver("local")
        >>> try:
        ...     strategy = dl.distribute.TPUStrategy(resolver)
        ... except dl.distribute.cluster_resolver.TPUNotFoundError:
        ...     strategy = dl.distribute.MirroredStrategy()
        >>> strategy.num_replicas_in_sync >= 1
        True
    """

    def __init__(
        self,
        tpu_cluster_resolver: TPUClusterResolver | None = None,
        experimental_device_assignment: tpu.DeviceAssignment | None = None,
        experimental_spmd_xla_partitioning: bool = False,
        *,
        heartbeat_timeout_seconds: int = 25,
        step_timeout_seconds: float | None = None,
        check_agreement: bool = False,
        shard: str | None = None,
    ) -> None:
        tpu.require_assignment(experimental_device_assignment)
        if step_timeout_seconds is not None and step_timeout_seconds <= 0:
            raise ValueError(
                f"step_timeout_seconds must be above 0, or None for no limit: "
                f"{step_timeout_seconds}"
            )
        self.cluster_resolver, group = join_tpu(
            tpu_cluster_resolver, heartbeat_timeout_seconds=heartbeat_timeout_seconds
        )
        devices = devices_of_tpu(self.cluster_resolver, group)
        topology = tpu.topology_of_tpus(devices)
        self.cluster_resolver.set_tpu_topology(topology.serialized())
        if experimental_device_assignment is not None:
            devices = tpu.assigned_devices(experimental_device_assignment, devices)
        super().__init__(
            group,
            devices,
            cross_device_ops=NcclAllReduce(),
            step_timeout_seconds=step_timeout_seconds,
            check_agreement=check_agreement,
            shard=shard,
        )

    def experimental_assign_to_logical_device(self, tensor: Any, logical_device_id: int) -> Any:
        """Return `tensor`, which a replica's one core has.

        Follows ``tf.distribute.TPUStrategy.experimental_assign_to_logical_device``.

        Args:
            tensor: any value.
            logical_device_id: 0.

        Raises:
            NotImplementedError: for another core of a replica.

        Example:
            >>> strategy.experimental_assign_to_logical_device(kernel, 0)  # doctest: +SKIP
        """
        if logical_device_id != 0:
            raise NotImplementedError(
                f"experimental_assign_to_logical_device(..., {logical_device_id}): a replica of a "
                "TPUStrategy has one core, number 0. " + tpu.MODEL_PARALLELISM
            )
        return tensor

    def experimental_split_to_logical_devices(
        self, tensor: Any, partition_dimensions: Sequence[int]
    ) -> Any:
        """Return `tensor`, which is in one part on a replica's one core.

        Follows ``tf.distribute.TPUStrategy.experimental_split_to_logical_devices``.

        Args:
            tensor: an array.
            partition_dimensions: into how many parts each dimension is divided, 1 for each.

        Raises:
            NotImplementedError: for several parts.
            ValueError: if there is not one number for each dimension.

        Example:
            >>> strategy.experimental_split_to_logical_devices(kernel, [1, 1])  # doctest: +SKIP
        """
        rank = len(np.shape(tensor))
        if len(partition_dimensions) != rank:
            raise ValueError(
                f"experimental_split_to_logical_devices(..., {list(partition_dimensions)}): the "
                f"tensor has {rank} dimensions, and each needs a number of parts."
            )
        if any(parts != 1 for parts in partition_dimensions):
            raise NotImplementedError(
                f"experimental_split_to_logical_devices(..., {list(partition_dimensions)}): a "
                "replica of a TPUStrategy has one core. " + tpu.MODEL_PARALLELISM
            )
        return tensor

    def experimental_replicate_to_logical_devices(self, tensor: Any) -> Any:
        """Return `tensor`, of which a replica's one core has the one copy.

        Follows ``tf.distribute.TPUStrategy.experimental_replicate_to_logical_devices``.

        Args:
            tensor: any value.

        Example:
            >>> strategy.experimental_replicate_to_logical_devices(kernel)  # doctest: +SKIP
        """
        return tensor


class ModelParallelStrategy(Strategy):
    """Cut weights over the devices of a mesh, by the layouts of a map, and batches as well.

    Follows `keras.distribution.ModelParallel`. A model's steps are programs over the whole batch,
    which XLA partitions over the devices: so they compute the numbers of one device, to rounding,
    whatever the layouts are, and a device holds and computes its part of the weights that are cut.
    What an optimizer keeps for a variable lies as that variable does. Variables without a layout
    lie whole on each device.

    It is for Keras's `fit`, `evaluate`, `predict` and `train_on_batch`, in one process. `run`, and
    what is for it, is refused.

    ``num_replicas_in_sync`` is the size of the batch's axis: how many parts a global batch is cut
    into, as Keras's ``num_model_replicas``, and not the number of devices. A batch that does not
    divide is computed whole by each of the parts, with the right result.

    Args:
        mesh: the devices: a `keras.distribution.DeviceMesh`, a JAX mesh, or the axes' names with
            their sizes, as ``{"batch": 2, "model": 4}``, for the first devices of JAX's default
            backend; None for the mesh of `layout_map`.
        layout_map: a `keras.distribution.LayoutMap`, or another mapping of layouts, by paths of
            variables or regular expressions for them. A layout is a tuple with the name of an
            axis, or None, for each dimension.
        batch_dim_name: the axis over which batches are cut; by default ``"batch"``, or, as in
            Keras, the first one if no axis has that name.
        shard: ``"optimizer"`` to cut what an optimizer keeps for variables over the batch's axis,
            too, and ``"parameters"`` to cut trainable variables so as well: along the largest
            dimension that is whole and divides. What has no such dimension stays as it is.

    Raises:
        TypeError: if `mesh`, `layout_map` or a layout is something else.
        ValueError: if the mesh has more devices than there are, or one twice; if a layout names an
            axis that the mesh does not have; if there is no layout; or if `shard` is something
            else. Where a variable is made: if its layout does not divide it. When a model trains
            first: if no layout matches a variable; of one that matches none a warning is given.

    Example:
        >>> layouts = {".*hidden/kernel": (None, "model"), ".*hidden/bias": ("model",)}
        >>> strategy = dl.distribute.ModelParallelStrategy({"batch": 2, "model": 2}, layouts)
        >>> with strategy.scope():
        ...     hidden = keras.layers.Dense(6, name="hidden")
        ...     model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
        ...     model.compile(optimizer="sgd", loss="mse")
        >>> rows = (np.ones((8, 3), np.float32), np.ones((8, 1), np.float32))
        >>> history = model.fit(*rows, batch_size=4, verbose=0)
        >>> hidden.kernel.value.sharding.shard_shape((3, 6)), strategy.num_replicas_in_sync
        ((3, 3), 2)
    """

    _partitions = True

    def __init__(
        self,
        mesh: keras.distribution.DeviceMesh | Mesh | Mapping[str, int] | None = None,
        layout_map: keras.distribution.LayoutMap | Mapping[str, Any] | None = None,
        batch_dim_name: str | None = None,
        *,
        shard: str | None = None,
    ) -> None:
        if not isinstance(layout_map, Mapping):
            raise TypeError(
                f"{type(self).__name__}(layout_map=...) is a keras.distribution.LayoutMap, or a "
                f"mapping of layouts by paths of variables, not {layout_map!r}."
            )
        if shard not in (None, "optimizer", "parameters"):
            raise ValueError(
                f"{type(self).__name__}(shard={shard!r}): it is 'optimizer', 'parameters', or None "
                "to cut what the layouts say alone."
            )
        if not layout_map and shard is None:
            raise ValueError(
                f"{type(self).__name__} got an empty layout map, so no variable would be cut. Give "
                "it layouts, `shard=`, or use a MirroredStrategy."
            )
        self.shard = shard
        given = getattr(layout_map, "device_mesh", None) if mesh is None else mesh
        devices = resolve_mesh(type(self).__name__, given)
        self.batch_dim_name = _batch_axis(devices, batch_dim_name)
        self._layouts = VariableLayouts(devices, layout_map, self.batch_dim_name, shard)
        super().__init__(devices.devices.flat)
        self._mesh = devices

    @property
    def variable_sharding(self) -> Sharding:
        """Where variables without a layout live: whole on each device.

        Example:
            >>> layouts = {".*kernel": (None, "model")}
            >>> strategy = dl.distribute.ModelParallelStrategy({"batch": 2, "model": 2}, layouts)
            >>> strategy.variable_sharding.is_fully_replicated
            True
        """
        return NamedSharding(self._layouts.mesh, PartitionSpec())

    def sharding_of(self, variable: Any) -> Sharding:
        """Where `variable` lives: as its layout says.

        Args:
            variable: one of Keras's, which may have no value yet.

        Raises:
            ValueError: if several layouts match its path, or one that does not divide it.

        Example:
            >>> layouts = {".*kernel": (None, "model")}
            >>> strategy = dl.distribute.ModelParallelStrategy({"batch": 2, "model": 2}, layouts)
            >>> with strategy.scope():
            ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
            >>> tuple(strategy.sharding_of(model.weights[0]).spec)
            (None, 'model')
        """
        return self._layouts.sharding_of(variable)

    @property
    def num_replicas_in_sync(self) -> int:
        """Into how many parts a global batch is cut: the size of the batch's axis.

        Example:
            >>> layouts = {".*kernel": (None, "model")}
            >>> mesh = {"batch": 1, "model": 4}
            >>> dl.distribute.ModelParallelStrategy(mesh, layouts).num_replicas_in_sync
            1
        """
        size: int = self._layouts.mesh.shape[self.batch_dim_name]
        return size

    @property
    def local_replica_ids(self) -> list[int]:
        """The numbers of the batch's parts.

        Example:
            >>> layouts = {".*kernel": (None, "model")}
            >>> mesh = {"batch": 2, "model": 2}
            >>> dl.distribute.ModelParallelStrategy(mesh, layouts).local_replica_ids
            [0, 1]
        """
        return list(range(self.num_replicas_in_sync))

    @property
    def batch_sharding(self) -> NamedSharding:
        """Where a global batch lives: its first dimension cut over the batch's axis.

        Example:
            >>> layouts = {".*kernel": (None, "model")}
            >>> strategy = dl.distribute.ModelParallelStrategy({"batch": 2, "model": 2}, layouts)
            >>> strategy.batch_sharding.shard_shape((8, 3))
            (4, 3)
        """
        return NamedSharding(self._layouts.mesh, PartitionSpec(self.batch_dim_name))

    def describe(self) -> str:
        """Return a text that says how the mesh is used, and how much of the variables is cut.

        Example:
            >>> layouts = {".*kernel": (None, "model")}
            >>> strategy = dl.distribute.ModelParallelStrategy({"batch": 2, "model": 2}, layouts)
            >>> print(strategy.describe())
            ModelParallelStrategy: batches are cut into 2 part(s), over mesh axis 'batch'
              mesh: batch=2, model=2, of cpu:0, cpu:1, cpu:2, cpu:3
              variables live: by 1 layout(s); no variable has been made
              values are reduced: where XLA, which partitions each program, finds it needed
        """
        sizes = ", ".join(f"{name}={size}" for name, size in self.mesh.shape.items())
        names = ", ".join(map(device_name, self.replica_devices))
        parts = self.num_replicas_in_sync
        also = "" if self.shard is None else f", and shard={self.shard!r} over the batch's axis"
        return (
            f"{type(self).__name__}: batches are cut into {parts} part(s), over mesh axis "
            f"{self.batch_dim_name!r}\n"
            f"  mesh: {sizes}, of {names}\n"
            f"  variables live: by {len(self._layouts)} layout(s){also}; "
            f"{self._layouts.describe()}\n"
            "  values are reduced: where XLA, which partitions each program, finds it needed"
        )

    def _check_variables(self) -> None:
        self._layouts.require_matches()

    def _computed_with(self, variable: Any) -> Sharding | None:
        return self._layouts.computed_with(variable) if self.shard == "parameters" else None

    def _require_replicas(self, name: str) -> None:
        raise NotImplementedError(
            f"{type(self).__name__}.{name}: a replica has no program of its own here, since XLA "
            "partitions one program over all devices. Train with Keras's `fit` or "
            "`train_on_batch`, which take global batches and cut them, or use a MirroredStrategy "
            "for custom loops."
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self._layouts.mesh.shape.items())
        return f"{type(self).__name__}({sizes})"


def _batch_axis(mesh: Mesh, name: str | None) -> str:
    if name is None:
        return "batch" if "batch" in mesh.axis_names else str(mesh.axis_names[0])
    if name not in mesh.axis_names:
        raise ValueError(
            f"batch_dim_name={name!r} is no axis of the mesh, which has "
            f"{', '.join(map(repr, mesh.axis_names))}."
        )
    return name


def _cross_device_ops(options: CommunicationOptions, devices: tuple[Any, ...]) -> CrossDeviceOps:
    if options.cross_device_ops is not None:
        return options.cross_device_ops
    implementation = options.implementation
    if implementation is CommunicationImplementation.NCCL and devices[0].platform != "gpu":
        raise ValueError(
            f"CommunicationImplementation.NCCL needs GPUs, and the devices are "
            f"{devices[0].platform.upper()}s. Use AUTO, which takes what the platform has, or RING."
        )
    if implementation is CommunicationImplementation.RING:
        return RingAllReduce(bytes_per_pack=options.bytes_per_pack)
    between_processes = len({device.process_index for device in devices}) > 1
    if devices[0].platform == "cpu" and between_processes:
        because = share_memory(tuple(device.process_index for device in devices))
        if not because:
            kernels.register()
            return SharedMemoryAllReduce(bytes_per_pack=options.bytes_per_pack)
        return GlooAllReduce(bytes_per_pack=options.bytes_per_pack, because=because)
    return NcclAllReduce(bytes_per_pack=options.bytes_per_pack)


def _require_alike(devices: Sequence[jax.Device], tasks: Sequence[str]) -> None:
    """Refuse processes that bring different numbers of devices.

    Raises:
        ValueError: naming each process's number.
    """
    counts = Counter(device.process_index for device in devices)
    if len(set(counts.values())) > 1:
        had = ", ".join(f"{tasks[index]} has {counts[index]}" for index in sorted(counts))
        raise ValueError(
            f"The processes bring different numbers of {devices[0].platform.upper()} devices: "
            f"{had}. Give each the same, by CUDA_VISIBLE_DEVICES or, for CPUs, by "
            "`drumline launch --devices-per-worker`."
        )
