"""What is known of jobs, as JSON: times in seconds since the epoch, secrets' values masked."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from drumline.jobs.file.model import Job
from drumline.jobs.file.values import JobFileError
from drumline.jobs.file.writing import to_yaml
from drumline.jobs.sources.secrets import Masking
from drumline.jobs.store.database import AttemptRow, JobEvent, JobRow

JOB_FILE = "job.yaml"
"""What errors call a job file that came as text."""

_WHY = {
    "queued": "waits until the supervisor has looked at it",
    "starting": "is being started",
    "running": "runs",
    "stopping": "is asked to save and end",
    "succeeded": "all its processes ended with exit code 0",
    "failed": "failed without a reason that is known",
    "cancelled": "was cancelled",
    "lost": "its engine cannot say what it does",
}


def listed_job(row: JobRow, mask: Masking) -> dict[str, Any]:
    """A job as the list has it."""
    return {
        "id": row.id,
        "name": row.job.name,
        "state": row.state,
        "reason": mask(row.reason),
        "submitted": row.submitted,
        "started": row.started,
        "ended": row.ended,
        "restarts": row.restarts,
        "priority": row.job.priority,
        "engine": row.job.engine,
        "by": row.by,
    }


def whole_job(
    row: JobRow,
    attempts: Sequence[AttemptRow],
    processes: Sequence[Mapping[str, Any]],
    folder: str,
    mask: Masking,
) -> dict[str, Any]:
    """All about one job."""
    return {
        **listed_job(row, mask),
        "why": mask(row.reason) or _WHY[row.state],
        "stop": row.stop,
        "spec": mask(to_yaml(row.job)),
        "job": _masked(json.loads(row.job.to_json()), mask),
        "roles": list(row.job.sizes()),
        "folder": folder,
        "attempts": [
            {key: mask(value) if key == "reason" else value
             for key, value in dataclasses.asdict(each).items() if key != "handle"}
            for each in attempts
        ],
        "processes": list(processes),
    }  # fmt: skip


def row_of(document: Mapping[str, Any]) -> JobRow:
    """The row of which `whole_job` has made a document."""
    fields = {key: document[key] for key in ("id", "state", "reason", "submitted", "ended")}
    more = {key: document[key] for key in ("restarts", "stop", "by", "started")}
    return JobRow(job=Job.from_json(json.dumps(document["job"])), **fields, **more)


def event(each: JobEvent, mask: Masking) -> dict[str, Any]:
    """An event of a job."""
    return {"number": each.number, "time": each.time, "kind": each.kind, "text": mask(each.text)}


def problems(error: JobFileError) -> list[dict[str, Any]]:
    """The mistakes of a job file, each with its line if that is known."""
    found = []
    for problem in error.problems:
        place = re.match(rf"{re.escape(JOB_FILE)}(?::(\d+))?: ", problem)
        line = int(place[1]) if place and place[1] else None
        found.append({"line": line, "text": problem[place.end() :] if place else problem})
    return found


def _masked(value: Any, mask: Masking) -> Any:
    """JSON with each text in it masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked(each, mask) for each in value]
    if isinstance(value, dict):
        return {key: _masked(each, mask) for key, each in value.items()}
    return value
