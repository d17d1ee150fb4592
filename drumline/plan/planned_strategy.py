"""`PlannedStrategy`: replicas on devices that are not there, for which steps are compiled.

XLA compiles a program for a TPU without one: ``jax.experimental.topologies`` describes its devices
by the library ``libtpu``. A strategy over such devices traces and lowers steps as any other does,
and what is created lies on this process's CPU, from which nothing ever goes to the devices. So no
step runs: `lowered_step` gives the program of one of `Strategy.run`, and
`drumline.keras.step.TrainStep.lowered` that of `fit`. `gpu_topology` describes NVIDIA's GPUs in the
same way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import jax
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from drumline.distribute import global_arrays
from drumline.distribute.collectives import CrossDeviceOps, NcclAllReduce
from drumline.distribute.collectives.devices import DeviceLike
from drumline.distribute.step.arguments import flatten_arguments, is_regular
from drumline.distribute.step.compiled_step import InFlight
from drumline.distribute.step.replica_programs import ReplicaProgram
from drumline.distribute.strategy import Strategy
from drumline.plan import jax_internals
from drumline.plan.gpu_topology import gpu_compiler_options
from drumline.plan.targets import tpu_environment


def tpu_topology(name: str, slices: int = 1) -> tuple[jax.Device, ...]:
    """Return the devices of a TPU that is not there, one machine's after another's.

    Args:
        name: a kind of TPU and its chips along each axis, as ``"v5e:2x4"``.
        slices: how many such groups there are, joined by a network.

    Raises:
        RuntimeError: if the environment was not set (`tpu_environment`).
        ValueError: if libtpu is not installed, or knows no such topology.
    """
    missing = [key for key in tpu_environment() if key not in os.environ]
    if missing:
        raise RuntimeError(
            f"To compile for a TPU that is not there, {' and '.join(missing)} must be set before "
            "JAX starts: put drumline.plan.targets.tpu_environment() into the environment "
            "of a new process."
        )
    more = {"num_slices": slices} if slices > 1 else {}
    try:
        devices = topologies.get_topology_desc(name, "tpu", **more).devices
    except Exception as error:  # JAX and libtpu raise several kinds
        raise ValueError(
            f"No topology {name!r} of TPUs: {error}. Names are as 'v5e:2x4', and the package "
            "libtpu must be installed (pip install 'drumline[plan]')."
        ) from error
    return tuple(sorted(devices, key=lambda device: (device.process_index, device.id)))


class PlannedArrays(global_arrays.ReplicaArrays):
    """As of a strategy whose programs take copies on all replicas of what is on another device."""

    @property
    def program_sharding(self) -> Sharding:
        strategy = self._strategy
        return NamedSharding(strategy.mesh, PartitionSpec())


class WithoutDevices(Strategy):
    """A strategy of devices that are not there; variables lie on this process's first CPU device.

    Their values are this process's own, and its steps are compiled and not run.
    """

    @property
    def _here(self) -> jax.Device:
        return jax.local_devices(backend="cpu")[0]

    @property
    def variable_sharding(self) -> Sharding:
        """This process's first CPU device."""
        return global_arrays.copies_on((self._here,))

    @property
    def local_replica_devices(self) -> tuple[jax.Device, ...]:
        """This process's first CPU device, which stands for the replicas'."""
        return (self._here,)

    @property
    def local_replica_ids(self) -> list[int]:
        """The first replica's."""
        return [0]

    @property
    def num_processes(self) -> int:
        """1: this one."""
        return 1

    @property
    def process_index(self) -> int:
        """0: this one's."""
        return 0

    @property
    def spans_processes(self) -> bool:
        """False: no other process takes part in compiling."""
        return False

    def compiled(self, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
        """Compile a program that was lowered for this strategy's devices.

        That is ``lowered.compile()`` with the options a compiler needs where no device is there,
        and without JAX's cache of compiled programs, which serves devices that are there.

        Args:
            lowered: of `lowered_step` or `drumline.keras.step.TrainStep.lowered`.

        Raises:
            ValueError: if a GPU's assembler is not installed, see `gpu_compiler_options`.
        """
        on_gpus = self.replica_devices[0].platform == "gpu"
        options = gpu_compiler_options() if on_gpus else {}
        with jax_internals.without_cache():
            return lowered.compile(compiler_options=dict(options))

    def __repr__(self) -> str:
        devices = self.replica_devices
        return f"{type(self).__name__}({len(devices)} x {devices[0].device_kind})"


class PlannedStrategy(WithoutDevices):
    """Replicas on devices that are not there; variables lie on this process's first CPU device.

    Models and variables are made in its scope as in that of any other strategy. Their values are
    this process's own, and its steps are compiled and not run. Variables with a value for each
    replica (``ON_READ``) are not possible.

    Args:
        devices: of a topology, one for each replica.
        cross_device_ops: the algorithm that reduces values; by default the platform's own.
        check_agreement: let steps compare the replicas' variables; see `Strategy`.

    Raises:
        ValueError: without devices.
    """

    def __init__(
        self,
        devices: Iterable[jax.Device],
        *,
        cross_device_ops: CrossDeviceOps | None = None,
        check_agreement: bool = False,
    ) -> None:
        super().__init__(
            devices,
            cross_device_ops=cross_device_ops or NcclAllReduce(),
            check_agreement=check_agreement,
        )
        self._arrays = PlannedArrays(self)
        self._in_flight = InFlight((self._here,))

    def _resolved(self, devices: Iterable[DeviceLike]) -> tuple[jax.Device, ...]:
        found: tuple[Any, ...] = tuple(devices)
        if not found:
            raise ValueError("A PlannedStrategy needs devices of a topology, got none.")
        return found

    def run(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: no step can run.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"{self!r} has devices that are not there, so its steps cannot run. `lowered_step` "
            "gives the program, and `compiled` compiles it."
        )


def lowered_step(
    strategy: PlannedStrategy, fn: Callable[..., Any], args: Sequence[Any]
) -> jax.stages.Lowered:
    """Return the program of ``strategy.run(fn, args)``, lowered for the strategy's devices.

    Args:
        strategy: whose replicas run the step.
        fn: the step.
        args: its arguments, of which values for each replica are a `PerReplica` of a stacked array.

    Raises:
        ValueError: for values of other forms.
    """
    form, arrays = flatten_arguments(args, {})
    if not is_regular(form.treedef):
        raise ValueError(
            "lowered_step takes values that have the same shape on each replica, stacked: "
            "PerReplica.of_stacked(array)."
        )
    return ReplicaProgram(strategy, fn, form).lowered(arrays)
