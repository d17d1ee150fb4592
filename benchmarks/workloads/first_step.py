"""From the call of Keras's ``fit`` to the end of its first step, of a ResNet-50.

Without programs that were kept, and with them; for drumline it is also stated how long JAX traced
and compiled.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.harness.floors import OURS, Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import Failure, run_child
from benchmarks.harness.training import Task, check_training, one_device_contenders
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads.resnet_fit import compiled_resnet, make_examples

KEPT = "drumline, programs kept"
_NAME = "first_step"
_FULL = Scale(elements=16, batch_size=16, later_epochs=2)
_QUICK = Scale(elements=4, batch_size=4, later_epochs=1)
_CONTENDERS = one_device_contenders(Task(make_examples, compiled_resnet))
_DRUMLINE = next(contender for contender in _CONTENDERS if contender.name == OURS)
_STAGES = {
    "jaxpr_trace_duration": "tracing",
    "jaxpr_to_mlir_module_duration": "lowering",
    "backend_compile_duration": "compiling or reading",
}
"""The end of an event's name of JAX's, and what takes that time."""
_check_losses = check_training(tolerance=0.01, falls_to=1.0)


def staged(scale: Scale) -> Measurement:
    """Measure drumline's, with the seconds of each stage until the end of ``fit``."""
    import jax.monitoring

    import drumline as dl

    seconds: dict[str, float] = collections.defaultdict(float)

    def spent(event: str, duration: float, **_: Any) -> None:
        stage = _STAGES.get(event.rpartition("/")[2])
        if stage is not None:
            seconds[stage] += duration

    jax.monitoring.register_event_duration_secs_listener(spent)
    measurement = _DRUMLINE.run(scale)
    info = dl.config.compilation_cache_info()
    evidence = {"seconds": dict(seconds), "hits": info.hits, "misses": info.misses}
    return dataclasses.replace(measurement, evidence={**measurement.evidence, **evidence})


def kept(scale: Scale) -> Measurement:
    """Measure drumline's, after a process that kept the programs.

    Raises:
        RuntimeError: the process before failed.
    """
    import drumline as dl

    with tempfile.TemporaryDirectory() as directory:
        os.environ["DRUMLINE_COMPILATION_CACHE"] = directory
        arguments = [_NAME, OURS, *(["--quick"] if scale == _QUICK else [])]
        before = run_child(sys.executable, arguments, WORKLOAD.timeout_s).outcome
        if isinstance(before, Failure):
            raise RuntimeError(f"the process before: {before.detail}\n{before.tail}")
        dl.config.compilation_cache(directory)
        return staged(scale)


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """All trained alike, and with programs kept nothing was compiled."""
    problems = _check_losses(scale, measurements)
    if KEPT in measurements and measurements[KEPT].evidence["misses"]:
        problems[KEPT] = f"compiled {measurements[KEPT].evidence['misses']} programs"
    return problems


def _with_stages(contender: Contender) -> Contender:
    run: Callable[[Scale], Measurement] = staged if contender is _DRUMLINE else contender.run
    return dataclasses.replace(contender, run=run)


WORKLOAD = Workload(
    name=_NAME,
    title="ResNet-50, 224x224x3, Keras fit, batch 16: the first step",
    unit="images",
    baseline="Keras on TensorFlow",
    full=_FULL,
    quick=_QUICK,
    contenders=(
        *map(_with_stages, _CONTENDERS),
        Contender(KEPT, "the same, in a second process", _DRUMLINE.requires, kept),
    ),
    floors=(Floor("first_batch", at_least=0.7, aim=1.0, against="Keras on TensorFlow"),),
    check=check,
    timeout_s=300.0,
)
