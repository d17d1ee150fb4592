"""Workloads that drumline does alone: how their runs are measured, checked and declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Contender, Problems, Scale, Workload


def repeated(
    scale: Scale,
    took: Sequence[float],
    evidence: Mapping[str, Any],
    libraries: Sequence[str] = ("drumline",),
) -> Measurement:
    """The measurement of something that was done again and again, each time in `took` seconds."""
    return _measured(scale, took[0], took[0], took[1:], evidence, libraries)


def once(
    scale: Scale,
    first: float,
    took: float,
    evidence: Mapping[str, Any],
    libraries: Sequence[str] = ("drumline",),
) -> Measurement:
    """The measurement of all elements together, in `took` seconds, and of one before them."""
    return _measured(scale, first, took, (took,), evidence, libraries)


def _measured(
    scale: Scale,
    first: float,
    epoch: float,
    later: Sequence[float],
    evidence: Mapping[str, Any],
    libraries: Sequence[str],
) -> Measurement:
    return Measurement(
        elements=scale.elements,
        import_s=0.0,
        first_batch_s=first,
        first_epoch_s=epoch,
        later_epochs_s=tuple(later),
        evidence=dict(evidence),
        versions=versions(libraries),
    )


def other_than(wanted: Mapping[str, Any], measurements: Mapping[str, Measurement]) -> Problems:
    """The contenders whose evidence has not what is wanted of it."""
    return {
        name: f"came to {measured.evidence}"
        for name, measured in measurements.items()
        if not wanted.items() <= measured.evidence.items()
    }


def workload(
    name: str,
    title: str,
    unit: str,
    full: Scale,
    quick: Scale,
    contender: tuple[str, Sequence[str], Callable[[Scale], Measurement]],
    at_least: float,
    check: Callable[[Scale, Mapping[str, Measurement]], Problems],
) -> Workload:
    """Declare a workload whose only contender is ours.

    Args:
        name: see `Workload`, as the next four.
        title: see there.
        unit: see there.
        full: see there.
        quick: see there.
        contender: its ``about``, ``requires`` and ``run``; see `Contender`.
        at_least: units a second.
        check: see `Workload`.
    """
    about, requires, run = contender
    return Workload(
        name=name,
        title=title,
        unit=unit,
        baseline="drumline",
        full=full,
        quick=quick,
        contenders=(Contender("drumline", about, tuple(requires), run),),
        floors=(Floor("later", at_least=at_least),),
        check=check,
    )
