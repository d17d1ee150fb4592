"""What the supervisor needs of an engine.

Each call may be repeated after a crash: whoever called may have been killed before it noted the
answer. A handle is made up *before* the start and written down, so that what was started is found
by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from drumline.jobs.file.model import Job

State = Literal["absent", "queued", "starting", "running", "ended", "gone", "lost"]


@dataclasses.dataclass(frozen=True)
class Status:
    """What has become of a start.

    Attributes:
        state: ``absent``: nothing was started, and nothing will be, so that it may be started.
            ``queued``: it waits in the engine's own queue, for `reason`.
            ``ended``: it ended by itself. ``gone``: it ended together with its machine.
            ``lost``: the engine cannot say.
        code: the exit code, if it has ended and this is known.
        reason: why it ended, in a sentence: who failed first; or why it waits.
        final: it would end so again, and is not to be started again.
        notes: what has been done for it so far, in sentences that become events.
        hung: whether it was ended since it was silent for too long.
    """

    state: State
    code: int | None = None
    reason: str = ""
    final: bool = False
    notes: tuple[str, ...] = ()
    hung: bool = False


@dataclasses.dataclass(frozen=True)
class Start:
    """One start of a job.

    Attributes:
        job: what is started.
        number: the job's.
        attempt: from 1.
        handle: from `Engine.handle`.
        source: the folder with the job's code, from which the engine makes its own copy.
        secrets: values of the job's secrets by their names.
    """

    job: Job
    number: int
    attempt: int
    handle: str
    source: Path
    secrets: Mapping[str, str]


class SettingError(ValueError):
    """A setting of an engine that cannot be; the message says why."""


class StartError(Exception):
    """A start that will fail again if it is repeated; the message says why."""


class Engine(Protocol):
    """Runs jobs.

    Attributes:
        queues: it has a queue of its own, and minds timeouts: it is given each job at once.
        remote: its processes see other files and programs than this machine's, which it checks
            itself.
    """

    queues: bool
    remote: bool

    def capacity(self) -> Mapping[str, float]:
        """What all jobs together may hold, by the names in `RESOURCES`."""

    def check(self, job: Job) -> list[str]:
        """What this engine cannot do of a job; empty if nothing."""

    def handle(self, number: int, attempt: int) -> str:
        """By what a start will be found: the same for the same numbers."""

    def start(self, start: Start) -> None:
        """Start, if it is `absent`.

        Raises:
            StartError: it cannot be started.
        """

    def poll(self, handle: str) -> Status:
        """What has become of a start."""

    def cancel(self, handle: str) -> None:
        """Ask it to end, in the time that it is given; again and again until it has."""

    def logs(self, handle: str) -> dict[str, Path]:
        """The log of each process, by its name: ``"worker:1"``; ``"job"`` is the launcher's."""

    def metrics(self, handle: str) -> tuple[Path, Path]:
        """The job's working folder, and the folder of the start, where samples of its use are."""

    def claims(self) -> Iterator[tuple[str, str]]:
        """What storage of its own there is for jobs to choose from.

        Returns:
            Addresses that a job file may have, as ``"pvc://sets"``, and what each is; an empty
            address with why that cannot be said. Nothing where it has none besides what any
            machine sees.
        """
