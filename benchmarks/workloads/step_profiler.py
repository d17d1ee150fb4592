"""The convnet's `fit` and the tutorial's custom loop with a step profile, and without."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.training import (
    Fit,
    ModelAndFit,
    Prepared,
    check_training,
    from_dataset,
    measured,
)
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CONVNET, FALLS_TO, TOLERANCE
from benchmarks.workloads.summaries import without as plain_loop

LIBRARIES = ("drumline", "jax", "keras")


@functools.cache
def shared(scale: Scale) -> tuple[Any, Any, Fit, Callable[[], None]]:
    """Return Keras, and the convnet that all turns train, with what sets it back.

    Two copies of a model differ in speed by more than a profile costs: by where their memory lies.
    """
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import drumline as dl

    jax.devices()
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    _, build = from_dataset(CONVNET, keras, dl.data, scale, strategy.scope)
    model, plain = build()
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    begun = [np.asarray(variable) for variable in variables]

    def set_back() -> None:
        for variable, value in zip(variables, begun, strict=True):
            variable.assign(value)

    return keras, model, plain, set_back


def fit(profiled: bool, scale: Scale) -> Prepared:
    """The convnet, whose `fit` gets a `StepProfiler` as well if it is to be profiled."""
    keras, model, plain, set_back = shared(scale)
    import drumline as dl

    def fit(*, epochs: int, callbacks: list[Any]) -> None:
        profilers = [dl.keras.callbacks.StepProfiler(verbose=0)] if profiled else []
        plain(epochs=epochs, callbacks=[*callbacks, *profilers])

    def build() -> ModelAndFit:
        set_back()
        return model, fit

    return keras, build


def loop(scale: Scale) -> Callable[[], Loop]:
    """The tutorial's loop, each epoch of which is one of a profile."""
    build_plain = plain_loop(scale)
    import drumline as dl

    def build() -> Loop:
        inner = build_plain()
        block = contextlib.ExitStack()
        profile = block.enter_context(dl.profile_steps())

        def epoch() -> tuple[float, int]:
            found = inner.epoch()
            profile.end_epoch()
            return found

        def facts() -> dict[str, Any]:
            block.close()
            return {"parts": dict(profile.epochs[-1].parts), "seconds": profile.epochs[-1].seconds}

        return Loop(inner.weights, epoch, facts)

    return build


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> dict[str, str]:
    """That of trainings; and that the parts add up."""
    problems = check_training(TOLERANCE, FALLS_TO)(scale, measurements)
    for name, measurement in measurements.items():
        parts = measurement.evidence.get("parts")
        seconds = measurement.evidence.get("seconds", 0.0)
        if parts is not None and abs(sum(parts.values()) - seconds) > 1e-6:
            problems[name] = f"the parts add up to {sum(parts.values())} s, not {seconds} s"
    return problems


def _workload(
    name: str,
    title: str,
    scale: Scale,
    profiled: Callable[[Scale], Measurement],
    plain: Callable[[Scale], Measurement],
    turns: int,
) -> Workload:
    return Workload(
        name=name,
        title=title,
        unit="images",
        baseline="without a profile",
        full=scale,
        quick=Scale(elements=640, batch_size=64, later_epochs=1),
        contenders=(
            Contender("drumline", "with a step profile", LIBRARIES, profiled),
            Contender("without a profile", "the same training", LIBRARIES, plain),
        ),
        floors=(Floor("later", at_least=0.99, aim=1.0, against="without a profile"),),
        check=check,
        timeout_s=600.0,
        turns=turns,
    )


WORKLOADS = (
    _workload(
        "step_profiler",
        "tutorial convnet, Keras fit with StepProfiler, batch 64, 1 device",
        Scale(elements=16_000, batch_size=64, later_epochs=2),
        measured(functools.partial(fit, True), *LIBRARIES),
        measured(functools.partial(fit, False), *LIBRARIES),
        turns=14,
    ),
    _workload(
        "step_profiler_loop",
        "custom loop of the tutorial in dl.profile_steps, batch 64",
        Scale(elements=9_600, batch_size=64, later_epochs=5),
        measured_loop(loop, *LIBRARIES),
        measured_loop(plain_loop, *LIBRARIES),
        turns=4,
    ),
)
