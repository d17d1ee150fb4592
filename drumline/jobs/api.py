"""Jobs in Python: ``dl.jobs.run``, and a handle on each job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.jobs.file.values import JobFileError
from drumline.jobs.service.chosen import WorkspaceAccess, chosen
from drumline.jobs.store.database import ENDED, JobRow

if TYPE_CHECKING:
    from drumline.jobs.metrics.series import MetricSeries


class JobHandle:
    """A job of the current workspace.

    Args:
        service: the workspace.
        number: the job's.

    Attributes:
        id: its number.
    """

    def __init__(self, service: WorkspaceAccess, number: int) -> None:
        self.id = number
        self._service = service

    def __repr__(self) -> str:
        return f"<job {self.id} {self.name!r}: {self.state}>"

    @property
    def row(self) -> JobRow:
        """All that is known of it, as it is now."""
        return self._service.row(self.id)

    @property
    def folder(self) -> Path:
        """Where its code, its working copy and its logs are, on the machine of its workspace."""
        return self._service.folder(self.id)

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.job.name

    @property
    def state(self) -> str:
        """Queued, starting, running, stopping, succeeded, failed, cancelled or lost; lower case."""
        return self.row.state

    @property
    def reason(self) -> str:
        """Why it waits (in numbers), who failed first and why, or the empty string."""
        return self._service.reason(self.id)

    @property
    def events(self) -> list[tuple[float, str, str]]:
        """What has happened to it: when, what, and details."""
        found = self._service.events(self.id)["events"]
        return [(each["time"], each["kind"], each["text"]) for each in found]

    def cancel(self) -> None:
        """Ask it to end. It is given time to save; `wait` waits for its end.

        Raises:
            RuntimeError: it has ended already.
        """
        self._service.cancel(self.id)

    def wait(self, timeout: float | None = None) -> str:
        """Wait for its end, and return its last state.

        Args:
            timeout: seconds to wait at most.

        Raises:
            TimeoutError: it has not ended by then.
        """
        until = None if timeout is None else time.monotonic() + timeout
        began = checked = time.monotonic()
        while (state := self.state) not in ENDED:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {self.id} is {state} after {timeout:g} s: {self.reason}")
            if time.monotonic() - checked > 2:  # The supervisor may have been killed.
                self._service.wake()
                checked = time.monotonic()
            self._service.pause(began)
        return state

    def logs(self, process: str | None = None, follow: bool = False) -> Iterator[str]:
        """Lines of its logs, without their ends; values of secrets are masked.

        Args:
            process: as ``"worker:1"``, or ``"job"`` for what the launcher says; None for all
                processes, where each line begins with its process if there are several.
            follow: also wait for further lines until the job ends.

        Raises:
            ValueError: it has no such process.
        """
        return self._service.lines(self.id, process, follow)

    def metrics(self) -> dict[str, MetricSeries]:
        """What it uses and what it reports, by names in their order.

        ``cpu/worker:0`` (cores), ``memory/worker:0`` (bytes in RAM), ``gpu/worker:0`` (share of
        time, 0 to 1) and ``gpu_memory/worker:0`` (bytes) are sampled. The others are the scalars of
        TensorBoard's event files below its working folder, by folder and tag, as
        ``logs/train/epoch_loss``, and the columns of files of `keras.callbacks.CSVLogger`, as
        ``log/loss``. Called again on the same handle, only what is new is read.

        Returns:
            Each with `steps`, int64, `values` and `times`, float64, all of shape (n,), in the order
            of time. A job that continued from a checkpoint has steps twice.
        """
        return self._service.series(self.id)

    def rerun(self) -> JobHandle:
        """Submit it again as a new job, with the same code."""
        return JobHandle(self._service, self._service.rerun(self.id))


def run(file: str | Path | None = None, **fields: Any) -> JobHandle:
    """Submit a job to the current workspace, and start its supervisor if none runs.

    Args:
        file: a job file; or instead of it
        **fields: the keys of one, as ``command="python train.py", workers=2``.

    Raises:
        JobFileError: with a line for each mistake.
        OSError: the file cannot be read.

    Example:
        >>> job = dl.jobs.run(command="python train.py", workers={"count": 2, "cpus": 0.5})
        ... # doctest: +SKIP
        >>> job.wait()  # doctest: +SKIP
        'succeeded'
    """
    if (file is None) == (not fields):
        raise JobFileError(["give a job file, or the fields of a job: command=..., workers=..."])
    if file is None:
        return run_fields(fields, "dl.jobs.run")
    service = chosen()
    return JobHandle(service, service.run_file(Path(file)))


def run_fields(fields: dict[str, Any], where: str) -> JobHandle:
    """Submit a job with the fields of a job file.

    Args:
        fields: as the keys of a file.
        where: what errors name as the place.

    Raises:
        JobFileError: with a line for each mistake.
    """
    service = chosen()
    return JobHandle(service, service.run_fields(fields, Path.cwd(), where))


def find(job: int | str) -> JobHandle:
    """A job of the current workspace, by its number or its name; of a name the latest.

    Raises:
        LookupError: there is none.
    """
    service = chosen()
    return JobHandle(service, service.row(job).id)


def latest(limit: int = 50) -> list[JobHandle]:
    """The latest jobs of the current workspace, the newest first."""
    service = chosen()
    return [JobHandle(service, row.id) for row in service.rows(limit)]


def wake() -> None:
    """Start the supervisor of the current workspace if jobs wait for one."""
    chosen().wake_if_open()
