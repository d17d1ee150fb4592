"""A step that is all computation: two processes of one device, and one process of two."""

from __future__ import annotations

import functools
from collections.abc import Callable

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.ranks import in_ranks, tf_config
from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import FALLS_TO, TOLERANCE
from benchmarks.workloads.custom_loop import tutorial_model
from benchmarks.workloads.tutorial_loop import tutorial_loop

OURS = ("drumline", "jax", "keras")
REPLICAS = 2
workers = functools.partial(tf_config, REPLICAS)


def processes(scale: Scale) -> Callable[[], Loop]:
    """MultiWorkerMirroredStrategy, a device in each process."""
    import drumline as dl

    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    import keras

    return tutorial_loop(dl, keras, strategy, tutorial_model, scale)


def devices(scale: Scale) -> Callable[[], Loop]:
    """MirroredStrategy, two logical devices."""
    import drumline as dl

    dl.config.set_logical_devices("cpu", REPLICAS)
    import keras

    strategy = dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(REPLICAS)])
    return tutorial_loop(dl, keras, strategy, tutorial_model, scale)


WORKLOAD = Workload(
    name="processes_against_devices",
    title="two convolutions, batch 2 x 512: 2 processes of 1 device, and 1 process of 2 devices",
    unit="images",
    baseline="1 process, 2 devices",
    full=Scale(elements=15 * 1024, batch_size=1024, later_epochs=3),
    quick=Scale(elements=5 * 1024, batch_size=1024, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "MultiWorkerMirroredStrategy over 2 processes",
            OURS,
            in_ranks(workers, measured_loop(processes, *OURS)),
        ),
        Contender(
            "1 process, 2 devices",
            "MirroredStrategy over 2 logical CPU devices",
            OURS,
            measured_loop(devices, *OURS),
        ),
    ),
    floors=(Floor("later", at_least=0.9, against="1 process, 2 devices"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
