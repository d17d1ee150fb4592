"""What can happen to a job: the kinds of faults, when they strike, and how they pass.

A fault strikes through the `Target` that the runner gives it, and passes by itself or after some
seconds. Nothing here heals the job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Protocol

from tests.soak import disk
from tests.soak.jobs import Folder, Job

Moment = Literal["step", "save", "start"]
"""After a step; in the next save after one; some seconds after the fault before, whatever the job
does then: it is mostly starting again."""


class Target(Protocol):
    """A running job, as faults see it."""

    job: Job
    folder: Folder

    def signal(self, task: str, number: int) -> bool:
        """Send a signal to a process of the job; whether it was there."""

    def signal_launcher(self, host: int, number: int) -> bool:
        """Send one to a launcher; whether it was there."""

    def set_link(self, host: int, up: bool) -> None:
        """Take a host's network interface down, or up."""

    def set_delay(self, milliseconds: float) -> None:
        """Delay every packet between the hosts."""

    def set_clock(self, seconds: int) -> None:
        """Have the clocks of all processes of the job show so many seconds more than it is."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault of a run.

    Attributes:
        kind: a key of `KINDS`.
        moment: see `Moment`.
        step: the step after which, for moments of the job.
        seconds: after the last fault, for ``"start"``.
        task: the process that it hits.
        host: the host that it hits.
        lasts: seconds until it passes.
        seed: of what else is random in it.
    """

    kind: str
    moment: Moment
    step: int
    seconds: float
    task: str
    host: int
    lasts: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """For the record."""
        return dataclasses.asdict(self)

    @contextlib.contextmanager
    def striking(self, target: Target) -> Iterator[str]:
        """The fault for the length of the block; gives what it did, which is empty if nothing."""
        with KINDS[self.kind].strike(self, target) as said:
            yield said


