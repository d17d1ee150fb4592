"""Jobs on a Slurm cluster, each start as a batch job.

A start has two folders. The one in the workspace holds what the supervisor knows of the submission;
the one in the cluster's shared folder is the truth about the run: `exit.json`, which the batch
script writes, says how it ended. Slurm itself is asked for what is not over, and for jobs that
have left nothing behind. Its silence means nothing: neither an end nor a success.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from drumline.jobs.engines.children import collect_children, start_child
from drumline.jobs.engines.engine import Start, StartError, Status
from drumline.jobs.engines.images import image_path_problems, in_images
from drumline.jobs.engines.launching import KILL_SECONDS, RANK, launch_command
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.preparing import preparation
from drumline.jobs.engines.slurm.queue import (
    ENDED,
    UNREACHABLE,
    WAITS,
    SlurmJob,
    SlurmQueue,
    command_environment,
)
from drumline.jobs.engines.slurm.script import (
    RUN,
    SIGNALS,
    SUBMITTED_LOG,
    USUAL_PRIORITY,
    SlurmSettings,
    batch_script,
    components,
)
from drumline.jobs.engines.starting import start_environment, working_copy
from drumline.jobs.file.model import RESOURCES, Job
from drumline.jobs.sources.preparation import NOTES, read_notes
from drumline.jobs.store.workspace import identity

CLAIM, STOPPING = "claim.json", "stopping.json"
_SUBMITTED, _SCRIPT = "submitted.json", "batch.sh"
_OUT, _ERRORS, _CODE = "sbatch.out", "sbatch.err", "sbatch.code"

_FILE_SECONDS = 20.0
"""How long a file of another host may take to be seen, after Slurm says that a job has ended."""

_REFUSED_SECONDS = 30.0
"""Before a submission is tried again that one's limit in Slurm's policy does not allow now."""

_CHECK_SECONDS = 1.0
"""Between two looks at the shared folder for one start."""

# What belongs to the machine of submission and not to a node; GPUs are Slurm's to give.
_LEFT_BEHIND = re.compile(r"TMPDIR|CUDA_VISIBLE_DEVICES|XDG_(RUNTIME_DIR|SESSION_.*)")
_LATER = re.compile(r"\w*(?:MaxSubmit|MaxJobs)\w*|limit is reached", re.I)
_NO_NICE = "Invalid --nice value"

# The exit code is put in place whole, whoever is killed meanwhile.
_SUBMIT = """out=$1 err=$2 code=$3 script=$4 notes=$5 note=$6; shift 6
"$@" "$script" >"$out" 2>"$err"; ended=$?
if [ $ended -ne 0 ] && grep -q "Invalid --nice" "$err"; then
  sed -i "/^#SBATCH --nice=-/d" "$script"; printf '%s\\n' "$note" >>"$notes"
  "$@" "$script" >"$out" 2>"$err"; ended=$?
