"""The TPUs that JAX has, as ``tf.tpu.experimental`` describes them."""

from __future__ import annotations

import dataclasses
import enum
import os
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from drumline._backend import keep_cpu_platform, may_have_accelerators
from drumline.distribute.cluster_resolver.tpu.device_assignment import DeviceAssignment
from drumline.distribute.cluster_resolver.tpu.topology import Topology


class TPUNotFoundError(RuntimeError):
    """JAX finds no TPU on this machine."""


@dataclasses.dataclass(frozen=True)
class TPUSystemMetadata:
    """What a TPU consists of, as ``tf.tpu.experimental.TPUSystemMetadata``.

    Attributes:
        num_cores: the devices of all machines. From v4 on, but for v7, JAX has one for each chip.
        num_hosts: the machines, of which each runs a process.
        num_of_cores_per_host: the devices of each.
        topology: their places.
        devices: their names, as ``"/job:worker/replica:0/task:0/device:TPU:0"``.
    """

    num_cores: int
    num_hosts: int
    num_of_cores_per_host: int
    topology: Topology
    devices: tuple[str, ...]


class HardwareFeature:
    """What a TPU's hardware has beside its cores, as ``tf.tpu.experimental.HardwareFeature``.

    Args:
        tpu_hardware_feature_proto: a message, or any object, with two integers: its
            ``embedding_feature`` (0 to 2) and ``num_embedding_devices_per_chip``. None, as of
            `TPUClusterResolver`, is what drumline uses: it computes embeddings on the cores.
    """

    class EmbeddingFeature(enum.Enum):
        """The kinds of accelerators of embeddings."""

        UNSUPPORTED = "UNSUPPORTED"
        V1 = "V1"
        V2 = "V2"

    def __init__(self, tpu_hardware_feature_proto: Any = None) -> None:
        self._proto = tpu_hardware_feature_proto

    @property
    def embedding_feature(self) -> EmbeddingFeature:
        """The kind of accelerators of embeddings; ``UNSUPPORTED`` where nothing is known."""
        number = 0 if self._proto is None else self._proto.embedding_feature
        return list(HardwareFeature.EmbeddingFeature)[number]

    @property
    def num_embedding_devices_per_chip(self) -> int:
        """How many accelerators of embeddings a chip has; 0 where nothing is known."""
        return 0 if self._proto is None else int(self._proto.num_embedding_devices_per_chip)


PLATFORM = "tpu"
"""JAX's name for TPUs."""


def require_tpu_support() -> None:
    """Check that JAX may find a TPU, without starting it.

    Raises:
        TPUNotFoundError: if it cannot, for want of TPU support.
    """
    if PLATFORM == "tpu" and not may_have_accelerators():
        raise TPUNotFoundError(_no_tpu(""))


def tpu_devices() -> tuple[jax.Device, ...]:
    """Return the TPU devices of all processes, one process's after another's. It starts JAX.

    Raises:
        TPUNotFoundError: if there are none; the message names the platforms that there are.
    """
    keep_cpu_platform()
    found: list[jax.Device] = []
    problem = ""
    try:
        found = jax.devices(PLATFORM)
    except RuntimeError as error:  # JAX's way to say that there are none
        problem = str(error)
    if not found:
        raise TPUNotFoundError(_no_tpu(problem))
    return tuple(sorted(found, key=lambda device: (device.process_index, device.id)))


def local_tpu_devices() -> list[jax.Device]:
    """Return this process's TPU devices, of which there may be none. It starts JAX."""
    keep_cpu_platform()
    try:
        return list(jax.local_devices(backend=PLATFORM))
    except RuntimeError:
        return []


def topology_of_tpus(devices: Sequence[jax.Device]) -> Topology:
    """Return the places of TPU devices, which come process by process.

    Raises:
        ValueError: if the processes have different numbers of devices.
    """
    counts = Counter(device.process_index for device in devices)
    if len(set(counts.values())) > 1:
        had = ", ".join(f"process {index} has {count}" for index, count in sorted(counts.items()))
        raise ValueError(
            f"The machines of a TPU must have the same number of devices: {had}. Check "
            "TPU_VISIBLE_CHIPS, and that no other program holds some."
        )
    places = np.array([_place(device) for device in devices], np.int32)
    return Topology(
        mesh_shape=places.max(axis=0) + 1,
        device_coordinates=places.reshape(len(counts), -1, 4),
    )


MODEL_PARALLELISM = (
    "drumline computes a replica on one core: for a model larger than a core's memory there is no "
    "form under TPUStrategy yet."
)
"""What is said of replicas of several cores."""


