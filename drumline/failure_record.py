"""Why a process of a job ended, written where whoever watches the job can read it.

A failing process leaves one small file in the directory that ``DRUMLINE_FAILURE_DIR`` names. Its
peers fail as well, soon after it and often louder; `primary` finds the one that failed first by
itself. Nothing here imports JAX, so that a launcher can read records without it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

from drumline._forks import ForkSafeLock

RESTART_STATUS = 75
"""The status of a process that has saved and is to be started again: ``EX_TEMPFAIL`` of sysexits.h.
"""

STACKS_SIGNAL = signal.SIGRTMIN + 7
"""At which a process that imports drumline writes the stacks of its threads to its stderr, where a
launcher has started it."""

DIRECTORY_VARIABLE = "DRUMLINE_FAILURE_DIR"

Kind = Literal["exception", "stuck", "peer lost"]
"""Its own Python exception; no progress, found by the watchdog; the consequence of a peer's end.
In the order of blame."""

_KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclasses.dataclass(frozen=True)
class FailureRecord:
    """What one process knew about its end.

    Attributes:
        task_type: its task's type in the cluster: ``"worker"``, ``"chief"``, ...
        task_index: its task's index among those of this type.
        kind: see `Kind`.
        message: one line.
        traceback: the Python traceback or the stacks of all threads; may be empty.
        step: the step it was in, if known.
        time: when, in seconds since the epoch.
        peer: the task it lost or waited for, as ``"worker:1"``, if known.
    """

    task_type: str
    task_index: int
    kind: Kind
    message: str
    traceback: str
    step: int | None
    time: float
    peer: str | None

    @property
    def task(self) -> str:
        """The task as ``"worker:0"``."""
        return f"{self.task_type}:{self.task_index}"


_write_once = ForkSafeLock()
_written: set[Path] = set()


def write(
    task_type: str,
    task_index: int,
    kind: Kind,
    message: str,
    *,
    traceback: str = "",
    step: int | None = None,
    peer: str | None = None,
) -> Path | None:
    """Write this process's record, unless it has written one: what comes first is the cause.

    The file ``<task_type>-<task_index>.json`` appears whole or not at all, and replaces one left
    by an earlier process of the same task. Only its user can read it.

    Returns:
        The file, or None when ``DRUMLINE_FAILURE_DIR`` is unset or a record was written before.

    Raises:
        OSError: if the directory cannot be made or written.
        ValueError: if `kind` is not a `Kind`.
    """
    if kind not in _KINDS:
        raise ValueError(f"A failure's kind is one of {_KINDS}, got {kind!r}")
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory:
        return None
    one_line = " ".join(message.split())
    record = FailureRecord(
        task_type, task_index, kind, one_line, traceback, step, time.time(), peer
    )
    path = Path(directory).absolute() / f"{task_type}-{task_index}.json"
    with _write_once:
        if path in _written:
            return None
        _replace(path, json.dumps(dataclasses.asdict(record)))
        _written.add(path)
    return path


def read_all(directory: str | os.PathLike[str]) -> list[FailureRecord]:
    """All records in `directory`, by time; none if it does not exist.

    Raises:
        ValueError: if a ``.json`` file there is not a record.
    """
    records = [_read(path) for path in sorted(Path(directory).glob("*.json"))]
    return sorted(records, key=lambda record: record.time)


def primary(records: Iterable[FailureRecord]) -> FailureRecord | None:
    """The record of the process to blame, or None if there are no records.

    A process's own exception comes before a stuck one, and both before those that only lost a
    peer; among equals the earliest.
    """
    return min(records, key=lambda record: (_KINDS.index(record.kind), record.time), default=None)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}-{os.urandom(6).hex()}.part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(part, path)


def _read(path: Path) -> FailureRecord:
    try:
        record = FailureRecord(**json.loads(path.read_text()))
        _KINDS.index(record.kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a failure record: {error}") from error
    return record
