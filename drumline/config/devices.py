"""The devices of this process, as ``tf.config`` names them."""

from __future__ import annotations

import dataclasses
import operator
import os
import re
import warnings
from collections.abc import Sequence

from drumline._backend import jax_has_started, keep_cpu_platform, may_have_accelerators
from drumline._changes import note
from drumline._lazy import jax

_FLAG = "--xla_force_host_platform_device_count"


_eager = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run `Strategy.run` and `function` step by step as plain Python, or compiled again.

    As ``tf.config.run_functions_eagerly``: for debugging. Values are concrete, so that a step may
    print them, branch on them and be stepped through; replicas run sequentially, up to the
    next collective. The results are the same, the speed is not.
    """
    global _eager
    _eager = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether `run_functions_eagerly` is in force."""
    return _eager


def set_logical_devices(kind: str, n: int) -> None:
    """Divide this process's CPU into `n` devices: ``"cpu:0"`` to ``"cpu:n-1"``.

    With them a script for several devices runs, and is tested, on any machine. This is what
    ``tf.config.set_logical_device_configuration`` does with `n` entries for the first CPU. It
    must come before JAX computes or lists anything; asking again for the same number is fine.

    Args:
        kind: ``"cpu"``, in any case; other devices cannot be divided.
        n: how many, at least 1. It wins over ``--xla_force_host_platform_device_count`` in
            ``XLA_FLAGS``, with a warning when the two differ.

    Raises:
        RuntimeError: if JAX has started with another number of CPU devices.
        ValueError: if `kind` is not the CPU or `n` is not positive.
        TypeError: if `kind` is not a string or `n` is not an integer.
    """
    _require_cpu(kind)
    count = _device_count(n)
    keep_cpu_platform()
    if jax_has_started():
        _require_started_with(count)
        return
    forced = re.search(rf"{_FLAG}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    if forced and int(forced[1]) != count:
        warnings.warn(
            f"set_logical_devices('cpu', {count}) overrules {forced[0]} in XLA_FLAGS; "
            f"drop one of the two.",
            UserWarning,
            stacklevel=2,
        )
    jax.config.update("jax_num_cpu_devices", count)
    note(
        "JAX",
        "jax.config.jax_num_cpu_devices",
        f"set_logical_devices divides this process's CPU into {count}",
        "do not call it; DRUMLINE_CPU_DEVICES unset",
    )


@dataclasses.dataclass(frozen=True)
class LogicalDeviceConfiguration:
    """One of the devices into which another is divided, as ``tf.config``'s; it has no options."""


def set_logical_device_configuration(
    device: str, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Divide a physical device, as ``tf.config.set_logical_device_configuration``.

    Args:
        device: the CPU, ``"cpu:0"``; other devices cannot be divided.
        logical_devices: one entry for each device it becomes.

    Raises:
        RuntimeError, ValueError, TypeError: as `set_logical_devices`.
    """
    kind, _, number = str(device).partition(":")
    if number not in ("", "0"):
        raise ValueError(f"There is one physical CPU, 'cpu:0', got {device!r}.")
    set_logical_devices(kind, len(logical_devices))


def list_physical_devices(kind: str | None = None) -> list[str]:
    """The devices before any is divided, as ``tf.config.list_physical_devices``.

    Asked for the CPU alone, or where JAX has no plugin for accelerators, it does not start JAX, so
    that the CPU can still be divided.

    Args:
        kind: ``"cpu"``, ``"gpu"`` or ``"tpu"``, in any case; by default all.
    """
    if kind is not None and kind.lower() == "cpu":
        return ["cpu:0"]
    if not jax_has_started() and not may_have_accelerators():
        return ["cpu:0"] if kind is None else []
    listed = list_logical_devices(kind)
    return [name for name in listed if not name.startswith("cpu:") or name == "cpu:0"]


def list_logical_devices(kind: str | None = None) -> list[str]:
    """The names of this process's devices, as strategies take them: ``["cpu:0", "cpu:1"]``.

    The counterpart of ``tf.config.list_logical_devices``. It starts JAX, so it comes after
    `set_logical_devices`.

    Args:
        kind: ``"cpu"``, ``"gpu"`` or ``"tpu"``, in any case; by default the devices of JAX's
            default backend, then the CPU's. A kind that is not present gives an empty list.
    """
    keep_cpu_platform()
    if kind is not None:
        return _names(kind.lower())
    default = jax.default_backend()
    return _names(default) + (_names("cpu") if default != "cpu" else [])


def _names(kind: str) -> list[str]:
    return [f"{kind}:{position}" for position in range(len(_local_devices(kind)))]


def _local_devices(kind: str) -> list[jax.Device]:
    try:
        return list(jax.local_devices(backend=kind))
    except RuntimeError:
        if not jax_has_started():  # a backend failed to start: JAX's own message says which
            raise
        return []


def _require_cpu(kind: str) -> None:
    if not isinstance(kind, str):
        raise TypeError(f"set_logical_devices: kind must be a string, got {kind!r}")
    if kind.lower() != "cpu":
        raise ValueError(
            f"set_logical_devices: only the CPU can be divided into several devices, got kind "
            f"{kind!r}. Accelerators are used as they are; list_logical_devices() names them."
        )


def _device_count(n: int) -> int:
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"set_logical_devices: n must be an integer, got {n!r}") from None
    if isinstance(n, bool) or count < 1:
        raise ValueError(f"set_logical_devices: n must be at least 1, got {n!r}")
    return count


def _require_started_with(count: int) -> None:
    present = len(_local_devices("cpu"))
    if present != count:
        raise RuntimeError(
            f"set_logical_devices('cpu', {count}) comes too late: JAX has started, with "
            f"{present} CPU device(s). Call it right after importing drumline, before anything "
            f"computes or lists devices (in a notebook: restart the kernel first)."
        )
