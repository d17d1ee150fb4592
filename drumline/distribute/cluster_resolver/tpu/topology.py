"""`Topology`: where a TPU's cores lie, and which machine has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_AXES = 4
"""x, y and z of a chip, and the core on it."""
_MESH_SHAPE, _NUM_TASKS, _NUM_DEVICES, _COORDINATES = 1, 2, 3, 4
"""Fields of ``tensorflow.tpu.TopologyProto``."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Topology:
    """The places of a TPU's devices.

    Follows ``tf.tpu.experimental.Topology``. A place is ``(x, y, z, core)``: a chip's coordinates,
    and the core's number on it. A task is a process.

    Args:
        serialized: the bytes of a ``tensorflow.tpu.TopologyProto``, as `serialized` gives them; the
            other arguments are then ignored.
        mesh_shape: 4 positive integers, the extent in each axis.
        device_coordinates: integers ``(tasks, devices, 4)``, the place of each task's devices.

    Raises:
        ValueError: if an argument is not of that form, or a place lies outside of the mesh.

    Example:
        >>> topology = dl.tpu.experimental.Topology(
        ...     mesh_shape=(2, 1, 1, 1), device_coordinates=[[[0, 0, 0, 0], [1, 0, 0, 0]]]
        ... )
        >>> topology.num_tasks, topology.num_tpus_per_task
        (1, 2)
        >>> topology.tpu_device_name_at_coordinates((1, 0, 0, 0), job="worker")
        '/job:worker/task:0/device:TPU:1'
    """

    def __init__(
        self,
        serialized: bytes | None = None,
        mesh_shape: Sequence[int] | np.ndarray | None = None,
        device_coordinates: Any = None,
    ) -> None:
        if serialized:
            mesh_shape, device_coordinates = _parsed(serialized)
        self._serialized = serialized or None
        self._mesh_shape = np.asarray(mesh_shape, np.int32)
        self._coordinates = np.asarray(device_coordinates, np.int32)
        if self._mesh_shape.shape != (_AXES,) or (self._mesh_shape < 1).any():
            raise ValueError(f"mesh_shape must be 4 positive integers, got {mesh_shape!r}")
        if self._coordinates.ndim != 3 or self._coordinates.shape[2] != _AXES:
            raise ValueError(
                "device_coordinates must have the shape (tasks, devices, 4), got "
                f"{self._coordinates.shape}"
            )
        places = self._coordinates.reshape(-1, _AXES)
        outside = ((places < 0) | (places >= self._mesh_shape)).any(axis=1)
        if outside.any():
            raise ValueError(
                f"device_coordinates has {places[outside][0].tolist()}, outside of the mesh "
                f"{self._mesh_shape.tolist()}"
            )
        self._tasks = np.full(self._mesh_shape, -1, np.int32)
        self._devices = np.full(self._mesh_shape, -1, np.int32)
        tasks, devices = np.indices(self._coordinates.shape[:2])
        self._tasks[tuple(places.T)] = tasks.ravel()
        self._devices[tuple(places.T)] = devices.ravel()

    @property
    def mesh_shape(self) -> np.ndarray:
        """The extent in each axis: int32 (4,)."""
        return self._mesh_shape

    @property
    def mesh_rank(self) -> int:
        """The number of axes, 4."""
        return len(self._mesh_shape)

    @property
    def device_coordinates(self) -> np.ndarray:
        """The place of each task's devices: int32 (tasks, devices, 4)."""
        return self._coordinates

    @property
    def missing_devices(self) -> np.ndarray:
        """The places of the mesh without a device: integers (missing, 4)."""
        return np.argwhere(self._tasks < 0)

    @property
    def num_tasks(self) -> int:
        """How many processes have devices."""
        return self._coordinates.shape[0]

    @property
    def num_tpus_per_task(self) -> int:
        """How many devices each process has."""
        return self._coordinates.shape[1]

    def task_ordinal_at_coordinates(self, device_coordinates: Sequence[int] | np.ndarray) -> int:
        """Return the number of the process with the device at a place; -1 for none."""
        return int(self._tasks[tuple(device_coordinates)])

    def tpu_device_ordinal_at_coordinates(
        self, device_coordinates: Sequence[int] | np.ndarray
    ) -> int:
        """Return the number of the device at a place within its process; -1 for none."""
        return int(self._devices[tuple(device_coordinates)])

    def cpu_device_name_at_coordinates(
        self, device_coordinates: Sequence[int] | np.ndarray, job: str | None = None
    ) -> str:
        """Return the name of the CPU of the machine with the device at a place."""
        task = self.task_ordinal_at_coordinates(device_coordinates)
        return f"{_job(job)}/task:{task}/device:CPU:0"

    def tpu_device_name_at_coordinates(
        self, device_coordinates: Sequence[int] | np.ndarray, job: str | None = None
    ) -> str:
        """Return the name of the device at a place."""
        task = self.task_ordinal_at_coordinates(device_coordinates)
        device = self.tpu_device_ordinal_at_coordinates(device_coordinates)
        return f"{_job(job)}/task:{task}/device:TPU:{device}"

    def serialized(self) -> bytes:
        """Return the topology as the bytes of a ``tensorflow.tpu.TopologyProto``."""
        if self._serialized is None:
            self._serialized = b"".join(
                [
                    _packed(_MESH_SHAPE, self._mesh_shape.tolist()),
                    _integer(_NUM_TASKS, self.num_tasks),
                    _integer(_NUM_DEVICES, self.num_tpus_per_task),
                    _packed(_COORDINATES, self._coordinates.ravel().tolist()),
                ]
            )
        return self._serialized

    def __repr__(self) -> str:
        return (
            f"Topology(mesh_shape={self._mesh_shape.tolist()}, tasks={self.num_tasks}, "
            f"TPUs per task={self.num_tpus_per_task})"
        )


