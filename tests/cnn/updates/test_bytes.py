"""What a step of each mode sends between devices, counted in its compiled program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn.updates.all_reduce_spec import all_reduce_of
from drumline.cnn.updates.steps import LossOptions, TrainingStep
from drumline.distribute.collectives import ReplicaAxis
from drumline.distribute.step.arguments import flatten_arguments
from drumline.distribute.step.replica_programs import ReplicaProgram
from tests.distribute.collectives.traffic import bytes_between

DEVICES = ["cpu:0", "cpu:1", "cpu:2"]
ROWS = 6


def sent(strategy: dl.distribute.Strategy, **how: Any) -> tuple[np.ndarray, keras.Model]:
    """The bytes from device to device in a step on a small convolutional network."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((9, 9, 3)),
                keras.layers.Conv2D(16, 3),
                keras.layers.Flatten(),
                keras.layers.Dense(100),
                keras.layers.Dense(7),
            ]
        )
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    step = TrainingStep(
        strategy, model, optimizer, LossOptions(batch_size=ROWS, **how.pop("options", {})), **how
    )
    data = dl.data.Dataset.from_tensors(
        (np.ones((ROWS, 9, 9, 3), np.float32), np.zeros(ROWS, np.int32))
    )
    (batch,) = strategy.experimental_distribute_dataset(data)
    step(batch)
    form, arrays = flatten_arguments(tuple(batch), {})
    program = ReplicaProgram(strategy, step._run, form).lowered(arrays).compile().as_text()
    assert program is not None
    return bytes_between(program), model


@pytest.mark.parametrize("spec", ["xring", "rechd", "pscpu#2:32k:xring", "psgpu#3"])
def test_replicated_sends_the_gradients_by_the_algorithm(spec: str) -> None:
    ops = all_reduce_of(spec)
    strategy = dl.distribute.MirroredStrategy(DEVICES, cross_device_ops=ops)
    found, model = sent(strategy)
    axis = ReplicaAxis("replica", strategy.replica_devices)
    gradients = [
        jax.ShapeDtypeStruct(tuple(v.shape), jnp.float32) for v in model.trainable_variables
    ]
    assert found.sum() == sum(ops.total_bytes_sent(each, axis) for each in gradients)


def test_half_as_many_in_16_bits() -> None:
    """As float16: XLA's CPU compiler sends bfloat16 as float32."""
    strategy = dl.distribute.MirroredStrategy(DEVICES, cross_device_ops=all_reduce_of("xring"))
    whole, _ = sent(strategy)
    half, _ = sent(strategy, options={"travels_in": "float16"})
    assert half.sum() * 2 == whole.sum()


def test_delayed_gradients_are_as_many() -> None:
    strategy = dl.distribute.MirroredStrategy(DEVICES, cross_device_ops=all_reduce_of("xring"))
    assert sent(strategy, delayed=True)[0].sum() == sent(strategy)[0].sum()


def test_independent_replicas_send_nothing() -> None:
    assert sent(dl.distribute.MirroredStrategy(DEVICES), independent=True)[0].sum() == 0
