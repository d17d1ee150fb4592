"""What Slurm says of jobs: asked in the background, since it may take long to say nothing."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from drumline.jobs.engines.slurm.script import SlurmSettings

PERIOD_SECONDS = 2.0
"""Between two questions; one asks for all jobs."""

COMMAND_SECONDS = 30.0
"""How long a command of Slurm's may take."""

_PASSED = {
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "VIRTUAL_ENV"),
    *("PYTHONPATH", "LD_LIBRARY_PATH", "KRB5CCNAME"),
}

UNREACHABLE = re.compile(
    r"unable to contact|connection refused|timed out|temporarily|communication|zero bytes", re.I
)
"""In an error of Slurm's: it says nothing of the job."""

ENDED = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "BOOT_FAIL", "DEADLINE", "REVOKED"),
}
WAITS = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}

_REASONS = {
    "None": "it has just been submitted",
    "Resources": "{cpus} cpus on {nodes} of partition {partition} are not free yet",
    "Priority": "jobs of a higher priority in partition {partition} go first",
    "BeginTime": "not before {start}, as a job that was started before waits a while",
    "Cleaning": "its last start is being cleaned up",
    "ReqNodeNotAvail": "a node that it needs is down or reserved",
    "PartitionDown": "partition {partition} is down",
    "PartitionInactive": "partition {partition} is inactive",
    "PartitionTimeLimit": "its timeout is longer than partition {partition} allows",
    "PartitionNodeLimit": "it needs more than partition {partition} has",
    "BadConstraints": "no node has what it needs",
    "JobHeldUser": "it is held; `scontrol release {id}` lets it go",
    "JobHeldAdmin": "an operator of the cluster holds it",
    "launch_failed_requeued_held": "Slurm could not start it; `scontrol release {id}` tries again",
    "Dependency": "another job has to end first",
    "Licenses": "a license is not free",
    "Reservation": "its reservation has not begun",
}


