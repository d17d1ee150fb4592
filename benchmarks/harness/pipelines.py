"""Contenders that are input pipelines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.harness.epochs import Batch, Build, measure_pipeline
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Scale

Run = Callable[[Scale], Measurement]


def measured_by(observe: Callable[[Iterable[Batch]], dict[str, Any]]) -> Callable[..., Run]:
    """What makes a contender's ``run`` of a function that builds its pipeline.

    It takes the function, which is given the scale and further arguments; the distributions whose
    versions to state, besides numpy; and those arguments.

    Args:
        observe: the evidence of one epoch's batches.
    """

    def measured(prepare: Callable[..., Build], libraries: tuple[str, ...], *arguments: Any) -> Run:
        def run(scale: Scale) -> Measurement:
            return measure_pipeline(
                functools.partial(prepare, scale, *arguments),
                observe,
                scale.elements,
                scale.later_epochs,
                ("numpy", *libraries),
            )

        return run

    return measured
