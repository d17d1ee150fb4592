"""What an engine puts in front of its launcher, so that the job's data are there and are seen."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import Job
from drumline.jobs.sources.data import data_kind
from drumline.jobs.sources.preparation import PROGRAM, DataPreparation
from drumline.jobs.sources.spool import expect_upload, spools

_FILE = "preparation.json"


def preparation(
    job: Job, job_folder: Path, attempt_folder: Path, work: Path, home: Path | None = None
) -> list[str]:
    """The words to put in front of a command, on each machine where it is started.

    They begin a program that becomes the command; see `drumline.jobs.sources.preparation`.

    Args:
        job: what is started.
        job_folder: that of all starts of the job; what it writes to object stores is kept there.
        attempt_folder: that of this start.
        work: the job's working copy of its code, in which the command is started.
        home: the workspace, where it does not hold `job_folder`; its supervisor uploads what a
            killed job has left.

    Returns:
        No words if the job has neither data nor a mount path for its code.
    """
    images = any(role.image for role in job.roles.values())
    if not job.data and not job.code.at and not images:
        return []
    todo = DataPreparation(
        data=[dataclasses.asdict(each) for each in job.data],
        code=[str(work), job.code.at] if job.code.at else None,
        job=str(job_folder),
        attempt=str(attempt_folder),
        apart=images,
    )
    if any(each.write and data_kind(each.source) == "store" for each in job.data):
        expect_upload(home or job_folder.parent.parent, job_folder)
    attempt.write(attempt_folder / _FILE, dataclasses.asdict(todo))
    return [*PROGRAM, "with-data", str(attempt_folder / _FILE), "--"]


def not_uploaded(attempt_folder: Path) -> bool:
    """Whether anything is left to upload of what a job has written, by the folder of a start."""
    todo = attempt.read(attempt_folder / _FILE)
    return todo is not None and any(spool.pending() for spool in spools(Path(todo["job"])))
