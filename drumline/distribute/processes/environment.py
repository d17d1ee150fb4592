"""What a launcher asks of a process by environment variables, applied before JAX starts."""

from __future__ import annotations

import os

import jax

from drumline import config

CPU_DEVICES_VARIABLE = "DRUMLINE_CPU_DEVICES"
CACHE_VARIABLE = "DRUMLINE_COMPILATION_CACHE"
_COLLECTIVE_TIMEOUT = "--xla_cpu_collective_timeout_seconds"


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
    cache = os.environ.get(CACHE_VARIABLE)
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def limit_collectives(seconds: int) -> None:
    """Let a collective on CPUs fail when a peer keeps it waiting for longer than `seconds`.

    A limit that the user has set in ``XLA_FLAGS`` stands.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _COLLECTIVE_TIMEOUT not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_COLLECTIVE_TIMEOUT}={seconds}".strip()
