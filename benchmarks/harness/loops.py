"""Times what is written without Keras's ``fit``: training loops and single calls.

A loop is timed epoch by epoch; a call many times over, each time until its results are ready.
"""

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
        facts: more of the evidence, when all epochs have run.
    """

    weights: Callable[[], Sequence[Any]]
    epoch: Callable[[], tuple[float, int]]
    facts: Callable[[], dict[str, Any]] = dict


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
                **loop.facts(),
            },
            versions=versions(("numpy", *libraries)),
        )

    return run


@dataclass(frozen=True)
class Calls:
    """A call that is ready to be made.

    Attributes:
        prepare: makes ready for the next call; not timed.
        call: returns when its results are ready to be used.
        problem: what is wrong with the results of the last call; empty if nothing is.
    """

    prepare: Callable[[], None]
    call: Callable[[], None]
    problem: Callable[[], str]


def measured_calls(
    prepare: Callable[[Scale], Callable[[], Calls]], *libraries: str
) -> Callable[[Scale], Measurement]:
    """The contender that `prepare` prepares, made measurable.

    Args:
        prepare: imports the libraries and starts their runtime, which is timed as importing, and
            returns the function that makes the call ready.
        libraries: the distributions whose versions to state.

    The first call, with what it compiles, is the first batch; an epoch has as many calls as the
    scale has elements. Results are looked at after the first call and after the last one.
    """

    def run(scale: Scale) -> Measurement:
        before = time.perf_counter()
        build = prepare(scale)
        ready = time.perf_counter()
        calls = build()
        first = _seconds(calls, 1)
        problems = [calls.problem()]
        rest = _seconds(calls, scale.elements - 1)
        later = [_seconds(calls, scale.elements) for _ in range(scale.later_epochs)]
        problems.append(calls.problem())
        return Measurement(
            elements=scale.elements,
            import_s=ready - before,
            first_batch_s=first,
            first_epoch_s=first + rest,
            later_epochs_s=tuple(later),
            evidence={"problems": [problem for problem in problems if problem]},
            versions=versions(("numpy", *libraries)),
        )

    return run


def check_calls(scale: Scale, measurements: Any) -> dict[str, str]:
    """The check that every contender's results were right."""
    found = {name: "; ".join(m.evidence["problems"]) for name, m in measurements.items()}
    return {name: problem for name, problem in found.items() if problem}


def _seconds(calls: Calls, times: int) -> float:
    elapsed = 0.0
    for _ in range(times):
        calls.prepare()
        began = time.perf_counter()
        calls.call()
        elapsed += time.perf_counter() - began
    return elapsed
