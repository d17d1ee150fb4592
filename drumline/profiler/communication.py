"""What processes of a training exchange, how long it takes, and which of them is slow.

Sums in memory that processes share are counted by the code that forms them. What workers of
parameter servers do they count themselves, and the chief asks them once an epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from drumline._recorder import (
    COMMUNICATION,
    COMPILING,
    COMPUTING,
    INPUT,
    PYTHON,
    WORKERS,
    Place,
)
from drumline.distribute.process_group.host_collectives import all_gather_host
from drumline.distribute.process_group.start import joined
from drumline.profiler.epoch_profile import EpochProfile, ProcessShare

ALL_REDUCE = "all-reduce"
PULL = "pull"
PUSH = "push"

_SLOWER = 1.25
"""How many times as long as the others' median a process's own part of a step is, if it is slow."""
_LEAST_SHARE = 0.1
"""Of a step: differences below it are not worth a name."""
_MOST_COMPILING = 0.1
"""Of an epoch: which process compiles longer says nothing of the next epochs."""


@dataclasses.dataclass(frozen=True)
class Counted:
    """What the sums of this process's replicas took.

    Attributes:
        seconds: in which at least one was under way, the wait for other processes included.
        nbytes: of their arrays.
    """

    seconds: float
    nbytes: int


def within_programs(strategies: Sequence[Any]) -> bool:
    """Whether the programs of these strategies communicate."""
    return any(getattr(each, "num_replicas_in_sync", 1) > 1 for each in strategies)


def in_programs(
    strategies: Sequence[Any], since_last: tuple[int, int, float, float]
) -> Counted | None:
    """What sums in shared memory took; None where that is not how the replicas communicate."""
    sums, nbytes, seconds, _ = since_last
    return Counted(seconds, nbytes) if sums and within_programs(strategies) else None


def exchange(strategies: Sequence[Any], epoch: EpochProfile) -> EpochProfile:
    """An epoch with what each process reports of it; all of them call this together.

    Without several processes it is returned as it is.
    """
    spanning = next((each for each in strategies if getattr(each, "spans_processes", False)), None)
    if spanning is None:
        return epoch
    steps = max(1, epoch.steps)
    communication = epoch.parts[COMMUNICATION]
    own = epoch.parts[COMPUTING] if epoch.communication_known else 0.0
    own += epoch.parts[INPUT] + epoch.parts[PYTHON]
    numbers = [own, epoch.parts[COMPUTING], epoch.parts[INPUT], communication]
    whole = [epoch.steps, epoch.rows, epoch.peak or 0.0]
    sent = np.array([*(each / steps for each in numbers), *whole], np.float64)
    found = all_gather_host(spanning, sent)
    group = joined()
    names = [f"worker:{number}" for number in range(len(found))]
    if group is not None and len(group[0].tasks) == len(found):
        names = list(group[0].tasks)
    shares = tuple(
        ProcessShare(
            name,
            own_seconds=float(row[0]),
            computing=float(row[1]),
            input=float(row[2]),
            communication=float(row[3]),
            steps=int(row[4]),
        )
        for name, row in zip(names, found, strict=True)
    )
    peaks = found[:, 6]
    peak = float(peaks.sum()) if peaks.all() else None
    return named(dataclasses.replace(epoch, rows=int(found[:, 5].max()), peak=peak), shares)


def named(epoch: EpochProfile, shares: tuple[ProcessShare, ...]) -> EpochProfile:
    """An epoch with what processes reported of it, and the name of the one that is slow."""
    slow = "" if epoch.share(COMPILING) > _MOST_COMPILING else slowest(shares)
    return dataclasses.replace(epoch, processes=shares, slow=slow)


def slowest(shares: Sequence[ProcessShare]) -> str:
    """The process whose own part of a step takes much longer than the others'; empty if none."""
    shares = [share for share in shares if share.steps]
    if len(shares) < 2:
        return ""
    last = max(shares, key=lambda share: share.own_seconds)
    others = median(share.own_seconds for share in shares if share is not last)
    whole = last.own_seconds + last.communication
    much = last.own_seconds - others > _LEAST_SHARE * whole
    return last.name if last.own_seconds > _SLOWER * others and much else ""


@dataclasses.dataclass(frozen=True)
class WorkersReport:
    """What the workers of parameter servers did in an epoch.

    Attributes:
        shares: of each worker.
        pulling: seconds in which workers waited for parameters, of all.
        pushing: seconds in which they sent gradients, of all.
    """

    shares: tuple[ProcessShare, ...]
    pulling: float
    pushing: float

    @property
    def steps(self) -> int:
        """How many steps all of them ran."""
        return sum(share.steps for share in self.shares)

    def split(self, places: dict[Place, float]) -> None:
        """Split the time in which the chief waited for workers as the workers spent theirs."""
        waited = places.pop((COMPUTING, WORKERS), 0.0)
        found = {
            (COMPUTING, WORKERS): sum(s.computing * s.steps for s in self.shares),
            (INPUT, "on workers"): sum(s.input * s.steps for s in self.shares),
            (COMMUNICATION, PULL): self.pulling,
            (COMMUNICATION, PUSH): self.pushing,
        }
        whole = sum(found.values())
        if not whole:
            found, whole = {(COMPUTING, WORKERS): 1.0}, 1.0
        for place, seconds in found.items():
            places[place] = places.get(place, 0.0) + waited * seconds / whole


class Coordinators:
    """Asks the workers of parameter servers what they did since the last epoch."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], np.ndarray] = {}

    def begin(self, coordinator: Any) -> None:
        """Leave out what the workers of a coordinator have done until now."""
        for index, counts in coordinator.worker_times().items():
            self._before[id(coordinator), index] = np.array(counts, np.float64)

    def since_last(self, coordinators: Sequence[Any]) -> WorkersReport | None:
        """What workers did; None if no step was scheduled on any."""
        shares: list[ProcessShare] = []
        pulling = pushing = 0.0
        for coordinator in coordinators:
            for index, counts in sorted(coordinator.worker_times().items()):
                now = np.array(counts, np.float64)
                key = (id(coordinator), index)
                before = self._before.get(key)
                if before is None or now[0] < before[0]:  # a worker that was started again
                    before = np.zeros_like(now)
                self._before[key] = now
                steps, drawing, computing, pull, push = map(float, now - before)
                each = max(1.0, steps)
                pulling, pushing = pulling + pull, pushing + push
                shares.append(
                    ProcessShare(
                        f"worker:{index}",
                        own_seconds=(drawing + computing) / each,
                        computing=computing / each,
                        input=drawing / each,
                        communication=(pull + push) / each,
                        steps=int(steps),
                    )
                )
        return WorkersReport(tuple(shares), pulling, pushing) if shares else None
