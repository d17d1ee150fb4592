"""A connection between a worker and a server that breaks costs nothing."""

import gc
import itertools

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.errors import ParameterServerLostError
from drumline.distribute.parameter_server.partitioners import FixedShardsPartitioner
from drumline.distribute.parameter_server.server import ParameterServer
from drumline.distribute.parameter_server.wire.messages import PushPullReply
from drumline.distribute.parameter_server.worker.worker import Worker
from tests.distribute.parameter_server.clusters import in_process

STEPS = 150


NOTHING = PushPullReply(applied=(), versions=(), changed=())


def worker_of(strategy):
    addresses = strategy.servers.addresses
    (worker,) = [
        each
        for each in gc.get_objects()
        if type(each) is Worker and each._addresses == addresses and each._session is not None
    ]
    return worker


def batches():
    """Every step has one row of each part of the table, and no two have the same."""
    rows = np.arange(STEPS, dtype="int32")
    return dl.data.Dataset.from_tensor_slices(np.stack([rows, rows + STEPS], 1)).repeat()


@pytest.fixture
def job(monkeypatch):
    exchange = ParameterServer.push_pull
    handlers = [exchange]
    monkeypatch.setattr(
        ParameterServer, "push_pull", lambda self, request: handlers[-1](self, request)
    )
    partitioner = FixedShardsPartitioner(2)
    with in_process(workers=1, ps=2, variable_partitioner=partitioner) as strategy:
        with strategy.scope():
            table = keras.layers.Embedding(2 * STEPS, 4, embeddings_initializer="zeros")
            table.build((None,))
            optimizer = keras.optimizers.SGD(1.0)
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)

        def step(ids):
            with dl.GradientTape() as tape:
                loss = keras.ops.sum(table(next(ids)))
            gradients = tape.gradient(loss, table.trainable_variables)
            optimizer.apply_gradients(zip(gradients, table.trainable_variables, strict=True))
            return loss

        ids = iter(coordinator.create_per_worker_dataset(batches))
        coordinator.schedule(step, (ids,))
        coordinator.join()
        yield strategy, coordinator, table, lambda: coordinator.schedule(step, (ids,)), handlers


def test_every_step_changes_the_rows_of_one_batch_once(job):
    """Whether the connection breaks before a server has applied a push, or after."""
    strategy, coordinator, table, schedule, handlers = job
    worker = worker_of(strategy)
    calls = itertools.count()
    (exchange,) = handlers

    def breaking(self, request):
        number = next(calls)
        connection = worker._lanes["steps"]._connections[self.server_index]
        if number % 50 == 5:
            connection.close()
        reply = exchange(self, request) if number % 100 != 5 else NOTHING
        if number % 50 == 30:
            connection.close()
        return reply

    handlers.append(breaking)
    for _ in range(STEPS - 1):
        schedule()
    coordinator.join()
    np.testing.assert_array_equal(table.embeddings.numpy(), np.full((2 * STEPS, 4), -1.0))
    assert next(calls) > 2 * STEPS
    assert coordinator.counts()["repeated"] == 0


def test_a_server_that_was_started_again_is_not_taken_for_the_one_before(job):
    strategy, coordinator, _, schedule, _ = job
    worker = worker_of(strategy)
    worker._identities[0] = "another"
    worker._lanes["steps"]._connections[0].close()
    schedule()
    with pytest.raises(ParameterServerLostError, match="ps:0.*started again"):
        coordinator.join()
