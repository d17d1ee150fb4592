"""What a step profile says of an epoch, as numbers and as a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from drumline._recorder import (
    CHECKPOINTING,
    COMMUNICATION,
    COMPILING,
    COMPUTING,
    INPUT,
    PARTS,
    PROFILER,
    PYTHON,
    VALIDATION,
)

_LEAST_SHARE = 0.005
"""Parts below half a percent are left out of the line."""


@dataclasses.dataclass(frozen=True)
class ProcessShare:
    """What one process of the training reported of an epoch.

    Attributes:
        name: such as ``"worker:1"``.
        own_seconds: of a step, without the wait for other processes.
        computing: seconds of a step; of workers of parameter servers, too.
        input: seconds of a step in which it waited for input.
        communication: seconds of a step.
        steps: how many it ran.
    """

    name: str
    own_seconds: float
    computing: float
    input: float
    communication: float
    steps: int


@dataclasses.dataclass(frozen=True, repr=False)
class EpochProfile:
    """Where the time of an epoch went.

    Attributes:
        number: the epoch, from 0.
        seconds: wall time, from the end of the epoch before.
        steps: how many steps of the training began.
        rows: rows of input that they took, of all processes; 0 if unknown.
        parts: seconds by part (``"computing"``, ``"communication"``, ``"input"``, ``"compiling"``,
            ``"checkpointing"``, ``"validation"``, ``"Python"``, ``"profiler"``), which add up to
            `seconds`.
        details: for each part, seconds by what of it is known: callbacks, kinds of communication.
        stage: the stage of the input pipeline that the others wait for, empty if unknown.
        flops: FLOPs of all products of the model in all steps; None if unknown.
        peak: FLOPs per second that the hardware can, of all devices; None if not measured.
        host_bytes: the most memory of this process in RAM until now.
        device_bytes: the most memory taken on one of its devices; None if unknown.
        communicated: bytes that this process's sums and messages took; None if not counted.
        processes: what each process reported, where there are several.
        slow: the name of the process for which the others wait; empty if none is much slower.
        communication_known: whether the time of collectives within programs is known. If not, it
            is part of computing.
        name: what the line begins with in the place of the epoch.
        profiler_seconds: that the profile itself took, measured: its part, and the recording, which
            is within the other parts, in the thread that trains and in the one that waits.
    """

    number: int
    seconds: float
    steps: int
    rows: int
    parts: Mapping[str, float]
    details: Mapping[str, Mapping[str, float]]
    stage: str = ""
    flops: float | None = None
    peak: float | None = None
    host_bytes: int = 0
    device_bytes: int | None = None
    communicated: int | None = None
    processes: tuple[ProcessShare, ...] = ()
    slow: str = ""
    communication_known: bool = True
    name: str = ""
    profiler_seconds: float = 0.0

    def share(self, part: str) -> float:
        """The share of the epoch that a part took, 0 to 1."""
        return self.parts.get(part, 0.0) / self.seconds if self.seconds > 0 else 0.0

    @property
    def goodput(self) -> float:
        """The share of the time in which steps computed or communicated, 0 to 1."""
        return self.share(COMPUTING) + self.share(COMMUNICATION)

    @property
    def profiler_share(self) -> float:
        """The share of the time that the profile itself took, 0 to 1."""
        return self.profiler_seconds / self.seconds if self.seconds > 0 else 0.0

    @property
    def step_seconds(self) -> float:
        """The mean time of a step: the epoch without compiling, validation and checkpoints."""
        others = (COMPILING, VALIDATION, CHECKPOINTING, PROFILER)
        left = self.seconds - sum(self.parts.get(part, 0.0) for part in others)
        return left / self.steps if self.steps else 0.0

    @property
    def rows_per_second(self) -> float:
        """Rows of all processes per second of steps; 0 if unknown."""
        seconds = self.step_seconds * self.steps
        return self.rows / seconds if seconds > 0 else 0.0

    @property
    def flops_per_second(self) -> float | None:
        """The model's FLOPs per second of steps; None if unknown."""
        seconds = self.step_seconds * self.steps
        return self.flops / seconds if self.flops is not None and seconds > 0 else None

    @property
    def share_of_peak(self) -> float | None:
        """The model's FLOPs per second over what the hardware can; None if either is unknown."""
        rate = self.flops_per_second
        return rate / self.peak if rate is not None and self.peak else None

    def numbers(self) -> dict[str, float]:
        """All that is a number, by names as trackers and Prometheus show them."""
        found: dict[str, float | None] = {
            "seconds": self.seconds,
            "steps": self.steps,
            "rows": self.rows,
            "step_seconds": self.step_seconds,
            "rows_per_second": self.rows_per_second,
            "goodput": self.goodput,
            "profiler_share": self.profiler_share,
            "flops_per_second": self.flops_per_second,
            "share_of_peak": self.share_of_peak,
            "host_bytes": self.host_bytes,
            "device_bytes": self.device_bytes,
            "communicated_bytes": self.communicated,
        }
        found |= {f"share/{part.lower()}": self.share(part) for part in PARTS}
        return {name: float(value) for name, value in found.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            **dataclasses.asdict(self),
            "step_seconds": self.step_seconds,
            "rows_per_second": self.rows_per_second,
            "goodput": self.goodput,
            "profiler_share": self.profiler_share,
            "flops_per_second": self.flops_per_second,
            "share_of_peak": self.share_of_peak,
        }

    def __str__(self) -> str:
        """One line: shares in falling order, rates, and the process that is slow."""
        shares = sorted(
            ((self.share(part), part) for part in PARTS), key=lambda each: each[0], reverse=True
        )
        words = [
            f"{100 * share:.0f} % {self._words(part)}"
            for share, part in shares
            if share >= _LEAST_SHARE
        ]
        name = self.name or f"epoch {self.number + 1}"
        text = f"{name}: {self.seconds:.3g} s, " + ", ".join(words or ["no steps"])
        return "; ".join([text, *self._rates()])

    __repr__ = __str__

    def _words(self, part: str) -> str:
        most = max(self.details.get(part, {}).items(), key=lambda each: each[1], default=("", 0.0))
        name = most[0] if most[1] > self.parts.get(part, 0.0) / 2 else ""
        if part == INPUT:
            return f"input: {self.stage or name}" if self.stage or name else "input"
        if part == COMMUNICATION:
            return name or part
        if part in (PYTHON, CHECKPOINTING, PROFILER) and name:
            return f"{part}: {name}"
        return part

    def _rates(self) -> list[str]:
        found = []
        if self.rows:
            found.append(f"{_number(self.rows_per_second)} rows/s")
        if self.share_of_peak is not None:
            found.append(f"{_percent(self.share_of_peak)} of peak")
        if self.profiler_seconds:
            found.append(f"{_percent(self.profiler_share)} for the profile itself")
        if self.slow:
            found.append(f"{self.slow} is slow")
        return found


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
