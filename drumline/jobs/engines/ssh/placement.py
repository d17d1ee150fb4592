"""Which process of a job goes to which host: a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drumline.jobs.file.model import RESOURCES, ROLES, Job

Amounts = Mapping[str, float]

_SMALL = 1e-9  # Sums of tenths of a CPU are not exact.


def process_sizes(job: Job) -> list[dict[str, float]]:
    """What each process of a job holds, in the order of ranks."""
    return [
        {resource: getattr(job.roles[name], resource) for resource in RESOURCES}
        for name in ROLES
        if name in job.roles
        for _ in range(job.roles[name].count)
    ]


def place(
    sizes: Sequence[Amounts], free: Mapping[str, Amounts], before: Sequence[str] = ()
) -> list[str] | None:
    """The host of each process, or None if they do not fit.

    A job that fits on one host runs on one, since its processes are nearer to each other there; of
    several such hosts on the one with most to spare. Otherwise hosts are filled one after another.

    Args:
        sizes: of each process, by the names in `RESOURCES`, in the order of ranks.
        free: of each host; the first one is preferred if all else is equal.
        before: where an earlier start of the job ran, whose files are there: if possible again.
    """
    if len(before) == len(sizes) and _fits_as(sizes, free, before):
        return list(before)
    whole = {r: sum(size[r] for size in sizes) for r in RESOURCES}
    wanted = ("gpus", "cpus") if whole["gpus"] else ("cpus",)
    by_room = sorted(free, key=lambda host: [-free[host][resource] for resource in wanted])
    for host in by_room:
        if _all_fit(whole, free[host]):
            return [host] * len(sizes)
    left = {host: dict(free[host]) for host in by_room}
    found = []
    for size in sizes:
        host_or_none = next((host for host in by_room if _all_fit(size, left[host])), None)
        if host_or_none is None:
            return None
        found.append(host_or_none)
        for r in RESOURCES:
            left[host_or_none][r] -= size[r]
    return found


def _fits_as(sizes: Sequence[Amounts], free: Mapping[str, Amounts], hosts: Sequence[str]) -> bool:
    if not set(hosts) <= set(free):
        return False
    return all(
        _all_fit(
            {r: sum(size[r] for size, h in zip(sizes, hosts, strict=True) if h == host)
             for r in RESOURCES},
            free[host],
        )
        for host in set(hosts)
    )  # fmt: skip


def fits(needed: float, free: float) -> bool:
    """Whether there is as much free as is needed."""
    return needed <= free + _SMALL


def _all_fit(needs: Amounts, free: Amounts) -> bool:
    return all(fits(needs[r], free[r]) for r in RESOURCES)
