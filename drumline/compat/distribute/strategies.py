"""Strategies whose steps, values and datasets are of tensors."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from drumline import config, distribute
from drumline.compat.data.dataset import TensorDataset
from drumline.compat.distribute.tpu import tpu_or_not_found
from drumline.compat.distribute.values import DistributedView
from drumline.compat.keras import boundaries
from drumline.compat.training.function import TensorFunction
from drumline.compat.values.boundary import from_core, unwrap, wrap
from drumline.data.elements.precision import in_64_bits, keeping_64_bits
from drumline.distribute.collectives.platform import (
    CommunicationImplementation,
    CommunicationOptions,
)

_log = logging.getLogger("drumline")

boundaries.install()


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """Options of a step, as ``tf.distribute.RunOptions``; all are about TPUs.

    Attributes:
        experimental_enable_dynamic_batch_size: accepted; each size is compiled once.
        experimental_bucketizing_dynamic_shape: must be False.
        experimental_xla_options: must be None.

    Raises:
        NotImplementedError: for what is not possible here.
    """

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None

    def __post_init__(self) -> None:
        if self.experimental_bucketizing_dynamic_shape:
            raise NotImplementedError(
                "tf.distribute.RunOptions(experimental_bucketizing_dynamic_shape=True): batches "
                "are not padded here; pad them in the dataset, with padded_batch or "
                "bucket_by_sequence_length."
            )
        if self.experimental_xla_options is not None:
            raise NotImplementedError(
                "tf.distribute.RunOptions(experimental_xla_options=...): set XLA_FLAGS in the "
                "environment instead."
            )


def collective_hints(bytes_per_pack: int = 0, timeout_seconds: float | None = None) -> Any:
    """Options of collectives, as ``tf.distribute.experimental.CollectiveHints`` makes them."""
    return CommunicationOptions(bytes_per_pack, timeout_seconds)


def _core_input_options(
    options: distribute.InputOptions | None, keep_64_bits: bool
) -> distribute.InputOptions:
    """drumline's options of a user's, which retain 64 bits as tensors do."""
    return dataclasses.replace(distribute.InputOptions.of(options), keep_64_bits=keep_64_bits)


StepOptions.__name__ = StepOptions.__qualname__ = "RunOptions"


class OfTensors:
    """What the look-alike changes in a strategy: what goes in and comes out are tensors."""

    cluster_resolver: Any = None
    _keeps_64_bits = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        strategy: Any = self
        self.extended = ExtendedOfTensors(strategy)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        options: StepOptions | None = None,
    ) -> Any:
        """Run a step on each replica; see `drumline.distribute.Strategy.run`."""
        above: Any = super()
        core = distribute.RunOptions(keep_64_bits=self._keeps_64_bits)
        return wrap(above.run(step_of(fn), unwrap(tuple(args)), unwrap(dict(kwargs or {})), core))

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """One value of those of the replicas."""
        above: Any = super()
        return wrap(above.reduce(reduce_op, unwrap(value), axis=axis))

    def gather(self, value: Any, axis: int) -> Any:
        """The replicas' values, concatenated."""
        above: Any = super()
        return wrap(above.gather(unwrap(value), axis))

    def experimental_distribute_dataset(
        self, dataset: Any, options: Any = None
    ) -> DistributedView | TensorDataset:
        """The dataset, a share of each batch for each replica."""
        above: Any = super()
        core = _core_input_options(options, self._keeps_64_bits)
        return wrap(above.experimental_distribute_dataset(unwrap(dataset), core))

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> Any:
        """A dataset that a function of the input context makes."""
        above: Any = super()
        core = _core_input_options(options, self._keeps_64_bits)

        def made(context: Any) -> Any:
            return unwrap(dataset_fn(context))

        return wrap(above.distribute_datasets_from_function(made, core))

    def experimental_distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> Any:
        """The older name of `distribute_datasets_from_function`."""
        return self.distribute_datasets_from_function(dataset_fn, options)

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: None = None) -> Any:
        """A dataset of the rows of numpy's arrays, as TensorFlow 2.0 has it.

        Raises:
            ValueError: for a session: there is none here.
        """
        if session is not None:
            raise ValueError("experimental_make_numpy_dataset: there are no sessions; pass None.")
        return TensorDataset.from_tensor_slices(numpy_input)

    def make_dataset_iterator(self, dataset: Any) -> Any:
        """An iterator of the distributed dataset, as TensorFlow 2.0 has it."""
        return iter(self.experimental_distribute_dataset(dataset))

    def experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        """A value for each replica, which a function gives."""
        above: Any = super()

        def arrays(context: Any) -> Any:
            return in_64_bits(unwrap(value_fn(context)))

        with keeping_64_bits():
            return wrap(above.experimental_distribute_values_from_function(arrays))

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of this process's replicas."""
        above: Any = super()
        return tuple(map(wrap, above.experimental_local_results(unwrap(value))))

    def unwrap(self, value: Any) -> tuple[Any, ...]:
        """The older name of `experimental_local_results`."""
        return self.experimental_local_results(value)

    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """The older place of ``extended.colocate_vars_with``."""
        return self.extended.colocate_vars_with(colocate_with_variable)


