"""Jobs on this machine, each under a keeper of its own.

CPUs and memory are promised, not enforced; of GPUs each job sees its own by CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from drumline.jobs.engines.engine import Start, StartError, Status
from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import RESOURCES, Job, JobRole

GRACE_SECONDS = 10.0
"""What the launcher gives its processes to save and end."""

_KILL_SECONDS = GRACE_SECONDS + 20
"""When the launcher itself is killed, after it was asked to end."""

KEEPER = (sys.executable, "-P", "-m", "drumline_command.job_process", "keeper")
_LAUNCH = (sys.executable, "-P", "-m", "drumline_command", "launch")


def machine() -> dict[str, float]:
    """What this machine has, by the names in `RESOURCES`."""
    from drumline.jobs.launch.environment import visible_gpus

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    amounts = (len(os.sched_getaffinity(0)), memory, len(visible_gpus(os.environ)))
    return dict(zip(RESOURCES, map(float, amounts), strict=True))


class LocalEngine:
    """Runs jobs on this machine. It is an `Engine`.

    Args:
        home: the workspace.
        capacity: what jobs may hold together; this machine's by default.
        keeper: the command of a keeper, to which its folder and its lock are added.
        reached: is called with the name of each step of a start; tests kill the supervisor there.
    """

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
        self._keepers: list[subprocess.Popen[bytes]] = []

    def capacity(self) -> Mapping[str, float]:
        """See `Engine`."""
        return self._capacity

    def check(self, job: Job) -> list[str]:
        """See `Engine`."""
        gpus = {name: role.gpus for name, role in job.roles.items()}
        found = [
            f"{name}: gpus: the processes that train get GPUs alone"
            for name in ("ps", "evaluator")
            if gpus.get(name)
        ]
        if "chief" in gpus and gpus["chief"] != gpus["workers"]:
            found.append("chief: gpus: must be those of a worker on this engine")
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
                if self.poll(start.handle, locked=True).state == "absent":
                    self._start(start, folder, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise StartError(f"it cannot be started: {error}") from error

    def _start(self, start: Start, folder: Path, lock: int) -> None:
        self._reached("locked")
        work = folder.parent / "work"
        if not work.exists():
            fresh = folder.parent / "work.new"
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.copytree(start.source, fresh, symlinks=True)
            fresh.rename(work)
        self._reached("copied")
        if start.secrets:
            attempt.write(folder / attempt.SECRETS, dict(start.secrets))
        gpus = self._free_gpus(int(start.job.needs["gpus"]), folder)
        env = attempt.read(folder.parent / "environment.json") or {}
        env |= {
            **start.job.env,
            "DRUMLINE_JOB": str(start.number),
            "DRUMLINE_ATTEMPT": str(start.attempt),
        }
        if self._capacity["gpus"]:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        argv = launch_command(start.job, folder / attempt.LOGS)
        described = {"argv": argv, "cwd": str(work), "env": env, "gpus": gpus}
        attempt.write(folder / attempt.START, described | {"boot": attempt.boot()})
        self._reached("described")
        with open(folder / attempt.KEEPER_LOG, "ab") as log:
            self._keepers.append(
                subprocess.Popen(
                    [*self._keeper, str(folder), str(lock)],
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[lock],
                )
            )
        self._reached("kept")

    def _free_gpus(self, count: int, own: Path) -> list[str]:
        if not count:
            return []
        from drumline.jobs.launch.environment import visible_gpus

        held: set[str] = set()
        for path in self._jobs.glob(f"*/attempt-*/{attempt.START}"):
            if path.parent != own and attempt.is_alive(path.parent):
                held |= set((attempt.read(path) or {}).get("gpus", ()))
        free = [gpu for gpu in visible_gpus(os.environ) if gpu not in held]
        if len(free) < count:
            raise StartError(f"it needs {count} gpus, and {len(free)} are free")
        return free[:count]

    def poll(self, handle: str, locked: bool = False) -> Status:
        """See `Engine`; `locked` says that the caller itself holds the attempt's lock."""
        self._keepers = [keeper for keeper in self._keepers if keeper.poll() is None]
        folder = self.folder(handle)
        # What is asked first may happen between: an end is asked for again once none is alive.
        if not (folder / attempt.EXIT).exists() and not locked and attempt.is_alive(folder):
            known = (folder / attempt.RUNNING).exists()
            return Status("running" if known else "starting")
        result = attempt.read(folder / attempt.LOGS / "result.json")
        if ended := attempt.read(folder / attempt.EXIT) or result:
            reason = (result or {}).get("reason") or _last_words(folder / attempt.LAUNCHER_LOG)
            code = ended["code"]
            return Status("ended", code, "" if code == 0 else reason or f"exit code {code}")
        # The launcher makes its folder of logs before it starts anything.
        if not (folder / attempt.LOGS).exists():
            return Status("absent")
        if (attempt.read(folder / attempt.START) or {}).get("boot") != attempt.boot():
            return Status("gone", None, "the machine was restarted")
        return Status("ended", None, "its launcher was killed (SIGKILL, or out of memory)")

    def cancel(self, handle: str) -> None:
        """See `Engine`."""
        folder = self.folder(handle)
        asked = folder / "stopping.json"
        since = (attempt.read(asked) or {}).get("time")
        late = since is not None and time.time() - since > _KILL_SECONDS
        if (since is not None and not late) or not attempt.is_alive(folder):
            return
        launcher = _launcher(folder)
        if launcher is None:
            return
        # Written first: two signals would be worse than one that comes with the killing.
        if since is None:
            attempt.write(asked, {"time": time.time()})
        with contextlib.suppress(ProcessLookupError):
            os.kill(launcher, signal.SIGKILL if late else signal.SIGTERM)

    def logs(self, handle: str) -> dict[str, Path]:
        """See `Engine`."""
        folder = self.folder(handle)
        found = {"job": folder / attempt.LAUNCHER_LOG}
        for path in sorted((folder / attempt.LOGS).glob("*-*.log")):
            task, dot, restart = path.stem.partition(".")
            kind, _, index = task.rpartition("-")
            found[f"{kind}:{index}{dot}{restart}"] = path
        return {name: path for name, path in found.items() if path.exists()}


