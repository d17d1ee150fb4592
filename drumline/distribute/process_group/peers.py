"""The peers of this process: which of them are lost, and the cause of a failure.

`Membership` finds the `FailureCause`, in the order given at `Membership.blame`. A process of the
same machine is looked up in ``/proc`` (`LocalProcess`); `PeerLostError` is what users see.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from typing import Literal

import jax

from drumline import _addresses
from drumline._lost_process import CLOSED, DIED, NO_ANSWER, STOPPED, LostProcess, silent
from drumline._shared_memory import process_namespace
from drumline.distribute.process_group.coordination import Failure, KeyValueStore
from drumline.distribute.process_group.group import ProcessGroup

Condition = Literal["running", "stopped", "dead", "remote"]


@dataclasses.dataclass(frozen=True)
class LocalProcess:
    """A process, by what tells it from all others.

    Attributes:
        machine: the boot of the machine and the namespace in which `pid` counts; empty if unknown.
        pid: the process.
        started: when it started, in the machine's clock ticks.
    """

    machine: str
    pid: int
    started: int

    @classmethod
    def this(cls) -> LocalProcess:
        """The process that asks."""
        pid = os.getpid()
        stat = _stat(pid)
        return cls(_machine(), pid, stat[1] if stat else 0)

    @classmethod
    def from_json(cls, text: str) -> LocalProcess:
        """The process that `to_json` wrote."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """The process as a line of text."""
        return json.dumps(dataclasses.asdict(self))

    def condition(self) -> Condition:
        """Whether it runs, is stopped (as by SIGSTOP) or dead; or is of another machine."""
        if not self.machine or self.machine != _machine():
            return "remote"
        stat = _stat(self.pid)
        if stat is None or stat[0] in "ZXx" or stat[1] != self.started:
            return "dead"
        return "stopped" if stat[0] in "Tt" else "running"


def _machine() -> str:
    try:
        return process_namespace()
    except OSError:  # no /proc, as on macOS: then nothing is known of other processes
        return ""


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


_IP = re.compile(r"\[([0-9a-fA-F.:]+)\]:\d+")
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_DYING_SECONDS = 1.0
_ANSWER_SECONDS = 1.5
_LOOKUP_SECONDS = 1.0
"""For each name: it says who is to blame, for which no process is to wait long."""


@dataclasses.dataclass(frozen=True)
class FailureCause:
    """Who is to blame for a failed collective, and what is known of them.

    Attributes:
        peer: the task, or None if it cannot be said.
        what: the rest of the sentence: "was killed", "failed with ...".
    """

    peer: str | None
    what: str


@dataclasses.dataclass(frozen=True)
class Membership:
    """A process's part in a group of several."""

    group: ProcessGroup
    coordination: KeyValueStore
    processes: list[LocalProcess]
    heartbeat_timeout_seconds: int

    @property
    def others(self) -> list[int]:
        """The other processes' indices."""
        own = self.group.process_index
        return [index for index in range(self.group.num_processes) if index != own]

    def blame(self, error_text: str) -> FailureCause:
        """Who made a collective fail with this error.

        In turn: a process of this machine that is dead, a failure that was reported, a process that
        has ended before the others, process 0 if it does not answer, a stopped process of this
        machine, the only one at the address in the message, the only one that it names, and the
        only one there is.
        """
        timed_out = bool(_TIMED_OUT.search(error_text))
        until = time.monotonic() + _DYING_SECONDS
        while True:  # a process's connections close a moment before it is dead, or has said why
            blame = self._reported() or self._by_condition("dead", DIED)
            if blame or timed_out or time.monotonic() > until:
                break
            time.sleep(0.02)
        return (
            blame
            or self._by_condition("stopped", STOPPED)
            or self._by_address(error_text)
            or self._by_name(error_text, timed_out)
            or self._the_only_other(timed_out)
            or FailureCause(None, NO_ANSWER)
        )

    def silent(self, index: int) -> FailureCause:
        """Who is to blame when process `index` has sent no heartbeat."""
        condition = self.processes[index].condition()
        what = {"dead": DIED, "stopped": STOPPED}.get(
            condition, "was killed or stopped, or its machine or its link is down"
        )
        return FailureCause(
            self.group.tasks[index],
            f"{silent(self.heartbeat_timeout_seconds)}: it {what}",
        )

    def line_ended(self, index: int, is_silent: bool) -> FailureCause:
        """Who is to blame when the connection to process `index` has ended."""
        if is_silent:
            what = f"{NO_ANSWER}: its machine or its link is down"
        elif self.processes[index].condition() == "running":
            what = CLOSED
        else:
            what = DIED
        return FailureCause(self.group.tasks[index], what)

    def lost(self, blame: FailureCause) -> LostProcess:
        """The process to blame, with all that is known of it."""
        seen = f"it {blame.what}"
        if blame.peer is None:
            return LostProcess("One of the peers", seen)
        index = self.group.tasks.index(blame.peer)
        return LostProcess(blame.peer, seen, self.group.addresses[index], self.processes[index].pid)

    def reported(self, failure: Failure) -> FailureCause:
        """The blame that a failure carries."""
        if failure.kind == "peer lost":
            return FailureCause(failure.peer, failure.message)
        return FailureCause(failure.task, f"failed: {failure.message}")

    def who_stands_still(self) -> FailureCause | None:
        """Who has said that it was not in the step that others wait in, if anyone soon does."""
        until = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < until:
            try:
                blame = self._standing()
            except jax.errors.JaxRuntimeError:
                return FailureCause(self.group.tasks[0], f"{NO_ANSWER} any more")
            if blame is not None:
                return blame
            time.sleep(0.02)
        return None

    def _standing(self) -> FailureCause | None:
        standing = self.coordination.standing()
        if not standing:
            return None
        index = min(standing)
        return FailureCause(
            self.group.tasks[index], f"has not come to the step: it is {standing[index]}"
        )

    def _reported(self) -> FailureCause | None:
        own = self.group.task
        try:
            blame = self._standing()
            if blame is not None:
                return blame
            failure = self.coordination.failure()
            if failure is not None and own not in (failure.task, failure.peer):
                return self.reported(failure)
            gone = self.coordination.left() & set(self.others)
        except jax.errors.JaxRuntimeError:
            return FailureCause(self.group.tasks[0], f"{NO_ANSWER} any more")
        if gone:
            return self.ended_early(min(gone))
        return None

    def ended_early(self, index: int) -> FailureCause:
        """The blame of a process that has done its work while a step here waits for it."""
        return FailureCause(
            self.group.tasks[index],
            "has ended (the end of its script, or sys.exit) while this process still computes "
            "with it: all processes must take the same number of steps",
        )

    def _by_condition(self, condition: str, what: str) -> FailureCause | None:
        for index in self.others:
            if self.processes[index].condition() == condition:
                return FailureCause(self.group.tasks[index], what)
        return None

    def _by_address(self, error_text: str) -> FailureCause | None:
        found = _IP.search(error_text)
        if not found:
            return None
        there = [index for index in self.others if found[1] in _ips(self.group.addresses[index])]
        if len(there) != 1:
            return None
        return FailureCause(self.group.tasks[there[0]], f"{CLOSED}: it has ended or died")

    def _by_name(self, error_text: str, timed_out: bool) -> FailureCause | None:
        others = [self.group.tasks[index] for index in self.others]
        named = [task for task in others if re.search(rf"\b{task}\b", error_text)]
        return FailureCause(named[0], _lost(timed_out)) if len(named) == 1 else None

    def _the_only_other(self, timed_out: bool) -> FailureCause | None:
        if len(self.others) != 1:
            return None
        return FailureCause(self.group.tasks[self.others[0]], _lost(timed_out))