class ExtendedOfTensors(distribute.StrategyExtended):
    """``strategy.extended``, with tensors and TensorFlow's names of devices."""

    experimental_require_static_shapes = False
    should_checkpoint = True
    should_save_summary = True

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The names of this process's devices on which replicas run."""
        return tuple(map(_full_name, super().worker_devices))

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The names of the devices on which variables live."""
        return tuple(map(_full_name, super().parameter_devices))

    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any = None) -> Any:
        """One value of those of the replicas, where `destinations` is.

        Args:
            reduce_op: ``"SUM"``, ``"MEAN"``, or a `tf.distribute.ReduceOp`.
            value: what `run` returns.
            destinations: a device's name, or a variable.
            options: accepted; a strategy's own `CommunicationOptions` are in force.
        """
        return wrap(super().reduce_to(reduce_op, unwrap(value), destinations))

    def batch_reduce_to(
        self,
        reduce_op: Any,
        value_destination_pairs: Iterable[tuple[Any, Any]],
        options: Any = None,
    ) -> list[Any]:
        """Several values reduced at once; as `reduce_to`."""
        pairs = [(unwrap(value), destination) for value, destination in value_destination_pairs]
        return list(wrap(super().batch_reduce_to(reduce_op, pairs)))

    def update(
        self,
        var: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Any = None,
        group: bool = True,
    ) -> Any:
        """Call ``fn(var, *args, **kwargs)``, which writes `var` alike on every device."""

        def written(variable: Any, *inner: Any, **named: Any) -> Any:
            return fn(variable, *wrap(inner), **wrap(named))

        return wrap(super().update(var, written, unwrap(tuple(args)), unwrap(kwargs or {}), group))

    def call_for_each_replica(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run a function on each replica, as `Strategy.run`, whose older name it is."""
        return self._strategy.run(fn, args, kwargs)


class OneDeviceOfTensors(OfTensors, distribute.OneDeviceStrategy):  # type: ignore[misc]
    """As ``tf.distribute.OneDeviceStrategy``.

    Args:
        device: a device's name, as ``"/gpu:0"``.
    """

    def __init__(self, device: Any = "CPU:0"):
        super().__init__(_present([device])[0])


class MirroredOfTensors(OfTensors, distribute.MirroredStrategy):  # type: ignore[misc]
    """As ``tf.distribute.MirroredStrategy``.

    Args:
        devices: names of devices; those that are not there are left out, with a warning. An empty
            list is all devices, as none is.
        cross_device_ops: the algorithm that reduces values.
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None):
        super().__init__(_all_present(devices), cross_device_ops)


class CentralStorageOfTensors(OfTensors, distribute.experimental.CentralStorageStrategy):  # type: ignore[misc]
    """As ``tf.distribute.experimental.CentralStorageStrategy``.

    Args:
        compute_devices: names of the devices of the replicas; those that are not there are left
            out, with a warning. None or an empty list is all GPUs, or the CPU.
        parameter_device: where variables live; by default the CPU, or the only device of the
            replicas.

    Raises:
        ValueError: there is no such parameter device.
    """

    def __init__(self, compute_devices: Any = None, parameter_device: Any = None):
        if parameter_device is not None:
            known = [d for kind in ("cpu", "gpu", "tpu") for d in config.list_logical_devices(kind)]
            if short_name(parameter_device) not in known:
                raise ValueError(
                    f"CentralStorageStrategy(parameter_device={parameter_device!r}): there is no "
                    f"such device; there are {', '.join(known)}."
                )
        super().__init__(_all_present(compute_devices), parameter_device)


class MultiWorkerOfTensors(OfTensors, distribute.MultiWorkerMirroredStrategy):  # type: ignore[misc]
    """As ``tf.distribute.MultiWorkerMirroredStrategy``.

    Args:
        cluster_resolver: by default what ``TF_CONFIG`` says.
        communication_options: without GPUs, NCCL becomes AUTO, with a warning.
    """

    def __init__(self, cluster_resolver: Any = None, communication_options: Any = None):
        super().__init__(cluster_resolver, _feasible(communication_options))


class OlderMultiWorkerOfTensors(MultiWorkerOfTensors):
    """As ``tf.distribute.experimental.MultiWorkerMirroredStrategy``.

    Args:
        communication: a ``tf.distribute.experimental.CollectiveCommunication``.
        cluster_resolver: by default what ``TF_CONFIG`` says.
    """

    def __init__(
        self,
        communication: Any = CommunicationImplementation.AUTO,
        cluster_resolver: Any = None,
    ):
        super().__init__(cluster_resolver, communication)


class TPUOfTensors(OfTensors, distribute.TPUStrategy):  # type: ignore[misc]
    """As ``tf.distribute.TPUStrategy``.

    Args:
        tpu_cluster_resolver: a ``TPUClusterResolver``.
        experimental_device_assignment: the cores that compute, one for each replica.
        experimental_spmd_xla_partitioning: changes nothing, as a replica has one core.

    Raises:
        NotFoundError: if JAX finds no TPU.
        NotImplementedError: for replicas of several cores.
        ValueError: if no TPU is named.
    """

    def __init__(
        self,
        tpu_cluster_resolver: Any = None,
        experimental_device_assignment: Any = None,
        experimental_spmd_xla_partitioning: bool = False,
    ):
        with tpu_or_not_found():
            super().__init__(
                tpu_cluster_resolver,
                experimental_device_assignment,
                experimental_spmd_xla_partitioning,
            )

    def experimental_split_to_logical_devices(
        self, tensor: Any, partition_dimensions: Sequence[int]
    ) -> Any:
        """The tensor, which is in one part on a replica's one core."""
        super().experimental_split_to_logical_devices(unwrap(tensor), partition_dimensions)
        return tensor


