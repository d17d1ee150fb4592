"""`TPUStrategy`, with CPU devices in the place of a TPU's: no test has run on a TPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
import drumline.keras
from drumline.distribute.cluster_resolver import TPUClusterResolver, TPUNotFoundError
from drumline.distribute.cluster_resolver.tpu import assigned_devices, topology_of_tpus
from drumline.tpu.experimental import DeviceAssignment, Topology, initialize_tpu_system
from tests.tpus import cpus_as_tpus

drumline.keras.install()


@pytest.fixture
def local() -> Iterator[TPUClusterResolver]:
    with cpus_as_tpus():
        yield TPUClusterResolver("local")


def trained(strategy: dl.distribute.Strategy) -> list[np.ndarray]:
    """The weights, losses and predictions of a `fit` whose last batch does not divide."""
    x = np.random.default_rng(1).normal(size=(22, 5)).astype(np.float32)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((5,)),
                keras.layers.Dense(4, "tanh", kernel_initializer=keras.initializers.Ones()),
                keras.layers.Dense(1, kernel_initializer=keras.initializers.Ones()),
            ]
        )
        model.compile("adam", "mse")
    data = dl.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8)
    losses = model.fit(data, epochs=2, verbose=0).history["loss"]
    return [*model.get_weights(), np.float32(losses), model.predict(x, verbose=0)]


def test_trains_as_mirrored(local: TPUClusterResolver) -> None:
    strategy = dl.distribute.TPUStrategy(local)
    assert strategy.replica_devices == tuple(jax.devices("cpu"))
    assert strategy.cluster_resolver is local and strategy.is_chief
    assert local.tpu_hardware_feature is not None  # the topology was kept
    assert type(strategy.cross_device_ops) is dl.distribute.NcclAllReduce
    ours, theirs = trained(strategy), trained(dl.distribute.MirroredStrategy())
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_weights_cut_over_the_cores(local: TPUClusterResolver) -> None:
    strategy = dl.distribute.TPUStrategy(local, shard="parameters")
    assert "cut by shard='parameters'" in strategy.describe()
    ours, theirs = trained(strategy), trained(dl.distribute.MirroredStrategy())
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_a_custom_loop(local: TPUClusterResolver) -> None:
    strategy = dl.distribute.TPUStrategy(local)
    with strategy.scope():
        kernel = dl.Variable(np.ones(3, np.float32))
        optimizer = keras.optimizers.SGD(0.5)

    def step(x: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = dl.nn.compute_average_loss((x * kernel.value).sum(axis=1), global_batch_size=8)
        optimizer.apply_gradients([(tape.gradient(loss, kernel), kernel)])
        return loss

    rows = np.arange(24, dtype=np.float32).reshape(8, 3)
    (batch,) = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(rows).batch(8)
    )
    loss = strategy.reduce("SUM", strategy.run(step, (batch,)), axis=None)
    assert float(loss) == rows.sum() / 8
    np.testing.assert_allclose(kernel.value, 1 - 0.5 * rows.mean(axis=0))


def test_initializing_before_gives_the_same(local: TPUClusterResolver) -> None:
    dl.config.experimental_connect_to_cluster(local)
    topology = initialize_tpu_system(local)
    cores = topology.num_tpus_per_task
    assert dl.distribute.TPUStrategy(local).num_replicas_in_sync == cores
    assert dl.distribute.experimental.TPUStrategy(local).num_replicas_in_sync == cores
    assert "processes: 1 (worker:0)" in dl.distribute.TPUStrategy(local).describe()
    assert "TPUStrategy(worker:0 of 1 processes" in repr(dl.distribute.TPUStrategy(local))


def test_the_assigned_cores_compute(local: TPUClusterResolver) -> None:
    topology = initialize_tpu_system(local)
    assignment = DeviceAssignment(topology, [[[2, 0, 0, 0]], [[0, 0, 0, 0]], [[1, 0, 0, 0]]])
    strategy = dl.distribute.experimental.TPUStrategy(local, device_assignment=assignment)
    assert [device.id for device in strategy.replica_devices] == [2, 0, 1]
    ids = strategy.run(lambda: dl.distribute.get_replica_context().replica_id_in_sync_group)
    assert [int(number) for number in ids.values] == [0, 1, 2]
    assert [next(iter(number.devices())).id for number in ids.values] == [2, 0, 1]


def test_replicas_of_several_cores_are_refused(local: TPUClusterResolver) -> None:
    topology = initialize_tpu_system(local)
    halves = DeviceAssignment.build(topology, computation_shape=(2, 1, 1, 1), num_replicas=2)
    with pytest.raises(NotImplementedError, match=r"2 cores, for model parallelism.*larger than"):
        dl.distribute.TPUStrategy(local, halves)
    strategy = dl.distribute.TPUStrategy(local)
    x = np.ones((2, 3))
    assert strategy.experimental_assign_to_logical_device(x, 0) is x
    assert strategy.experimental_split_to_logical_devices(x, [1, 1]) is x
    assert strategy.experimental_replicate_to_logical_devices(x) is x
    with pytest.raises(NotImplementedError, match=r"logical_device\(\.\.\., 1\).*one core"):
        strategy.experimental_assign_to_logical_device(x, 1)
    with pytest.raises(NotImplementedError, match=r"\[2, 1\]\).*one core"):
        strategy.experimental_split_to_logical_devices(x, [2, 1])
    with pytest.raises(ValueError, match="2 dimensions"):
        strategy.experimental_split_to_logical_devices(x, [1])


@pytest.mark.parametrize(
    ("cores", "problem"),
    [
        ([[[0, 0, 0, 0]], [[0, 0, 0, 0]]], r"replicas 0 and 1 both at \[0, 0, 0, 0\]"),
        ([[[9, 0, 0, 0]]], r"replica 0 at \[9, 0, 0, 0\], where this TPU has no core"),
    ],
)
def test_an_assignment_of_other_cores_is_refused(
    local: TPUClusterResolver, cores: Any, problem: str
) -> None:
    wide = Topology(mesh_shape=(10, 1, 1, 1), device_coordinates=[[[9, 0, 0, 0], [0, 0, 0, 0]]])
    with pytest.raises(ValueError, match=problem):
        dl.distribute.TPUStrategy(local, DeviceAssignment(wide, cores))


def test_wrong_arguments_are_refused(local: TPUClusterResolver) -> None:
    with pytest.raises(TypeError, match="must be a DeviceAssignment, got 3"):
        dl.distribute.TPUStrategy(local, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a TPUClusterResolver, got 'local'"):
        dl.distribute.TPUStrategy("local")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="step_timeout_seconds must be above 0"):
        dl.distribute.TPUStrategy(local, step_timeout_seconds=0)


def test_machines_come_one_after_another() -> None:
    """A ring over a v5e 2x4 goes back and forth between its two machines."""
    chips: list[Any] = [
        SimpleNamespace(id=y * 2 + x, process_index=y // 2, coords=[x, y, 0], core_on_chip=0)
        for y in range(4)
        for x in range(2)
    ]
    ring = DeviceAssignment.build(topology_of_tpus(chips), num_replicas=8)
    owners = [ring.topology.task_ordinal_at_coordinates(ring.coordinates(r, 0)) for r in range(8)]
    assert owners != sorted(owners)
    found = assigned_devices(ring, chips)
    assert [device.process_index for device in found] == [0] * 4 + [1] * 4
    first = [ring.coordinates(r, 0)[:2] for r in range(8) if owners[r] == 0]
    assert [tuple(device.coords[:2]) for device in found[:4]] == first
    few = DeviceAssignment.build(topology_of_tpus(chips), num_replicas=3)
    with pytest.raises(ValueError, match="as many replicas: process 0 has .*, process 1 has "):
        assigned_devices(few, chips)
    one = DeviceAssignment.build(topology_of_tpus(chips), num_replicas=1)
    with pytest.raises(ValueError, match="process 0 has 1, process 1 has 0"):
        assigned_devices(one, chips)


def test_without_a_tpu_it_is_said_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TPU_NAME", "TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    with pytest.raises(ValueError, match=r"Looked for it in TPU_PROCESS_ADDRESSES.*tpu='local'"):
        dl.distribute.TPUStrategy()
    with pytest.raises(TPUNotFoundError, match=r"platforms cpu \(\d+\).*MirroredStrategy"):
        dl.distribute.TPUStrategy(TPUClusterResolver("local"))