def _job(job: str | None) -> str:
    return "" if job is None else f"/job:{job}"


def _parsed(serialized: bytes) -> tuple[list[int], np.ndarray]:
    """Mesh shape and coordinates of a ``TopologyProto``."""
    fields: dict[int, list[int]] = {}
    for number, values in _fields(serialized):
        fields.setdefault(number, []).extend(values)
    sizes = [fields.get(number, [0])[-1] for number in (_NUM_TASKS, _NUM_DEVICES)]
    mesh_shape = fields.get(_MESH_SHAPE, [])
    coordinates = np.asarray(fields.get(_COORDINATES, []), np.int64)
    if len(mesh_shape) != _AXES:
        raise ValueError(f"A serialized topology must have a mesh of 4 axes, got {mesh_shape}")
    if min(sizes) < 1:
        raise ValueError(f"A serialized topology has no devices: {sizes[0]} tasks, {sizes[1]} each")
    if coordinates.size != np.prod(sizes, dtype=np.int64) * _AXES:
        raise ValueError(
            f"A serialized topology of {sizes[0]} tasks with {sizes[1]} devices each must have 4 "
            f"coordinates for each device, got {coordinates.size} in all"
        )
    return mesh_shape, coordinates.reshape(*sizes, _AXES)


def _fields(message: bytes) -> Iterator[tuple[int, list[int]]]:
    """Number and integers of each field, in protocol buffers' wire format; others have none."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, [value]
        elif kind == _BYTES:
            size, at = _varint(message, at)
            end = at + size
            if end > len(message):
                raise ValueError("A serialized topology is cut off")
            values = []
            while number in (_MESH_SHAPE, _COORDINATES) and at < end:
                value, at = _varint(message, at)
                values.append(value)
            yield number, values
            at = end
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"A serialized topology has a field of the unknown kind {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The integer at a position, as an int32 of C++, and the position behind it."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("A serialized topology is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            low = value & 0xFFFFFFFF
            return (low - (1 << 32) if low >> 31 else low), at


def _packed(number: int, values: Sequence[int]) -> bytes:
    content = b"".join(map(_as_varint, values))
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(content)) + content if values else b""


def _integer(number: int, value: int) -> bytes:
    return _as_varint(number << 3 | _VARINT) + _as_varint(value) if value else b""


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found + bytes([value]))