def launch_command(job: Job, logs: Path) -> list[str]:
    """The launcher's command line for a job on one host."""
    roles = job.roles
    options = ["--workers", str(roles["workers"].count)]
    if ps := roles.get("ps", JobRole(0)).count:
        options += ["--ps", str(ps)]
    options += [f"--{alone}" for alone in ("chief", "evaluator") if alone in roles]
    if gpus := roles["workers"].gpus:
        options += ["--devices-per-worker", str(gpus)]
    options += ["--grace-seconds", f"{GRACE_SECONDS:g}", "--log-dir", str(logs)]
    return [*_LAUNCH, *options, "--", *job.command]


def _last_words(log: Path) -> str:
    """The last line of a log that is not empty."""
    with contextlib.suppress(FileNotFoundError), open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _launcher(folder: Path) -> int | None:
    """The launcher's process number, if it runs."""
    if running := attempt.read(folder / attempt.RUNNING):
        pid = int(running["pid"])
        return pid if attempt.started_at(pid) == running["started"] else None
    # Its keeper has not written it down. If that was killed, who holds the lock are the launcher
    # and its guardian, which is younger.
    if any(_is_keeper(pid) for pid in _holders(folder)):
        return None
    alive = [(started, pid) for pid in _holders(folder) if (started := attempt.started_at(pid))]
    return min(alive)[1] if alive else None


def _is_keeper(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"keeper" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def _holders(folder: Path) -> Iterator[int]:
    """Processes that have the attempt's lock open."""
    lock = (folder / attempt.LOCK).stat()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for file in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.samestat(file.stat(), lock):
                        yield int(process.name)
                        break
