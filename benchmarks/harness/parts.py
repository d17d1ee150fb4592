"""Times many small calls, each by itself, and compares them one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.floors import OURS
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Problems, Scale


@dataclass(frozen=True)
class Part:
    """One of the calls that are timed.

    Attributes:
        name: the same for every contender.
        call: what is timed.
        result: what it gives, as nested lists of numbers; not timed.
    """

    name: str
    call: Callable[[], Any]
    result: Callable[[], list[Any]]


def measured_parts(
    prepare: Callable[[Scale], Callable[[], Sequence[Part]]], *libraries: str
) -> Callable[[Scale], Measurement]:
    """The contender that `prepare` prepares, made measurable.

    Each part is called once, which may compile it, and a few times more. Then each is called as
    many times as the scale has elements, all parts in turn, so often as it has epochs; a part's
    time is the least of these epochs, since all that disturbs a call makes it slower.

    Args:
        prepare: imports the libraries, which is timed as importing, and returns the function that
            makes the parts.
        libraries: the distributions whose versions to state.
    """

    def run(scale: Scale) -> Measurement:
        before = time.perf_counter()
        build = prepare(scale)
        ready = time.perf_counter()
        parts = build()
        began = time.perf_counter()
        results = {part.name: part.result() for part in parts}
        first = time.perf_counter() - began
        for part in parts:
            _seconds(part.call, 5)
        epochs = [
            [_seconds(part.call, scale.elements) for part in parts]
            for _ in range(scale.later_epochs)
        ]
        return Measurement(
            elements=scale.elements * len(parts),
            import_s=ready - before,
            first_batch_s=first,
            first_epoch_s=first,
            later_epochs_s=tuple(map(sum, epochs)),
            evidence={"results": results},
            versions=versions(("numpy", *libraries)),
            parts={
                part.name: min(epoch[index] for epoch in epochs) / scale.elements
                for index, part in enumerate(parts)
            },
        )

    return run


def _seconds(call: Callable[[], Any], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - began


def check_parts(tolerance: float) -> Callable[[Scale, Mapping[str, Measurement]], Problems]:
    """The check that all contenders' parts gave what drumline's did, up to a tolerance."""

    def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        if OURS not in measurements:
            return {}
        ours = measurements[OURS].evidence["results"]
        problems: Problems = {}
        for name, measurement in measurements.items():
            theirs = measurement.evidence["results"]
            if list(theirs) != list(ours):
                problems[OURS] = f"ran other operations than {name}"
                continue
            wrong = [part for part in ours if not _close(ours[part], theirs[part], tolerance)]
            if wrong:
                problems[OURS] = f"gave other results than {name} for {', '.join(wrong)}"
        return problems

    return check


def _close(one: list[Any], other: list[Any], tolerance: float) -> bool:
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=False)]
    return len(one) == len(other) and all(
        a.shape == b.shape and np.allclose(a, b, tolerance, tolerance) for a, b in pairs
    )
