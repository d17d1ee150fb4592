"""Synchronous rounds of which one worker has to run several closures, as others are not there."""

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.errors import OutOfRangeError
from tests.distribute.parameter_server.clusters import TOKEN, in_process


@pytest.fixture(scope="module")
def one_of_two():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
        with in_process(workers=2, absent=(1,), synchronous=True) as strategy:
            yield strategy, dl.distribute.coordinator.ClusterCoordinator(strategy)


def counting(strategy):
    with strategy.scope():
        count = dl.Variable(0, dtype="int32", aggregation="sum")

    def step(batches):
        count.assign_add(1)
        return keras.ops.sum(next(batches))

    return count, step


def test_a_batch_of_another_shape_gets_its_program_within_the_round(one_of_two):
    strategy, coordinator = one_of_two
    count, step = counting(strategy)
    batches = iter(
        coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(10).batch(4).repeat())
    )
    results = [coordinator.schedule(step, (batches,)) for _ in range(12)]
    coordinator.join()
    assert int(count.numpy()) == 12
    np.testing.assert_array_equal(coordinator.fetch(results), [6, 22, 17] * 4)


def test_data_that_end_within_the_round_end_it(one_of_two):
    strategy, coordinator = one_of_two
    count, step = counting(strategy)
    batches = iter(
        coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(12).batch(4))
    )

    def run_four():
        for _ in range(4):
            coordinator.schedule(step, (batches,))
        coordinator.join()

    with pytest.raises(OutOfRangeError):
        run_four()
    assert int(count.numpy()) == 2
