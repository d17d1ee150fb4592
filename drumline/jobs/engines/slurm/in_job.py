"""What runs on the nodes: the program of the batch script, and that of each task.

The batch program starts a step for each component, waits for them, and says in `exit.json` how the
run has ended, or has Slurm requeue it. It says nothing where Slurm ends the job: then that is to be
asked. A task puts its rank into the launcher's command line and becomes the launcher.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.engines.launchers import (
    LONELY_SECONDS,
    SIGNALLED,
    launcher_log,
    results_in,
    verdict,
)
from drumline.jobs.engines.launching import KILL_SECONDS, RANK, RENDEZVOUS, filled
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.preparing import not_uploaded
from drumline.jobs.engines.slurm.engine import CLAIM, STOPPING
from drumline.jobs.engines.slurm.queue import UNREACHABLE
from drumline.jobs.engines.slurm.script import (
    IN_JOB,
    RUN,
    SAMPLER,
    SIGNALS,
    TASK,
    WARNED_SECONDS,
    components,
    step_command,
)
from drumline.jobs.file.model import Job
from drumline.jobs.launch.environment import LAUNCHERS_TOKEN_VARIABLE, Ports
from drumline.jobs.metrics.usage import USAGE, UsageSampler, processes_file
from drumline.jobs.sources.preparation import NOT_UPLOADED

_SHORTEST_SECONDS = 5.0  # One that asks to be started again sooner has failed.
_PERIOD_SECONDS = 0.1
_NEAR_SECONDS = 125.0
"""A signal of Slurm's that comes with no more time left than that warns of the limit."""


_CONTROLLER_SECONDS = 300.0
"""How long Slurm's controller may be away when a job needs it to start its steps or be requeued."""

_PAUSE_SECONDS = 2.0


