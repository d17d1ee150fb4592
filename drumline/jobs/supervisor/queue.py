"""Which jobs start now, which must give way, and why the others wait: a pure function.

Rules, in this order:

1. The highest priority goes first, and of equals the one that was submitted first.
2. A job that does not fit asks those of lower priority that run to save and give way, the lowest
   and youngest first, and only as many as are needed.
3. What a member's running jobs may hold together is kept to: those that would exceed it wait, and
   others pass them.
4. Otherwise it waits, and what it needs is set aside. A later job may start before it only with
   what is left beside all that run *and* all that is set aside: it can delay none, however soon a
   running job ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from drumline.jobs.file.model import RESOURCES, amount
from drumline.jobs.supervisor.limits import MemberLimits

Amounts = Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Queued:
    """A job that waits: its number, its priority, and what it needs by the names in `RESOURCES`.

    Of a server, also the member who has submitted it.
    """

    id: int
    priority: int
    needs: Amounts
    member: str = ""


@dataclasses.dataclass(frozen=True)
class Held:
    """A job that holds what it needs: it runs, or is about to end (`stopping`)."""

    id: int
    priority: int
    needs: Amounts
    stopping: bool = False


@dataclasses.dataclass
class Decisions:
    """What is to be done.

    Attributes:
        start: numbers of jobs, in order.
        preempt: those that must give way, with the job for which they do.
        reasons: of those that wait.
        impossible: reasons of those that this machine can never run.
    """

    start: list[int] = dataclasses.field(default_factory=list)
    preempt: dict[int, int] = dataclasses.field(default_factory=dict)
    reasons: dict[int, str] = dataclasses.field(default_factory=dict)
    impossible: dict[int, str] = dataclasses.field(default_factory=dict)


def decide(
    waiting: Iterable[Queued],
    held: Sequence[Held],
    capacity: Amounts,
    limits: MemberLimits | None = None,
) -> Decisions:
    """Decide for all jobs at once.

    Args:
        waiting: in any order.
        held: what runs, or is being stopped.
        capacity: what the machine has, by the names in `RESOURCES`.
        limits: what members' jobs may hold; what is started is counted in it.
    """
    made = Decisions()
    limits = limits or MemberLimits({}, ())
    free = {r: capacity[r] - sum(job.needs[r] for job in held) for r in RESOURCES}
    aside = dict.fromkeys(RESOURCES, 0.0)
    giving_way = [job for job in held if job.stopping]
    candidates = sorted(
        (job for job in held if not job.stopping), key=lambda job: (-job.priority, job.id)
    )
    first: Queued | None = None
    for job in sorted(waiting, key=lambda job: (-job.priority, job.id)):
        if missing := impossible(job.needs, capacity):
            made.impossible[job.id] = missing
        elif over := limits.reason(job.member, job.needs):
            made.reasons[job.id] = over
        elif all(_fits(job.needs[r], free[r] - aside[r]) for r in RESOURCES):
            made.start.append(job.id)
            limits.add(job.member, job.needs)
            for r in RESOURCES:
                free[r] -= job.needs[r]
        else:
            made.reasons[job.id] = _reason(job, free, aside, capacity, first)
            if first is None:
                victims = _victims(job, free, giving_way, candidates)
                made.preempt |= {victim.id: job.id for victim in victims}
            first = first or job
            for r in RESOURCES:
                aside[r] += job.needs[r]
    return made


def impossible(needs: Amounts, capacity: Amounts) -> str:
    """Why a job can never run with this capacity; empty if it can."""
    for r in RESOURCES:
        if not _fits(needs[r], capacity[r]):
            return f"needs {amount(needs[r], r)}, and this machine has {amount(capacity[r], r)}"
    return ""


def _fits(needed: float, available: float) -> bool:
    # Sums of fractions of a core are not exact.
    return needed <= 0 or needed <= available + 1e-9 * max(1.0, abs(available))


def _reason(
    job: Queued, free: Amounts, aside: Amounts, capacity: Amounts, first: Queued | None
) -> str:
    for r in RESOURCES:
        if not _fits(job.needs[r], free[r]):
            left = f"{max(free[r], 0) / (2**30 if r == 'memory' else 1):.4g}"
            return f"waits for {amount(job.needs[r], r)}; {left} of {_plain(capacity[r], r)} free"
    assert first is not None
    short = next(r for r in RESOURCES if not _fits(job.needs[r], free[r] - aside[r]))
    return (
        f"waits for {amount(job.needs[short], short)}, which job {first.id} "
        f"(priority {first.priority}) needs first"
    )


def _plain(value: float, resource: str) -> str:
    return f"{value / 2**30:.4g} GiB" if resource == "memory" else f"{value:g}"


def _victims(
    job: Queued, free: Amounts, giving_way: Sequence[Held], candidates: Sequence[Held]
) -> list[Held]:
    """Whom to stop so that `job` fits; none if it would not fit after all."""
    short = {
        r: job.needs[r] - free[r] - sum(other.needs[r] for other in giving_way) for r in RESOURCES
    }
    short = {r: value for r, value in short.items() if value > 1e-9 and job.needs[r] > 0}
    chosen: list[Held] = []
    for other in reversed(candidates):
        if all(_fits(value, 0) for value in short.values()) or other.priority >= job.priority:
            break
        if any(value > 1e-9 and other.needs[r] > 0 for r, value in short.items()):
            chosen.append(other)
            short = {r: value - other.needs[r] for r, value in short.items()}
    if any(value > 1e-9 for value in short.values()):
        return []
    # The first choices may have become superfluous by a later, larger one.
    for other in list(reversed(chosen)):
        if all(short[r] + other.needs[r] <= 1e-9 for r in short):
            chosen.remove(other)
            short = {r: value + other.needs[r] for r, value in short.items()}
    return chosen
