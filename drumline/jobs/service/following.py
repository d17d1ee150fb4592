"""The lines of a job's logs in their order, as it writes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.jobs.logs.reading import LogReader
from drumline.jobs.sources.secrets import Masking
from drumline.jobs.store.database import ENDED

if TYPE_CHECKING:
    from drumline.jobs.service.workspace_service import WorkspaceService

_PERIOD_SECONDS = 0.1
_SHORT_SECONDS = 10.0
_SHORTEST_SECONDS = 2.0
_SUPERVISOR_SECONDS = 2.0


def pause(began: float) -> float:
    """Seconds until one looks again: less at first, when a short job may end."""
    lasts = time.monotonic() - began
    more_often = 10 if lasts < _SHORTEST_SECONDS else 4 if lasts < _SHORT_SECONDS else 1
    return _PERIOD_SECONDS / more_often


class LineFollower:
    """Reads the logs of one job.

    Args:
        service: its workspace.
        number: the job's.
    """

    def __init__(self, service: WorkspaceService, number: int) -> None:
        self._service = service
        self._number = number

    def lines(self, process: str | None, follow: bool) -> Iterator[str]:
        """See `JobHandle.logs`."""
        mask = Masking(self._service.home)
        for name, line in self._lines(process, follow):
            yield mask(f"{name} | {line}" if name else line)

    def _lines(self, process: str | None, follow: bool) -> Iterator[tuple[str, str]]:
        row = self._service.row(self._number)
        several = sum(role.count for role in row.job.roles.values()) > 1
        tails: dict[Path, LogReader] = {}
        began = checked = time.monotonic()
        while True:
            # Asked before the logs are read: what it has written at its end is read, too.
            ended = self._service.row(self._number).state in ENDED
            for name, path in self._service.log_files(self._number).items():
                if is_asked(name, process):
                    tail = tails.setdefault(path, LogReader(path))
                    prefix = name if several and process is None else ""
                    for line in tail.lines(ended or not follow):
                        yield prefix, line.decode(errors="replace")
            if ended or not follow:
                break
            if time.monotonic() - checked > _SUPERVISOR_SECONDS:  # It may have been killed.
                self._service.wake()
                checked = time.monotonic()
            time.sleep(pause(began))
        if process is not None and not tails:
            raise no_process(self._number, process, self._service.log_files(self._number))


def is_asked(name: str, process: str | None) -> bool:
    """Whether the log of a name is of a process; of none given, whether it is of any but "job"."""
    of = name.partition(".")[0]
    return of == process or (process is None and of != "job")


def no_process(number: int, process: str, names: Iterator[str] | dict[str, Path]) -> ValueError:
    """The error for a process that a job does not have."""
    listed = ", ".join(sorted({name.partition(".")[0] for name in names})) or "none yet"
    return ValueError(f"job {number} has no process {process!r}; it has: {listed}")