@dataclasses.dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm knows it.

    Attributes:
        id: Slurm's number of it, that of its first component.
        state: Slurm's word, as ``PENDING``.
        reason: why it waits, in words.
    """

    id: str
    state: str
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class QueueAnswer:
    """What Slurm has said.

    Attributes:
        asked: when, in `time.monotonic` seconds.
        jobs: those it knows, by name.
        problem: why it has not answered, or the empty string.
    """

    asked: float
    jobs: Mapping[str, SlurmJob]
    problem: str = ""


class SlurmQueue:
    """The jobs of a workspace in Slurm.

    Args:
        settings: of the cluster.
        suffix: with which the names of all of them end.
        period: seconds between two questions.

    Attributes:
        answer: the last one, or None.
        environment: with which Slurm's commands run.
    """

    def __init__(
        self, settings: SlurmSettings, suffix: str, period: float = PERIOD_SECONDS
    ) -> None:
        self.answer: QueueAnswer | None = None
        self.environment = command_environment(settings)
        self._suffix = suffix
        self._period = period
        self._wanted: set[str] = set()
        self._asking: concurrent.futures.Future[QueueAnswer] | None = None
        self._pool = concurrent.futures.ThreadPoolExecutor(2, "slurm")

    def want(self, name: str) -> None:
        """Have Slurm asked for a job, again and again; call it often."""
        self._wanted.add(name)
        if self._asking is not None and self._asking.done():
            self.answer = self._asking.result()
            self._asking = None
        last = -1e9 if self.answer is None else self.answer.asked
        if self._asking is None and time.monotonic() - last >= self._period:
            self._asking = self._pool.submit(self._ask, frozenset(self._wanted))

    def forget(self, name: str) -> None:
        """Ask for it no more."""
        self._wanted.discard(name)

    def cancel(self, slurm_id: str, signal: str = "") -> None:
        """Have a job cancelled, or a signal sent to its processes, without waiting for it."""
        options = [f"--signal={signal}"] if signal else []
        self._pool.submit(self.run, ["scancel", *options, slurm_id])

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """A command of Slurm's: its exit code, output and errors."""
        try:
            done = subprocess.run(
                argv, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, errors="replace", timeout=COMMAND_SECONDS, cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, "", f"{argv[0]} has not answered within {COMMAND_SECONDS:g} s"
        except OSError as error:
            return -1, "", f"{argv[0]} cannot be run: {error.strerror}"
        return done.returncode, done.stdout, done.stderr

    def _ask(self, wanted: Collection[str]) -> QueueAnswer:
        asked = time.monotonic()
        form = "%i|%j|%T|%r|%S|%C|%D|%P"
        who = f"--user={os.getuid()}"
        code, out, err = self.run(["squeue", "--noheader", "--states=all", who, f"--format={form}"])
        if code:
            return QueueAnswer(asked, {}, _short(err) or f"squeue has ended with {code}")
        jobs: dict[str, SlurmJob] = {}
        for line in out.splitlines():
            fields = line.split("|")
            if len(fields) == 8 and fields[1].endswith(self._suffix):
                _add(jobs, fields[1], _from_squeue(fields))
        # squeue forgets a job some minutes after its end.
        if missing := sorted(set(wanted) - set(jobs)):
            self._ask_accounting(missing, jobs)
        return QueueAnswer(asked, jobs)

    def _ask_accounting(self, names: Sequence[str], jobs: dict[str, SlurmJob]) -> None:
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 90 * 86400))
        code, out, _ = self.run(
            ["sacct", "--noheader", "--parsable2", "--allocations", f"--name={','.join(names)}"]
            + [f"--starttime={since}", "--format=JobID,JobName,State"]
        )
        # Without accounting there is nothing to be found, and the job's own file is all there is.
        for line in out.splitlines() if code == 0 else ():
            fields = line.split("|")
            if len(fields) == 3 and fields[1] in names:
                state = fields[2].split()[0]  # "CANCELLED by 1000"
                _add(jobs, fields[1], SlurmJob(fields[0], state))


def command_environment(settings: SlurmSettings) -> dict[str, str]:
    """The environment of Slurm's commands: what steers them is not taken from the user's shell."""
    env = {name: value for name, value in os.environ.items() if name in _PASSED}
    if settings.commands:
        env["PATH"] = f"{settings.commands}:{env.get('PATH', os.defpath)}"
    if settings.configuration:
        env["SLURM_CONF"] = settings.configuration
    return env


def found_commands() -> str:
    """The folder of Slurm's commands; empty if they are not installed."""
    found = shutil.which("sbatch")
    return "" if found is None else str(Path(found).parent)


def _add(jobs: dict[str, SlurmJob], name: str, job: SlurmJob) -> None:
    """Of the components of one job its first one, and of two jobs of one name the older one."""
    number, plus, component = job.id.partition("+")
    if plus and component != "0":
        return
    known = jobs.get(name)
    if known is None or int(number) <= int(known.id):
        jobs[name] = dataclasses.replace(job, id=number)


def _from_squeue(fields: Sequence[str]) -> SlurmJob:
    slurm_id, _, state, why, start, cpus, nodes, partition = fields
    if state not in WAITS:
        return SlurmJob(slurm_id, state)
    # "ReqNodeNotAvail, UnavailableNodes:n1"
    known = _REASONS.get(why.partition(",")[0], "")
    values = {
        "id": slurm_id.partition("+")[0],
        "cpus": cpus,
        "nodes": f"{nodes} node{'' if nodes == '1' else 's'}",
        "partition": partition,
        "start": start.partition("T")[2] or start,
    }
    words = known.format(**values)
    said = [part for part in (why if why != "None" else "", words) if part]
    return SlurmJob(slurm_id, state, ": ".join(["Slurm", *said]))


def _short(said: str) -> str:
    """The last line of an error, without the name of the program."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("slurm_load_jobs error: ") if lines else ""
