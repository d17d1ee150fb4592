"""``tf.config``'s devices and ``tf.device``: JAX's devices, by TensorFlow's names.

A physical device is what the machine has; a logical one is what strategies and `device` take: the
CPU may be divided into several. What changes devices comes before JAX has started, as in TensorFlow
before its own runtime has.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax

from drumline import config
from drumline._backend import jax_has_started
from drumline._changes import note, set_variable
from drumline.compat.values.errors import InvalidArgumentError

_KINDS = ("CPU", "GPU", "TPU")
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_OFF = "do not call it"


class PhysicalDevice(NamedTuple):
    """A device of the machine, as ``tf.config.PhysicalDevice``.

    Attributes:
        name: as ``"/physical_device:CPU:0"``.
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``.
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that computations run on, as ``tf.config.LogicalDevice``.

    Attributes:
        name: as ``"/device:CPU:0"``.
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``.
    """

    name: str
    device_type: str


class PartOfDevice(NamedTuple):
    """One of the devices into which a physical one is divided.

    As ``tf.config.LogicalDeviceConfiguration``; none of its attributes can be set here.
    """

    memory_limit: float | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


PartOfDevice.__name__ = PartOfDevice.__qualname__ = "LogicalDeviceConfiguration"

_visible: dict[str, list[PhysicalDevice]] = {}
"""Of each kind of devices those that `set_visible_devices` left; all of a kind that is not here."""
_divided: list[PartOfDevice] = []
_soft_placement = True


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of the machine, those that were made invisible too.

    Args:
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``; by default all.
    """
    kinds = _KINDS if device_type is None else (device_type.upper(),)
    found = list(dict.fromkeys(each for hidden in _hidden.values() for each in hidden))
    found = [each for each in found if each.device_type in kinds]
    for kind in kinds:
        for name in config.list_physical_devices(kind.lower()) if kind in _KINDS else []:
            device = PhysicalDevice(f"/physical_device:{name.upper()}", kind)
            if device not in found:
                found.append(device)
    return sorted(found, key=lambda each: (_KINDS.index(each.device_type), each.name))


_hidden: dict[str, list[PhysicalDevice]] = {}
"""All devices of a kind, of which JAX is to use some alone."""


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that computations run on. It starts JAX.

    Args:
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``; by default all.
    """
    kinds = [kind for kind in _KINDS if device_type is None or kind == device_type.upper()]
    return [
        LogicalDevice(f"/device:{name.upper()}", kind)
        for kind in kinds
        if _visible.get(kind) != []
        for name in config.list_logical_devices(kind.lower())
    ]


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Use some of the machine's devices alone.

    Args:
        devices: physical devices, or one of them; none of a kind with ``[]``.
        device_type: whose devices these are; by default all kinds are meant.

    Raises:
        RuntimeError: JAX has started with others.
        ValueError: a device is not there, of another kind, or the CPU is not among them.
    """
    chosen = [devices] if isinstance(devices, PhysicalDevice) else list(devices)
    kinds = [device_type.upper()] if device_type else list(_KINDS)
    for each in chosen:
        _kind_of(each)
    for kind in kinds:
        own = [each for each in chosen if each.device_type == kind]
        present = list_physical_devices(kind)
        for each in chosen:
            if device_type and each.device_type != kind:
                raise ValueError(f"Expected device type: {kind}, got {each!r}")
            if each.device_type == kind and each not in present:
                raise ValueError(f"The following device is not present: {each!r}")
        if own == _visible.get(kind, present):
            continue
        if kind == "CPU":
            raise ValueError("The CPU cannot be made invisible: input pipelines run on it.")
        if jax_has_started():
            raise RuntimeError(
                "Visible devices cannot be modified after being initialized: call "
                "set_visible_devices right after the imports."
            )
        _show(kind, own, present)


