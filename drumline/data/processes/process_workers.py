"""Worker processes as a stage's workers."""

from __future__ import annotations

from typing import Any

from drumline.data.runtime.threads import DaemonThreads, Workers


class ProcessWorkers(Workers[Any]):
    """Threads of which each waits for a worker process.

    Args:
        width: how many at once.
        automatic: whether that is left to drumline.
        most: what it may choose.
    """

    def __init__(self, width: int, automatic: bool, most: int):
        super().__init__(DaemonThreads(), width, automatic, most=most)

    def describe(self) -> str:
        automatic = " (AUTOTUNE: at present)" if self.automatic else ""
        noun = "process" if self.width == 1 else "processes"
        return f"in {self.width} worker {noun}{automatic}, in order"
