"""What a step of each mode sends between devices, counted in its compiled program."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn.updates.all_reduce_spec import all_reduce_of
from drumline.cnn.updates.parameter_servers import ServerStep
from drumline.cnn.updates.steps import LossOptions, TrainingStep
from drumline.distribute.collectives import ReplicaAxis
from drumline.distribute.parameter_server.wire.messages import ReadStatistics
from drumline.distribute.step.arguments import flatten_arguments
from drumline.distribute.step.looked_up_rows import LeanProgram
from drumline.distribute.step.replica_programs import ReplicaProgram
from tests.distribute.collectives.traffic import bytes_between
from tests.distribute.parameter_server.clusters import TOKEN, in_process
from tests.moved_rows import count_moved

DEVICES = ["cpu:0", "cpu:1", "cpu:2"]
ROWS = 6


def small_model() -> keras.Model:
    """A convolutional network."""
    return keras.Sequential(
        [
            keras.Input((9, 9, 3)),
            keras.layers.Conv2D(16, 3),
            keras.layers.Flatten(),
            keras.layers.Dense(100),
            keras.layers.Dense(7),
        ]
    )


def rows() -> dl.data.Dataset:
    """A batch for all devices."""
    return dl.data.Dataset.from_tensors(
        (np.ones((ROWS, 9, 9, 3), np.float32), np.zeros(ROWS, np.int32))
    )


def sent(strategy: dl.distribute.Strategy, **how: Any) -> tuple[np.ndarray, keras.Model]:
    """The bytes from device to device in a step on a small convolutional network."""
    with strategy.scope():
        model = small_model()
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    step = TrainingStep(
        strategy, model, optimizer, LossOptions(batch_size=ROWS, **how.pop("options", {})), **how
    )
    (batch,) = strategy.experimental_distribute_dataset(rows())
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


@pytest.mark.parametrize(("devices", "home"), [(DEVICES[1:], "cpu:0"), (DEVICES, "cpu:0")])
def test_parameters_at_home_travel_there_and_back(
    devices: list[str], home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each device but the home is sent the weights; devices sum gradients, and one sends them."""
    strategy = dl.distribute.experimental.CentralStorageStrategy(devices, home)
    programs: list[np.ndarray] = []
    runs = LeanProgram.__call__

    def counted(program: LeanProgram, arguments: Any, place: Any) -> Any:
        def placed(values: list[Any]) -> list[Any]:
            found = place(values)
            text = program.run.lower(*found).compile().as_text()  # type: ignore[attr-defined]
            programs.append(bytes_between(text))
            return found

        return runs(program, arguments, placed)

    with strategy.scope():
        model = small_model()
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    step = TrainingStep(strategy, model, optimizer, LossOptions(batch_size=ROWS))
    (batch,) = strategy.experimental_distribute_dataset(rows())
    step(batch)
    monkeypatch.setattr(LeanProgram, "__call__", counted)
    moved = count_moved(monkeypatch, home)
    step(batch)
    weights = bytes_of(model)
    away = sum(device != home for device in devices)
    assert moved == {"to": away * weights, "from": weights * (home not in devices)}
    (sums,) = programs
    others = len(devices) - 1
    ring = 2 * others * weights / len(devices)
    each = sums.sum(axis=1)
    assert (each >= ring).all(), "each device"
    assert (each <= ring + 8 * others * len(model.trainable_variables)).all(), "in whole elements"


def bytes_of(model: keras.Model) -> int:
    return sum(4 * math.prod(variable.shape) for variable in model.trainable_variables)


@pytest.mark.parametrize("workers", [1, 2])
def test_parameter_servers_get_gradients_and_give_weights(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker sends as many bytes in a step as there are of weights, and receives as many."""
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    with in_process(workers=workers, ps=2, synchronous=True) as strategy:
        with strategy.scope():
            model = small_model()
            optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        options = LossOptions(batch_size=ROWS)
        step = ServerStep(strategy, model, optimizer, options, lambda _: rows().repeat())

        def counted(steps: int) -> tuple[int, int]:
            for _ in range(steps):
                step.wait(step(None))
            found = strategy.servers.ask_all(ReadStatistics())
            return sum(each.bytes_in for each in found), sum(each.bytes_out for each in found)

        before, after = counted(2), counted(5)
    expected = 5 * workers * bytes_of(model)
    assert [b - a for a, b in zip(before, after, strict=True)] == [expected, expected]
