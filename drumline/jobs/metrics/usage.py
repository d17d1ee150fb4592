"""What each process of a job uses: CPUs, memory, GPUs, sampled and written down as lines of JSON.

It imports the standard library only: each running job has a process that samples. NVML, which says
what GPUs do, is called in the driver's own library, if there is one.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.metrics.sessions import SessionUse, use_of

USAGE = "usage.jsonl"
PROCESSES = "processes.json"
"""In the directory of logs: the processes of the launcher, by their tasks."""


def processes_file(rank: int) -> str:
    """The name of `PROCESSES` of the launcher of a host, by its rank among several."""
    return f"processes-{rank}.json" if rank else PROCESSES


QUANTITIES = ("cpu", "memory", "gpu", "gpu_memory")

_FIRST_SECONDS, _LONGEST_SECONDS = 2.0, 32.0
_MOST_SAMPLES = 4096


def usage_files(folder: Path) -> list[Path]:
    """The files with samples of a start; of processes on several hosts each has one of its own."""
    return [folder / USAGE, *sorted(folder.glob(f"{Path(USAGE).stem}-*.jsonl"))]


class UsageFile:
    """Samples in a file that stays small: of 4,096 every second one is removed.

    A sample is a line: its time, and of each task the CPUs (cores) since the last one, the bytes in
    RAM, the share of time in which its GPUs computed, and the bytes taken on them, or null. A line
    with ``pids`` says whose numbers the tasks' processes have.

    Args:
        path: made when there is something to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self.last = 0.0
        for line in self._lines():
            with contextlib.suppress(ValueError):
                moment = json.loads(line).get("t")
                self._count += moment is not None
                self.last = moment or self.last

    def add(self, lines: Sequence[Mapping[str, Any]]) -> bool:
        """Write samples down; True if from now on half as many will do.

        Raises:
            OSError: they cannot be written.
        """
        with open(self._path, "a", opener=_private) as file:
            file.writelines(f"{json.dumps(each, separators=(',', ':'))}\n" for each in lines)
        self._count += sum("t" in each for each in lines)
        if self._count < _MOST_SAMPLES:
            return False
        kept, number = [], 0
        for line in self._lines():
            number += '"t"' in line
            if number % 2 or '"t"' not in line:
                kept.append(line)
        fresh = self._path.with_suffix(".new")
        with open(fresh, "w", opener=_private) as file:
            file.writelines(kept)
        fresh.replace(self._path)
        self._count = (self._count + 1) // 2
        return True

    def _lines(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return self._path.read_text().splitlines(keepends=True)
        return []


class UsageSampler:
    """Samples the processes of one start of a job, less and less often, down to one in 32 s.

    Args:
        file: where to, made when there is something to write; or what takes the lines of samples
            as `UsageFile.add` does.
        processes: what the launcher writes when it starts one, `PROCESSES`.

    Attributes:
        seconds: until the next sample.
    """

    def __init__(
        self, file: Path | Callable[[Sequence[Mapping[str, Any]]], bool], processes: Path
    ) -> None:
        self.seconds = _FIRST_SECONDS
        self._add = UsageFile(file).add if isinstance(file, Path) else file
        self._processes = processes
        self._changed = -1
        self._tasks: dict[str, dict[str, Any]] = {}
        self._before: dict[int, SessionUse] = {}
        self._at = 0.0
        self._gpus: Gpus | None = None

    def sample(self) -> None:
        """Take a sample. A disk that is full has it lost, and nothing else."""
        with contextlib.suppress(OSError, ValueError):
            lines = self._read_processes()
            now = time.monotonic()
            uses = use_of([int(task["pid"]) for task in self._tasks.values()])
            line: dict[str, Any] = {"t": round(time.time(), 3)}
            for name, task in self._tasks.items():
                use, before = uses[task["pid"]], self._before.get(task["pid"])
                if use.seconds and before is not None and now > self._at:
                    cpus = use.seconds_since(before) / (now - self._at)
                    line[name] = [round(cpus, 4), use.memory, *self._gpus_of(task)]
            self._before, self._at = uses, now
            if len(line) > 1:
                lines.append(line)
            if lines and self._add(lines):
                self.seconds = min(2 * self.seconds, _LONGEST_SECONDS)

    def _read_processes(self) -> list[dict[str, Any]]:
        """What is new of the tasks' processes, as lines."""
        with contextlib.suppress(FileNotFoundError):
            found = self._processes.stat()
            if found.st_mtime_ns != self._changed:
                self._tasks = json.loads(self._processes.read_text())
                self._changed = found.st_mtime_ns
                return [{"pids": {name: task["pid"] for name, task in self._tasks.items()}}]
        return []

    def _gpus_of(self, task: dict[str, Any]) -> tuple[float | None, int | None]:
        names = [name for name in (task.get("gpus") or "").split(",") if name]
        if not names:
            return None, None
        if self._gpus is None:
            self._gpus = Gpus()
        return self._gpus.use_of(names)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Gpus:
    """NVIDIA's GPUs, as the driver's NVML library counts what they do.

    https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html

    Args:
        library: its name or path. Where there is none, nothing is known of any GPU.
    """

    def __init__(self, library: str = "libnvidia-ml.so.1") -> None:
        self._nvml: Any = None
        self._handles: dict[str, ctypes.c_void_p | None] = {}
        with contextlib.suppress(OSError, AttributeError):
            nvml = ctypes.CDLL(library)
            if nvml.nvmlInit_v2() == 0:
                self._nvml = nvml

    def use_of(self, names: list[str]) -> tuple[float | None, int | None]:
        """The mean share of time in which GPUs computed, 0 to 1, and the bytes taken on them.

        Args:
            names: as in CUDA_VISIBLE_DEVICES: numbers, or UUIDs.

        Returns:
            None for what is not known.
        """
        busy: list[float] = []
        memory: list[int] = []
        for name in names:
            handle = self._handle(name)
            if handle is None:
                continue
            use, taken = _Utilization(), _Memory()
            if self._nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)) == 0:
                busy.append(use.gpu / 100)
            if self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(taken)) == 0:
                memory.append(taken.used)
        return (sum(busy) / len(busy) if busy else None), (sum(memory) if memory else None)

    def _handle(self, name: str) -> ctypes.c_void_p | None:
        if self._nvml is None:
            return None
        if name not in self._handles:
            handle = ctypes.c_void_p()
            if name.isdecimal():
                # CUDA may number GPUs otherwise than NVML, unless CUDA_DEVICE_ORDER=PCI_BUS_ID.
                code = self._nvml.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle))
            else:
                uuid = name.encode()
                code = self._nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle))
            self._handles[name] = handle if code == 0 else None
        return self._handles[name]
