"""The machine: a description without its name or paths, and limiting a benchmark's processors."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """The versions of those of ``distributions`` that are installed, and of Python."""
    found = {"python": platform.python_version()}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, str | int]:
    """Cores this process may use, processor, memory in GiB, and system."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cores(),
        "processor": _processor(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cores() -> int:
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def available_processors() -> int:
    """How many processors a benchmark may be confined to; 0 where the system cannot confine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


@contextlib.contextmanager
def confined(cores: int | None) -> Iterator[None]:
    """Keeps this process, and those it starts, to so many processors; ``None`` to all there are."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
