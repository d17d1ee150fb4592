"""What ``AUTOTUNE`` finds, beside the best number of threads that a search finds.

Service times are simulated: a stage waits, then computes for so many milliseconds.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

AUTOTUNE = -1
WIDTHS = (1, 2, 4, 8, 16, 32)
TRIAL_S = 0.4
BUFFER = bytes(1 << 16)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Milliseconds of one element in one stage."""

    cpu: float
    wait: float = 0.0


Plan = tuple[tuple[Cost, ...], ...]
"""For each phase of the epoch, of equally many elements, the costs of the stages."""


def spend(cost: Cost) -> None:
    """Waits, then computes, as numpy and decoders do, without Python's lock."""
    time.sleep(cost.wait / 1e3)
    until = time.thread_time() + cost.cpu / 1e3
    while time.thread_time() < until:
        hashlib.sha256(BUFFER)


def staged(plan: Plan, elements: int, widths: Sequence[int]) -> Any:
    """The pipeline: a map for each stage."""
    import drumline as dl

    dataset = dl.data.Dataset.range(elements)
    length = -(-elements // len(plan))
    for number, width in enumerate(widths):
        costs = [phase[number] for phase in plan]

        def serve(value: Any, costs: Sequence[Cost] = costs) -> np.int64:
            index = int(value)
            spend(costs[index // length])
            return np.int64(index)

        dataset = dataset.map(serve, num_parallel_calls=width)
    return dataset


def trial(phase: Sequence[Cost], widths: Sequence[int]) -> float:
    """Seconds an element with these numbers of threads, once they are all busy."""
    iterator = iter(staged((tuple(phase),), 1_000_000, widths))
    settled = time.perf_counter() + TRIAL_S / 2
    while time.perf_counter() < settled:
        next(iterator)
    started, count = time.perf_counter(), 0
    while time.perf_counter() < started + TRIAL_S / 2:
        next(iterator)
        count += 1
    iterator.close()
    return (time.perf_counter() - started) / count


def searched(plan: Plan) -> tuple[int, ...]:
    """The numbers of threads with which an epoch takes the least time."""
    choices = itertools.product(WIDTHS, repeat=len(plan[0]))
    return min(choices, key=lambda widths: sum(trial(phase, widths) for phase in plan))


def prepared(plan: Plan, widths: Callable[[], Sequence[int]], scale: Scale) -> Build:
    """The pipeline with the numbers of threads that ``widths`` finds before anything is timed."""
    import jax

    jax.devices("cpu")
    found = widths()
    return lambda: staged(plan, scale.elements, found)


def evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """Whether all elements came, in order."""
    values = [int(value) for value in batches]
    return {"elements": len(values), "in order": values == list(range(len(values)))}


def measured(plan: Plan, widths: Callable[[], Sequence[int]]) -> Callable[[Scale], Measurement]:
    """A contender."""

    return measured_by(evidence)(functools.partial(prepared, plan, widths), ("drumline", "jax"))


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every element once, in order."""
    wanted = {"elements": scale.elements, "in order": True}
    return {
        name: "did not give every element once, in order"
        for name, measurement in measurements.items()
        if any(epoch != wanted for epoch in measurement.evidence["epochs"])
    }


def _workload(name: str, title: str, plan: Plan, elements: int) -> Workload:
    stages = len(plan[0])
    ours = ("drumline", "jax")
    ways: tuple[tuple[str, str, Callable[[], Sequence[int]]], ...] = (
        ("drumline", "every number AUTOTUNE", lambda: [AUTOTUNE] * stages),
        (
            "best static",
            f"the best of {len(WIDTHS) ** stages} settings, each tried for {TRIAL_S} s",
            lambda: searched(plan),
        ),
        ("one thread each", "num_parallel_calls=1", lambda: [1] * stages),
    )
    return Workload(
        name=name,
        title=title,
        unit="elements",
        baseline="best static",
        full=Scale(elements, 1, later_epochs=3),
        quick=Scale(elements // 10, 1, later_epochs=1),
        contenders=tuple(
            Contender(way, about, ours, measured(plan, widths)) for way, about, widths in ways
        ),
        floors=(Floor("later", at_least=0.9, against="best static"),),
        check=check,
    )


WORKLOADS = (
    _workload(
        "tuning_skewed",
        "simulated service times: 1 ms, then 5 ms of computing",
        ((Cost(1.0), Cost(5.0)),),
        1_000,
    ),
    _workload(
        "tuning_reads",
        "simulated service times: reads that wait 20 ms, then 1 ms of computing",
        ((Cost(0.1, wait=20.0), Cost(1.0)),),
        3_000,
    ),
    _workload(
        "tuning_changing",
        "simulated service times: reads of 20 ms and 1 ms of computing; midway 2 ms and 8 ms",
        ((Cost(0.1, wait=20.0), Cost(1.0)), (Cost(0.1, wait=2.0), Cost(8.0))),
        600,
    ),
)
