"""A `TPUStrategy` over two machines: two processes, with CPU devices in the place of TPUs."""

from __future__ import annotations

import json
import os
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
import drumline.keras
from tests.distribute.process_group.clusters import Cluster, running
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


def member() -> None:
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
        metadata = resolver.get_tpu_system_metadata()
    same = again.serialized() == topology.serialized()
    facts = {
        "topology": [topology.device_coordinates.tolist(), same],
        "hosts": [metadata.num_hosts, metadata.num_of_cores_per_host],
        "own": strategy.local_replica_ids,
        "chief": strategy.is_chief,
        "describe": strategy.describe(),
        "trained": trained(strategy),
    }
    print(json.dumps({"facts": facts}), flush=True)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("machines")
    env = {"DRUMLINE_CPU_DEVICES": "2", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    cluster = Cluster("tpu", f"{__name__}:member", env=env)
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
