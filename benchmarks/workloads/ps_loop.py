"""An epoch of scheduled steps, for drumline and TensorFlow alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.loops import Loop
from benchmarks.harness.workload import Scale

LAST_LOSSES = 20


def scheduled_loop(
    coordinator: Any,
    step: Any,
    iterator: Any,
    weights: Callable[[], Sequence[Any]],
    scale: Scale,
    steps_per_closure: int = 1,
) -> Loop:
    """Steps given to whichever worker is free, and waited for at the end of an epoch.

    Args:
        coordinator: a ``ClusterCoordinator``.
        step: takes an iterator of a worker's dataset and gives a loss.
        iterator: of all workers' datasets.
        weights: gives the values of all variables.
        scale: its elements are steps.
        steps_per_closure: how many steps `step` makes.
    """

    most = max(2, LAST_LOSSES // steps_per_closure)

    def epoch() -> tuple[float, int]:
        last: list[Any] = []
        for _ in range(scale.elements // steps_per_closure):
            last = [*last[1 - most :], coordinator.schedule(step, args=(iterator,))]
        coordinator.join()
        losses = [float(np.asarray(value)) for value in coordinator.fetch(last)]
        return sum(losses) / len(losses), scale.elements

    return Loop(weights, epoch)