class OlderTPUOfTensors(TPUOfTensors):
    """As ``tf.distribute.experimental.TPUStrategy``.

    Args:
        tpu_cluster_resolver: a ``TPUClusterResolver``.
        device_assignment: the cores that compute, one for each replica.
    """

    def __init__(self, tpu_cluster_resolver: Any = None, device_assignment: Any = None):
        super().__init__(tpu_cluster_resolver, device_assignment)


class ParameterServersOfTensors(OfTensors, distribute.ParameterServerStrategy):  # type: ignore[misc]
    """As ``tf.distribute.ParameterServerStrategy``.

    Args:
        cluster_resolver: the cluster, with ``"worker"`` and ``"ps"``.
        variable_partitioner: into how many shards variables are cut.
    """

    _keeps_64_bits = False

    def __init__(self, cluster_resolver: Any = None, variable_partitioner: Any = None):
        super().__init__(cluster_resolver, variable_partitioner)


for _strategy in (
    OneDeviceOfTensors,
    MirroredOfTensors,
    MultiWorkerOfTensors,
    TPUOfTensors,
    ParameterServersOfTensors,
):
    _strategy.__name__ = _strategy.__qualname__ = _strategy.__mro__[2].__name__
OlderMultiWorkerOfTensors.__name__ = "MultiWorkerMirroredStrategy"
OlderTPUOfTensors.__name__ = "TPUStrategy"
CentralStorageOfTensors.__name__ = "CentralStorageStrategy"


class DefaultOfTensors(OfTensors, distribute.Strategy):  # type: ignore[misc]
    """The strategy outside of all scopes, in the look-alike."""

    def __init__(self) -> None:
        self.__dict__.update(vars(distribute.get_strategy()))
        self.extended = ExtendedOfTensors(self)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """The dataset itself, as in TensorFlow."""
        return dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Any], options: Any = None
    ) -> Any:
        """What the function gives for the only pipeline."""
        return dataset_fn(distribute.InputContext())


def step_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arrays that replicas run, of a user's or of a ``tf.function``."""
    return from_core(fn.python_function if isinstance(fn, TensorFunction) else fn)


def short_name(name: Any) -> str:
    """A device's name as drumline has it, ``"cpu:0"``, of TensorFlow's or a `LogicalDevice`."""
    short = str(getattr(name, "name", name)).rpartition("device:")[2].strip("/").lower()
    return short if ":" in short else f"{short}:0"


def _full_name(name: str) -> str:
    task, _, local = name.rpartition("/")
    number = task.removeprefix("/task:") if task else "0"
    job = "worker" if task else "localhost"
    kind, _, index = local.partition(":")
    return f"/job:{job}/replica:0/task:{number}/device:{kind.upper()}:{index}"


def _all_present(devices: Any) -> list[Any] | None:
    """Of a device or several those that are there; None, which means all, if none is asked for."""
    if devices is None:
        return None
    alone = isinstance(devices, str) or not isinstance(devices, Iterable)
    return _present([devices] if alone else devices) or None


def _present(devices: Iterable[Any]) -> list[Any]:
    """Of these devices those that are there; the CPU if there are none."""
    wanted = [short_name(each) for each in devices]
    known = {each for kind in ("cpu", "gpu", "tpu") for each in config.list_logical_devices(kind)}
    absent = [each for each in wanted if each not in known]
    if not absent:
        return wanted
    found = [each for each in wanted if each in known] or ["cpu:0"]
    _log.warning(
        "Some requested devices in `tf.distribute.Strategy` are not visible: %s. The strategy "
        "runs on %s.",
        ", ".join(absent),
        ", ".join(found),
    )
    return found


def _feasible(options: Any) -> CommunicationOptions:
    """Options without NCCL where there are no GPUs, as TensorFlow has it."""
    given = CommunicationOptions.of(options)
    if given.implementation is not CommunicationImplementation.NCCL:
        return given
    if config.list_physical_devices("gpu"):
        return given
    _log.warning("Enabled NCCL communication but no GPUs detected/specified: AUTO is used.")
    return CommunicationOptions(given.bytes_per_pack, given.timeout_seconds)
