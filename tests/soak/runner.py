"""Runs a job, undisturbed or with faults, as a scheduler that does nothing but start it again.

The scheduler sees how a launcher ends, and starts the same command again unless it ended with 0.
That is all the attendance a job has: whatever needs more is a defect.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.network_namespaces import TwoHosts, two_hosts
from tests.soak import clock, disk
from tests.soak.faults import Fault
from tests.soak.jobs import FOLDER_VARIABLE, JOB_VARIABLE, ROOT, Folder, Job

End = Literal["identical", "different", "failed", "hung"]
"""The same bits as undisturbed; other ones; no end with 0 however often it was started; no end."""

MOST_STARTS = 8
"""How often the scheduler starts a launcher in all."""
MOST_IN_VAIN = 6
"""How many processes of a task may start, one after another, and take no step that is new."""
HUNG_SECONDS = 420.0
"""A job that has taken no step and started no process for so long is hung. A process waits for five
minutes for one that does not come."""
_PORT = 4000
_SAVE_SECONDS = 30.0
_POLL_SECONDS = 0.02


@dataclasses.dataclass
class Struck:
    """What a fault has done.

    Attributes:
        fault: the fault.
        did: what it did, in words.
        step: the furthest step by then.
        at: when it struck, by ``time.monotonic``.
        lost_seconds: from then to the first step beyond that, or to the end.
    """

    fault: Fault
    did: str
    step: int
    at: float
    lost_seconds: float = 0.0


@dataclasses.dataclass
class Outcome:
    """How a run ended.

    Attributes:
        end: see `End`; an undisturbed run is ``"identical"`` to itself.
        digests: of weights, optimizer, metrics and history, by process, and of the steps.
        struck: the faults that struck; those that came too late are left out.
        seconds: how long it took.
        starts: how often the scheduler started it.
        why: the end of the logs, if it failed or hung.
    """

    end: End
    digests: dict[str, str]
    struck: list[Struck]
    seconds: float
    starts: int
    why: str = ""


def facilities() -> list[str]:
    """What faults can use on this machine: mounts, network namespaces, a C compiler."""
    found = ["mounts"] if disk.can_mount() else []
    try:
        with two_hosts(delay_milliseconds=1):
            found.append("namespaces")
    except pytest.skip.Exception:
        pass
    return found + ["compiler"] * (clock.library() is not None)


def run(
    job: Job,
    faults: Sequence[Fault] = (),
    expected: dict[str, str] | None = None,
    *,
    cache: Path,
    keep: Path | None = None,
) -> Outcome:
    """Run `job` to its end.

    Args:
        job: what to train.
        faults: what happens to it, in order.
        expected: the digests of the undisturbed run; None for that run itself.
        cache: of compiled programs, for all runs.
        keep: where to copy what is left of a run that did not end as expected.
    """
    with tempfile.TemporaryDirectory(prefix="soak-") as place, contextlib.ExitStack() as stack:
        folder = Folder(Path(place))
        if disk.can_mount():
            stack.enter_context(disk.mounted(folder.disk))
        running = stack.enter_context(_running(job, folder, faults, cache))
        outcome = running.to_the_end(faults, expected)
        if keep is not None and outcome.end != "identical":
            shutil.copytree(place, keep, dirs_exist_ok=True)
    return outcome


@dataclasses.dataclass
class Cable:
    """The cable between two hosts: how long a packet takes, in milliseconds."""

    milliseconds: float = 0.0


@contextlib.contextmanager
def _running(job: Job, folder: Folder, faults: Sequence[Fault], cache: Path) -> Iterator[Running]:
    with contextlib.ExitStack() as stack:
        cable, hosts = Cable(), None
        if job.topology == "hosts":
            hosts = stack.enter_context(two_hosts(lambda: cable.milliseconds))
        environment = _environment(job, folder, cache)
        if any(fault.kind == "clock jump" for fault in faults):
            environment |= clock.environment(folder.path / "clock")
        running = Running(job, folder, hosts, environment, cable)
        stack.callback(running.kill)
        yield running


def _environment(job: Job, folder: Folder, cache: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DRUMLINE_", "TF_CONFIG"))}
    return {
        **kept,
        JOB_VARIABLE: job.to_json(),
        FOLDER_VARIABLE: str(folder.path),
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "XDG_CACHE_HOME": str(cache),
        "JAX_COMPILATION_CACHE_DIR": str(cache / "single"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "DRUMLINE_RENDEZVOUS_TOKEN": "of the soak's two hosts",
    }


class Running:
    """A job that runs: a `Target` for faults.

    Args:
        job: the job.
        folder: what it leaves.
        hosts: where it runs, if not here.
        environment: of its launchers.
        cable: sets the delay of the cable between the hosts, in milliseconds.
    """

    def __init__(
        self,
        job: Job,
        folder: Folder,
        hosts: TwoHosts | None,
        environment: dict[str, str],
        cable: Cable,
    ) -> None:
        self.job = job
        self.folder = folder
        self._hosts = hosts
        self._environment = environment
        self._cable = cable
        self._launchers: list[subprocess.Popen[bytes]] = []
        self._starts = 0
        self._hung = False
        self._stirred = (0, 0, time.monotonic())
        self._new_step = (0, 0)

    def to_the_end(self, faults: Sequence[Fault], expected: dict[str, str] | None) -> Outcome:
        """Start the job, have the faults strike, and start it again until it has ended."""
        began = time.monotonic()
        self._start()
        struck: list[Struck] = []
        for fault in faults:
            comes = self._comes(fault, struck)
            self.folder.set_gate(None)
            if not comes:
                break
            at, furthest = time.monotonic(), self._furthest()
            with fault.striking(self) as did:
                passed = at + fault.lasts
                self._run_until(lambda passed=passed: time.monotonic() >= passed)
            if did:
                struck.append(Struck(fault, did, furthest, at))
        self._run_until(lambda: False)
        ended = time.monotonic()
        for each in struck:
            each.lost_seconds = self._recovered(each.step, each.at, ended) - each.at
        digests = self.folder.result()
        end: End = "identical"
        if self._hung or not self._is_done():
            end = "hung" if self._hung else "failed"
        elif expected is not None and digests != expected:
            end = "different"
        why = "" if end == "identical" else self._last_words()
        return Outcome(end, digests, struck, ended - began, self._starts, why)

    def signal(self, task: str, number: int) -> bool:
        """See `Target`."""
        pid = self.folder.pids().get(task)
        try:
            if (
                pid is None
                or b"tests.soak.training" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                return False
            os.kill(pid, number)
        except OSError:  # it has ended
            return False
        return True

    def signal_launcher(self, host: int, number: int) -> bool:
        """See `Target`."""
        launcher = self._launchers[host]
        if launcher.poll() is not None:
            return False
        launcher.send_signal(number)
        return True

    def set_link(self, host: int, up: bool) -> None:
        """See `Target`."""
        assert self._hosts is not None
        if up:
            self._hosts.link_up(host)
        else:
            self._hosts.link_down(host)

    def set_delay(self, milliseconds: float) -> None:
        """See `Target`."""
        self._cable.milliseconds = milliseconds

    def set_clock(self, seconds: int) -> None:
        """See `Target`."""
        clock.move(self.folder.path / "clock", seconds)

    def kill(self) -> None:
        """Leave nothing running."""
        for launcher in self._launchers:
            if launcher.poll() is None:
                launcher.kill()
            launcher.wait()

    def _start(self) -> None:
        self._starts += 1
        hosts = 1 if self._hosts is None else 2
        self._launchers = [self._launch(host) for host in range(hosts)]

    def _launch(self, host: int) -> subprocess.Popen[bytes]:
        logs = self.folder.path / f"logs-{host}-{self._starts}"
        where = f"{self._hosts.addresses[0]}:{_PORT + self._starts}" if self._hosts else ""
        command = self.job.command(logs, host, where)
        with (self.folder.path / f"launcher-{host}-{self._starts}.log").open("wb") as output:
            popen: dict[str, Any] = {"stdout": output, "stderr": subprocess.STDOUT, "cwd": ROOT}
            if self._hosts is not None:
                return self._hosts.run(host, command, self._environment, **popen)
            return subprocess.Popen(command, env=self._environment, **popen)

    def _is_done(self) -> bool:
        return all(launcher.poll() == 0 for launcher in self._launchers)

    def _has_failed(self) -> bool:
        """Whether the scheduler has to start it again, or would have to once too often."""
        ends = [launcher.poll() for launcher in self._launchers]
        return None not in ends and any(ends)

    def _run_until(self, ready: Callable[[], bool], poll: float = _POLL_SECONDS) -> bool:
        """Attend to the job until `ready`, or its end. Returns whether it was ready."""
        while not ready():
            if self._is_done() or self._is_hung() or self._is_in_vain():
                return False
            if self._has_failed():
                if self._starts == MOST_STARTS:
                    return False
                self._start()
            time.sleep(poll)
        return True

    def _is_hung(self) -> bool:
        now = time.monotonic()
        signs = (len(self.folder.steps()), self.folder.starts() + self._starts)
        if signs != self._stirred[:2]:
            self._stirred = (*signs, now)
        self._hung = now - self._stirred[2] > HUNG_SECONDS
        return self._hung

    def _is_in_vain(self) -> bool:
        """Whether it starts again and again and comes no further: then a person is needed."""
        furthest = self._furthest()
        starts = self.folder.starts() // len(self.job.tasks)
        if furthest > self._new_step[0]:
            self._new_step = (furthest, starts)
        return starts - self._new_step[1] > MOST_IN_VAIN

    def _comes(self, fault: Fault, struck: Sequence[Struck]) -> bool:
        """Wait for the fault's moment. Returns whether it came before the job's end."""
        if fault.moment == "start" and struck:
            due = struck[-1].at + struck[-1].fault.lasts + fault.seconds
            return self._run_until(lambda: time.monotonic() >= due)
        if struck:  # the job is to be past the fault before
            last = struck[-1]
            if not self._run_until(lambda: self._furthest() > last.step):
                return False
        # The job does not run past the moment while this process waits for a turn of its own.
        step = max(fault.step, self._furthest())
        self.folder.set_gate(step + 1 + (self.job.save_every if fault.moment == "save" else 1))
        if not self._run_until(lambda: self._furthest() > step):
            return False
        if fault.moment == "save":
            until = time.monotonic() + _SAVE_SECONDS
            place = self.folder.disk
            return self._run_until(lambda: disk.saving(place) or time.monotonic() > until, 0.0005)
        return True

    def _furthest(self) -> int:
        return max((step.number for step in self.folder.steps()), default=0)

    def _recovered(self, step: int, at: float, ended: float) -> float:
        """When the job was for the first time beyond what it had reached before a fault."""
        times = [each.time for each in self.folder.steps() if each.number > step and each.time > at]
        return min(times, default=ended)

    def _last_words(self) -> str:
        logs = sorted(self.folder.path.glob("launcher-*.log"), key=lambda log: log.stat().st_mtime)
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in logs[-2:])
