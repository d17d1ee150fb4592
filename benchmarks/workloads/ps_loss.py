"""The loss after equal numbers of examples: 1 to 4 asynchronous workers, and synchronous ones.

What is of interest are the curves (``results/ps_loss.png``), not the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.server_cluster import in_server_cluster
from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import ps_keras
from benchmarks.workloads.ps_problem import CURVES, Problem, learnable_batches

OURS = ("drumline", "jax", "keras")
MOST_WORKERS = 4
SYNCHRONOUS = "synchronous, 4 workers"
FALLS_TO = 1.1  # synchronous workers make a quarter as many updates, and may learn nothing yet


def shared_batches(workers: int) -> Callable[[Problem, int], Any]:
    """The same batches for any number of workers, dealt out to them."""

    def data(problem: Problem, worker: int) -> Any:
        pools = [learnable_batches(problem, pool) for pool in range(worker, MOST_WORKERS, workers)]
        return tuple(np.concatenate(each) for each in zip(*pools, strict=True))

    return data


def curve(workers: int, **options: Any) -> Callable[[Scale], Callable[[], Loop]]:
    """The tutorial's loop under a strategy with these options."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        import drumline as dl

        chief = ps_keras.drumline_coordinator(**options)
        import keras

        data = shared_batches(workers)
        return lambda: ps_keras.keras_loop(dl, keras, chief, CURVES, scale, data=data)

    return prepare


def _contender(name: str, workers: int, **options: Any) -> Contender:
    kind = "synchronous" if options else "asynchronous"
    return Contender(
        name,
        f"{workers} worker{'s' * (workers > 1)}, {kind} updates",
        OURS,
        in_server_cluster(
            workers, 1, ps_keras.drumline_serve, measured_loop(curve(workers, **options), *OURS)
        ),
    )


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each learned by itself; how far apart they are is the result."""
    problems: Problems = {}
    for name, measurement in measurements.items():
        problems |= check_training(0.0, FALLS_TO)(scale, {name: measurement})
    return problems


WORKLOAD = Workload(
    name="ps_loss",
    title="loss after equal examples: asynchronous workers, and synchronous ones",
    unit="steps",
    baseline=SYNCHRONOUS,
    full=Scale(elements=200, batch_size=1, later_epochs=11),
    quick=Scale(elements=100, batch_size=1, later_epochs=5),
    contenders=(
        _contender("drumline", 2),
        _contender("1 worker", 1),
        _contender("4 workers", MOST_WORKERS),
        _contender(SYNCHRONOUS, MOST_WORKERS, synchronous=True),
    ),
    floors=(Floor("later", at_least=1.0, against=SYNCHRONOUS),),
    check=check,
)
