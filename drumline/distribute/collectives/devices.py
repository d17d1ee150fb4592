"""From the spellings people use for a device, or a mesh of them, to the JAX devices meant."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

DeviceLike: TypeAlias = "str | jax.Device"

_DEVICE = re.compile(
    r"""^(?:/?job:(?P<job>[A-Za-z_][\w-]*))?
        (?:/?replica:(?P<replica>\d+))?
        (?:/?task:(?P<task>\d+))?
        /?(?:device:)?(?P<kind>[A-Za-z]+)
        (?::(?P<index>\d+))?$""",
    re.VERBOSE,
)


def local_devices() -> list[jax.Device]:
    """Every device of this process: those of the default backend, then the CPU's."""
    devices = list(jax.local_devices())
    if devices[0].platform != "cpu":
        devices += _local_devices_of("cpu")
    return devices


@functools.lru_cache(maxsize=4096)
def is_local(device: jax.Device) -> bool:
    """Whether this process can hold arrays on a device.

    It cannot on those of other processes, nor on those of a topology that programs are compiled
    for, whichever process these are of.
    """
    return device in _local_devices_of(device.platform)


def device_name(device: jax.Device) -> str:
    """The short name of a device, as ``"cpu:1"``; ``"/task:2/cpu:1"`` in another process.

    A device that is not there, of a topology, has JAX's name.
    """
    if is_local(device):
        siblings = _local_devices_of(device.platform)
        return f"{device.platform}:{siblings.index(device)}"
    process = device.process_index
    siblings = [d for d in _devices_of(device.platform) if d.process_index == process]
    if device not in siblings:
        return str(device)
    return f"/task:{process}/{device.platform}:{siblings.index(device)}"


def resolve_device(spec: DeviceLike) -> jax.Device:
    """Return the device of this process that `spec` names.

    Args:
        spec: a JAX device, or a string as in ``tf.distribute``: ``"cpu:0"``, ``"/gpu:1"``,
            ``"/device:CPU:1"`` or ``"/job:localhost/replica:0/task:0/device:CPU:1"``, in any
            case. Without an index, the first device of the kind.

    Raises:
        ValueError: if the string is no device name, or this process has no such device; the
            message lists the devices there are.
        TypeError: if `spec` is neither a string nor a JAX device.
    """
    if isinstance(spec, jax.Device):
        if not is_local(spec):
            raise ValueError(
                f"Device {spec} belongs to another process, or is not there. {_inventory()}"
            )
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"A device is a string or a jax.Device, not {type(spec).__name__}: {spec}")
    match = _DEVICE.match(spec.strip())
    if match is None:
        raise ValueError(
            f"{spec!r} does not name a device; write it as 'cpu:0' or '/gpu:1'. {_inventory()}"
        )
    _require_this_process(spec, match)
    candidates = _local_devices_of(match["kind"].lower())
    index = int(match["index"] or 0)
    if index >= len(candidates):
        raise ValueError(f"Device {spec!r} does not exist. {_inventory()}")
    return candidates[index]


def resolve_devices(specs: Iterable[DeviceLike]) -> tuple[jax.Device, ...]:
    """Return the devices that `specs` name, in order.

    Raises:
        ValueError: if there are none, one does not exist, one is given twice, or they are of
            different kinds: a program runs on one kind of device at a time.
    """
    given = list(specs)
    if not given:
        raise ValueError(f"A strategy needs at least one device, got none. {_inventory()}")
    devices = [resolve_device(spec) for spec in given]
    for position, device in enumerate(devices):
        first = devices.index(device)
        if first != position:
            raise ValueError(
                f"Device {device_name(device)!r} is given twice: as {given[first]!r} and as "
                f"{given[position]!r}. {_inventory()}"
            )
    if len({device.platform for device in devices}) > 1:
        names = ", ".join(map(device_name, devices))
        raise ValueError(f"The devices of a strategy must be of one kind, got {names}.")
    return tuple(devices)


def resolve_mesh(name: str, mesh: Any) -> Mesh:
    """Return the mesh of this process's devices that `mesh` means.

    Args:
        name: of the strategy that it is for.
        mesh: a JAX mesh, a ``keras.distribution.DeviceMesh``, or axes' names with their sizes, for
            the first devices of JAX's default backend.

    Raises:
        TypeError: if it is something else.
        ValueError: if there are not as many devices, one does not exist, or one is given twice.
    """
    if isinstance(mesh, Mapping):
        devices = _devices_of_mesh(name, mesh)
        names = tuple(mesh)
    elif hasattr(mesh, "axis_names") and hasattr(mesh, "devices"):
        given = np.asarray(mesh.devices)
        found = resolve_devices(
            each if isinstance(each, jax.Device) else str(each) for each in given.flat
        )
        devices, names = np.array(found, object).reshape(given.shape), tuple(mesh.axis_names)
    else:
        raise TypeError(
            f"{name}(mesh=...) is a keras.distribution.DeviceMesh, a jax.sharding.Mesh, or the "
            f'sizes of axes by their names, as {{"batch": 2, "model": 2}}, not {mesh!r}. It may '
            "be left out if the layout map was made with a device mesh."
        )
    return Mesh(devices, names, axis_types=(AxisType.Auto,) * devices.ndim)


def _devices_of_mesh(name: str, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    shown = ", ".join(f"{axis}={size!r}" for axis, size in sizes.items())
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes.values()):
        raise ValueError(f"{name}: each axis of the mesh needs a size of at least 1, got {shown}.")
    shape = tuple(sizes.values())
    count, devices = math.prod(shape), jax.local_devices()
    if count > len(devices):
        raise ValueError(
            f"{name}: a mesh of {shown} has {count} devices, and this process has {len(devices)}. "
            f"Make an axis smaller. {_inventory()}"
        )
    return np.array(devices[:count], object).reshape(shape)


def _require_this_process(spec: str, match: re.Match[str]) -> None:
    replica, task = int(match["replica"] or 0), match["task"]
    elsewhere = task is not None and int(task) != jax.process_index()
    if replica or elsewhere:
        raise ValueError(
            f"Device {spec!r} belongs to another process; name a device of this one. {_inventory()}"
        )


def _local_devices_of(kind: str) -> list[jax.Device]:
    try:
        return list(jax.local_devices(backend=kind))
    except RuntimeError:  # JAX's way to say that it has no such backend
        return []


def _devices_of(kind: str) -> list[jax.Device]:
    try:
        return list(jax.devices(kind))
    except RuntimeError:
        return []


def _inventory() -> str:
    names: Sequence[str] = [device_name(device) for device in local_devices()]
    return (
        f"The devices here are: {', '.join(names)}. For several CPU devices, call "
        "drumline.config.set_logical_devices('cpu', n) first."
    )
