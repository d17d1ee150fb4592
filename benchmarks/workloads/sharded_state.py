"""The tutorial's convnet on four logical CPU devices, its state in copies or cut over them.

What a device holds is counted in `tests/keras/test_sharded_state.py`; this is what a step costs.
"""

from __future__ import annotations

import functools

from benchmarks.harness.floors import Floor
from benchmarks.harness.training import Prepared, check_training, from_dataset, measured
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CONVNET, FALLS_TO, TOLERANCE

REPLICAS = 4


def drumline(scale: Scale, shard: str | None) -> Prepared:
    """As a user writes it, under MirroredStrategy."""
    import drumline as dl

    dl.config.set_logical_devices("cpu", REPLICAS)
    import jax
    import keras

    jax.devices()
    devices = [f"cpu:{i}" for i in range(REPLICAS)]
    strategy = dl.distribute.MirroredStrategy(devices, shard=shard)
    return from_dataset(CONVNET, keras, dl.data, scale, strategy.scope)


def _contender(name: str, shard: str | None) -> Contender:
    return Contender(
        name,
        f"Dataset, MirroredStrategy(shard={shard!r}) over 4 logical CPU devices, Keras fit",
        ("drumline", "jax", "keras"),
        measured(functools.partial(drumline, shard=shard), "drumline", "jax"),
    )


WORKLOAD = Workload(
    name="sharded_state",
    title="tutorial convnet on 4 devices, its state in copies or cut, Keras fit, batch 4 x 32",
    unit="images",
    baseline="copies",
    full=Scale(elements=16_000, batch_size=128, later_epochs=3),
    quick=Scale(elements=1_280, batch_size=128, later_epochs=1),
    contenders=(
        _contender("drumline", "optimizer"),
        _contender("parameters", "parameters"),
        _contender("copies", None),
    ),
    floors=(Floor("later", at_least=0.75, aim=1.0, against="copies"),),
    check=check_training(TOLERANCE, FALLS_TO),
)
