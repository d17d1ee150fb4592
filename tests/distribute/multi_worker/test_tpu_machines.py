"""A `TPUStrategy` over two machines: two processes, with CPU devices in the place of TPUs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
import drumline.keras
from tests.distribute.process_group.clusters import Cluster, running
from tests.keras.test_sharded_loops import OPTIMIZERS, Loop
from tests.tpus import cpus_as_tpus

drumline.keras.install()

# Replicas 0 and 2 are the first machine's, 1 and 3 the second's.
INTERLEAVED = [[[0, 0, 0, 0]], [[2, 0, 0, 0]], [[1, 0, 0, 0]], [[3, 0, 0, 0]]]


def trained(strategy: dl.distribute.Strategy) -> dict[str, list[float]]:
    """A `fit` of a few steps, whose last batch does not divide, and a step of `run`."""
    x = np.random.default_rng(1).normal(size=(18, 3)).astype(np.float32)
    with strategy.scope():
        ones = keras.initializers.Ones()
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer=ones)]
        )
        model.compile("sgd", "mse")
    losses = model.fit(
        dl.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8), epochs=2, verbose=0
    ).history["loss"]
    (batch,) = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(x[:16]).batch(16)
    )
    sums = strategy.run(lambda rows: (rows * np.float32([1, 2, 3])).sum(), (batch,))
    return {
        "losses": [float(loss) for loss in losses],
        "weights": model.get_weights()[0].ravel().tolist(),
        "sum": [float(strategy.reduce("SUM", sums, axis=None))],
    }


def trained_in_parts(strategy: dl.distribute.Strategy, folder: str) -> dict[str, Any]:
    """A custom loop of a strategy that may cut weights, and where its checkpoint is."""
    loop = Loop(strategy, OPTIMIZERS["adam"])
    losses = loop.train(25, epochs=2)
    checkpoint = dl.train.Checkpoint(model=loop.model, optimizer=loop.optimizer)
    return {
        "losses": losses,
        "values": [value.tolist() for value in loop.values()],
        "path": checkpoint.save(f"{folder}/{getattr(strategy, 'shard', None)}"),
    }


def member(folder: str) -> None:
    """In a process of a cluster: train as on one machine of a TPU, and say what came out."""
    config = json.loads(os.environ.pop("TF_CONFIG"))
    os.environ["TPU_WORKER_ID"] = str(config["task"]["index"])
    addresses = ",".join(f"grpc://{address}" for address in config["cluster"]["worker"])
    with cpus_as_tpus():
        resolver = dl.distribute.cluster_resolver.TPUClusterResolver(addresses)
        dl.config.experimental_connect_to_cluster(resolver)
        topology = dl.tpu.experimental.initialize_tpu_system(resolver)
        again = dl.tpu.experimental.initialize_tpu_system(resolver)
        interleaved = dl.tpu.experimental.DeviceAssignment(topology, INTERLEAVED)
        strategy = dl.distribute.TPUStrategy(resolver, interleaved)
        cut = dl.distribute.TPUStrategy(resolver, interleaved, shard="parameters")
        metadata = resolver.get_tpu_system_metadata()
    same = again.serialized() == topology.serialized()
    facts = {
        "topology": [topology.device_coordinates.tolist(), same],
        "hosts": [metadata.num_hosts, metadata.num_of_cores_per_host],
        "own": strategy.local_replica_ids,
        "chief": strategy.is_chief,
        "describe": strategy.describe(),
        "trained": trained(strategy),
        "in parts": trained_in_parts(cut, folder),
    }
    print(json.dumps({"facts": facts}), flush=True)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("machines")
    env = {"DRUMLINE_CPU_DEVICES": "2", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    cluster = Cluster("tpu", f"{__name__}:member", {"folder": str(folder)}, env=env)
    with running(folder, [cluster]) as run:
        run.wait_for(*run.names)
        ends = run.ended("tpu")
    for end in ends:
        assert end.status == 0, end.log[-4000:]
    return [end.facts for end in ends]


def test_each_machine_knows_the_whole_tpu(machines: list[dict[str, Any]]) -> None:
    cores = [[[0, 0, 0, 0], [1, 0, 0, 0]], [[2, 0, 0, 0], [3, 0, 0, 0]]]
    for index, facts in enumerate(machines):
        assert facts["topology"] == [cores, True]
        assert facts["hosts"] == [2, 2]
        assert facts["own"] == [2 * index, 2 * index + 1]
        assert facts["chief"] == (index == 0)
        assert "processes: 2 (worker:0, worker:1)" in facts["describe"]
        assert "all-reduce: NcclAllReduce, which is XLA's own" in facts["describe"]


def test_same_numbers_as_one_process(machines: list[dict[str, Any]]) -> None:
    expected = trained(dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]))
    for facts in machines:
        assert facts["trained"].keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(facts["trained"][name], values, rtol=2e-5, atol=1e-6)


def test_a_loop_cuts_weights_over_both_machines(
    machines: list[dict[str, Any]], tmp_path: Path
) -> None:
    four = dl.distribute.MirroredStrategy([f"cpu:{index}" for index in range(4)])
    expected = trained_in_parts(four, str(tmp_path))
    for facts in machines:
        found = facts["in parts"]
        np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-5)
        for value, other in zip(found["values"], expected["values"], strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-5)
    loop = Loop(dl.distribute.MirroredStrategy(["cpu:0"]), OPTIMIZERS["adam"])
    loop.optimizer.build(loop.model.trainable_variables)
    checkpoint = dl.train.Checkpoint(model=loop.model, optimizer=loop.optimizer)
    checkpoint.restore(machines[0]["in parts"]["path"])
    for value, saved in zip(loop.values(), machines[0]["in parts"]["values"], strict=True):
        np.testing.assert_array_equal(value, np.asarray(saved, value.dtype))
