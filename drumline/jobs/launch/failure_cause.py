"""Which process failed first, and why."""

from __future__ import annotations

import dataclasses
import enum
import re
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from drumline._lost_process import LostProcess, exited
from drumline.failure_record import FailureRecord, read_all
from drumline.jobs.launch.logs import last_lines, shown
from drumline.jobs.launch.process import Child

_LINES_SHOWN = 12
_LINES_SEARCHED = 60
_CONSEQUENCE = re.compile(
    r"PeerLost|distributed service detected fatal errors|stopped sending heartbeats"
    r"|heartbeat timeout|Socket closed|Connection (closed|reset) by peer|Gloo .* failed"
    r"|coordination service.*(UNAVAILABLE|DEADLINE_EXCEEDED)",
    re.IGNORECASE,
)


class Role(enum.IntEnum):
    """A process's part in a failure, the likeliest cause first."""

    CAUSE = 0
    STOPPED = 1
    STUCK = 2
    HUNG = 3
    CONSEQUENCE = 4


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A process that may have made the job fail.

    Attributes:
        task: as ``"worker:1"``.
        part: see `Role`.
        age: how long ago it happened, in seconds.
        what: how it ended, as a clause: ``"exited with code 1"``.
        why: what the process said itself; may be empty.
        log: its log file.
        lines: the last lines of its log.
        address: where it listens, as ``"host:port"``; empty if others do not connect to it.
        pid: its number on its host, if known.
    """

    task: str
    part: Role
    age: float
    what: str
    why: str = ""
    log: str = ""
    lines: tuple[str, ...] = ()
    address: str = ""
    pid: int | None = None

    @property
    def lost(self) -> LostProcess:
        """The process in the words that all have who notice a loss."""
        seen = f"it {self.what}" + (f": {self.why}" if self.why else "")
        return LostProcess(self.task, seen, self.address, self.pid)


def suspects(children: Sequence[Child], records: Iterable[FailureRecord]) -> list[Suspect]:
    """Who may have made the job fail, the likeliest first.

    A record of a process's own exception, or its death without one, is a cause, and the earliest
    is to blame: a native abort of its peers follows it. Next come processes found suspended, then
    those whose watchdog ended them, and last those that only lost a peer.
    """
    by_task = {record.task: record for record in records}
    found = [_suspect(child, by_task.get(str(child.task))) for child in children]
    return in_order(suspect for suspect in found if suspect is not None)


def in_order(all_suspects: Iterable[Suspect]) -> list[Suspect]:
    """The likeliest cause first, and among equals the earliest."""
    return sorted(all_suspects, key=lambda suspect: (suspect.part, -suspect.age))


def short_exit(returncode: int) -> str:
    """``"exit 1"``, ``"SIGKILL"``."""
    if returncode >= 0:
        return f"exit {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:  # real-time signals have no names
        return f"signal {-returncode}"


def _suspect(child: Child, record: FailureRecord | None) -> Suspect | None:
    if not child.failed and not child.seen_stopped and not child.hung and record is None:
        return None
    lines = last_lines(child.output.tail, _LINES_SEARCHED)
    ended = child.ended_at or time.time()
    moment = min(record.time, ended) if record else ended
    return Suspect(
        task=str(child.task),
        part=_part(child, record, lines),
        # All hang at once, whichever was the first to end then.
        age=0.0 if child.hung else max(0.0, time.time() - moment),
        what=_what(child, record),
        why=_why(record),
        log=shown(child.log),
        lines=tuple(lines[-_LINES_SHOWN:]),
        address=child.address,
        pid=child.pid,
    )


def _part(child: Child, record: FailureRecord | None, lines: list[str]) -> Role:
    if record is not None:
        own = {"exception": Role.CAUSE, "stuck": Role.STUCK, "peer lost": Role.CONSEQUENCE}
        return own[record.kind]
    if child.hung:
        return Role.HUNG
    if not child.failed:
        return Role.STOPPED
    killed_from_outside = child.returncode == -signal.SIGKILL
    if not killed_from_outside and any(_CONSEQUENCE.search(line) for line in lines):
        return Role.CONSEQUENCE
    return Role.CAUSE


def _what(child: Child, record: FailureRecord | None) -> str:
    if record is None and child.seen_stopped and not child.failed:
        return "was suspended (SIGSTOP), and the others waited for it"
    if child.suspended_for is not None:
        return f"was suspended (SIGSTOP) for {child.suspended_for:.0f} s, and was killed"
    if record is not None and record.kind == "stuck":
        return "made no progress, and its watchdog ended it"
    if child.hung:
        return child.hung
    if record is not None and record.kind == "peer lost":
        return f"lost {record.peer or 'one of the others'}"
    if child.failed and child.returncode is not None:
        return exited(child.returncode)
    return "failed"


def _why(record: FailureRecord | None) -> str:
    if record is None:
        return ""
    return record.message + (f" (step {record.step})" if record.step is not None else "")


def read_records(directory: Path) -> tuple[list[FailureRecord], str]:
    """The failure records in `directory`, and what was wrong with reading them, if anything."""
    try:
        return read_all(directory), ""
    except (OSError, ValueError) as error:
        return [], f"failure records could not be read: {error}"