class SlurmStep:
    """The tasks of a component.

    srun needs the controller to begin, and gives up without one. It is tried again then, as long as
    none of its tasks has begun.

    Args:
        command: the srun.
        environment: of the command.
        logs: a file for each task, which it makes when it begins.

    Attributes:
        returncode: of the srun that was the last one; None until that has ended.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], logs: Sequence[Path]
    ) -> None:
        self.returncode: int | None = None
        self._command = command
        self._environment = environment
        self._logs = logs
        self._until = time.monotonic() + _CONTROLLER_SECONDS
        self._next_look = 0.0
        # srun fails without a word of its own, and the controller may be there again since.
        self._unexplained = 1
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stdin=subprocess.DEVNULL)

    def poll(self, ending: bool) -> int | None:
        """Look after it, and return its exit code if it has ended.

        Args:
            ending: the job is to end, so that nothing is started again.
        """
        if self.returncode is not None:
            return self.returncode
        code, now = self._process.poll(), time.monotonic()
        if not code or ending or now > self._until or any(log.exists() for log in self._logs):
            self.returncode = code
        elif now >= self._next_look:
            if _controller_is_away(self._environment["SLURM_JOB_ID"]):
                self._next_look, self._unexplained = now + _PAUSE_SECONDS, 1
            elif self._unexplained:
                self._unexplained -= 1
                self._process = self._start()
            else:
                self.returncode = code
        return self.returncode

    def kill(self) -> None:
        """End the srun."""
        self._process.kill()


class BatchRun:
    """One run of a start: from the batch script's beginning to its end.

    Args:
        folder: the attempt's.
        environment: of the batch script.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._id = environment["SLURM_JOB_ID"]
        self._signalled = False
        self._asked = ""
        self._began = time.monotonic()

    def run(self) -> int:
        """Run it, and return the exit code of the batch script."""
        signal.signal(signal.SIGTERM, self._note_signal)
        if not self._claim():
            _say(f"another job than {self._id} is this start of the job already: nothing is done")
            return 1
        if ended := attempt.read(self._folder / attempt.EXIT):
            _say("this start of the job has ended before Slurm requeued it")
            return int(ended["code"] or 0)
        start = attempt.read(self._folder / attempt.START)
        assert start is not None
        job = Job.from_json(start["job"])
        run = self._run_folder()
        if (self._folder / STOPPING).exists():
            return self._ended(128 + signal.SIGTERM, "cancelled before it had started")
        steps = components(job)
        self._wait_for_controller()
        host = _own_address(self._environment)
        ports = Ports(host, 1)
        env = {
            **self._environment,
            LAUNCHERS_TOKEN_VARIABLE: secrets.token_hex(32),
        }
        signals = "shared" if _signals_reach_all() else "passed"
        try:
            running = []
            for number, step in enumerate(steps):
                group = number if len(steps) > 1 else None
                told = (str(run), str(step.first), ports.addresses[0], signals)
                task = [*IN_JOB, TASK, str(self._folder), *told]
                command = step_command(step, group, task)
                logs = [launcher_log(run, step.first + i) for i in range(step.tasks)]
                running.append(SlurmStep(command, env, logs))
            self._wait(running, job.timeout)
        finally:
            ports.close()
        return self._conclude(run, [step.returncode or 0 for step in running], job)

    def _note_signal(self, signum: int, frame: object) -> None:
        self._signalled = True

    def _claim(self) -> bool:
        """Whether this Slurm job is the attempt: the first one is, and no other ever."""
        mine = {"id": self._id}
        partial = self._folder / f"claim-{self._id}"
        attempt.write(partial, mine)
        with contextlib.suppress(FileExistsError):
            os.link(partial, self._folder / CLAIM)
        partial.unlink()
        return attempt.read(self._folder / CLAIM) == mine

    def _run_folder(self) -> Path:
        number = len(list(self._folder.glob("run-*")))
        run = self._folder / f"run-{number}"
        run.mkdir(mode=0o700)
        return run

    def _wait_for_controller(self) -> None:
        """Without it neither are nodes found nor steps begun."""
        until = time.monotonic() + _CONTROLLER_SECONDS
        while not self._signalled and time.monotonic() < until and _controller_is_away(self._id):
            time.sleep(2)

    def _wait(self, steps: Sequence[SlurmStep], timeout: float | None) -> None:
        asked_at = failed_at = None
        while None in [step.poll(self._signalled or bool(self._asked)) for step in steps]:
            now = time.monotonic()
            if failed_at is None and any(step.returncode for step in steps):
                failed_at = now
            if not self._asked and timeout is not None and now - self._began > timeout:
                self._ask("timeout")
            if not self._asked and failed_at is not None and now - failed_at > LONELY_SECONDS:
                self._ask("failure")
            if self._asked and asked_at is None:
                asked_at = now
            if asked_at is not None and now - asked_at > KILL_SECONDS:
                _say("processes have not ended in time: Slurm ends them with the job")
                for step in steps:
                    step.kill()
            time.sleep(_PERIOD_SECONDS)

    def _ask(self, why: str) -> None:
        self._asked = why
        _say(f"the processes are asked to end: {why}")
        _slurm("scancel", "--signal=TERM", self._id)

    def _conclude(self, run: Path, codes: Sequence[int], job: Job) -> int:
        results = results_in(run)
        code, reason = verdict(results, codes, run)
        lasted = time.monotonic() - self._began
        _say(f"ended with {code} after {lasted:.0f} s: {reason or 'done'}")
        if code == 0 and not_uploaded(self._folder):
            # Its launcher has ended well, and what uploads was killed.
            return self._ended(NOT_UPLOADED, "what was written is not uploaded yet")
        if code == 0:
            return self._ended(0, "")
        if (self._folder / STOPPING).exists():
            return self._ended(code, reason)
        if self._asked == "timeout":
            limit = f"it ran longer than its timeout, {job.timeout:g} s"
            return self._ended(code, limit, final=True)
        if self._signalled:
            _say("Slurm ends this job, and knows why")
            return code
        # One that was killed without a warning, as for want of memory, would be so again and again.
        warned = code == SIGNALLED + signal.SIGTERM and not self._asked
        if warned and (left := _seconds_left(self._id)) is not None and left < _NEAR_SECONDS:
            return self._ended(
                code,
                f"Slurm's time limit was near, and the processes have ended without saving "
                f"(SIGTERM came {WARNED_SECONDS} s before it)",
            )
        if code == RESTART_STATUS and lasted < _SHORTEST_SECONDS:
            return self._ended(
                1, f"it has asked to be started again after {lasted:.0f} s, in which it can "
                "hardly have trained"
            )  # fmt: skip
        if code == RESTART_STATUS or (warned and lasted > _SHORTEST_SECONDS):
            return self._requeue(code, reason)
        return self._ended(code, reason, hung=any(each.get("hung") for each in results.values()))

    def _requeue(self, code: int, reason: str) -> int:
        until = time.monotonic() + _CONTROLLER_SECONDS
        while True:
            done = _slurm("scontrol", "requeue", self._id)
            away = done.returncode and UNREACHABLE.search(done.stderr + done.stdout)
            if not away or self._signalled or time.monotonic() > until:
                break
            time.sleep(2)
        if self._signalled:
            return code
        if done.returncode:
            _say(f"Slurm does not requeue it: {' '.join(done.stderr.split())}")
            # drumline starts it again itself, as another attempt.
            return self._ended(RESTART_STATUS, reason)
        _say("requeued")
        # Slurm ends this script now.
        for _ in range(600):
            if self._signalled:
                break
            time.sleep(_PERIOD_SECONDS)
        return code

    def _ended(self, code: int, reason: str, final: bool = False, hung: bool = False) -> int:
        ended = {"code": code, "reason": reason, "final": final, "hung": hung, "time": time.time()}
        attempt.write(self._folder / attempt.EXIT, ended)
        (self._folder / attempt.SECRETS).unlink(missing_ok=True)
        # Slurm takes what is above for a signal.
        return code if 0 <= code <= 255 else 1