fi
echo $ended >"$code.new"; mv "$code.new" "$code"
"""
_NOT_FIRST = "Slurm lets its operators alone go first: priority {} counts as 5 there"


class SlurmEngine:
    """Runs jobs on a Slurm cluster. It is an `Engine`.

    Args:
        home: the workspace.
        settings: of the cluster.
        reached: is called with the name of each step of a start; tests kill the supervisor there.
        queue: what Slurm says; made for the settings by default.
    """

    queues = True
    remote = False

    def __init__(
        self,
        home: Path,
        settings: SlurmSettings,
        reached: Callable[[str], None] = lambda step: None,
        queue: SlurmQueue | None = None,
    ) -> None:
        self._jobs = home / "jobs"
        self._settings = settings
        self._identity = identity(home)
        self._reached = reached
        self._queue = queue or SlurmQueue(settings, f"-{self._identity}")
        self._shared = Path(settings.folder) / self._identity
        self._undecided: dict[str, float] = {}
        self._absent: set[str] = set()
        self._over: dict[str, float] = {}
        self._polled: dict[str, tuple[float, Status]] = {}
        self._cancelled: dict[str, float] = {}

    def capacity(self) -> Mapping[str, float]:
        """See `Engine`. Whether a job fits is said by `check`."""
        return dict.fromkeys(RESOURCES, float("inf"))

    def problem(self) -> str:
        """Why it cannot be used at all; empty if it can."""
        try:
            self._shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            return f"the folder {self._shared} cannot be made: {error.strerror}"
        if partition := self._settings.partition:
            # Without a name it says all, whether or not the controller answers.
            argv = ["scontrol", "show", "partition", partition]
        else:
            argv = ["sinfo", "--noheader"]
        code, out, err = self._queue.run(argv)
        if code:
            return f"Slurm says: {' '.join((err or out).split()) or f'{argv[0]} ended with {code}'}"
        return ""

    def check(self, job: Job) -> list[str]:
        """See `Engine`. Slurm is asked whether it would take the job."""
        try:
            self._shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            return [f"the folder {self._shared} cannot be made: {error.strerror}"]
        if problems := image_path_problems(job):
            return problems
        code, out, err = self._test(job)
        if code and _NO_NICE in (err or out):
            # Then it is submitted without, too.
            code, out, err = self._test(dataclasses.replace(job, priority=USUAL_PRIORITY))
        if code == 0 or _LATER.search(err or out):  # which is no matter of this job's
            return self._too_few_nodes(job)
        lines = [line.removeprefix("sbatch: ").removeprefix("error: ")
                 for line in (err or out).splitlines() if line.strip()]  # fmt: skip
        said = "; ".join(lines) or f"sbatch ended with {code}"
        return [job.problem("engine", f"Slurm does not take the job: {said}")]

    def _test(self, job: Job) -> tuple[int, str, str]:
        """What sbatch says of a job without submitting it."""
        script = batch_script(job, self._settings, "check", self._shared, self._shared)
        path = self._shared / f"check-{os.getpid()}.sh"
        try:
            path.write_text(script)
            return self._queue.run(["sbatch", "--test-only", str(path)])
        finally:
            path.unlink(missing_ok=True)

    def _too_few_nodes(self, job: Job) -> list[str]:
        """What Slurm does not say: it puts no two components of a job on one node."""
        if (sizes := len(components(job))) == 1:
            return []
        partition = self._settings.partition
        asked = [f"--partition={partition}"] if partition else []
        code, out, _ = self._queue.run(["sinfo", "--noheader", "--Node", "--format=%N", *asked])
        if code or (nodes := len(set(out.split()))) >= sizes:
            return []
        where = f"partition {partition}" if partition else "it"
        text = f"the roles have {sizes} different sizes, and Slurm gives each nodes of its own; "
        return [job.problem("engine", f"{text}{where} has {nodes}")]

    def handle(self, number: int, attempt: int) -> str:
        """See `Engine`."""
        return f"{number}/attempt-{attempt}"

    def name(self, handle: str) -> str:
        """By what Slurm finds a start: readable, and no other start's."""
        return f"drumline-{handle.replace('/attempt-', '-')}-{self._identity}"

    def shared(self, handle: str) -> Path:
        """The folder of a start that all nodes see."""
        return self._shared / handle

    def start(self, start: Start) -> None:
        """See `Engine`."""
        own, shared = self._jobs / start.handle, self.shared(start.handle)
        try:
            own.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = attempt.take_lock(own)
            if lock is None:
                return
            try:
                if (own / _SUBMITTED).exists() and start.handle not in self._absent:
                    return
                self._absent.discard(start.handle)
                self._undecided.pop(start.handle, None)
                self._describe(start, shared)
                self._submit(start, own, shared, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise StartError(f"it cannot be started: {error}") from error

    def _describe(self, start: Start, shared: Path) -> None:
        self._reached("locked")
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = working_copy(start.source, shared.parent)
        self._reached("copied")
        if start.secrets:
            attempt.write(shared / attempt.SECRETS, dict(start.secrets))
        env = attempt.read(start.source.parent / "environment.json") or {}
        env = {name: value for name, value in env.items() if not _LEFT_BEHIND.fullmatch(name)}
        env = start_environment(start, env)
        # Each task does it for itself: mounts are private, and caches are a node's own.
        before = preparation(start.job, shared.parent, shared, work, self._jobs.parent)
        log = Path(RUN, f"launch-{RANK}.log")
        job = in_images(start.job, self.name(start.handle), shared, work, on_nodes=True)
        described = {
            # Each run of a start, after Slurm has requeued it, has a folder of its own.
            "argv": launch_command(job, Path(RUN, "logs"), before, [SIGNALS], log),
            "cwd": str(work),
            "env": env,
            "job": job.to_json(),
        }
        attempt.write(shared / attempt.START, described)
        name = self.name(start.handle)
        script = batch_script(start.job, self._settings, name, shared, work)
        (shared / _SCRIPT).write_text(script)
        self._reached("described")

    def _submit(self, start: Start, own: Path, shared: Path, lock: int) -> None:
        for name in (_OUT, _ERRORS, _CODE):
            (own / name).unlink(missing_ok=True)
        attempt.write(own / _SUBMITTED, {"time": time.time()})
        self._reached("submitting")
        places = [str(own / name) for name in (_OUT, _ERRORS, _CODE)]
        places += [str(shared / name) for name in (_SCRIPT, NOTES)]
        note = json.dumps({"text": _NOT_FIRST.format(start.job.priority)})
        # It holds the lock until Slurm has answered: whoever comes next waits for that.
        start_child(
            ["sh", "-c", _SUBMIT, "sh", *places, note, "sbatch", "--parsable"],
            lock,
            env=command_environment(self._settings),
        )
        self._reached("submitted")

    def poll(self, handle: str) -> Status:
        """See `Engine`."""
        collect_children()
        self._queue.want(self.name(handle))
        at, known = self._polled.get(handle, (-1e9, None))
        if known is not None and time.monotonic() - at < _CHECK_SECONDS:
            return known
        # Each task has written its own, at about the same time.
        notes = tuple(dict.fromkeys(read_notes(self.shared(handle))))
        status = dataclasses.replace(self._status(handle), notes=notes)
        self._polled[handle] = (time.monotonic(), status)
        if status.state in ("ended", "gone", "absent"):
            self._forget(handle)
        return status

    def _forget(self, handle: str) -> None:
        self._queue.forget(self.name(handle))
        for known in (self._polled, self._over, self._cancelled, self._undecided):
            known.pop(handle, None)

    def _status(self, handle: str) -> Status:
        own = self._jobs / handle
        if ended := self._ended(handle):
            return ended
        if not (own / _SUBMITTED).exists():
            return Status("absent")
        if attempt.is_alive(own):
            return Status("starting", None, "is being handed to Slurm")
        code = _number(own / _CODE)
        if code not in (None, 0) and (refused := self._refused(own)):
            return refused
        since = self._undecided.setdefault(handle, time.monotonic())
        answer = self._queue.answer
        if answer is None or answer.asked < since:
            known = self._polled.get(handle)
            return known[1] if known else Status("starting", None, "Slurm is asked for it")
        if answer.problem:
            return Status("lost", None, f"Slurm cannot be asked: {answer.problem}")
        if job := answer.jobs.get(self.name(handle)):
            return self._of_slurm(handle, job)
        if code == 0 or (self.shared(handle) / CLAIM).exists():
            unknown = "Slurm does not know it any more, and it has left no exit code"
            return self._once_files_are_seen(handle, Status("ended", None, unknown))
        self._absent.add(handle)
        return Status("absent")

    def _ended(self, handle: str) -> Status | None:
        """What its own file says."""
        shared = self.shared(handle)
        ended = attempt.read(shared / attempt.EXIT)
        if ended is None:
            return None
        (shared / attempt.SECRETS).unlink(missing_ok=True)
        final = bool(ended.get("final"))
        hung = bool(ended.get("hung"))
        return Status("ended", ended["code"], ended.get("reason", ""), final, hung=hung)

    def _refused(self, own: Path) -> Status | None:
        """What sbatch's error means; None if Slurm may have taken the job all the same."""
        said = (own / _ERRORS).read_text(errors="replace") if (own / _ERRORS).exists() else ""
        lines = [line.removeprefix("sbatch: ").removeprefix("error: ")
                 for line in said.splitlines() if line.strip()]  # fmt: skip
        reason = "; ".join(lines) or "sbatch has failed without a word"
        if UNREACHABLE.search(said):
            return None
        if limit := _LATER.search(said):
            tried = time.time() - (own / _CODE).stat().st_mtime
            if tried < _REFUSED_SECONDS:
                return Status("queued", None, f"Slurm: {limit[0]}: it takes no more of your jobs "
                              "now; asked again every half minute")  # fmt: skip
            return None
        return Status("ended", None, f"Slurm has refused it: {reason}", final=True)

    def _of_slurm(self, handle: str, job: SlurmJob) -> Status:
        if job.state in WAITS:
            self._over.pop(handle, None)
            return Status("queued", None, job.reason)
        if job.state == "CONFIGURING":
            return Status("queued", None, "Slurm: its nodes are being prepared")
        if job.state not in ENDED:
            self._over.pop(handle, None)
            return Status("running")
        said = f"Slurm ended job {job.id}: {job.state}"
        if job.state in ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED"):
            return self._once_files_are_seen(handle, Status("gone", None, said))
        # Someone has ended it by Slurm's own commands, and does not want it started again.
        final = job.state in ("CANCELLED", "DEADLINE")
        return self._once_files_are_seen(handle, Status("ended", None, said, final))

    def _once_files_are_seen(self, handle: str, status: Status) -> Status:
        """`status`, if the job's own file does not come that may be on its way from its host."""
        over = self._over.setdefault(handle, time.monotonic())
        asked = (self.shared(handle) / STOPPING).exists()
        if time.monotonic() - over < _FILE_SECONDS and not asked:
            with contextlib.suppress(OSError):
                list(os.scandir(self.shared(handle)))  # NFS looks again
            return Status("running", None, "Slurm says that it has ended; waits for its exit code")
        (self.shared(handle) / attempt.SECRETS).unlink(missing_ok=True)
        return status

    def cancel(self, handle: str) -> None:
        """See `Engine`.

        The processes get SIGTERM once, all by Slurm, and their launchers do not pass it on.
        """
        answer = self._queue.answer
        job = None if answer is None else answer.jobs.get(self.name(handle))
        asked = self.shared(handle) / STOPPING
        if job is None or job.state in ENDED:
            return
        since = (attempt.read(asked) or {}).get("time")
        if since is None:
            attempt.write(asked, {"time": time.time()})
        hard = job.state in WAITS or (since is not None and time.time() - since > KILL_SECONDS)
        again = time.monotonic() - self._cancelled.get(handle, -1e9) > KILL_SECONDS / 3
        if hard and again:
            self._cancelled[handle] = time.monotonic()
            self._queue.cancel(job.id)
        elif not hard and since is None:
            self._queue.cancel(job.id, "TERM")

    def logs(self, handle: str) -> dict[str, Path]:
        """See `Engine`."""
        found: dict[str, Path] = {}
        runs = sorted(self.shared(handle).glob("run-*"), key=lambda run: int(run.name[4:]))
        for number, run in enumerate(runs):
            again = f".requeue-{number}" if number else ""
            for path in sorted(run.glob("launch-*.log")):
                rank = path.stem.removeprefix("launch-")
                found[f"job{again}{'' if rank == '0' else f'.host-{rank}'}"] = path
            for path in sorted((run / "logs").glob("*-*.log")):
                task, dot, restart = path.stem.partition(".")
                kind, _, index = task.rpartition("-")
                found[f"{kind}:{index}{again}{dot}{restart}"] = path
        found["job.slurm"] = self.shared(handle) / SUBMITTED_LOG
        return {name: path for name, path in found.items() if path.exists()}

    def metrics(self, handle: str) -> tuple[Path, Path]:
        """See `Engine`. Each task has samples of its own, in a file beside those of the start."""
        shared = self.shared(handle)
        return shared.parent / "work", shared

    def claims(self) -> Iterator[tuple[str, str]]:
        """See `Engine`; there are none."""
        return iter(())


def _number(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(path.read_text())
    return None
