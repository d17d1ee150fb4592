"""Times training loops written by hand, epoch by epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.digest import weights_digest
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Scale


@dataclass(frozen=True)
class Loop:
    """A training that is ready to run.

    Attributes:
        weights: gives the weights, as numpy arrays.
        epoch: runs an epoch and returns its mean loss and its number of steps.
    """

    weights: Callable[[], Sequence[Any]]
    epoch: Callable[[], tuple[float, int]]


def measured_loop(
    prepare: Callable[[Scale], Callable[[], Loop]], *libraries: str
) -> Callable[[Scale], Measurement]:
    """The contender that `prepare` prepares, made measurable.

    Args:
        prepare: imports the libraries and starts their runtime, which is timed as importing, and
            returns the function that builds the loop.
        libraries: the distributions whose versions to state.

    The first epoch includes tracing and compiling; its end counts as the first batch as well,
    since a loop that is one program shows no earlier one.
    """

    def run(scale: Scale) -> Measurement:
        before = time.perf_counter()
        build = prepare(scale)
        ready = time.perf_counter()
        loop = build()
        initial = weights_digest(loop.weights())
        start = time.perf_counter()
        losses, steps, elapsed = [], 0, []
        for _ in range(1 + scale.later_epochs):
            began = time.perf_counter()
            loss, count = loop.epoch()
            elapsed.append(time.perf_counter() - began)
            losses.append(loss)
            steps += count
        return Measurement(
            elements=scale.elements,
            import_s=ready - before,
            first_batch_s=elapsed[0],
            first_epoch_s=elapsed[0],
            later_epochs_s=tuple(elapsed[1:]),
            evidence={
                "steps": steps,
                "losses": losses,
                "initial_weights": initial,
                "build_model_s": start - ready,
            },
            versions=versions(("numpy", *libraries)),
        )

    return run