def _lost(timed_out: bool) -> str:
    return (
        "did not answer in time" if timed_out else f"{NO_ANSWER}: it has ended, or its link is down"
    )


def _ips(address: str) -> set[str]:
    try:
        found = _addresses.resolve(*_addresses.split(address), _LOOKUP_SECONDS)
        return {str(each.place[0]) for each in found}
    except (OSError, UnicodeError):
        return set()


_SIGNS = re.compile(
    r"[A-Z_]+: .*(?i:gloo|nccl|drumline_all_reduce|coordination ?service"
    r"|stopped sending heartbeats)",
    re.DOTALL,
)


class PeerLostError(RuntimeError):
    """A collective failed because another process of the group ended, stopped or fell silent.

    The group cannot continue: end this process, and restart all from the last checkpoint.

    Attributes:
        peer: the task to blame, as ``"worker:1"``, or None if it could not be found out.
        what: what was seen of the peer, as a sentence without its subject.
        step: the step that failed, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        peer: str | None = None,
        what: str = NO_ANSWER,
        step: int | None = None,
    ) -> None:
        super().__init__(message)
        self.peer = peer
        self.what = what
        self.step = step


def is_about_a_peer(error: BaseException) -> bool:
    """Whether JAX's runtime says that a collective or the coordination of processes failed.

    A collective that fails as it is called, not as it is waited for, comes as a ``ValueError``.
    """
    from_runtime = isinstance(error, (jax.errors.JaxRuntimeError, ValueError))
    return from_runtime and bool(_SIGNS.match(str(error)))
