"""Workloads whose batches of integers are the same for everybody, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.digest import order_digest
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Problems, Scale

Check = Callable[[Scale, Mapping[str, Measurement]], Problems]


def same_as(expected: Callable[[Scale], list[Any]]) -> Check:
    """A check that every epoch gave the expected int64 batches, in order."""

    def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        batches = expected(scale)
        wanted = {"order": order_digest(batches), "dtypes": ["int64"]}
        problems: Problems = {}
        for name, measurement in measurements.items():
            evidence = measurement.evidence
            if evidence["batches"] != [len(batches)]:
                found = " or ".join(map(str, evidence["batches"]))
                problems[name] = f"gave {found} batches an epoch, not {len(batches)}"
            elif any(epoch != wanted for epoch in evidence["epochs"]):
                problems[name] = "did not give the expected int64 batches in order"
        return problems

    return check
