"""A table that is larger than what a worker holds: 50 million rows over two parameter servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.server_cluster import in_server_cluster, resident_bytes
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import ps_keras
from benchmarks.workloads.ps_problem import WIDE

OURS = ("drumline", "jax", "keras")
WORKERS, SERVERS = 2, 2
MOST_GROWTH = 100 << 20
TABLE_BYTES = WIDE.rows * WIDE.width * 4
ROWS_OF_A_STEP = WIDE.batch * WIDE.ids


def drumline(scale: Scale) -> Measurement:
    """The tutorial's loop; the workers' memory is noted after the first epoch and the last."""
    resident: list[list[int]] = []

    def prepare(scale: Scale) -> Callable[[], Loop]:
        import drumline as dl

        partitioner = dl.distribute.experimental.partitioners.MinSizePartitioner(
            256 << 10, max_shards=SERVERS
        )
        chief = ps_keras.drumline_coordinator(variable_partitioner=partitioner)
        import keras

        return lambda: noting(
            ps_keras.keras_loop(dl, keras, chief, WIDE, scale, seeded=False), resident
        )

    measurement = measured_loop(prepare, *OURS)(scale)
    return dataclasses.replace(
        measurement,
        elements=scale.elements * ROWS_OF_A_STEP,
        evidence={
            **measurement.evidence,
            "workers_mb_after_first_epoch": [size >> 20 for size in resident[0]],
            "workers_mb_at_the_end": [size >> 20 for size in resident[-1]],
        },
    )


def noting(loop: Loop, resident: list[list[int]]) -> Loop:
    """`loop`, noting the resident memory of the workers after each epoch."""

    def epoch() -> tuple[float, int]:
        outcome = loop.epoch()
        found = resident_bytes()
        resident.append([found[1 + worker] for worker in range(WORKERS)])
        return outcome

    return Loop(loop.weights, epoch)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """The workers held a small part of the table, and no more at the end than at first."""
    problems = {}
    for name, measurement in measurements.items():
        first = measurement.evidence["workers_mb_after_first_epoch"]
        last = measurement.evidence["workers_mb_at_the_end"]
        grown = max(b - a for a, b in zip(first, last, strict=True)) << 20
        if max(last) << 20 > TABLE_BYTES // 3:
            problems[name] = f"has workers of {last} MB, and the table has {TABLE_BYTES >> 20}"
        elif grown > MOST_GROWTH:
            problems[name] = f"has workers that grew from {first} to {last} MB"
    return problems


WORKLOAD = Workload(
    name="ps_wide_table",
    title="2 ps, 2 workers: table of 50,000,000 x 16 (3.2 GB), batch 2,048 x 10 ids, SGD",
    unit="rows",
    baseline="drumline",
    full=Scale(elements=200, batch_size=1, later_epochs=4),
    quick=Scale(elements=20, batch_size=1, later_epochs=2),
    contenders=(
        Contender(
            "drumline",
            "Keras Embedding in scope, MinSizePartitioner, ClusterCoordinator.schedule",
            OURS,
            in_server_cluster(WORKERS, SERVERS, ps_keras.drumline_serve, drumline),
        ),
    ),
    floors=(Floor("later", at_least=100_000),),
    check=check,
)
