"""The tutorial's custom loop with a thousand summaries a second, beside the same without any.

How many a step records follows from how long it takes on this machine, which a loop without
summaries finds before.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import FALLS_TO, TOLERANCE
from benchmarks.workloads.custom_loop import tutorial_model
from benchmarks.workloads.tutorial_loop import tutorial_loop

RATE = 1_000
"""Summaries a second."""

FULL = Scale(elements=9_600, batch_size=64, later_epochs=5)

LEAST_RATE = 0.8 * RATE
"""Where fewer were recorded, the machine was slower than when their number was chosen."""


def without(scale: Scale) -> Callable[[], Loop]:
    """The loop as the tutorial writes it."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import drumline as dl

    jax.devices()
    return tutorial_loop(dl, keras, dl.distribute.MirroredStrategy(), tutorial_model, scale)


def recording(in_step: bool) -> Callable[[Scale], Callable[[], Loop]]:
    """The loop with summaries of the loss: from within its compiled step, or from the loop."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        build_plain = without(scale)
        import keras

        import drumline as dl

        def build() -> Loop:
            each = _summaries_a_step(build_plain())
            writer = dl.summary.create_file_writer(tempfile.mkdtemp())
            spent = recorded = 0.0

            def within(loss: Any, optimizer: Any) -> None:
                for number in range(each):
                    dl.summary.scalar(f"loss/{number}", loss, step=optimizer.iterations)

            def after(loss: Any, step: int) -> None:
                for number in range(each):
                    dl.summary.scalar(f"loss/{number}", loss, step=step)

            strategy = dl.distribute.MirroredStrategy()
            hooks: Any = {"in_step": within} if in_step else {"after_step": after}
            loop = tutorial_loop(dl, keras, strategy, tutorial_model, scale, **hooks)()

            def epoch() -> tuple[float, int]:
                nonlocal spent, recorded
                began = time.perf_counter()
                with writer.as_default():
                    loss, steps = loop.epoch()
                spent, recorded = time.perf_counter() - began, float(each * steps)
                return loss, steps

            def facts() -> dict[str, Any]:
                assert writer.path is not None
                size = os.path.getsize(writer.path)
                return {
                    "summaries_a_step": each,
                    "summaries_a_second": recorded / spent,
                    "bytes_written": size,
                }

            return Loop(loop.weights, epoch, facts)

        return build

    return prepare


def _summaries_a_step(loop: Loop) -> int:
    loop.epoch()
    began = time.perf_counter()
    _, steps = loop.epoch()
    return max(1, round(RATE * (time.perf_counter() - began) / steps))


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> dict[str, str]:
    """That of trainings; and that as many summaries were recorded and written as there should."""
    problems = check_training(TOLERANCE, FALLS_TO)(scale, measurements)
    for name, measurement in measurements.items():
        facts = measurement.evidence
        if "summaries_a_step" not in facts:
            continue
        # A trial is too short for its number of steps a second to be that of its first ones.
        if scale.elements >= FULL.elements and facts["summaries_a_second"] < LEAST_RATE:
            problems[name] = f"{facts['summaries_a_second']:.0f} summaries a second, not {RATE}"
        if facts["bytes_written"] < 30 * facts["summaries_a_step"] * facts["steps"]:
            problems[name] = f"{facts['bytes_written']} bytes are fewer than all summaries"
    return problems


def _workload(name: str, where: str, in_step: bool) -> Workload:
    libraries = ("drumline", "jax", "keras")
    return Workload(
        name=name,
        title=f"custom loop of the tutorial, batch 64: 1,000 summaries a second {where}",
        unit="images",
        baseline="without summaries",
        full=FULL,
        quick=Scale(elements=640, batch_size=64, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "dl.summary.scalar",
                libraries,
                measured_loop(recording(in_step), *libraries),
            ),
            Contender(
                "without summaries",
                "the same loop",
                libraries,
                measured_loop(without, *libraries),
            ),
        ),
        floors=(Floor("later", at_least=0.98, aim=1.0, against="without summaries"),),
        check=check,
    )


WORKLOADS = (
    _workload("summaries_loop", "from the loop", in_step=False),
    _workload("summaries_step", "from within the compiled step", in_step=True),
)