def _say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} drumline: {text}", flush=True)


def _slurm(*argv: str) -> subprocess.CompletedProcess[str]:
    """What one of Slurm's commands says."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def _controller_is_away(job: str) -> bool:
    """Whether Slurm's controller does not answer when it is asked for a job, by its number."""
    said = _slurm("scontrol", "--oneliner", "show", "job", job)
    return bool(said.returncode and UNREACHABLE.search(said.stderr + said.stdout))


def _signals_reach_all() -> bool:
    """Whether Slurm's signals reach all processes of a step, and not a process group alone."""
    found = re.search(r"^ProctrackType\s*=\s*(\S+)", _slurm("scontrol", "show", "config").stdout,
                      re.M)  # fmt: skip
    return found is None or found[1] != "proctrack/pgid"


def _seconds_left(slurm_id: str) -> float | None:
    """How long Slurm lets the job run on, or None where there is no limit."""
    said = _slurm("squeue", "--noheader", f"--jobs={slurm_id}", "--format=%L").stdout.split()
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", said[0]) if said else None
    if found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _own_address(environment: Mapping[str, str]) -> str:
    """The address of this host at which the job's other hosts reach it.

    It is the one from which this host reaches another: names of hosts need not be known to all, and
    a host's own name is often one of loopback's on itself.
    """
    listed = {environment["SLURM_JOB_NODELIST"]} | {
        value for name, value in environment.items()
        if name.startswith("SLURM_JOB_NODELIST_HET_GROUP_")
    }  # fmt: skip
    names = _slurm("scontrol", "show", "hostnames", ",".join(sorted(listed))).stdout.split()
    others = [name for name in names if name != environment.get("SLURMD_NODENAME")]
    if not others:
        return "127.0.0.1"
    shown = _slurm("scontrol", "--oneliner", "show", "node", others[0]).stdout
    found = re.search(r"\bNodeAddr=(\S+)", shown)
    place = found[1] if found else others[0]
    family, kind, _, _, address = socket.getaddrinfo(place, 9, type=socket.SOCK_DGRAM)[0]
    with contextlib.closing(socket.socket(family, kind)) as probe:
        probe.connect(address)  # Nothing is sent.
        return str(probe.getsockname()[0])


def batch(arguments: Sequence[str]) -> NoReturn:
    """The program of the batch script: the attempt's folder."""
    (folder,) = arguments
    sys.exit(BatchRun(Path(folder), os.environ).run())


def task(arguments: Sequence[str]) -> NoReturn:
    """The program of a task.

    Its arguments are the attempt's folder, the run's, its component's first rank, the address of
    the rendezvous, and whether Slurm's signals are ``shared`` or must be ``passed`` on.
    """
    folder, run = Path(arguments[0]), Path(arguments[1])
    first, rendezvous, signals = arguments[2:]
    rank = int(first) + int(os.environ["SLURM_PROCID"])
    start = attempt.read(folder / attempt.START)
    assert start is not None
    values = {RANK: str(rank), RENDEZVOUS: rendezvous, RUN: str(run), SIGNALS: "--shared-signals"}
    own = len(start["argv"]) - len(Job.from_json(start["job"]).command)
    wanted = [word for word in start["argv"][:own] if word != SIGNALS or signals == "shared"]
    argv = [filled(word, values) for word in wanted] + start["argv"][own:]
    env = {**start["env"], **(attempt.read(folder / attempt.SECRETS) or {})}
    env |= {name: value for name, value in os.environ.items() if _of_the_node(name)}
    # Empty where Slurm has given the task none: it must not take another job's.
    env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    log = os.open(launcher_log(run, rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(start["cwd"])
    logs = run / "logs"
    processes = logs / processes_file(int(rank))
    samples = folder / f"{Path(USAGE).stem}-{run.name}-{rank}.jsonl"
    words = [*IN_JOB, SAMPLER, str(samples), str(processes), str(os.getpid())]
    subprocess.Popen(words, stdin=subprocess.DEVNULL)
    os.execvpe(argv[0], argv, env)


def sampler(arguments: Sequence[str]) -> None:
    """The program beside a task, which samples what its processes use until it ends.

    Its arguments are the file for the samples, that with the processes, and the task's number.
    """
    # Slurm's signals are for the task, with which this ends.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    samples, processes, task_pid = arguments
    usage = UsageSampler(Path(samples), Path(processes))
    with contextlib.suppress(ProcessLookupError):
        ended = os.pidfd_open(int(task_pid))
        while not select.select([ended], [], [], usage.seconds)[0]:
            usage.sample()


def _of_the_node(name: str) -> bool:
    return name.startswith(("SLURM_", "SLURMD_")) or name in (
        *("TMPDIR", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "XDG_RUNTIME_DIR"),
        LAUNCHERS_TOKEN_VARIABLE,
    )
