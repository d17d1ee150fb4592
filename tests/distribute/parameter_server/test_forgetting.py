"""Servers and workers let go of what the chief's program cannot use any more."""

import gc

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.wire.messages import ReadStatistics
from drumline.distribute.parameter_server.worker.datasets import Datasets
from drumline.distribute.parameter_server.worker.step import Functions
from tests.distribute.parameter_server.clusters import in_process


@pytest.fixture(scope="module")
def cluster():
    with in_process(workers=1, ps=2) as strategy:
        yield strategy, dl.distribute.coordinator.ClusterCoordinator(strategy)


def parts(strategy):
    """How many parts and bytes the servers keep, once they have heard all."""
    gc.collect()
    strategy.forget_discarded()
    stats = strategy.servers.ask_all(ReadStatistics())
    return sum(each.shards for each in stats), sum(each.shard_bytes for each in stats)


def made_on_worker(coordinator):
    """How much the worker has made, once it has heard what it may forget."""
    for number in (1, 2):
        gc.collect()
        coordinator.schedule(lambda number=number: np.float32(number)).fetch()
        coordinator.join()
    (worker,) = coordinator._workers
    worker._reached.connection.call("serve_chief", {})
    held = {Datasets: ("_datasets", "_iterators"), Functions: ("_functions",)}
    return sum(
        len(getattr(each, name)) for each in gc.get_objects() for name in held.get(type(each), ())
    )


def compiled():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def batches(context):
    x = np.ones((8, 4), "float32")
    return dl.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(4, drop_remainder=True)


def fitted(strategy):
    with strategy.scope():
        model = compiled()
    model.fit(
        batches, steps_per_epoch=3, epochs=2, verbose=0, validation_data=batches, validation_steps=1
    )
    return model


@pytest.mark.thorough
def test_models_that_are_gone_take_no_memory_and_no_threads(cluster):
    strategy, coordinator = cluster
    before = parts(strategy), made_on_worker(coordinator)
    for _ in range(2):
        model = fitted(strategy)
        assert parts(strategy)[1] > before[0][1]
        del model
    keras.utils.clear_session()
    made = made_on_worker(coordinator)
    assert parts(strategy) == before[0]
    assert made <= before[1]
    assert not strategy.layouts
    assert not strategy.optimizers._optimizers
    assert len(coordinator._functions._functions) <= 2


def test_what_is_under_way_is_kept(cluster):
    strategy, coordinator = cluster
    with strategy.scope():
        value = dl.Variable(0.0, aggregation="sum")
    kept = [value]

    def step():
        kept[0].assign_add(1.0)

    for _ in range(50):
        coordinator.schedule(step)
    with strategy.scope():
        other = dl.Variable(10.0, aggregation="sum")
    kept[0] = other
    del value
    gc.collect()
    strategy.forget_discarded()
    before = coordinator.counts()["completed"]
    coordinator.join()
    assert coordinator.counts()["completed"] >= max(before, 50)


def test_a_model_may_be_compiled_anew(cluster):
    strategy, _ = cluster
    with strategy.scope():
        model = compiled()
        model.fit(batches, steps_per_epoch=2, verbose=0)
        model.compile(keras.optimizers.SGD(0.0), "mse")
    before = model.get_weights()
    model.fit(batches, steps_per_epoch=2, verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(model.optimizer.iterations.numpy()) == 2
