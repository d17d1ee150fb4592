"""How much memory there is to use."""

from __future__ import annotations

from pathlib import Path

_SHARE = 4


def default_budget() -> int:
    """Bytes: a quarter of what this machine, or the control group of this process, has left."""
    return min(_machine(Path("/proc/meminfo")), _group(Path("/sys/fs/cgroup"))) // _SHARE


def _machine(meminfo: Path) -> int:
    if not meminfo.exists():
        return 1 << 62
    lines = (line.split() for line in meminfo.read_text().splitlines())
    return next(int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:")


def _group(folder: Path) -> int:
    """What a version 2 control group allows beyond what it uses; without a limit very much.

    Parts of files that were read a while ago count as used there, but make room for what is needed.
    """
    limit, used = folder / "memory.max", folder / "memory.current"
    if not limit.exists() or (text := limit.read_text().strip()) == "max":
        return 1 << 62
    return max(0, int(text) - int(used.read_text()) + _reclaimable(folder / "memory.stat"))


def _reclaimable(stat: Path) -> int:
    if not stat.exists():
        return 0
    lines = (line.split() for line in stat.read_text().splitlines())
    return next((int(line[1]) for line in lines if line[0] == "inactive_file"), 0)
