"""Contenders that are input pipelines: times their epochs and digests what they deliver."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Scale

Batch = Any
Build = Callable[[], Iterable[Batch]]

ENOUGH_S = 1.0
AT_MOST_S = 5.0
AT_MOST_EPOCHS = 20


@dataclass(frozen=True)
class Epochs:
    """Makes an iterable of a function that starts an epoch, for peers that need one."""

    start: Callable[[], Iterator[Batch]]

    def __iter__(self) -> Iterator[Batch]:
        return self.start()


def measure_pipeline(
    prepare: Callable[[], Build],
    observe: Callable[[Iterable[Batch]], dict[str, Any]],
    elements: int,
    later_epochs: int,
    libraries: Iterable[str],
) -> Measurement:
    """Measures a pipeline from its building to its last epoch.

    Timed epochs drop each batch as a training loop does and only count batches; holding
    them would keep a pipeline, or the allocator under it, from reusing memory. What the
    batches contain is looked at in two epochs more, which are not timed. Only a pipeline whose
    first epoch took longer than ``AT_MOST_S`` is spared these: its one later epoch is held
    and looked at, which its time cannot notice.

    Args:
        prepare: imports the libraries, starts their runtime and returns the function that
            builds the pipeline; timed as importing.
        observe: the evidence of one epoch's batches.
        elements: source elements of one epoch.
        later_epochs: how many epochs to time after the first; more are timed until they
            have taken ``ENOUGH_S`` together, fewer once they have taken ``AT_MOST_S``.
        libraries: the distributions whose versions to state.
    """
    before = time.perf_counter()
    build = prepare()
    start = time.perf_counter()
    pipeline = build()
    first = _time_epoch(pipeline, start)
    if first.seconds > AT_MOST_S:
        later_start = time.perf_counter()
        held = list(pipeline)
        later = [_Epoch(0.0, time.perf_counter() - later_start, len(held))]
        observed = [observe(held)]
    else:
        later = _time_later_epochs(pipeline, later_epochs)
        observed = [observe(pipeline), observe(pipeline)]
    return Measurement(
        elements=elements,
        import_s=start - before,
        first_batch_s=first.first_batch_s,
        first_epoch_s=first.seconds,
        later_epochs_s=tuple(epoch.seconds for epoch in later),
        evidence={
            "batches": sorted({epoch.batches for epoch in (first, *later)}),
            "epochs": observed,
        },
        versions=versions(libraries),
    )


@dataclass(frozen=True)
class _Epoch:
    first_batch_s: float
    seconds: float
    batches: int


def _time_epoch(pipeline: Iterable[Batch], start: float) -> _Epoch:
    iterator = iter(pipeline)
    _batch = next(iterator)
    first = time.perf_counter()
    batches = 1
    for _batch in iterator:
        batches += 1
    return _Epoch(first - start, time.perf_counter() - start, batches)


def _time_later_epochs(pipeline: Iterable[Batch], wanted: int) -> list[_Epoch]:
    later: list[_Epoch] = []
    spent = 0.0
    while len(later) < wanted or spent < ENOUGH_S:
        later.append(_time_epoch(pipeline, time.perf_counter()))
        spent += later[-1].seconds
        if spent >= AT_MOST_S or len(later) >= AT_MOST_EPOCHS:
            break
    return later


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
