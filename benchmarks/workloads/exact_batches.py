"""Workloads whose batches are the same for everybody, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.digest import batch_evidence
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Problems, Scale

Check = Callable[[Scale, Mapping[str, Measurement]], Problems]


def same_as(
    expected: Callable[[Scale], list[Any]],
    observe: Callable[[list[Any]], dict[str, Any]] = batch_evidence,
) -> Check:
    """A check that every epoch gave the expected batches, in order and of their dtypes.

    Args:
        expected: the batches of an epoch.
        observe: the evidence of batches.
    """

    def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        batches = expected(scale)
        wanted = observe(batches)
        found = {
            name: _problem(measurement.evidence, len(batches), wanted)
            for name, measurement in measurements.items()
        }
        return {name: problem for name, problem in found.items() if problem}

    return check


def _problem(evidence: Mapping[str, Any], count: int, wanted: Mapping[str, Any]) -> str:
    if evidence["batches"] != [count]:
        found = " or ".join(map(str, evidence["batches"]))
        return f"gave {found} batches an epoch, not {count}"
    for epoch in evidence["epochs"]:
        if epoch["dtypes"] != wanted["dtypes"]:
            return f"gave dtypes {epoch['dtypes']}, not {', '.join(wanted['dtypes'])}"
        if epoch != wanted:
            return "did not give the expected batches in order"
    return ""
