"""What JAX finds of a TPU, with devices that only say where they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import pytest

from drumline.distribute.cluster_resolver.tpu import (
    HardwareFeature,
    TPUNotFoundError,
    local_tpu_devices,
    system,
    topology_of_tpus,
    tpu_devices,
)


def chip(number: int, process: int, coords: list[int], core: int = 0) -> Any:
    return SimpleNamespace(
        id=number, process_index=process, platform="tpu", coords=coords, core_on_chip=core
    )


# A v5e 2x4: two machines with four chips, of which JAX lists the second one's first here.
V5E = [chip(y * 2 + x, y // 2, [x, y, 0]) for y in (2, 3, 0, 1) for x in (0, 1)]


@pytest.fixture
def with_v5e(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "devices", {"tpu": V5E}.__getitem__)
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: V5E[4:])


@pytest.mark.usefixtures("with_v5e")
def test_devices_come_process_by_process() -> None:
    assert [device.id for device in tpu_devices()] == list(range(8))
    assert len(local_tpu_devices()) == 4
    metadata = system.system_metadata("worker")
    assert (metadata.num_cores, metadata.num_hosts, metadata.num_of_cores_per_host) == (8, 2, 4)
    assert metadata.devices[5] == "/job:worker/replica:0/task:1/device:TPU:1"
    assert metadata.topology.mesh_shape.tolist() == [2, 4, 1, 1]
    assert metadata.topology.task_ordinal_at_coordinates((0, 3, 0, 0)) == 1
    assert metadata.topology.tpu_device_ordinal_at_coordinates((0, 3, 0, 0)) == 2


def test_machines_come_in_order_whatever_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    chips = [chip(0, 1, [1, 0, 0]), chip(1, 0, [0, 0, 0])]
    monkeypatch.setattr(jax, "devices", {"tpu": chips}.__getitem__)
    assert [device.process_index for device in tpu_devices()] == [0, 1]


def test_a_chip_of_two_cores() -> None:
    topology = topology_of_tpus([chip(n, 0, [0, 0, 0], core=n) for n in range(2)])
    assert topology.mesh_shape.tolist() == [1, 1, 1, 2]
    assert topology.device_coordinates.tolist() == [[[0, 0, 0, 0], [0, 0, 0, 1]]]


def test_machines_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"process 0 has 1, process 1 has 2"):
        topology_of_tpus([chip(0, 0, [0, 0, 0]), *(chip(n, 1, [n, 0, 0]) for n in (1, 2))])


def test_without_a_tpu_the_platforms_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_tpu_devices() == []
    monkeypatch.setattr(system, "find_spec", lambda name: None)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    with pytest.raises(TPUNotFoundError, match=r"cpu \(\d+\).*pip install 'jax\[tpu\]'.*Mirrored"):
        tpu_devices()
    monkeypatch.setattr(system, "find_spec", lambda name: object())
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(TPUNotFoundError, match=r"JAX_PLATFORMS=cpu leaves TPUs out"):
        tpu_devices()
    monkeypatch.delenv("JAX_PLATFORMS")
    with pytest.raises(TPUNotFoundError, match=r"libtpu is installed.*holds its TPU"):
        tpu_devices()


def test_a_platform_that_fails_to_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("Unable to initialize backend 'tpu': no libtpu.so")

    monkeypatch.setattr(jax, "devices", fails)
    monkeypatch.setattr(jax, "local_devices", fails)
    with pytest.raises(TPUNotFoundError, match=r"JAX has no devices \(Unable to initialize"):
        tpu_devices()
    assert local_tpu_devices() == []


def test_a_chips_accelerators_of_embeddings_are_those_of_the_message() -> None:
    message = SimpleNamespace(embedding_feature=2, num_embedding_devices_per_chip=4)
    feature = HardwareFeature(message)
    assert feature.embedding_feature is HardwareFeature.EmbeddingFeature.V2
    assert feature.num_embedding_devices_per_chip == 4
    assert HardwareFeature().embedding_feature is HardwareFeature.EmbeddingFeature.UNSUPPORTED
    assert HardwareFeature().num_embedding_devices_per_chip == 0
