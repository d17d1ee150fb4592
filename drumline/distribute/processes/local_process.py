"""Whether a process of the same machine is still there, asked of ``/proc``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Literal

Condition = Literal["running", "stopped", "dead", "elsewhere"]


@dataclasses.dataclass(frozen=True)
class LocalProcess:
    """A process, by what tells it from all others.

    Attributes:
        machine: the boot of the machine and the namespace in which `pid` counts; empty if unknown.
        pid: the process.
        started: when it started, in the machine's clock ticks.
    """

    machine: str
    pid: int
    started: int

    @classmethod
    def this(cls) -> LocalProcess:
        """The process that asks."""
        pid = os.getpid()
        stat = _stat(pid)
        return cls(_machine(), pid, stat[1] if stat else 0)

    @classmethod
    def from_json(cls, text: str) -> LocalProcess:
        """The process that `to_json` wrote."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """The process as a line of text."""
        return json.dumps(dataclasses.asdict(self))

    def condition(self) -> Condition:
        """Whether it runs, is stopped (as by SIGSTOP) or dead; or is of another machine."""
        if not self.machine or self.machine != _machine():
            return "elsewhere"
        stat = _stat(self.pid)
        if stat is None or stat[0] in "ZXx" or stat[1] != self.started:
            return "dead"
        return "stopped" if stat[0] in "Tt" else "running"


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # no /proc, as on macOS: then nothing is known of other processes
        return ""


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