Strike = Callable[[Fault, Target], "contextlib.AbstractContextManager[str]"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        strike: what it does; the block it makes lasts as long as the fault.
        needs: ``"mounts"``, ``"namespaces"`` or ``"compiler"``, if it takes one of these.
        lasts: seconds that it lasts, at least and at most.
        fits: whether it can happen to a job.
        in_save: whether it may be aimed at a save.
    """

    strike: Strike
    needs: str = ""
    lasts: tuple[float, float] = (0.0, 0.0)
    fits: Callable[[Job], bool] = lambda job: True
    in_save: bool = True


def _sending(number: int) -> Strike:
    @contextlib.contextmanager
    def strike(fault: Fault, target: Target) -> Iterator[str]:
        sent = target.signal(fault.task, number)
        yield f"{signal.Signals(number).name} to {fault.task}" if sent else ""

    return strike


@contextlib.contextmanager
def _pause(fault: Fault, target: Target) -> Iterator[str]:
    sent = target.signal(fault.task, signal.SIGSTOP)
    yield f"{fault.task} paused" if sent else ""
    if sent:
        target.signal(fault.task, signal.SIGCONT)


@contextlib.contextmanager
def _kill_all(fault: Fault, target: Target) -> Iterator[str]:
    yield ", ".join(task for task in target.job.tasks if target.signal(task, signal.SIGKILL))


def _sending_to_launcher(number: int) -> Strike:
    @contextlib.contextmanager
    def strike(fault: Fault, target: Target) -> Iterator[str]:
        sent = target.signal_launcher(fault.host, number)
        name = signal.Signals(number).name
        yield f"{name} to the launcher of host {fault.host}" if sent else ""

    return strike


@contextlib.contextmanager
def _link_down(fault: Fault, target: Target) -> Iterator[str]:
    target.set_link(fault.host, up=False)
    try:
        yield f"the link of host {fault.host} down for {fault.lasts:.0f} s"
    finally:
        target.set_link(fault.host, up=True)


@contextlib.contextmanager
def _delay(fault: Fault, target: Target) -> Iterator[str]:
    milliseconds = random.Random(fault.seed).choice([20, 100, 400])
    target.set_delay(milliseconds)
    try:
        yield f"{milliseconds} ms a packet for {fault.lasts:.0f} s"
    finally:
        target.set_delay(0)


@contextlib.contextmanager
def _full_disk(fault: Fault, target: Target) -> Iterator[str]:
    disk.fill(target.folder.disk)
    try:
        yield f"the disk full for {fault.lasts:.0f} s"
    finally:
        disk.empty(target.folder.disk)


@contextlib.contextmanager
def _read_only(fault: Fault, target: Target) -> Iterator[str]:
    with disk.read_only(target.folder.disk):
        yield f"the disk read-only for {fault.lasts:.0f} s"


@contextlib.contextmanager
def _damaged(fault: Fault, target: Target) -> Iterator[str]:
    """A machine that failed in a write: the process is gone, and a file is not what it was."""
    for task in target.job.tasks:
        target.signal(task, signal.SIGSTOP)  # so that nothing writes meanwhile
    said = disk.damage(target.folder.disk, random.Random(fault.seed))
    killed = [task for task in target.job.tasks if target.signal(task, signal.SIGKILL)]
    yield said if killed else ""


@contextlib.contextmanager
def _clock(fault: Fault, target: Target) -> Iterator[str]:
    hours = random.Random(fault.seed).choice([3, -2, 1000, -9000, 0.01, -0.01])
    target.set_clock(int(hours * 3600))
    yield f"the clock jumps by {hours} h"


def _has_hosts(job: Job) -> bool:
    return job.topology == "hosts"


KINDS: Mapping[str, Kind] = {
    "kill": Kind(_sending(signal.SIGKILL)),
    "kill all": Kind(_kill_all),
    "term": Kind(_sending(signal.SIGTERM)),
    "stop": Kind(_sending(signal.SIGSTOP), fits=lambda job: job.has_several_processes),
    "pause": Kind(_pause, lasts=(1, 5)),
    "preempt": Kind(_sending_to_launcher(signal.SIGTERM)),
    "kill launcher": Kind(_sending_to_launcher(signal.SIGKILL)),
    "link down": Kind(_link_down, "namespaces", (1, 12), _has_hosts, in_save=False),
    "delay": Kind(_delay, "namespaces", (3, 8), _has_hosts, in_save=False),
    "full disk": Kind(_full_disk, "mounts", (2, 8)),
    "read-only disk": Kind(_read_only, "mounts", (2, 8)),
    "damaged file": Kind(_damaged, "mounts", in_save=False),
    "clock jump": Kind(_clock, "compiler", in_save=False),
}


def plan(job: Job, draw: random.Random, has: Iterable[str], most: int = 4) -> list[Fault]:
    """The faults of a run of `job`, in order: from one to `most`.

    Args:
        job: what they happen to.
        draw: where all that is random comes from.
        has: what this machine has of ``"mounts"``, ``"namespaces"`` and ``"compiler"``.
        most: how many there may be.
    """
    able = {"", *has}
    kinds = [name for name, each in KINDS.items() if each.needs in able and each.fits(job)]
    steps = sorted(draw.randrange(job.total_steps - 1) for _ in range(draw.randint(1, most)))
    faults: list[Fault] = []
    for number, step in enumerate(steps):
        name = draw.choice(kinds)
        kind = KINDS[name]
        moments: list[Moment] = ["step", "step"]
        moments += ["save"] * kind.in_save + ["start"] * (number > 0 and kind.in_save)
        faults.append(
            Fault(
                kind=name,
                moment=draw.choice(moments),
                step=step,
                seconds=draw.uniform(0, 10),
                task=draw.choice(job.tasks),
                host=draw.randrange(2) if _has_hosts(job) else 0,
                lasts=draw.uniform(*kind.lasts),
                seed=draw.randrange(1 << 30),
            )
        )
    return faults