def require_assignment(assignment: DeviceAssignment | None) -> None:
    """Check that replicas of `assignment` have one core each; None is any cores.

    Raises:
        NotImplementedError: if they have several.
        TypeError: if it is no assignment.
    """
    if assignment is None:
        return
    if not isinstance(assignment, DeviceAssignment):
        raise TypeError(f"A device assignment must be a DeviceAssignment, got {assignment!r}")
    cores = assignment.num_cores_per_replica
    if cores != 1:
        raise NotImplementedError(
            f"The device assignment gives each replica {cores} cores, for model parallelism. "
            f"{MODEL_PARALLELISM} Leave computation_shape out of DeviceAssignment.build."
        )


def assigned_devices(
    assignment: DeviceAssignment, devices: Sequence[jax.Device]
) -> tuple[jax.Device, ...]:
    """Return the devices of an assignment's replicas, one process's after another's.

    The rows of a global batch that a process brings are those of its own replicas, which follow
    one another. So replicas come machine by machine, and as assigned within each.

    Args:
        assignment: of replicas of one core each.
        devices: those of the TPU, process by process.

    Raises:
        NotImplementedError: if replicas have several cores.
        ValueError: if a core is none of these devices or computes two replicas, or processes have
            different numbers of replicas.
    """
    require_assignment(assignment)
    at: dict[tuple[int, ...], jax.Device] = {_place(device): device for device in devices}
    places = [assignment.coordinates(replica, 0) for replica in range(assignment.num_replicas)]
    for replica, place in enumerate(places):
        if place not in at:
            raise ValueError(
                f"The device assignment has replica {replica} at {list(place)}, where this TPU has "
                "no core. Build it of the topology that initialize_tpu_system returns."
            )
        if places.index(place) != replica:
            raise ValueError(
                f"The device assignment has the replicas {places.index(place)} and {replica} both "
                f"at {list(place)}: a core computes one replica."
            )
    found = sorted((at[place] for place in places), key=lambda device: device.process_index)
    counts = Counter({device.process_index: 0 for device in devices})
    counts.update(device.process_index for device in found)
    if len(set(counts.values())) > 1:
        had = ", ".join(f"process {index} has {count}" for index, count in sorted(counts.items()))
        raise ValueError(
            f"The device assignment must give each machine as many replicas: {had}. Leave machines "
            "out by making a smaller TPU, or by TPUClusterResolver('local') on one of them."
        )
    return tuple(found)


def system_metadata(job: str) -> TPUSystemMetadata:
    """Return what the TPU consists of that JAX has. It starts JAX.

    Args:
        job: the machines' job, for the devices' names.

    Raises:
        TPUNotFoundError: if there is none.
    """
    topology = topology_of_tpus(tpu_devices())
    per_host = topology.num_tpus_per_task
    names = [
        f"/job:{job}/replica:0/task:{task}/device:TPU:{device}"
        for task in range(topology.num_tasks)
        for device in range(per_host)
    ]
    return TPUSystemMetadata(len(names), topology.num_tasks, per_host, topology, tuple(names))


def _place(device: jax.Device) -> tuple[int, int, int, int]:
    x, y, z = (*device.coords, 0, 0)[:3]
    return x, y, z, int(getattr(device, "core_on_chip", 0))


def _no_tpu(problem: str) -> str:
    try:
        counts = Counter(device.platform for device in jax.local_devices())
        counts.setdefault("cpu", len(jax.local_devices(backend="cpu")))
        listed = ", ".join(f"{platform} ({count})" for platform, count in counts.items())
        there = f"devices of the platforms {listed}"
    except RuntimeError:  # a platform of JAX_PLATFORMS failed to start; `problem` says which
        there = "no devices"
    chosen = os.environ.get("JAX_PLATFORMS", "")
    if find_spec("libtpu") is None and not os.environ.get("TPU_LIBRARY_PATH"):
        remedy = "On a TPU VM install TPU support: pip install 'jax[tpu]'."
    elif chosen and "tpu" not in chosen.split(","):
        remedy = f"JAX_PLATFORMS={chosen} leaves TPUs out: unset it on a TPU VM."
    else:
        remedy = (
            "libtpu is installed: check that this machine is a TPU VM, and that no other program "
            "holds its TPU."
        )
    said = f" ({problem})" if problem else ""
    return (
        f"No TPU was found: JAX has {there}{said}. {remedy} Without a TPU, MirroredStrategy() "
        "trains on the devices that there are."
    )
