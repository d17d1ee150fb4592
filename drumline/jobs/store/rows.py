"""What the list of jobs gives back: jobs, their attempts and events."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from drumline.jobs.file.model import Job

OPEN = ("queued", "starting", "running", "stopping", "lost")
ENDED = ("succeeded", "failed", "cancelled")

STOPS = ("cancel", "preempt", "timeout")
"""Why a job is being stopped. An earlier one in this list overrules a later."""


@dataclasses.dataclass(frozen=True)
class JobRow:
    """A job and its state.

    Attributes:
        id: its number, from 1.
        job: what was submitted.
        state: one of `OPEN` or `ENDED`.
        reason: why it waits, failed or was stopped, in a sentence; may be empty.
        submitted: when, in seconds since the epoch.
        ended: when it ended, or None.
        restarts: how many of its restarts are used up.
        stop: why it is being stopped (one of `STOPS`), or None.
        started: when it was first started, or None.
        by: the member who has submitted it; empty without a server.
        changed: the number of its latest change; each change of a workspace has a larger one.
    """

    id: int
    job: Job
    state: str
    reason: str
    submitted: float
    ended: float | None
    restarts: int
    stop: str | None
    started: float | None = None
    by: str = ""
    changed: int = 0


@dataclasses.dataclass(frozen=True)
class AttemptRow:
    """One start of a job.

    Attributes:
        number: from 1.
        handle: what the engine finds it by.
        started: when it was written down, before anything was started.
        ended: when it ended, or None.
        code: its exit code, if it is known.
        reason: why it ended.
    """

    number: int
    handle: str
    started: float
    ended: float | None
    code: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job, at a time."""

    number: int
    time: float
    kind: str
    text: str


# What is open is read again at each change, and what was submitted never changes.
_job = functools.lru_cache(1 << 14)(Job.from_json)


def job_row(row: Mapping[str, Any]) -> JobRow:
    """The job of a row of the table."""
    return JobRow(
        id=row["id"],
        job=_job(row["spec"]),
        state=row["state"],
        reason=row["reason"],
        submitted=row["submitted"],
        ended=row["ended"],
        restarts=row["restarts"],
        stop=row["stop"],
        started=row["started"],
        by=row["member"],
        changed=row["changed"],
    )


def attempt_row(row: Mapping[str, Any]) -> AttemptRow:
    """The attempt of a row of the table."""
    fields = dict(row)
    del fields["job"]
    return AttemptRow(**fields)
