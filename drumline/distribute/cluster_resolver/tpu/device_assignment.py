"""`DeviceAssignment`: which of a TPU's cores compute which replica."""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline.distribute.cluster_resolver.tpu.topology import Topology


class DeviceOrderMode(enum.IntEnum):
    """How `DeviceAssignment.build` orders devices, as ``tf.tpu.experimental.DeviceOrderMode``.

    Attributes:
        AUTO: as a ring where that is possible.
        RING: as a ring, in which neighbours are neighbours on the TPU.
        MESH: by their coordinates.
    """

    AUTO = 0
    RING = 1
    MESH = 2


class DeviceAssignment:
    """The places of the cores that compute each replica.

    Follows ``tf.tpu.experimental.DeviceAssignment``. A `TPUStrategy` takes one with one core for
    each replica: a replica of several cores, as for model parallelism, is refused there.

    Args:
        topology: the TPU.
        core_assignment: integers ``(replicas, cores of a replica, 4)``, the place of each core.

    Raises:
        ValueError: if `topology` is none, or `core_assignment` is not of that form.

    Example:
        >>> topology = dl.tpu.experimental.Topology(
        ...     mesh_shape=(2, 1, 1, 1), device_coordinates=[[[0, 0, 0, 0], [1, 0, 0, 0]]]
        ... )
        >>> dl.tpu.experimental.DeviceAssignment.build(topology, num_replicas=2).tpu_ordinal(1)
        1
    """

    def __init__(self, topology: Topology, core_assignment: Any) -> None:
        if not isinstance(topology, Topology):
            raise ValueError(f"topology must be a Topology, got {topology!r}")
        cores = np.asarray(core_assignment, np.int32)
        if cores.ndim != 3 or cores.shape[2] != topology.mesh_rank:
            raise ValueError(
                f"core_assignment must have the shape (replicas, cores of a replica, "
                f"{topology.mesh_rank}), got {cores.shape}"
            )
        self._topology = topology
        self._cores = cores
        self._replicas: dict[tuple[int, int], list[int]] = defaultdict(list)
        for replica, core in np.ndindex(*cores.shape[:2]):
            task = topology.task_ordinal_at_coordinates(cores[replica, core])
            self._replicas[task, core].append(replica)

    @classmethod
    def build(
        cls,
        topology: Topology | bytes,
        computation_shape: Sequence[int] | np.ndarray | None = None,
        computation_stride: Sequence[int] | np.ndarray | None = None,
        num_replicas: int = 1,
        device_order_mode: DeviceOrderMode = DeviceOrderMode.AUTO,
    ) -> DeviceAssignment:
        """Return places near to each other, as TensorFlow chooses them.

        Args:
            topology: the TPU, or `Topology.serialized` of it.
            computation_shape: 4 integers, the block of cores of one replica; by default one core.
            computation_stride: 4 integers, the distance between these cores; by default 1.
            num_replicas: how many replicas.
            device_order_mode: the order of replicas, and of the cores of one.

        Raises:
            ValueError: if an argument is not of that form, the replicas are too many, or the order
                is not possible.
        """
        if isinstance(topology, bytes):
            topology = Topology(serialized=topology)
        if not isinstance(topology, Topology):
            raise ValueError(f"topology must be a Topology, got {topology!r}")
        shape = _four(computation_shape, "computation_shape")
        stride = _four(computation_stride, "computation_stride")
        mesh = topology.mesh_shape
        footprint = shape * stride
        if (footprint > mesh).any():
            raise ValueError(
                f"A replica of the shape {shape.tolist()} with the stride {stride.tolist()} does "
                f"not fit into the TPU's mesh {mesh.tolist()}"
            )
        fit = mesh // footprint * stride
        if num_replicas > fit.prod():
            raise ValueError(
                f"{num_replicas} replicas of the shape {shape.tolist()} with the stride "
                f"{stride.tolist()} are more than the {fit.prod()} that fit into the TPU's mesh "
                f"{mesh.tolist()}"
            )
        if len(topology.missing_devices):
            return cls(topology, _in_order_of_tasks(topology, shape, stride, num_replicas))
        grid = _grid(num_replicas, fit)
        whole_chips = shape[-1] == mesh[-1] and (stride == 1).all() and num_replicas == fit.prod()
        if device_order_mode == DeviceOrderMode.RING and not whole_chips:
            raise ValueError(
                "DeviceOrderMode.RING needs replicas of whole chips that fill the TPU without a "
                "stride. Use AUTO."
            )
        if whole_chips and device_order_mode != DeviceOrderMode.MESH:
            return cls(topology, _rings(num_replicas, shape, grid))
        return cls(topology, _mesh(num_replicas, shape, stride, grid))

    @property
    def topology(self) -> Topology:
        """The TPU."""
        return self._topology

    @property
    def num_cores_per_replica(self) -> int:
        """How many cores compute a replica."""
        return self._cores.shape[1]

    @property
    def num_replicas(self) -> int:
        """How many replicas there are."""
        return self._cores.shape[0]

    @property
    def core_assignment(self) -> np.ndarray:
        """The place of each core: int32 (replicas, cores of a replica, 4)."""
        return self._cores

    def coordinates(self, replica: int, logical_core: int) -> tuple[int, ...]:
        """Return the place of one of a replica's cores."""
        return tuple(int(each) for each in self._cores[replica, logical_core])

    def lookup_replicas(self, task_id: int, logical_core: int) -> list[int]:
        """Return the replicas of which a process has the core of this number, in order.

        Raises:
            ValueError: if it has none.
        """
        found = self._replicas.get((task_id, logical_core))
        if found is None:
            raise ValueError(f"Task {task_id} has core {logical_core} of no replica")
        return list(found)

    def tpu_ordinal(self, replica: int = 0, logical_core: int = 0) -> int:
        """Return the number of a core's device within its process."""
        return self._topology.tpu_device_ordinal_at_coordinates(
            self.coordinates(replica, logical_core)
        )

    def host_device(self, replica: int = 0, logical_core: int = 0, job: str | None = None) -> str:
        """Return the name of the CPU of a core's machine."""
        place = self.coordinates(replica, logical_core)
        return self._topology.cpu_device_name_at_coordinates(place, job=job)

    def tpu_device(self, replica: int = 0, logical_core: int = 0, job: str | None = None) -> str:
        """Return the name of a core's device."""
        place = self.coordinates(replica, logical_core)
        return self._topology.tpu_device_name_at_coordinates(place, job=job)


