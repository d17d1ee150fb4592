"""This process's part in a group: what it is told of the others, and whom it blames."""

from __future__ import annotations

import dataclasses
import re
import socket
import time

import jax

from drumline.distribute.processes import addresses
from drumline.distribute.processes.coordination import Coordination, Failure
from drumline.distribute.processes.group import ProcessGroup
from drumline.distribute.processes.local_process import LocalProcess

_IP = re.compile(r"\[([0-9a-fA-F.:]+)\]:\d+")
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_DYING_SECONDS = 1.0
_ANSWER_SECONDS = 1.5


@dataclasses.dataclass(frozen=True)
class Blame:
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
    coordination: Coordination
    processes: list[LocalProcess]
    heartbeat_timeout_seconds: int

    @property
    def others(self) -> list[int]:
        """The other processes' indices."""
        own = self.group.process_index
        return [index for index in range(self.group.num_processes) if index != own]

    def blame(self, error_text: str) -> Blame:
        """Who made a collective fail with this error.

        In turn: a process of this machine that is dead, a failure that was told, a process that
        has ended before the others, process 0 if it does not answer, a stopped process of this
        machine, the only one at the address in the message, the only one that it names, and the
        only one there is.
        """
        timed_out = bool(_TIMED_OUT.search(error_text))
        until = time.monotonic() + _DYING_SECONDS
        while True:  # a process's connections close a moment before it is dead, or has said why
            blame = self._told() or self._by_condition("dead", "has died (killed, or aborted)")
            if blame or timed_out or time.monotonic() > until:
                break
            time.sleep(0.02)
        return (
            blame
            or self._by_condition("stopped", "is stopped (SIGSTOP, a debugger)")
            or self._by_address(error_text)
            or self._by_name(error_text, timed_out)
            or self._the_only_other(timed_out)
            or Blame(None, "gave no answer")
        )

    def silent(self, index: int) -> Blame:
        """Who is to blame when process `index` has sent no heartbeat."""
        condition = self.processes[index].condition()
        what = {"dead": "has died (killed, or aborted)", "stopped": "is stopped (SIGSTOP)"}.get(
            condition, "was killed or stopped, or its machine or its link is down"
        )
        return Blame(
            self.group.tasks[index],
            f"has sent no heartbeat for {self.heartbeat_timeout_seconds} s: it {what}",
        )

    def line_ended(self, index: int, silent: bool) -> Blame:
        """Who is to blame when the connection to process `index` has ended."""
        if silent:
            what = "does not answer: its machine or its link is down"
        elif self.processes[index].condition() == "running":
            what = "has closed its connection"
        else:
            what = "has died (killed, or aborted)"
        return Blame(self.group.tasks[index], what)

    def sentence(self, blame: Blame) -> str:
        """`blame` in words, with the peer's address."""
        if blame.peer is None:
            return f"One of the peers {blame.what}"
        index = self.group.tasks.index(blame.peer)
        return f"{self.group.describe(index)} {blame.what}"

    def told(self, failure: Failure) -> Blame:
        """The blame that a failure carries."""
        if failure.kind == "peer lost":
            return Blame(failure.peer, failure.message)
        return Blame(failure.task, f"failed: {failure.message}")

    def who_stands_still(self) -> Blame | None:
        """Who has said that it was not in the step that others wait in, if anyone soon does."""
        until = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < until:
            try:
                blame = self._standing()
            except jax.errors.JaxRuntimeError:
                return Blame(self.group.tasks[0], "does not answer any more")
            if blame is not None:
                return blame
            time.sleep(0.02)
        return None

    def _standing(self) -> Blame | None:
        standing = self.coordination.standing()
        if not standing:
            return None
        index = min(standing)
        return Blame(self.group.tasks[index], f"has not come to the step: it is {standing[index]}")

    def _told(self) -> Blame | None:
        own = self.group.task
        try:
            blame = self._standing()
            if blame is not None:
                return blame
            failure = self.coordination.failure()
            if failure is not None and own not in (failure.task, failure.peer):
                return self.told(failure)
            gone = self.coordination.left() & set(self.others)
        except jax.errors.JaxRuntimeError:
            return Blame(self.group.tasks[0], "does not answer any more")
        if gone:
            return self.ended_early(min(gone))
        return None

    def ended_early(self, index: int) -> Blame:
        """The blame of a process that has done its work while a step here waits for it."""
        return Blame(
            self.group.tasks[index],
            "has ended (the end of its script, or sys.exit) while this process still computes "
            "with it: all processes must take the same number of steps",
        )

    def _by_condition(self, condition: str, what: str) -> Blame | None:
        for index in self.others:
            if self.processes[index].condition() == condition:
                return Blame(self.group.tasks[index], what)
        return None

    def _by_address(self, error_text: str) -> Blame | None:
        found = _IP.search(error_text)
        if not found:
            return None
        there = [index for index in self.others if found[1] in _ips(self.group.addresses[index])]
        if len(there) != 1:
            return None
        return Blame(self.group.tasks[there[0]], "closed its connection: it has ended or died")

    def _by_name(self, error_text: str, timed_out: bool) -> Blame | None:
        others = [self.group.tasks[index] for index in self.others]
        named = [task for task in others if re.search(rf"\b{task}\b", error_text)]
        return Blame(named[0], _lost(timed_out)) if len(named) == 1 else None

    def _the_only_other(self, timed_out: bool) -> Blame | None:
        if len(self.others) != 1:
            return None
        return Blame(self.group.tasks[self.others[0]], _lost(timed_out))


def _lost(timed_out: bool) -> str:
    return "did not answer in time" if timed_out else "is lost"


def _ips(address: str) -> set[str]:
    try:
        return {str(place[4][0]) for place in socket.getaddrinfo(*addresses.split(address))}
    except OSError:
        return set()
