"""The strategy in one process, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import strategies
from drumline.distribute.experimental import CommunicationImplementation, CommunicationOptions


def test_without_a_cluster_it_mirrors_over_the_devices_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == len(jax.local_devices())
    assert not strategy.spans_processes and strategy.is_chief
    ids = strategy.run(lambda: dl.distribute.get_replica_context().replica_id_in_sync_group)
    assert [int(number) for number in ids.values] == list(range(len(jax.local_devices())))
    assert "processes: 1 (worker:0)" in strategy.describe()


def test_processes_with_different_numbers_of_devices_are_refused() -> None:
    devices = [SimpleNamespace(process_index=index, platform="cpu") for index in (0, 0, 1)]
    with pytest.raises(ValueError, match="worker:0 has 2, worker:1 has 1"):
        strategies._require_alike(devices, ["worker:0", "worker:1"])
    strategies._require_alike(devices[1:], ["worker:0", "worker:1"])


@pytest.mark.parametrize("implementation", ["ring", CommunicationImplementation.RING])
def test_an_implementation_by_name(implementation: object) -> None:
    options = CommunicationOptions(bytes_per_pack=64, implementation=implementation)
    strategy = dl.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    assert type(strategy.cross_device_ops).__name__ == "RingAllReduce"
    assert strategy.cross_device_ops.packing.bytes_per_pack == 64
    total = strategy.run(
        lambda: dl.distribute.get_replica_context().all_reduce("SUM", np.ones(3, np.float32))
    )
    np.testing.assert_array_equal(total.values[0], 4.0)


def test_the_algorithm_itself_as_an_option() -> None:
    class Fewer(dl.distribute.RingAllReduce):
        """Tells that it was asked."""

        asked = 0

        def sum_array(self, array: Any, axis: Any) -> Any:
            type(self).asked += 1
            return super().sum_array(array, axis)

    options = CommunicationOptions(cross_device_ops=Fewer(num_packs=0))
    strategy = dl.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    total = strategy.run(
        lambda: dl.distribute.get_replica_context().all_reduce("SUM", np.ones(3, np.float32))
    )
    np.testing.assert_array_equal(total.values[0], 4.0)
    assert Fewer.asked and "all-reduce: Fewer" in strategy.describe()


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="leave out implementation and bytes_per_pack"):
        CommunicationOptions(bytes_per_pack=8, cross_device_ops=dl.distribute.RingAllReduce())
    with pytest.raises(ValueError, match="leave out implementation and bytes_per_pack"):
        CommunicationOptions(implementation="RING", cross_device_ops=dl.distribute.RingAllReduce())
    with pytest.raises(TypeError, match="write RingAllReduce"):
        CommunicationOptions(cross_device_ops=dl.distribute.RingAllReduce)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AUTO, RING, NCCL"):
        CommunicationOptions(implementation="mpi")
    with pytest.raises(ValueError, match="above 0"):
        CommunicationOptions(timeout_seconds=0)
    with pytest.raises(ValueError, match="0 or more"):
        CommunicationOptions(bytes_per_pack=-1)
    with pytest.raises(TypeError, match="CommunicationOptions"):
        dl.distribute.MultiWorkerMirroredStrategy(communication_options={"timeout": 3})
    nccl = CommunicationOptions(implementation="NCCL")
    with pytest.raises(ValueError, match="needs GPUs"):
        dl.distribute.MultiWorkerMirroredStrategy(communication_options=nccl)