def _show(kind: str, own: list[PhysicalDevice], present: list[PhysicalDevice]) -> None:
    """Have JAX use some of the devices of a kind alone, before it starts."""
    _hidden[kind] = present
    _visible[kind] = own
    if not own:
        if kind == "GPU" or not list_physical_devices("GPU"):
            jax.config.update("jax_platforms", "cpu")
            note("JAX", "jax.config.jax_platforms", "set_visible_devices hides all others", _OFF)
        return
    if kind != "GPU":
        raise ValueError(f"Some devices of kind {kind} cannot be hidden: hide all, or none.")
    numbers = ",".join(each.name.rpartition(":")[2] for each in own)
    for name in ("jax_cuda_visible_devices", "jax_rocm_visible_devices"):
        jax.config.update(name, numbers)
        note("JAX", f"jax.config.{name}", "set_visible_devices hides the others", _OFF)


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that are used; as `list_physical_devices` without those made invisible."""
    present = list_physical_devices(device_type)
    return [each for each in present if each in _visible.get(each.device_type, [each])]


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[PartOfDevice] | None
) -> None:
    """Divide the CPU into several devices, before JAX starts.

    Args:
        device: the CPU.
        logical_devices: one configuration for each device it becomes.

    Raises:
        RuntimeError: JAX has started with another number of them.
        ValueError: for a limit of a CPU's memory.
        NotImplementedError: for another device: JAX does not divide GPUs.
    """
    wanted = list(logical_devices or [PartOfDevice()])
    kind = _kind_of(device)
    if kind != "CPU":
        raise NotImplementedError(
            f"{device.name} cannot be divided, and has no memory limit of its own: JAX has one "
            "device for each GPU. Test with several devices on the CPU; limit a process's memory "
            "with XLA_PYTHON_CLIENT_MEM_FRACTION."
        )
    for each in wanted:
        if each.memory_limit is not None:
            raise ValueError("Setting memory limit on CPU virtual devices is not supported")
        if each.experimental_priority is not None or each.experimental_device_ordinal is not None:
            raise ValueError("CPU virtual devices have no priority and no ordinal")
    try:
        config.set_logical_devices("cpu", len(wanted))
    except RuntimeError as error:
        message = f"Virtual devices cannot be modified after being initialized: {error}"
        raise RuntimeError(message) from None
    _divided[:] = wanted


def get_logical_device_configuration(
    device: PhysicalDevice,
) -> list[PartOfDevice] | None:
    """What `set_logical_device_configuration` was given; None if it was not called."""
    return list(_divided) or None if _kind_of(device) == "CPU" else None


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Have memory of GPUs be taken as it is needed, and not most of it at once.

    Args:
        device: a GPU; JAX has one setting for all of them.
        enable: whether it grows.

    Raises:
        ValueError: the device is the CPU.
        RuntimeError: JAX has started with the other setting.
    """
    if _kind_of(device) == "CPU":
        raise ValueError("Cannot set memory growth on non-GPU and non-Pluggable devices")
    if get_memory_growth(device) == bool(enable):
        return
    if jax_has_started():
        raise RuntimeError("Physical devices cannot be modified after being initialized")
    why = "set_memory_growth has GPUs' memory be taken as it is needed, or at once"
    set_variable(_PREALLOCATE, str(not enable).lower(), why, _OFF)


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Whether memory of GPUs is taken as it is needed.

    Raises:
        ValueError: the device is the CPU.
    """
    if _kind_of(device) == "CPU":
        raise ValueError("The CPU has no memory growth")
    return os.environ.get(_PREALLOCATE, "true").lower() in ("false", "0")


def get_memory_info(device: str) -> dict[str, int]:
    """How many bytes of a device's memory are in use: ``"current"``, and ``"peak"`` at most.

    Zeros for CPUs, whose memory is not counted, as in TensorFlow.

    Raises:
        ValueError: there is no such device.
    """
    found = _resolved(device)
    if found is None:
        raise ValueError(f"Failed parsing device name: {device!r}, or there is no such device")
    counts = found.memory_stats() or {}
    return {
        "current": int(counts.get("bytes_in_use", 0)),
        "peak": int(counts.get("peak_bytes_in_use", 0)),
    }


def get_memory_usage(device: str) -> int:
    """How many bytes of a device's memory are in use."""
    return get_memory_info(device)["current"]


def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """A GPU's name and compute capability; nothing for CPUs. It starts JAX."""
    if _kind_of(device) == "CPU":
        return {}
    found = _resolved(device.name.removeprefix("/physical_device:"))
    if found is None:
        raise ValueError(f"There is no device {device!r}")
    details: dict[str, Any] = {"device_name": found.device_kind}
    capability = getattr(found, "compute_capability", None)
    if capability:
        details["compute_capability"] = tuple(map(int, str(capability).split(".")))
    return details


def set_soft_device_placement(enabled: bool) -> None:
    """Whether `device` of one that is not there is the default one, as it is at first."""
    global _soft_placement
    _soft_placement = bool(enabled)


def get_soft_device_placement() -> bool:
    """Whether `device` of one that is not there is the default one."""
    return _soft_placement


_ATTRIBUTES = re.compile(r"(job|replica|task|device):(.+)", re.IGNORECASE)


@contextlib.contextmanager
def device(device_name: Any) -> Iterator[None]:
    """Within the block JAX computes on a device, as ``tf.device``.

    Strategies place their own values. Tensors of numpy's arrays stay on the host until they are
    computed with.

    Args:
        device_name: as ``"/GPU:0"``; a `LogicalDevice`; None for the default one. A task of another
            process, as of parameter servers, is the default one too: strategies place variables.

    Raises:
        ValueError: it is no device's name.
        InvalidArgumentError: it is not there, and soft placement is off.
        RuntimeError: for a function, which TensorFlow's graphs take.
    """
    if callable(device_name):
        raise RuntimeError("tf.device does not support functions when eager execution is enabled.")
    name = "" if device_name is None else str(getattr(device_name, "name", device_name))
    kind, number = _parsed(name)
    found = None if kind is None else _resolved(f"{kind}:{number}")
    if kind is not None and found is None and not _soft_placement:
        raise InvalidArgumentError(
            None,
            None,
            f"Could not satisfy device specification '{name}': there are "
            f"{[each.name for each in list_logical_devices()]}, and soft placement is off",
        )
    with jax.default_device(found) if found is not None else contextlib.nullcontext():
        yield


def _parsed(name: str) -> tuple[str | None, int]:
    """The kind and number of a device's name, which may have parts for a task."""
    kind, number = None, 0
    for part in filter(None, name.split("/")):
        attribute = _ATTRIBUTES.fullmatch(part)
        if attribute and attribute[1].lower() != "device":
            continue
        local = attribute[2] if attribute else part
        letters, _, digits = local.partition(":")
        if letters.upper() not in _KINDS or not (digits in ("", "*") or digits.isdigit()):
            raise ValueError(
                f"Unknown attribute {part!r} is encountered while parsing the device spec: {name!r}"
            )
        kind, number = letters.lower(), int(digits) if digits.isdigit() else 0
    return kind, number


def _resolved(name: str) -> Any:
    """JAX's device of a name; None if it is not there."""
    kind, number = _parsed(name)
    try:
        local = jax.local_devices(backend=kind) if kind else jax.local_devices()
    except RuntimeError:
        return None
    return local[number] if number < len(local) else None


def _kind_of(device: Any) -> str:
    if not isinstance(device, PhysicalDevice):
        raise ValueError(f"Unrecognized device: {device!r}; give one of list_physical_devices()")
    return device.device_type
