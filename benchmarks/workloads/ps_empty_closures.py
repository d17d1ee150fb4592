"""Scheduled functions that do nothing: what giving one to a worker costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.server_cluster import in_server_cluster
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import ps_keras, ps_tensorflow

WORKERS, SERVERS = 2, 1

Prepare = Callable[[], tuple[Any, Callable[[], None]]]


def drumline() -> tuple[Any, Callable[[], None]]:
    """A coordinator and a function that does nothing."""
    import drumline as dl

    return ps_keras.drumline_coordinator(), dl.function(lambda: None)


def tensorflow() -> tuple[Any, Callable[[], None]]:
    """A coordinator and a function that does nothing."""
    import tensorflow as tf

    return ps_tensorflow.coordinator(), tf.function(lambda: None)


def measured_closures(prepare: Prepare, *libraries: str) -> Callable[[Scale], Measurement]:
    """`prepare` made measurable: an epoch schedules functions and waits for all of them.

    Args:
        prepare: gives a ``ClusterCoordinator`` and the function; timed as importing.
        libraries: the distributions whose versions to state.
    """

    def run(scale: Scale) -> Measurement:
        before = time.perf_counter()
        chief, nothing = prepare()
        ready = time.perf_counter()
        chief.schedule(nothing)
        chief.join()
        first = time.perf_counter()
        epochs, unfinished = [], 0
        for _ in range(1 + scale.later_epochs):
            began = time.perf_counter()
            for _ in range(scale.elements):
                value = chief.schedule(nothing)
            chief.join()
            epochs.append(time.perf_counter() - began)
            unfinished += not chief.done()
            value.fetch()
        return Measurement(
            elements=scale.elements,
            import_s=ready - before,
            first_batch_s=first - ready,
            first_epoch_s=epochs[0],
            later_epochs_s=tuple(epochs[1:]),
            evidence={"unfinished": unfinished},
            versions=versions(("numpy", *libraries)),
        )

    return run


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Nothing was left to do at the end of an epoch."""
    return {
        name: f"had functions left after {m.evidence['unfinished']} epochs"
        for name, m in measurements.items()
        if m.evidence["unfinished"]
    }


WORKLOAD = Workload(
    name="ps_empty_closures",
    title="ClusterCoordinator.schedule of functions that do nothing, 2 workers",
    unit="functions",
    baseline="TensorFlow",
    full=Scale(elements=3_000, batch_size=1, later_epochs=4),
    quick=Scale(elements=300, batch_size=1, later_epochs=2),
    contenders=(
        Contender(
            "drumline",
            "dl.function, ClusterCoordinator.schedule",
            ("drumline", "jax"),
            in_server_cluster(
                WORKERS,
                SERVERS,
                ps_keras.drumline_serve,
                measured_closures(drumline, "drumline", "jax"),
            ),
        ),
        Contender(
            "TensorFlow",
            "tf.function, ClusterCoordinator.schedule",
            ("tensorflow",),
            in_server_cluster(
                WORKERS,
                SERVERS,
                ps_tensorflow.serve,
                measured_closures(tensorflow, "tensorflow-cpu", "tensorflow"),
            ),
        ),
    ),
    floors=(Floor("later", at_least=10.0, against="TensorFlow"),),
    check=check,
)