def _four(value: Sequence[int] | np.ndarray | None, name: str) -> np.ndarray:
    found = np.ones(4, np.int32) if value is None else np.asarray(value, np.int32)
    if found.shape != (4,) or (found < 1).any():
        raise ValueError(f"{name} must be 4 positive integers, got {value!r}")
    return found


def _in_order_of_tasks(
    topology: Topology, shape: np.ndarray, stride: np.ndarray, replicas: int
) -> np.ndarray:
    """Cores of a TPU of which some are missing, one process's after another's."""
    places = topology.device_coordinates.reshape(-1, 4)
    size = int(shape.prod())
    if (stride != 1).any() or replicas * size > len(places):
        raise ValueError(
            f"{replicas} replicas of {size} cores, with the stride {stride.tolist()}, do not fit "
            f"into a TPU of which {len(topology.missing_devices)} devices are missing: it has "
            f"{len(places)}, which are taken without a stride."
        )
    return places[: replicas * size].reshape(replicas, size, 4)


def _grid(replicas: int, fit: np.ndarray) -> list[int]:
    """How many replicas lie along each axis: as near to a cube as fits.

    The shortest axis comes first, as the one with the least choice; among equal ones cores of the
    same chip, then x, y and z, so that neighbours are of the same machine.
    """
    grid = [1, 1, 1, 1]
    order = sorted(range(4), key=lambda axis: (fit[axis], (axis + 1) % 4))
    left = replicas
    for position, axis in enumerate(order):
        wanted = math.ceil(left ** (1.0 / (4 - position)))
        grid[axis] = min(wanted, int(fit[axis]))
        left = -(-left // grid[axis])
    return grid


def _mesh(
    replicas: int, shape: np.ndarray, stride: np.ndarray, grid: Sequence[int]
) -> list[np.ndarray]:
    """Replicas counted along cores, x, y, z in this order, each a block of cores."""
    cores = np.stack(np.unravel_index(np.arange(shape.prod()), shape), axis=-1) * stride
    found = []
    for replica in range(replicas):
        core, *chip = np.unravel_index(replica, (grid[3], *grid[:3]), order="F")
        place = np.array([*chip, core])
        start = place // stride * (shape * stride) + place % stride
        found.append(cores + start)
    return found


def _rings(replicas: int, shape: np.ndarray, grid: Sequence[int]) -> list[list[list[int]]]:
    """Replicas along a ring of blocks of chips, and the chips of each along a ring."""
    within = list(_ring(*shape[:3].tolist()))
    starts = list(_ring(*grid[:3]))
    return [
        [
            [*(np.array(starts[replica]) * shape[:3] + chip).tolist(), core]
            for chip in within
            for core in range(int(shape[3]))
        ]
        for replica in range(replicas)
    ]


def _ring(x: int, y: int, z: int) -> Iterator[tuple[int, int, int]]:
    """The chips of a block so that each is beside the one before it, and the last at the first.

    Layers of equal z are gone through one by one, all but their corner, in turns forwards and
    backwards; the corners lead back. Odd sizes have no such ring: those go by coordinates.
    """
    sizes = (x, y, z)
    wide = [size for size in sizes if size > 1]
    if len(wide) > 1 and any(size % 2 for size in wide):
        yield from ((i, j, k) for k in range(z) for j in range(y) for i in range(x))
        return
    if len(wide) <= 1:
        yield from ((i, j, k) for i in range(x) for j in range(y) for k in range(z))
        return
    yield 0, 0, 0
    if z == 1:
        yield from ((i, j, 0) for i, j in _round(x, y))
    elif y == 1:
        yield from ((i, 0, k) for i, k in _round(x, z))
    elif x == 1:
        yield from ((0, j, k) for j, k in _round(y, z))
    else:
        for k in range(z):
            layer = [(i, j, k) for i, j in _round(x, y)]
            yield from layer if k % 2 == 0 else reversed(layer)
        yield from ((0, 0, k) for k in range(z - 1, 0, -1))


def _round(x: int, y: int) -> Iterator[tuple[int, int]]:
    """The way from beside the corner (0, 0) through a layer back to beside it: in rows, then up."""
    for j in range(y):
        row = range(1, x)
        yield from ((i, j) for i in (row if j % 2 == 0 else reversed(row)))
    yield from ((0, j) for j in range(y - 1, 0, -1))
