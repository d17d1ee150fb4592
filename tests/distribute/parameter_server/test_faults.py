"""Workers and servers that die: nothing is lost, or the loss is named."""

import random
import signal
import threading
import time

import keras
import numpy as np
import pytest

import drumline as dl
from tests.distribute.parameter_server.clusters import TOKEN, Processes

STEPS = 150


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
        processes = Processes(workers=2, ps=1)
        resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(processes.spec)
        try:
            yield processes, dl.distribute.ParameterServerStrategy(resolver)
        finally:
            processes.close()


@pytest.fixture(scope="module")
def job(cluster):
    """A step that counts itself, beside one that trains."""
    _, strategy = cluster
    with strategy.scope():
        count = dl.Variable(0, dtype="int32", aggregation="sum")
        table = keras.layers.Embedding(50, 4, embeddings_initializer="zeros")
        table.build((None,))
        optimizer = keras.optimizers.SGD(1.0)

    def step(batches):
        ids = next(batches)
        with dl.GradientTape() as tape:
            loss = keras.ops.sum(table(ids))
        gradients = tape.gradient(loss, table.trainable_variables)
        optimizer.apply_gradients(zip(gradients, table.trainable_variables, strict=True))
        count.assign_add(1)
        return loss

    def batches():
        ids = np.arange(48, dtype="int32")
        return dl.data.Dataset.from_tensor_slices(ids).repeat().batch(8, drop_remainder=True)

    coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
    per_worker = iter(coordinator.create_per_worker_dataset(batches))
    return coordinator, step, per_worker, count, table


def run(job, steps=STEPS):
    coordinator, step, per_worker, *_ = job
    for _ in range(steps):
        coordinator.schedule(step, args=(per_worker,))


def killed_and_back(processes, index, after):
    time.sleep(after)
    processes.kill("worker", index)
    processes.start("worker", index)


def test_killed_workers_lose_no_step_and_come_back(cluster, job):
    processes, _ = cluster
    coordinator, _, _, count, table = job
    run(job)
    coordinator.join()
    moments = random.Random(0)
    for index in (0, 1):
        before = int(count.numpy())
        rows_before = float(np.sum(table.embeddings.numpy()))
        killer = threading.Thread(
            target=killed_and_back, args=(processes, index, moments.uniform(0, 0.2))
        )
        killer.start()
        run(job)
        coordinator.join()
        killer.join()
        assert int(count.numpy()) == before + STEPS
        # Every step's 8 ids are distinct, with a gradient of ones in 4 columns.
        assert float(np.sum(table.embeddings.numpy())) == rows_before - STEPS * 8 * 4
        use_again(job, index)
    assert coordinator.counts()["workers lost"] == [1, 1]
    assert coordinator.counts()["completed"] == int(count.numpy())


def use_again(job, index):
    """Run steps until a worker that was killed has run some since."""
    coordinator, *_ = job
    deadline = time.monotonic() + 60
    while True:
        before = coordinator.counts()["by worker"][index]
        run(job, 20)
        coordinator.join()
        counts = coordinator.counts()
        if counts["workers lost"][index] == 1 and counts["by worker"][index] > before:
            return
        assert time.monotonic() < deadline, "the worker that came back was not used"


def test_a_stopped_worker_does_not_stall_the_others(cluster, job):
    processes, _ = cluster
    coordinator, _, _, count, _ = job
    before = int(count.numpy())
    processes.send("worker", 0, signal.SIGSTOP)
    try:
        run(job)
        deadline = time.monotonic() + 60
        while int(count.numpy()) < before + STEPS - 16:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        processes.send("worker", 0, signal.SIGCONT)
    coordinator.join()
    assert int(count.numpy()) == before + STEPS


def test_a_lost_server_is_named(cluster, job):
    processes, _ = cluster
    coordinator, *_ = job
    run(job)
    processes.kill("ps", 0)
    started = time.monotonic()
    with pytest.raises(dl.distribute.ParameterServerLostError, match="ps:0"):
        coordinator.join()
    assert time.monotonic() - started < 60
