"""What a launcher asks of a process by environment variables, applied before JAX starts."""

from __future__ import annotations

import os
import re

from drumline import config
from drumline._backend import jax_has_started
from drumline._changes import set_variable
from drumline.config import cache
from drumline.distribute.process_group import jax_internals

CPU_DEVICES_VARIABLE = "DRUMLINE_CPU_DEVICES"
_COLLECTIVE_TIMEOUT = "--xla_cpu_collective_timeout_seconds"
_DEVICES_TIMEOUT = "--xla_cpu_collective_call_terminate_timeout_seconds"
_XLAS_LIMIT_SECONDS = 1800


def apply_launcher_settings() -> None:
    """Honour ``DRUMLINE_CPU_DEVICES`` and ``DRUMLINE_COMPILATION_CACHE``.

    Raises:
        ValueError: if the first is not a positive integer.
        RuntimeError: if JAX has started with another number of devices.
    """
    devices = os.environ.get(CPU_DEVICES_VARIABLE)
    if devices:
        if not devices.isdecimal() or int(devices) < 1:
            raise ValueError(
                f"{CPU_DEVICES_VARIABLE} must be a positive integer, the number of CPU devices "
                f"of a process; got {devices!r}"
            )
        config.set_logical_devices("cpu", int(devices))
    cache.jax_is_imported()  # the variable may have been set since


def collective_limit_seconds() -> int:
    """How long a collective on CPUs may wait for a peer."""
    found = re.search(rf"{_COLLECTIVE_TIMEOUT}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(found[1]) if found else _XLAS_LIMIT_SECONDS


def limit_collectives(seconds: int) -> None:
    """Let a collective on CPUs fail when a peer keeps it waiting for longer than `seconds`.

    A limit that the user has set in ``XLA_FLAGS`` stands.

    Raises:
        RuntimeError: if this jaxlib has no such limit (0.8 has none).
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _COLLECTIVE_TIMEOUT in flags:
        return
    if not jax_internals.xla_knows_flag(_COLLECTIVE_TIMEOUT):
        raise RuntimeError(
            f"This jaxlib cannot limit how long a collective on CPUs waits for a peer "
            f"({_COLLECTIVE_TIMEOUT}). Install a newer jax, or leave the limit out: a peer that "
            f"is dead or stopped is found by its heartbeat, a stuck one by the watchdog."
        )
    set_variable(
        "XLA_FLAGS",
        f"{flags} {_COLLECTIVE_TIMEOUT}={seconds}".strip(),
        "a collective on CPUs fails when a peer keeps it waiting for longer",
        f"set {_COLLECTIVE_TIMEOUT} yourself",
    )


def let_cpu_devices_wait(seconds: int = _XLAS_LIMIT_SECONDS) -> None:
    """Let CPU devices of this process wait for each other in a collective, as processes do.

    XLA ends the process where one comes a minute after another, which large steps of many devices
    on few processors take. A limit that the user has set in ``XLA_FLAGS`` stands, and XLA's own
    where JAX has started already.

    Args:
        seconds: how long, from a first wait of 20 s on.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if jax_has_started() or _DEVICES_TIMEOUT in flags:
        return
    if jax_internals.xla_knows_flag(_DEVICES_TIMEOUT):
        set_variable(
            "XLA_FLAGS",
            f"{flags} {_DEVICES_TIMEOUT}={seconds}".strip(),
            "XLA ends the process when a CPU device keeps another waiting for longer",
            f"set {_DEVICES_TIMEOUT} yourself",
        )
