"""Jobs on this machine, each under a keeper of its own.

CPUs and memory are promised, not enforced; of GPUs each job sees its own by CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from drumline.jobs.engines.engine import Start, StartError, Status
from drumline.jobs.engines.images import ImageError, image_problems, in_images
from drumline.jobs.engines.launching import launch_command
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.local.start_folder import (
    KEEPER,
    held_gpus,
    kept_status,
    machine,
    start_keeper,
    stop_kept,
)
from drumline.jobs.engines.preparing import preparation
from drumline.jobs.engines.starting import start_environment, working_copy
from drumline.jobs.file.model import Job


class LocalEngine:
    """Runs jobs on this machine. It is an `Engine`.

    Args:
        home: the workspace.
        capacity: what jobs may hold together; this machine's by default.
        keeper: the command of a keeper, to which its folder and its lock are added.
        reached: is called with the name of each step of a start; tests kill the supervisor there.
    """

    queues = False
    remote = False

    def __init__(
        self,
        home: Path,
        capacity: Mapping[str, float] | None = None,
        keeper: Sequence[str] = KEEPER,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._jobs = home / "jobs"
        self._capacity = machine() if capacity is None else capacity
        self._keeper = keeper
        self._reached = reached

    def capacity(self) -> Mapping[str, float]:
        """See `Engine`."""
        return self._capacity

    def check(self, job: Job) -> list[str]:
        """See `Engine`."""
        gpus = {name: role.gpus for name, role in job.roles.items()}
        found = [
            job.problem(name, "gpus: the processes that train get GPUs alone")
            for name in ("ps", "evaluator")
            if gpus.get(name)
        ]
        found += image_problems(job)
        if "chief" in gpus and gpus["chief"] != gpus["workers"]:
            found.append(job.problem("chief", "gpus: must be those of a worker on this engine"))
        return found

    def handle(self, number: int, attempt: int) -> str:
        """See `Engine`."""
        return f"{number}/attempt-{attempt}"

    def folder(self, handle: str) -> Path:
        """The folder of an attempt."""
        return self._jobs / handle

    def start(self, start: Start) -> None:
        """See `Engine`."""
        folder = self.folder(start.handle)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = attempt.take_lock(folder)
            if lock is None:
                return
            try:
                if kept_status(folder, locked=True).state == "absent":
                    self._start(start, folder, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise StartError(f"it cannot be started: {error}") from error

    def _start(self, start: Start, folder: Path, lock: int) -> None:
        self._reached("locked")
        work = working_copy(start.source, folder.parent)
        self._reached("copied")
        gpus = self._free_gpus(int(start.job.needs["gpus"]), folder)
        given = attempt.read(folder.parent / "environment.json") or {}
        env = start_environment(start, given)
        if self._capacity["gpus"]:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        own_log = folder / attempt.LAUNCHER_LOG
        before = preparation(start.job, folder.parent, folder, work)
        try:
            job = in_images(start.job, f"drumline-{start.number}-{start.attempt}", folder, work)
        except ImageError as error:
            raise StartError(str(error)) from error
        argv = launch_command(job, folder / attempt.LOGS, before, launcher_log=own_log)
        described = {"argv": argv, "cwd": str(work), "env": env, "gpus": gpus}
        described["wakes"] = str(self._jobs.parent)
        start_keeper(folder, lock, described, start.secrets, self._keeper, self._reached)
        self._reached("kept")

    def _free_gpus(self, count: int, own: Path) -> list[str]:
        if not count:
            return []
        from drumline.jobs.launch.environment import visible_gpus

        starts = self._jobs.glob(f"*/attempt-*/{attempt.START}")
        held = held_gpus(path.parent for path in starts if path.parent != own)
        free = [gpu for gpu in visible_gpus(os.environ) if gpu not in held]
        if len(free) < count:
            raise StartError(f"it needs {count} gpus, and {len(free)} are free")
        return free[:count]

    def poll(self, handle: str) -> Status:
        """See `Engine`."""
        return kept_status(self.folder(handle))

    def cancel(self, handle: str) -> None:
        """See `Engine`."""
        stop_kept(self.folder(handle))

    def logs(self, handle: str) -> dict[str, Path]:
        """See `Engine`."""
        folder = self.folder(handle)
        found = {"job": folder / attempt.LAUNCHER_LOG}
        for path in sorted((folder / attempt.LOGS).glob("*-*.log")):
            task, dot, restart = path.stem.partition(".")
            kind, _, index = task.rpartition("-")
            found[f"{kind}:{index}{dot}{restart}"] = path
        return {name: path for name, path in found.items() if path.exists()}

    def metrics(self, handle: str) -> tuple[Path, Path]:
        """See `Engine`."""
        folder = self.folder(handle)
        return folder.parent / "work", folder

    def claims(self) -> Iterator[tuple[str, str]]:
        """See `Engine`; there are none."""
        return iter(())
